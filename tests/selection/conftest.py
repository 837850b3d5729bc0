"""Jobs' folders with several attempts at tasks."""

from tests.report.conftest import job, make_job  # noqa: F401

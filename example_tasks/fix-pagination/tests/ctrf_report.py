"""A pytest plugin that writes a report in the Common Test Report Format.

Loaded with ``-p ctrf_report``. Copy it into any task whose image has pytest but
not the package pytest-json-ctrf.
"""

import json
import time
from pathlib import Path

REPORT = Path("/logs/verifier/ctrf.json")
STATUSES = ("passed", "failed", "skipped", "pending", "other")

started = time.time()
tests = {}


def pytest_runtest_logreport(report):
    """Take a test's call; its set-up and teardown only where they went wrong."""
    if report.when != "call" and report.passed:
        return
    entry = {
        "name": report.nodeid,
        "status": report.outcome,
        "duration": round(report.duration * 1000),  # milliseconds
    }
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        entry["message"] = crash.message if crash else f"error in {report.when}"
        entry["trace"] = report.longreprtext
    tests[report.nodeid] = entry


def pytest_collectreport(report):
    """A test file that cannot be imported counts as one failed test."""
    if report.failed:
        tests[report.nodeid] = {
            "name": report.nodeid,
            "status": "failed",
            "duration": 0,
            "message": "could not be collected",
            "trace": report.longreprtext,
        }


def pytest_sessionfinish():
    """Write the report."""
    counts = {
        status: sum(test["status"] == status for test in tests.values()) for status in STATUSES
    }
    summary = {
        "tests": len(tests),
        **counts,
        "start": round(started * 1000),
        "stop": round(time.time() * 1000),
    }
    results = {"tool": {"name": "pytest"}, "summary": summary, "tests": list(tests.values())}
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps({"results": results}, indent=2))

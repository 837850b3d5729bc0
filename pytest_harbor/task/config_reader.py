"""A parsed ``task.toml`` → its models, with everything that is wrong or doubtful."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pytest_harbor.task.config import TaskConfig
from pytest_harbor.task.config_checks import check_config
from pytest_harbor.task.config_errors import config_findings
from pytest_harbor.task.finding import Finding
from pytest_harbor.task.legacy import migrate
from pytest_harbor.task.unknown_keys import unknown_keys


def read_config(data: Mapping[str, Any]) -> tuple[TaskConfig | None, list[Finding]]:
    """The models of a file, and every finding; no models where one is an error."""
    current, findings = migrate(data)
    findings += unknown_keys(data)
    try:
        config = TaskConfig.model_validate(current)
    except ValidationError as error:
        return None, findings + config_findings(error, data)
    findings += check_config(config, data)
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    return config, findings

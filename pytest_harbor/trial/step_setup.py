"""What a step brings to the agent's box before the agent works on it."""

from __future__ import annotations

from pytest_harbor.environment.base import Environment
from pytest_harbor.errors import TrialError
from pytest_harbor.trial.healthcheck import wait_until_healthy
from pytest_harbor.trial.plan import WorkPlan


class StepSetupError(TrialError):
    """A step's ``workdir/setup.sh`` failed; the step and those after it do not run."""


def set_up_step(work: WorkPlan, environment: Environment) -> None:
    """Copy ``workdir/``, run its ``setup.sh`` as the step's agent user, wait for its check.

    Order: ``format/trial-lifecycle.md``, section 3.

    Raises:
        StepSetupError: The script failed; says what it printed.
        HealthcheckError: The step's check did not succeed.
    """
    step = work.step
    if step is not None and step.workdir_dir.is_dir():
        environment.upload(step.workdir_dir, environment.workdir)
        if step.setup_script is not None:
            _run_setup(work, environment)
    if work.healthcheck is not None:
        wait_until_healthy(
            environment, work.healthcheck, user=work.agent_user, table="steps.healthcheck"
        )


def _run_setup(work: WorkPlan, environment: Environment) -> None:
    script = f"{environment.workdir.rstrip('/')}/setup.sh"
    result = environment.exec(["bash", script], user=work.agent_user)
    if result.exit_code != 0:
        raise StepSetupError(
            f"steps/{work.name}/workdir/setup.sh ended with exit status {result.exit_code}"
            f" and printed:\n{result.output.strip()[-2000:]}"
        )

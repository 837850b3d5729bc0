"""A trial's result becomes pytest's outcome (the table *Outcomes* of the interface page)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.errors import HarborError, UnsupportedError
from pytest_harbor.plugin.failure_text import failure_text, step_text
from pytest_harbor.plugin.labels import properties
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.trial_of_item import ITEM_TRIAL, forget, set_properties

if TYPE_CHECKING:
    from pytest_harbor.environment.base import Environment
    from pytest_harbor.result.trial import TrialResult


class Failed(pytest.fail.Exception, AssertionError):  # type: ignore[misc, name-defined]
    """What was asked came to an end and did not pass: a trial, a step of it, a check.

    Editors take an exception that is no ``AssertionError`` for an error of the test itself.
    """

    __module__ = "builtins"  # as pytest's own, whose short name people see

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.pytrace = False


def environments_of(item: pytest.Item) -> list[Environment]:
    """What was made for the trial of an item, the agent's environment first."""
    item_trial = item.stash.get(ITEM_TRIAL, None)
    return item_trial.environments if item_trial else []


def report(
    request: pytest.FixtureRequest, result: TrialResult, environment: Environment | None = None
) -> None:
    """Pass or fail the item of a trial that came to an end; its steps are subtests.

    Args:
        request: Of the item.
        result: The trial's.
        environment: The agent's, where it is still there.
    """
    __tracebackhide__ = True
    item = request.node
    steps = result.steps and request.config.pluginmanager.hasplugin("subtests")
    # At the debugger the trial as a whole is looked at, and only once.
    steps = steps and not request.config.getoption("usepdb", False)
    if steps and not settings(request.config).check:
        _report_steps(request.getfixturevalue("subtests"), item, result)
    passed, text = told(item, result)
    if not passed:
        raise Failed(text)
    if text:
        item.add_report_section("call", "harbor", text)


def told(item: Any, result: TrialResult) -> tuple[bool, str]:
    """Whether a trial's item passes, and what is said of it, which may be nothing."""
    if settings(item.config).check:
        from pytest_harbor.plugin.check_items import judge

        fault = judge(item, result)
        return not fault, f"{fault}\n{_text(item, result)}" if fault else ""
    item_trial = item.stash.get(ITEM_TRIAL, None)
    odd = result.faults or result.agent_exit_code or (item_trial and item_trial.kept)
    return result.passed, _text(item, result) if odd or not result.passed else ""


def _report_steps(subtests: pytest.Subtests, item: pytest.Item, result: TrialResult) -> None:
    """A subtest a step. A step below the threshold fails only where the whole trial does."""
    for step in result.steps:
        text = _clean(item, step_text(result, step))
        with subtests.test(msg=step.name):
            if not result.passed and (step.unmet or not step.passed):
                raise Failed(text)
            print(text)  # noqa: T201 - the subtest's captured output


def check_set_up(item: pytest.Item, result: TrialResult) -> None:
    """An agent that could not be set up is an error of the set-up, not a failed trial."""
    if result.fault("agent_setup"):
        pytest.fail(_text(item, result), pytrace=False)


def guard_setup(item: pytest.Item) -> Iterator[None]:
    """Around the set-up of a trial's item: our errors become outcomes that explain themselves.

    Whatever cut the trial off, its result is written first.
    """
    forget(item)
    try:
        yield
    except UnsupportedError as error:
        _cut_off(item, error, "skipped")
        raise pytest.skip.Exception(str(error), _use_item_location=True) from None
    except HarborError as error:
        result = _cut_off(item, error, "environment")
        # For people at pytest's debugger, which stops in this frame.
        harbor_environment = next(iter(environments_of(item)), None)  # noqa: F841
        text = _text(item, result) if result else str(error)
        raise pytest.fail.Exception(f"{type(error).__name__}: {text}", pytrace=False) from None
    except pytest.skip.Exception as error:
        # A fixture above the task decided so.
        _cut_off(item, UnsupportedError(str(error)), "skipped")
        raise
    except BaseException as error:
        # An interrupt, another plugin's time limit, a broken conftest.py; a broken task
        # and an agent that could not be set up have told their category already.
        if not _is_settled(item):
            _cut_off(item, error, "environment")
        raise


def _is_settled(item: pytest.Item) -> bool:
    return any(name == "category" for name, _ in item.user_properties)


def _cut_off(item: pytest.Item, error: BaseException, category: str) -> TrialResult | None:
    item_trial = item.stash.get(ITEM_TRIAL, None)
    if item_trial is not None:
        settled = item_trial.trial.result.category is not None
        return item_trial.trial.result if settled else item_trial.fail(error)
    variant = getattr(item, "variant", None)
    if variant is not None:
        set_properties(item, [("category", category), *properties(item, variant)])
    return None


def _text(item: pytest.Item, result: TrialResult) -> str:
    item_trial = item.stash.get(ITEM_TRIAL, None)
    return _clean(item, failure_text(item, result, kept=item_trial.kept if item_trial else ""))


def _clean(item: pytest.Item, text: str) -> str:
    item_trial = item.stash.get(ITEM_TRIAL, None)
    return item_trial.trial.record.redactor.text(text) if item_trial else text

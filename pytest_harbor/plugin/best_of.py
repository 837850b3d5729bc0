"""``--harbor-best-of``: a choice among the attempts at each task, once the run has ended.

Lives in the process that owns the job: the controller under pytest-xdist. An item's outcome is
its attempt's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_harbor.plugin.job import job_in_use
from pytest_harbor.plugin.option_values import keyword_arguments
from pytest_harbor.plugin.options import settings
from pytest_harbor.task.plural import number_of

if TYPE_CHECKING:
    from pytest_harbor.selection.candidate import Selector
    from pytest_harbor.selection.choose import Selection

PLUGIN = "harbor-best-of"


def register(config: pytest.Config) -> None:
    """Have the choice made, where it is asked for.

    Raises:
        pytest.UsageError: There is no such selector, or nothing to choose among.
    """
    spec = _value(config, "harbor_best_of")
    kwargs = keyword_arguments(_value(config, "harbor_best_of_kwarg") or ())
    if spec is None:
        if kwargs:
            raise pytest.UsageError("--harbor-best-of-kwarg needs --harbor-best-of")
        return
    wanted = settings(config)
    if wanted.check:
        if config.getoption("harbor_best_of", None) is not None:
            raise pytest.UsageError("--harbor-best-of cannot be had with --harbor-check")
        return
    if wanted.attempts < 2:
        raise pytest.UsageError(
            f"--harbor-best-of={spec}: there is one attempt at each task, and nothing to choose;"
            " give --harbor-attempts=N, from 2"
        )
    config.pluginmanager.register(BestOf(config, _selector(config, spec, kwargs)), PLUGIN)


def _value(config: pytest.Config, name: str) -> Any:
    """The command line's, else the ini file's; both are checked with all other options."""
    given = config.getoption(name, None)
    return config.getini(name) if given is None else given


def _selector(config: pytest.Config, spec: str, kwargs: Mapping[str, Any]) -> Selector:
    from pytest_harbor.errors import OptionError
    from pytest_harbor.selection.find import find_selector

    from_ini = config.getoption("harbor_best_of", None) is None and config.inipath
    folder = from_ini.parent if from_ini else config.invocation_params.dir
    try:
        return find_selector(spec, kwargs, folder=folder)
    except OptionError as error:
        raise pytest.UsageError(str(error)) from None


_PUT_OFF = (
    "not asked, as the run was interrupted; --harbor-resume goes on with the job, and"
    " `python -m pytest_harbor select` chooses among what there is"
)


class BestOf:
    """Asks the selector once the job's numbers are written, and before its reports are."""

    def __init__(self, config: pytest.Config, selector: Selector) -> None:
        self._config = config
        self._selector = selector
        self._selection: Selection | None = None
        self._problem = ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Choose and write; where nothing could be chosen a run that passed fails."""
        if session.config.option.collectonly or job_in_use(self._config) is None:
            return
        from pytest_harbor.errors import OptionError
        from pytest_harbor.plugin.job_reading import job_reading
        from pytest_harbor.selection.choose import select
        from pytest_harbor.selection.record import Kept, keep

        job = job_reading(self._config)
        # Without a folder of its own there is neither work to compare nor a place to write to.
        if job is None or not job.path.name:
            return
        if self._selector.waits and session.exitstatus == pytest.ExitCode.INTERRUPTED:
            self._problem = _PUT_OFF
            return
        self._announce(len({(one.task_key, *one.group) for one in job.trials}))
        try:
            self._selection = select(job, self._selector, Kept(job.path, self._selector))
            keep(self._selection)
        except OptionError as error:
            self._problem = str(error)
        found = self._selection
        failed = self._problem or (found and found.problems)
        if session.exitstatus == pytest.ExitCode.OK:
            if found and found.is_interrupted:
                session.exitstatus = pytest.ExitCode.INTERRUPTED
            elif failed:
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _announce(self, tasks: int) -> None:
        """A judge may take long; nothing else would say what pytest waits for."""
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None and not self._selector.sees_rewards:
            what = f"the attempts at {number_of(tasks, 'task')}"
            terminal.write_line(f"\nharbor: {self._selector.name} chooses among {what}")

    def pytest_harbor_summary(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Show what the choices came to."""
        if self._selection is None:
            name = f"harbor: best of n by {self._selector.name}"
            return [(name, [self._problem])] if self._problem else []
        from pytest_harbor.selection.lines import lines, title

        told = [*lines(self._selection), *([self._problem] if self._problem else [])]
        return [(f"harbor: {title(self._selection)}", told)]

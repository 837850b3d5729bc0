"""The run's dealings with the engine: is it there, what did dead runs leave, clean up.

Everything here concerns the backend for containers; a run whose trials bring another
environment through ``pytest_harbor_make_environment`` needs no engine and meets none of
it unless it uses one.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from pytest_harbor.errors import EngineUnavailableError, HarborError, OptionError
from pytest_harbor.plugin.job import go_on, job, job_in_use
from pytest_harbor.plugin.options import settings
from pytest_harbor.plugin.resume import is_resumed

if TYPE_CHECKING:
    from pytest_harbor.plugin.collect import TrialItem

_READY = pytest.StashKey[bool]()
_FORESEEN = pytest.StashKey[bool]()
_NETWORK_BEGUN = pytest.StashKey[bool]()


def is_trial_id(nodeid: str) -> bool:
    """Whether a node id is a trial's; static checks, named ``check``, are none."""
    path, separator, name = nodeid.partition("::")
    return (
        bool(separator) and name != "check" and (path == "task.toml" or path.endswith("/task.toml"))
    )


def make_ready(config: pytest.Config, first: TrialItem | None = None) -> None:
    """Before the first trial: meet the engine, and remove what dead runs left on it.

    Args:
        config: Of the run.
        first: The item that this process runs first, if it is a trial's.

    Raises:
        EngineUnavailableError: No engine answers.
        OptionError: It lacks what the run's options name.
    """
    if config.stash.get(_READY, False):
        return
    from pytest_harbor.environment.docker.backend import engine_of_run
    from pytest_harbor.environment.docker.reaper import sweep_dead
    from pytest_harbor.environment.docker.run_check import require_named

    engine = engine_of_run(job(config).run_id)
    wanted = settings(config)
    require_named(engine, uplink=wanted.uplink, runtime=wanted.runtime)
    config.stash[_READY] = True
    if first is not None:
        foresee(first)
    _warn_of_failure(config, lambda: sweep_dead(engine))


def foresee(item: TrialItem) -> None:
    """An item comes soon: begin what its trial would wait for, a network or its gateway.

    A guess: fixtures may give the trial another policy. A gateway that nobody takes goes with
    the run, and so does the run's network; a gateway that has served is there for the next trial.
    """
    if is_resumed(item) or _may_not_run(item):
        return
    makers = item.ihook.pytest_harbor_make_environment.get_hookimpls()
    if item.config.stash.get(_FORESEEN, False) or item.parent.fault or len(makers) > 1:
        return  # others may make a box that needs no engine
    from pytest_harbor.environment.docker.backend import begin_gateway, begin_network
    from pytest_harbor.trial.network_plan import task_network
    from pytest_harbor.trial.support import require_supported

    options = job(item.config).options
    plan = task_network(item.task).within(options.network)
    separate = [(work.verifier,) for work in plan.works if work.separate]
    boxes = (tuple(plan.of_agents_box()), *separate)
    stash = item.config.stash
    with suppress(HarborError):  # the trial itself tells of it
        require_supported(item.task)
        stash[_FORESEEN] = any(
            begin_gateway(options.run_id, policies, options.uplink, options.gateway_image)
            for policies in boxes
        )
        begun = [begin_network(options.run_id, policies, options.uplink) for policies in boxes]
        stash[_NETWORK_BEGUN] = stash.get(_NETWORK_BEGUN, False) or any(begun)


def _may_not_run(item: TrialItem) -> bool:
    """Whether a marker or an option may keep the item from its trial."""
    names = ("skip", "skipif")
    return bool(item.config.getoption("setupplan", False)) or any(
        item.get_closest_marker(name) is not None for name in names
    )


def require(config: pytest.Config, first: TrialItem | None = None) -> None:
    """Make ready, or end the run with one clear error before any trial."""
    _end_on_sigterm(config)
    try:
        make_ready(config, first)
    except (EngineUnavailableError, OptionError) as error:
        pytest.exit(f"pytest-harbor: {error}", returncode=pytest.ExitCode.USAGE_ERROR)


def require_for(config: pytest.Config, ids: Sequence[str], first: TrialItem | None = None) -> None:
    """Meet the engine if any of a run's items is a trial that was not run by an earlier one."""
    trials = [nodeid for nodeid in ids if is_trial_id(nodeid)]
    if not trials:
        return
    current = job(config)
    try:
        go_on(config, trials)
    except pytest.UsageError as error:
        pytest.exit(f"pytest-harbor: {error}", returncode=pytest.ExitCode.USAGE_ERROR)
    if any(nodeid not in (current.standing or ()) for nodeid in trials):
        require(config, first)


def sweep(config: pytest.Config) -> None:
    """A process of this run died: remove what it left."""
    if not _met(config):
        return
    from pytest_harbor.environment.docker.backend import engine_of_run
    from pytest_harbor.environment.docker.reaper import sweep_dead

    _warn_of_failure(config, lambda: sweep_dead(engine_of_run(job(config).run_id)))


def clean_up(config: pytest.Config) -> None:
    """At the end of the run: remove all that is left of it; kept environments stay.

    A worker removes what only it knows of, and leaves the rest to the controller.
    """
    _close_gateways(config)
    _close_model_gateways()
    _end_network(config)
    if not _met(config):
        return
    from pytest_harbor.environment.docker.backend import close_engine, engine_of_run

    current = job(config)
    run_id = current.run_id
    if current.owned:
        from pytest_harbor.environment.docker.reaper import remove_run

        _warn_of_failure(config, lambda: remove_run(engine_of_run(run_id), run_id))
    close_engine(run_id)


def _close_gateways(config: pytest.Config) -> None:
    """Remove what this process made for restricted networks, if it had any."""
    name = "pytest_harbor.environment.docker.gateway.pool"
    if name not in sys.modules:
        return
    if job_in_use(config) is None and not config.stash.get(_FORESEEN, False):
        return
    from pytest_harbor.environment.docker.backend import engine_of_run

    run_id = job(config).run_id
    close = sys.modules[name].close_gateways
    _warn_of_failure(config, lambda: close(engine_of_run(run_id)))


def _end_network(config: pytest.Config) -> None:
    """Wait for the network that this process began to make; without any trial it goes at once."""
    if not config.stash.get(_NETWORK_BEGUN, False):
        return
    from pytest_harbor.environment.docker.backend import end_network

    unused = job_in_use(config) is None
    _warn_of_failure(config, lambda: end_network(job(config).run_id, remove=unused))


def _close_model_gateways() -> None:
    """Stop what listens for agents in containers, if this process has any."""
    name = "pytest_harbor.trial.model_access"
    if name in sys.modules:
        sys.modules[name].close_model_gateways()


def prepare(config: pytest.Config) -> None:
    """As :func:`require`, for a test that runs tasks itself: it meets a missing engine later."""
    _end_on_sigterm(config)
    try:
        with suppress(EngineUnavailableError):
            make_ready(config)
    except OptionError as error:
        pytest.fail(str(error), pytrace=False)


def _met(config: pytest.Config) -> bool:
    """Whether this run may have left something: here, or in a worker that ran tasks itself."""
    own = config.stash.get(_READY, False) or config.stash.get(_NETWORK_BEGUN, False)
    return own or job_in_use(config) is not None


def _end_on_sigterm(config: pytest.Config) -> None:
    """Let a run that is told to end do so in order, as after Ctrl-C.

    Left alone, the signal ends the process at once, with every container still there.
    Whoever has a handler of their own keeps it.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Once: a second signal must not cut the cleaning short half-way through.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt("SIGTERM")

    signal.signal(signal.SIGTERM, interrupt)
    config.add_cleanup(partial(_restore, signal.SIG_DFL))


def _restore(handler: signal.Handlers) -> None:
    signal.signal(signal.SIGTERM, handler)


def _warn_of_failure(config: pytest.Config, action: Callable[[], object]) -> None:
    """Cleaning must not change the outcome of tests that ran; what it leaves is said."""
    try:
        action()
    except HarborError as error:
        config.issue_config_time_warning(
            pytest.PytestWarning(f"pytest-harbor could not clean up: {error}"), stacklevel=2
        )

"""Phases of a trial: timed, told to whoever listens, their faults kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from pytest_harbor.environment.base import Environment
from pytest_harbor.result.work import Fault, Timing, Work
from pytest_harbor.trial.record import TrialRecord


class PhaseObserver(Protocol):
    """Is told when a phase begins and ends; ``step`` is empty in a single-step task."""

    def before_phase(self, phase: str, step: str, environment: Environment) -> None:
        """A phase begins."""

    def after_phase(
        self, phase: str, step: str, environment: Environment, error: BaseException | None
    ) -> None:
        """A phase ended, with ``error`` if it broke."""


class Phases:
    """The phases of one trial; nothing that breaks in one is caught here."""

    def __init__(self, record: TrialRecord, observer: PhaseObserver) -> None:
        self._record = record
        self._observer = observer

    @contextmanager
    def phase(
        self, result: Work, phase: str, step: str, environment: Environment
    ) -> Iterator[None]:
        """Time a phase and tell the observer."""
        with self.timed(result, phase, step), self.observed(phase, step, environment):
            yield

    @contextmanager
    def timed(self, result: Work, phase: str, step: str) -> Iterator[None]:
        """Note when a phase begins and ends, in the result and in the trial's log."""
        started = datetime.now(UTC)
        result.timings[phase] = Timing(started)
        where = f"{phase} of step {step}" if step else phase
        self._record.note(f"{where} begins")
        self._record.status.phase(phase, step)
        ending = ""
        try:
            yield
        except BaseException as error:
            ending = f": {type(error).__name__}"
            raise
        finally:
            result.timings[phase] = Timing(started, datetime.now(UTC))
            self._record.note(f"{where} ends{ending}")
            self._record.status.after(phase)

    @contextmanager
    def observed(self, phase: str, step: str, environment: Environment) -> Iterator[None]:
        """Tell the observer that a phase begins and ends."""
        error: BaseException | None = None
        try:
            self._observer.before_phase(phase, step, environment)
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._observer.after_phase(phase, step, environment, error)

    def add_fault(self, work: Work, phase: str, error: BaseException, text: str = "") -> None:
        """Keep what went wrong, without secrets.

        Args:
            work: The trial or the step that it belongs to.
            phase: Where it went wrong.
            error: What was raised.
            text: Its traceback, for an error that does not explain itself.
        """
        fault = Fault.of(phase, error, text)
        work.faults.append(replace(fault, message=self._record.redactor.text(fault.message)))

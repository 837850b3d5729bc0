"""What is written down of a kept trial, and the commands that go with it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.errors import OptionError
from pytest_harbor.plugin.keep import keep
from pytest_harbor.trial.kept import grade_again, grading_of, note_kept
from pytest_harbor.trial.limits import Multipliers
from pytest_harbor.verifier.base import Verifier
from pytest_harbor.verifier.script import ScriptVerifier

BOX = KeptBox(name="box", run_id="1a2b3c4d")
SLOW = Multipliers(every=2.0, verifier=5.0)


class OtherVerifier(ScriptVerifier):
    """Grades in a way of its own."""


def kept_lines(item: Any, trial: Path, verifier: Verifier | None) -> str:
    """What is printed of a trial that this verifier graded."""
    users = SimpleNamespace(agent_user=None, verifier_user=None)
    plan: Any = SimpleNamespace(works=[users], options=SimpleNamespace(multipliers=SLOW))
    result: Any = SimpleNamespace(trial_dir=trial, separate=False)
    environment: Any = SimpleNamespace(keep=lambda: BOX)
    return keep(item, plan, result, [("the agent's", environment)], verifier)


def test_a_trial_that_the_test_script_graded_is_graded_again_with_its_time_limits(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    item = pytester.getitem("def test_func(): pass")
    assert "verify: " in kept_lines(item, tmp_path, ScriptVerifier())
    assert grading_of(tmp_path) == SLOW


def test_a_trial_that_another_verifier_graded_is_not_graded_by_the_test_script(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    item = pytester.getitem("def test_func(): pass")
    lines = kept_lines(item, tmp_path, OtherVerifier())
    assert "verify: " not in lines
    assert "remove: " in lines
    with pytest.raises(OptionError, match="graded by OtherVerifier"):
        grade_again(tmp_path)


def test_a_verifier_that_was_named_and_never_reached_is_not_replaced(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    kwargs = "model=m base_url=http://127.0.0.1:9/v1"
    pytester.makeini(f"[pytest]\nharbor_verifier = judge\nharbor_verifier_kwarg = {kwargs}\n")
    item = pytester.getitem("def test_func(): pass")
    assert "verify: " not in kept_lines(item, tmp_path, None)
    with pytest.raises(OptionError, match="graded by judge"):
        grading_of(tmp_path)


def test_factors_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    note_kept(tmp_path, [BOX])
    note = tmp_path / "kept.json"
    note.write_text(note.read_text().replace('"every"', '"each"'))
    with pytest.raises(OptionError, match=r"kept\.json: cannot be read"):
        grading_of(tmp_path)

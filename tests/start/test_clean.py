"""``python -m pytest_harbor clean`` takes what ended runs left, and nothing else."""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_harbor.__main__ import main
from pytest_harbor.clean.choice import Wishes, choose
from pytest_harbor.environment.docker.leftovers import Leftover, leftovers

NOW = 1_000_000.0
LEFT = Leftover("container", "left", "c1", "aaaa", NOW - 3600, "dead")
IMAGE = Leftover("image", "pytest-harbor/x:1", "x", "aaaa", NOW - 3600, "dead", 1)


def reason(thing: Leftover, *others: Leftover, **wishes: Any) -> str:
    return dict(choose([thing, *others], Wishes(**wishes), NOW))[thing]


def test_what_an_ended_run_left_goes() -> None:
    assert reason(LEFT) == ""
    assert reason(replace(LEFT, kind="copy")) == ""


@pytest.mark.parametrize("wishes", [{}, {"images": True, "kept": True, "foreign": True}])
def test_what_a_living_process_made_stays_whatever_is_asked(wishes: dict[str, bool]) -> None:
    assert reason(replace(LEFT, owner="alive"), **wishes) == "in use"


def test_what_cannot_be_judged_goes_on_demand_alone() -> None:
    unknown = replace(LEFT, owner="unknown")
    assert reason(unknown) == "made elsewhere (--foreign)"
    assert reason(unknown, foreign=True) == ""


def test_what_was_kept_goes_on_demand_alone() -> None:
    kept = replace(LEFT, is_kept=True)
    assert reason(kept) == "kept (--kept)"
    assert reason(kept, kept=True) == ""


def test_images_go_on_demand_and_while_nobody_works() -> None:
    assert reason(IMAGE) == "cached (--images)"
    assert reason(IMAGE, images=True) == ""
    assert reason(replace(IMAGE, owner="alive"), images=True) == ""
    busy = replace(LEFT, kind="network", owner="alive")
    assert reason(IMAGE, busy, images=True) == "a run is at work"


def test_filters_narrow_what_goes() -> None:
    assert reason(LEFT, older_than_sec=3599) == ""
    assert reason(LEFT, older_than_sec=3601) == "too new"
    assert reason(LEFT, run="aaaa") == ""


def test_a_runs_list_has_nothing_of_others() -> None:
    other = replace(LEFT, run="bbbb")
    assert dict(choose([LEFT, other, IMAGE], Wishes(run="bbbb"), NOW)) == {other: ""}


@pytest.mark.parametrize("age", ["", "5", "-1h", "1w"])
def test_an_age_needs_a_unit(age: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["clean", f"--older-than={age}"])
    assert "expected an age as 90m, 12h or 7d" in capsys.readouterr().err


def test_without_an_engine_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    assert main(["clean"]) == 4
    assert "no container engine answers at unix:///nowhere.sock" in capsys.readouterr().err


Make = Callable[..., str]


@pytest.fixture
def make(engine: Any) -> Iterator[Make]:
    """Make a container, not started, of a run and a process of the test's own."""
    made: list[str] = []

    def container(name: str, run: str, owner: str = "") -> str:
        labels = {"pytest-harbor": "1", "pytest-harbor.run": run, "pytest-harbor.owner": owner}
        made.append(
            engine.api.create_container("debian:bookworm-slim", name=name, labels=labels)["Id"]
        )
        return name

    yield container
    for identity in made:
        if engine.api.containers(all=True, filters={"id": identity}):
            engine.api.remove_container(identity)


@pytest.mark.docker
def test_it_lists_first_and_removes_when_told(
    engine: Any, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    run = os.urandom(6).hex()
    # Of no process that is known: no other run sweeps it away.
    left, kept = make(f"left-{run}", run), make(f"pytest-harbor-kept-{run}", run)
    mine = make(f"mine-{run}", run, engine.owner.label())

    def cleaned(*options: str) -> dict[str, str]:
        assert main(["clean", f"--run={run}", *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        rows = [line for line in lines if run in line]
        return {row.split()[1]: " ".join(row.split(run)[-1].split()) for row in rows}

    elsewhere = "stays: made elsewhere (--foreign)"
    first = {left: elsewhere, kept: "stays: kept (--kept)", mine: "stays: in use"}
    assert cleaned() == first
    assert cleaned("--yes") == first
    assert cleaned("--foreign") == {**first, left: "goes with --yes"}
    assert cleaned("--foreign", "--older-than=1h", "--yes") == {**first, left: "stays: too new"}
    assert cleaned("--foreign", "--yes") == {**first, left: "removed"}
    assert cleaned("--yes", "--kept") == {kept: "removed", mine: "stays: in use"}
    assert {one.name for one in leftovers(engine) if one.run == run} == {mine}


@pytest.mark.docker
def test_an_image_goes_unless_a_container_is_made_of_it(engine: Any) -> None:
    from pytest_harbor.environment.docker.reaper import remove_leftover

    run = os.urandom(6).hex()
    tag = f"pytest-harbor/clean-{run}:1"
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    changes = [f"LABEL pytest-harbor=1 pytest-harbor.run={run}"]
    engine.api.import_image_from_data(
        empty.getvalue(), repository=tag.partition(":")[0], tag="1", changes=changes
    )
    (image,) = [one for one in leftovers(engine) if one.run == run]
    assert (image.kind, image.name, image.size) == ("image", tag, 0)
    container = engine.api.create_container(tag, ["x"])["Id"]
    assert not remove_leftover(engine, "image", tag)
    engine.api.remove_container(container)
    assert remove_leftover(engine, "image", tag)
    assert not remove_leftover(engine, "image", tag)

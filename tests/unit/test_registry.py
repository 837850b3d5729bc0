"""Agents and backends by name: found, or refused with a message that helps."""

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.agent.reference import NopAgent, OracleAgent
from pytest_harbor.environment.docker.backend import make_environment
from pytest_harbor.errors import OptionError
from pytest_harbor.registry import find_backend, make_agent

AGENTS = """
    from pytest_harbor import Agent

    class Plain(Agent):
        def run(self, instruction, environment, context): ...

    class NoModel(Plain):
        def __init__(self, *, effort="low"):
            self.effort = effort

    class Needs(Plain):
        name = "needs"
        def __init__(self, *, level, model_name=None):
            super().__init__(model_name=model_name)
            self.level = level

    class Unfinished(Agent):
        pass

    class Outer:
        Inner = Plain

    instance = Plain()

    class Shifted(Agent):
        def run(self, environment, context): ...

    class Late(Plain):
        async def setup(self, environment, context, extra): ...

    class More(Plain):
        async def setup(self, environment, context, extra=None, *rest): ...

    class Yields(Agent):
        async def run(self, instruction, environment, context):
            yield

    class Value(Plain):
        setup = "apt install"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules of a user's, as a run is started in."""
    (tmp_path / "own_agents.py").write_text(textwrap.dedent(AGENTS))
    (tmp_path / "broken_agents.py").write_text("import nowhere_at_all\n")
    (tmp_path / "crooked_agents.py").write_text("class Agent(:\n")
    (tmp_path / "raising_agents.py").write_text("{}.agent\n")
    for path in tmp_path.glob("*.py"):
        # What a test imports must not be there for the next.
        monkeypatch.setitem(sys.modules, path.stem, None)
        del sys.modules[path.stem]
    return tmp_path


def made(name: str, folder: Path, model: str | None = None, **kwargs: Any) -> Any:
    return make_agent(name, model=model, kwargs=kwargs, import_root=folder)


def refusal(name: str, folder: Path, model: str | None = None, **kwargs: Any) -> str:
    with pytest.raises(OptionError) as caught:
        made(name, folder, model, **kwargs)
    message = str(caught.value)
    assert message.startswith(f"--harbor-agent={name}: ")
    return message.removeprefix(f"--harbor-agent={name}: ")


@pytest.mark.parametrize(("name", "kind"), [("oracle", OracleAgent), ("nop", NopAgent)])
def test_agents_that_come_with_the_package(name: str, kind: type) -> None:
    agent = make_agent(name)
    assert type(agent) is kind
    assert agent.name == name
    assert agent.model_name is None


def test_the_backend_that_comes_with_the_package() -> None:
    assert find_backend("docker") is make_environment


def test_an_import_path_gives_an_agent_named_after_it(folder: Path) -> None:
    path = list(sys.path)
    agent = made("own_agents:Plain", folder, model="openai/gpt-5")
    assert (agent.name, agent.model_name) == ("own_agents:Plain", "openai/gpt-5")
    assert sys.path == path


def test_a_name_of_the_agents_own_stays(folder: Path) -> None:
    assert made("own_agents:Needs", folder, level=3).name == "needs"


def test_a_class_within_a_class(folder: Path) -> None:
    assert type(made("own_agents:Outer.Inner", folder)).__name__ == "Plain"


def test_the_model_is_handed_over_only_where_there_is_one(folder: Path) -> None:
    assert made("own_agents:NoModel", folder, effort="high").effort == "high"
    told = refusal("own_agents:NoModel", folder, model="openai/gpt-5")
    assert "unexpected keyword argument 'model_name'" in told
    assert "model_name from --harbor-model" in told


def test_arguments_that_do_not_fit_name_those_that_do(folder: Path) -> None:
    told = refusal("own_agents:Needs", folder, lvel=1)
    assert "'lvel' (did you mean level?)" in told
    assert "Needs(*, level, model_name=None)" in told
    assert "--harbor-agent-kwarg" in told


def test_an_agent_that_cannot_run_is_refused(folder: Path) -> None:
    assert refusal("own_agents:Unfinished", folder) == (
        "Unfinished has no run(); every agent needs one"
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "Shifted",
            "Shifted.run takes (self, environment, context); expected"
            " run(self, instruction, environment, context)",
        ),
        (
            "Late",
            "Late.setup takes (self, environment, context, extra); expected"
            " setup(self, environment, context)",
        ),
        (
            "Yields",
            "Yields.run yields, so that it would never run; expected"
            " run(self, instruction, environment, context)",
        ),
        (
            "Value",
            "Value.setup is 'apt install'; expected a method setup(self, environment, context)",
        ),
    ],
)
def test_methods_that_could_not_be_called_are_told_of(folder: Path, name: str, told: str) -> None:
    assert refusal(f"own_agents:{name}", folder) == told


def test_a_method_may_take_more_than_it_is_given(folder: Path) -> None:
    assert type(made("own_agents:More", folder)).__name__ == "More"


@pytest.mark.parametrize("name", ["harbor:terminus-2", "harbor:own_agents:Plain"])
def test_without_harbor_its_agents_say_how_to_get_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("pytest_harbor.agent.harbor._installed_version", lambda: None)
    told = refusal(name, folder)
    assert "the package harbor, whose agent this is, is not installed" in told
    assert "pip install harbor" in told
    assert ("Python 3.12 or newer" in told) == (sys.version_info < (3, 12))


def test_a_harbor_that_is_too_different_is_told_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_harbor.agent.harbor._installed_version", lambda: "9.9")
    monkeypatch.setitem(sys.modules, "pytest_harbor.agent.harbor.agent", None)
    told = refusal("harbor:terminus-2", folder)
    assert told.startswith("agents of Harbor 9.9, which is installed, cannot be used: ")
    assert "pip install harbor==" in told


@pytest.mark.parametrize("name", ["own_agents:instance", "own_agents:Outer", "json:dumps"])
def test_what_is_no_agent_class_is_refused(folder: Path, name: str) -> None:
    assert "it must be a subclass of pytest_harbor.Agent" in refusal(name, folder)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere:Agent", "cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'"),
        ("broken_agents:Agent", "cannot import broken_agents: ModuleNotFoundError: No module"),
        ("crooked_agents:Agent", "cannot import crooked_agents: SyntaxError: "),
        ("raising_agents:Agent", "cannot import raising_agents: AttributeError: 'dict' object"),
        ("own_agents:Plian", "module own_agents has no 'Plian'"),
        ("own_agents:", "expected package.module:Name"),
        (":Plain", "expected package.module:Name"),
        ("..own_agents:Plain", "cannot import ..own_agents: TypeError: "),
    ],
)
def test_a_wrong_import_path_says_what_is_wrong(folder: Path, name: str, told: str) -> None:
    assert refusal(name, folder).startswith(told)


def test_unknown_names_are_answered_with_the_known_ones(folder: Path) -> None:
    assert refusal("orcale", folder).startswith(
        "there is none; did you mean 'oracle'? Known: aider, claude-code, "
    )
    told = refusal("zzz", folder)
    assert re.match(r"there is none\. Known: aider, .* nop, .*oracle, .*; any other", told)
    with pytest.raises(OptionError, match="environment backend 'dokcer': there is none; did you"):
        find_backend("dokcer")


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with entry points is installed."""
    info = folder / "their_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-agents\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pytest_harbor.agents]\nclever = own_agents:Plain\nbroken = broken_agents:Agent\n"
        "[pytest_harbor.environments]\nown = own_agents:Plain\n"
    )
    monkeypatch.syspath_prepend(folder)
    return folder


def test_entry_points_of_other_packages_count(installed: Path) -> None:
    assert made("clever", installed).name == "clever"
    assert find_backend("own").__name__ == "Plain"
    assert "Known: aider, broken, claude-code, clever, " in refusal("zzz", installed)


def test_an_entry_point_that_does_not_load_says_why(installed: Path) -> None:
    assert refusal("broken", installed).startswith(
        "broken_agents:Agent: ModuleNotFoundError: No module named 'nowhere_at_all'"
    )

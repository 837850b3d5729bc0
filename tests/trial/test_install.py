"""An agent's tool as a layer of the task's image."""

import subprocess
import uuid
from pathlib import Path

import pytest

pytestmark = pytest.mark.docker

AGENTS = """\
from pytest_harbor import Agent
from pytest_harbor.environment.base import ImageLayer


class Builder(Agent):
    name = "builder"
    script = "mkdir -p /tool /junk && echo 'echo ok' > /tool/say && chmod 755 /tool/say"

    def __init__(self, *, model_name=None, mark="", folder="/tool"):
        super().__init__(model_name=model_name)
        self._mark, self._folder = mark, folder

    def layers(self, timeout_sec):
        return (ImageLayer("layer-test", self.script, self._mark, self._folder, timeout_sec),)

    def run(self, instruction, environment, context):
        look = "id -un; ls -d /tool /junk 2>/dev/null; printenv | grep -c SSL_CERT"
        found = environment.exec(look)
        (context.logs_dir / "found.txt").write_text(found.output)
        environment.exec("sh /tool/say > /app/out.txt")


class Broken(Builder):
    script = "echo boom; exit 3"
"""


@pytest.fixture
def mark(pytester: pytest.Pytester):
    pytester.makepyfile(builders=AGENTS)
    mark = uuid.uuid4().hex
    yield f"--harbor-agent-kwarg=mark=m{mark}"
    listed = subprocess.run(
        ["docker", "images", "-q", "pytest-harbor/layer-test"], capture_output=True, check=True
    )
    images = sorted(set(listed.stdout.decode().split()))
    subprocess.run(["docker", "rmi", "-f", *images], capture_output=True, check=False)


DOCKERFILE = "FROM debian:bookworm-slim\nWORKDIR /app\nRUN chmod 777 /app\nUSER nobody\n"


def install_log(folder: Path) -> Path:
    return folder / "install-layer-test.log"


@pytest.mark.parametrize("keeps", ["folder", "everything"])
def test_a_tool_is_installed_once_and_its_image_stays_as_it_was(
    run_tasks, make_task, mark, keeps, pytester, monkeypatch
) -> None:
    certificates = pytester.path / "own.pem"
    certificates.write_text("not looked at\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates))
    make_task(dockerfile=DOCKERFILE)
    folder = "/tool" if keeps == "folder" else ""
    options = ("--harbor-agent=builders:Builder", mark, f'--harbor-agent-kwarg=folder="{folder}"')
    ran = run_tasks(*options, "--harbor-attempts=2")
    ran.run.assert_outcomes(passed=2)
    folders = ran.folders["hello"]
    assert sum(install_log(folder).exists() for folder in folders) == 1
    lines = (folders[0] / "agent/found.txt").read_text().splitlines()
    assert lines[:2] == ["nobody", "/junk"] if keeps == "everything" else ["nobody", "/tool"]
    assert lines[-1] == "0"


def test_an_install_that_fails_is_the_agents_and_shows_its_log(run_tasks, make_task, mark) -> None:
    make_task()
    ran = run_tasks("--harbor-agent=builders:Broken", mark)
    ran.run.assert_outcomes(errors=1)
    assert "layer-test cannot be installed" in ran.text
    assert "boom" in ran.text
    assert ran.one()["pytest_harbor"]["category"] == "agent"
    assert "boom" in install_log(ran.folder()).read_text()

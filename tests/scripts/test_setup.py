"""The shell functions of scripts/lib, each called as the set-up calls it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRELUDE = """
set -euo pipefail
root=$1
for part in common python engine client_plugins base_image git_lfs; do
    . "$root/scripts/lib/$part.sh"
done
"""

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="the set-up is written for bash")


def call(code: str, root: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", PRELUDE + code, "setup", str(root)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("pid", ["4194305", "", "none"])
def test_pid_file_of_a_dead_process_is_removed(tmp_path: Path, pid: str) -> None:
    pidfile = tmp_path / "docker.pid"
    pidfile.write_text(pid)
    done = call(f"remove_stale_pidfile '{pidfile}' dockerd")
    assert done.returncode == 0, done.stderr
    assert not pidfile.exists()
    assert str(pidfile) in done.stderr


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="processes are known by /proc")
def test_pid_file_goes_when_its_number_belongs_to_another_program(tmp_path: Path) -> None:
    pidfile = tmp_path / "docker.pid"
    pidfile.write_text(str(os.getpid()))
    call(f"remove_stale_pidfile '{pidfile}' dockerd")
    assert not pidfile.exists()


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="processes are known by /proc")
def test_pid_file_of_the_running_program_is_kept(tmp_path: Path) -> None:
    pidfile = tmp_path / "docker.pid"
    pidfile.write_text(str(os.getpid()))
    name = Path("/proc/self/comm").read_text().strip()
    done = call(f"remove_stale_pidfile '{pidfile}' '{name}'")
    assert done.returncode == 0, done.stderr
    assert pidfile.exists()


def test_engine_behind_docker_host_is_never_replaced(tmp_path: Path) -> None:
    done = call("ensure_engine", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 1
    assert f"{tmp_path}/none.sock" in done.stderr
    assert "unset DOCKER_HOST" in done.stderr


def test_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "dockerd.log"
    log.write_text("first\nfailed to mount overlay\n")
    done = call("explain_engine_failure", HARBOR_ENGINE_LOG=str(log))
    assert done.returncode == 1
    assert "failed to mount overlay" in done.stderr
    assert "HARBOR_ENGINE_FLAGS" in done.stderr


def test_python_named_by_hand_is_taken() -> None:
    done = call("find_python", PYTHON=sys.executable)
    assert done.stdout.strip() == sys.executable


@pytest.mark.parametrize("exit_status", [1, 127])
def test_python_that_does_not_run_is_refused_by_name(tmp_path: Path, exit_status: int) -> None:
    shim = tmp_path / "python3.13"
    shim.write_text(f"#!/bin/sh\nexit {exit_status}\n")
    shim.chmod(0o755)
    done = call("ensure_python", PYTHON=str(shim))
    assert done.returncode == 1
    assert f"PYTHON={shim}" in done.stderr


def test_finished_environment_is_made_anew_only_after_a_change(tmp_path: Path) -> None:
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    project = tmp_path / "pyproject.toml"
    project.write_text("[project]\n")
    (tmp_path / ".venv").mkdir()
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n")  # succeeds at all it is asked
    python.chmod(0o755)

    def ensure() -> str:
        code = "install_package() { echo installed; }; ensure_venv"
        return call(code, tmp_path, PYTHON=str(python), HARBOR_VENV=str(tmp_path / ".venv")).stdout

    assert ensure() == "installed\n"
    assert ensure() == ""
    project.write_text("[project]\nname = 'changed'\n")
    assert ensure() == "installed\n"


def test_output_of_a_quiet_command_is_shown_when_it_fails() -> None:
    done = call("quiet sh -c 'echo fine'; quiet sh -c 'echo the reason; exit 3'")
    assert done.returncode == 3
    assert done.stderr == "the reason\n"


@pytest.mark.parametrize(
    ("has_it", "is_root", "done"), [(1, 1, ""), (0, 1, "apt: git-lfs"), (0, 0, "")]
)
def test_git_lfs_is_installed_where_it_is_missing_and_can_be(has_it, is_root, done) -> None:
    code = f"""
    have() {{ (({has_it})); }}
    can_install_packages() {{ (({is_root})); }}
    install_packages() {{ echo "apt: $*"; }}
    ensure_git_lfs
    """
    called = call(code)
    assert called.returncode == 0, called.stderr
    assert called.stdout.strip() == done


def test_a_machine_without_git_lfs_to_be_had_goes_on() -> None:
    code = """
    have() { false; }
    can_install_packages() { true; }
    install_packages() { false; }
    ensure_git_lfs
    """
    called = call(code)
    assert called.returncode == 0, called.stderr
    assert "No git-lfs to be had" in called.stderr

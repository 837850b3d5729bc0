"""How a container comes, what it is given, and how it goes."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine, capabilities
from pytest_harbor.environment.docker.naming import kept_name
from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.errors import (
    EnvironmentFault,
    EnvironmentLostError,
    EnvironmentStartError,
    TransferError,
    UnsupportedError,
)
from pytest_harbor.task.network import NetworkPolicy

MakeBox = Callable[..., DockerEnvironment]
MakeContext = Callable[..., Path]


def inspect(box: DockerEnvironment) -> dict:
    return box._engine.api.inspect_container(box.name)


def exists(box: DockerEnvironment) -> bool:
    found = box._engine.api.containers(all=True, filters={"name": f"^{box.name}$"})
    return bool(found)


def test_a_container_is_made_as_the_spec_says(make_box: MakeBox):
    box = make_box(
        env={"A": "1=2"},
        workdir="/somewhere/else",
        cpus=0.5,
        memory_mb=256,
        labels={"pytest-harbor.trial": "t"},
        pids_limit=100,
    )
    box.start()
    made = inspect(box)
    host = made["HostConfig"]
    assert host["NanoCpus"] == 500_000_000
    assert host["Memory"] == host["MemorySwap"] == 256 * 1024 * 1024
    assert host["PidsLimit"] == 100
    assert host["NetworkMode"] == "none"
    assert made["Config"]["Labels"]["pytest-harbor.trial"] == "t"
    assert box.exec("echo $A; pwd").stdout == "1=2\n/somewhere/else\n"
    assert box.notes == ()


def test_nothing_is_run_or_copied_by_the_start(make_box: MakeBox):
    box = make_box()
    box.start()
    assert not inspect(box)["ExecIDs"]
    assert not [each for each in box._engine.api.diff(box.name) or [] if "logs" in each["Path"]]


def test_more_cpus_than_there_are_means_all_of_them(make_box: MakeBox, engine: Engine):
    box = make_box(cpus=4096)
    box.start()
    assert inspect(box)["HostConfig"]["NanoCpus"] == engine.info["NCPU"] * 10**9
    assert "4096 cpus" in box.notes[0]


def test_storage_that_cannot_be_limited_is_noted(make_box: MakeBox, engine: Engine):
    if capabilities.can_limit_storage(engine.info):
        pytest.skip("this engine's storage driver can limit it")
    box = make_box(storage_mb=512)
    box.start()
    assert "512 MB" in box.notes[0]


def test_a_gpu_that_is_not_there_is_unsupported_before_any_build(
    make_box: MakeBox, make_context: MakeContext, engine: Engine
):
    if "nvidia" in engine.info["Runtimes"]:
        pytest.skip("this engine has GPUs")
    box = make_box(context_dir=make_context("NONSENSE"), gpus=1)
    with pytest.raises(UnsupportedError, match="1 GPU"):
        box.start()


def test_kinds_of_gpus_that_nobody_looks_at_are_noted(engine: Engine):
    spec = ContainerSpec("gpus", gpus=2, gpu_types=("H100", "A100"))
    limits, notes = capabilities.host_resources(engine, spec)
    assert limits["DeviceRequests"][0]["Count"] == 2
    assert "H100, A100" in notes[0]


def test_the_upload_folder_is_in_the_working_folder_before_any_command(
    make_box: MakeBox, tmp_path: Path
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("here")
    for first in (
        lambda box: box.exec(["cat", "data/file"]).stdout,
        lambda box: box.read("/app/data/file").decode(),
        lambda box: box.write("/other", "x") or box.read("/app/data/file").decode(),
    ):
        box = make_box(upload_dir=tmp_path, workdir="/app")
        box.start()
        assert first(box) == "here"


def test_a_failed_upload_does_not_lose_the_first_files(make_box: MakeBox, tmp_path: Path):
    box = make_box()
    box.start()
    with pytest.raises(TransferError):
        box.upload(tmp_path / "missing", "/x")
    assert box.exec(["ls", "/logs"]).stdout.split() == ["agent", "artifacts", "verifier"]


def test_a_user_of_the_image_runs_the_commands(make_box: MakeBox, make_context: MakeContext):
    context = make_context("FROM debian:bookworm-slim\nRUN useradd -m dev\nUSER dev\n")
    box = make_box(context_dir=context, name_hint="user")
    box.start()
    assert box.default_user == "dev"
    assert box.exec("id -un; touch /logs/agent/x && echo ok").stdout == "dev\nok\n"
    assert box.exec(["id", "-un"], user="root").stdout == "root\n"
    assert box.exec("sleep 9101", timeout_sec=0.3).timed_out


def test_an_entrypoint_that_runs_its_arguments_is_kept(
    make_box: MakeBox, make_context: MakeContext
):
    context = make_context(
        "FROM debian:bookworm-slim\n"
        'ENTRYPOINT ["/bin/sh", "-c", "touch /entered; exec \\"$@\\"", "entry"]\n'
    )
    box = make_box(context_dir=context, name_hint="entry")
    box.start()
    assert box.exec(["test", "-e", "/entered"]).exit_code == 0


@pytest.mark.parametrize("first", ["exec", "upload"])
def test_an_entrypoint_that_ends_is_told_with_its_last_words(
    make_box: MakeBox, make_context: MakeContext, first: str
):
    context = make_context(
        "FROM debian:bookworm-slim\n"
        'ENTRYPOINT ["/bin/sh", "-c", "echo cannot find my config; exit 5"]\n'
    )
    box = make_box(context_dir=context, name_hint="ends")
    box.start()
    if first == "upload":
        box.write("/x", "works on a stopped container as well")
    asked = [partial(box.exec, ["true"]), box.begin_watch, box.left_running]
    for ask in (*asked, partial(ExitStack().enter_context, box.private_view(["/tests"]))):
        with pytest.raises(EnvironmentStartError) as caught:
            ask()
        message = str(caught.value)
        assert "stopped at once" in message
        assert "exit code 5" in message
        assert "cannot find my config" in message
        assert 'exec "$@"' in message


def test_an_image_without_any_shell(make_box: MakeBox, make_context: MakeContext):
    context = make_context("FROM scratch\nCOPY Dockerfile /\n")
    box = make_box(context_dir=context, name_hint="empty")
    with pytest.raises(EnvironmentStartError, match="neither sh nor bash"):
        box.start()
    assert not exists(box)


def test_stop_removes_the_container_and_its_volumes(
    make_box: MakeBox, make_context: MakeContext, engine: Engine
):
    context = make_context("FROM debian:bookworm-slim\nVOLUME /data\n")
    box = make_box(context_dir=context, name_hint="volume")
    box.start()
    (volume,) = [mount["Name"] for mount in inspect(box)["Mounts"]]
    box.stop()
    assert not exists(box)
    names = [each["Name"] for each in engine.api.volumes()["Volumes"] or []]
    assert volume not in names


def test_stop_copes_with_a_container_that_is_gone(make_box: MakeBox):
    box = make_box()
    box.start()
    box._engine.api.remove_container(box.name, force=True)
    box.stop()


def test_an_interrupt_while_starting_leaves_nothing(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch, engine: Engine
):
    box = make_box()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(engine.api, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            box.start()
    assert exists(box)
    box.stop()
    assert not exists(box)


def test_a_kept_container_survives_the_stop(make_box: MakeBox):
    box = make_box(name_hint="keep me")
    box.start()
    box.write("/mine", "1")
    kept = box.keep()
    assert box.keep() == kept
    box.stop()
    assert inspect(box)["State"]["Running"]
    assert kept.is_running
    assert kept.enter() == f"docker exec -it --workdir / {box.name} bash"
    assert kept.enter("me too").startswith("docker exec -it --user 'me too' --workdir")
    assert f"docker rm -f -v {box.name}" in str(kept)
    assert kept.run_id == box._engine.run_id
    assert KeptBox.parse(json.loads(json.dumps(kept.to_json()))) == kept
    with pytest.raises(EnvironmentLostError):
        box.exec(["true"])
    box._engine.api.remove_container(box.name, force=True)


@pytest.mark.parametrize("fails", ["rename", "network"])
def test_a_container_that_cannot_be_kept_is_an_ordinary_one_with_an_ordinary_network(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch, fails: str
):
    box = make_box()
    box.start()
    name, api, kept = box.name, box._engine.api, list[str]()

    def keep():
        kept.append("network")
        raise EnvironmentFault("no")

    monkeypatch.setattr(box._network, "keep", keep)
    if fails == "rename":  # somebody has a container of that name
        config = {"Image": "debian:bookworm-slim", "Labels": box._engine.labels()}
        api.create_from(config, kept_name(name))
    with pytest.raises(EnvironmentFault):
        box.keep()
    assert kept == ([] if fails == "rename" else ["network"])
    assert api.inspect_container(name)["State"]["Running"]
    assert box.exec("echo on").stdout == "on\n"
    box.stop()
    assert not exists(box)
    if fails == "rename":
        api.remove_container(kept_name(name), force=True)


@pytest.mark.parametrize(
    "hint", ["CapsTask", "v1.0-x", "my task", "tâche", "x" * 80, "", "-", "日本"]
)
def test_any_name_hint_serves(make_box: MakeBox, make_context: MakeContext, hint: str):
    box = make_box(name_hint=hint, context_dir=make_context("FROM debian:bookworm-slim\n"))
    box.start()
    assert len(box.name) <= 63


def test_specs_are_plain_values():
    spec = ContainerSpec("x", docker_image="y")
    assert hash(spec.name_hint) == hash("x")
    assert (spec.network, spec.gpus, spec.rebuild) == ((NetworkPolicy(),), 0, False)

"""Images: found by content, built once, and clear words where they cannot be had."""

import os
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.environment.docker import ContainerSpec, DockerEnvironment, Engine, buildx
from pytest_harbor.environment.docker.attach import Deadline
from pytest_harbor.environment.docker.build_log import BuildLog, line_of_step
from pytest_harbor.environment.docker.image import content_hash, ensure_image
from pytest_harbor.environment.docker.pull import PullProgress
from pytest_harbor.environment.image_work import ImageWork
from pytest_harbor.errors import (
    EnvironmentStartTimeoutError,
    ImageBuildError,
    ImageNotFoundError,
)

MakeBox = Callable[..., DockerEnvironment]
MakeContext = Callable[..., Path]

FOREVER = Deadline(None)


@pytest.fixture(params=["classic", "buildx"])
def builder(request: pytest.FixtureRequest, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each builder in turn; the second where the docker CLI has the plugin."""
    if request.param == "classic":
        monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    elif not buildx.is_usable(engine):
        pytest.skip("this machine's docker CLI has no buildx plugin")
    return str(request.param)


@pytest.fixture
def fresh() -> str:
    """A Dockerfile's first lines, with which no image exists yet."""
    return f"FROM debian:bookworm-slim\nLABEL pytest-harbor.test-only={os.urandom(6).hex()}\n"


def commands(engine: Engine) -> str:
    """What the engine's containers run, those of the classic builder as well."""
    return " ".join(each["Command"] for each in engine.api.containers(all=True))


def wait_until(condition: Callable[[], bool]) -> bool:
    """Give the engine the time it takes to tidy up."""
    for _ in range(100):
        if condition():
            return True
        time.sleep(0.1)
    return False


def logs(tmp_path: Path) -> str:
    return (tmp_path / "build.log").read_text()


# Content


def make_tree(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM x")
    (folder / "sub" / "file").write_text("1")
    (folder / "run").write_text("2")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("run")
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda f: (f / "sub" / "file").write_text("other"),
        lambda f: (f / "sub" / "file").rename(f / "sub" / "renamed"),
        lambda f: (f / "run").chmod(0o644),
        lambda f: (f / "new").write_text(""),
        lambda f: (f / "new").mkdir(),
        lambda f: ((f / "link").unlink(), (f / "link").symlink_to("sub")),
        lambda f: ((f / "link").unlink(), (f / "link").write_text("run")),
    ],
    ids=["bytes", "name", "exec-bit", "new-file", "new-folder", "link-target", "link-to-file"],
)
def test_any_change_of_the_context_changes_its_hash(
    tmp_path: Path, change: Callable[[Path], object]
):
    folder = make_tree(tmp_path / "a")
    before = content_hash(folder, "linux/x86_64")
    change(folder)
    assert content_hash(folder, "linux/x86_64") != before


def test_the_hash_is_of_content_alone(tmp_path: Path):
    one, two = make_tree(tmp_path / "a"), make_tree(tmp_path / "b")
    os.utime(two / "sub" / "file", (1, 1))
    (two / "sub" / "file").chmod(0o600)
    assert content_hash(one, "linux/x86_64") == content_hash(two, "linux/x86_64")
    assert content_hash(one, "linux/x86_64") != content_hash(one, "linux/aarch64")


def test_an_unreadable_file_is_named(tmp_path: Path):
    folder = make_tree(tmp_path / "a")
    os.mkfifo(folder / "pipe")  # no content, never opened
    content_hash(folder, "x")
    (folder / "locked").write_text("")
    (folder / "locked").chmod(0)
    if os.access(folder / "locked", os.R_OK):
        pytest.skip("root reads everything")
    with pytest.raises(ImageBuildError, match="locked"):
        content_hash(folder, "x")


# Builds


def test_an_image_is_built_once_and_again_when_its_context_changes(
    make_box: MakeBox, make_context: MakeContext, tmp_path: Path, fresh: str, builder: str
):
    context = make_context(fresh + "WORKDIR /app\nCOPY data /app/\nUSER nobody\n")
    (context / "data").write_text("1")

    def start(log: str) -> DockerEnvironment:
        box = make_box(context_dir=context, log_path=tmp_path / log)
        box.start()
        return box

    first, second = start("first.log"), start("second.log")
    assert first.image == second.image
    assert first.name != second.name
    assert "COPY data" in (tmp_path / "first.log").read_text()
    assert not (tmp_path / "second.log").exists()
    assert (first.workdir, first.default_user) == ("/app", "nobody")
    assert first.exec("id -un; pwd; cat data").stdout == "nobody\n/app\n1"
    (context / "data").write_text("2")
    third = start("third.log")
    assert third.image != first.image
    assert (tmp_path / "third.log").exists()
    assert third.exec(["cat", "data"]).stdout == "2"


def test_many_at_once_build_once(
    engine: Engine, make_context: MakeContext, tmp_path: Path, fresh: str
):
    context = make_context(fresh + "RUN sleep 1\n")

    def ensure(number: int) -> str:
        own = Engine.connect(engine.run_id)
        spec = ContainerSpec("many", context_dir=context, log_path=tmp_path / f"{number}.log")
        try:
            return ensure_image(own, spec, FOREVER).id
        finally:
            own.close()

    with ThreadPoolExecutor(4) as pool:
        ids = set(pool.map(ensure, range(4)))
    assert len(ids) == 1
    assert len(list(tmp_path.glob("*.log"))) == 1


def test_a_rebuild_happens_once_per_run(
    engine: Engine, make_context: MakeContext, tmp_path: Path, fresh: str
):
    context = make_context(fresh + "RUN head -c 8 /dev/urandom >/random\n")
    spec = ContainerSpec("again", context_dir=context)
    again = ContainerSpec("again", context_dir=context, rebuild=True)
    first = ensure_image(engine, spec, FOREVER)
    other = Engine.connect()
    try:
        rebuilt = ensure_image(other, again, FOREVER)
        assert rebuilt.id != first.id
        assert rebuilt.reference == first.reference
        assert ensure_image(other, again, FOREVER).id == rebuilt.id
    finally:
        other.close()


def test_a_rebuild_prefers_the_dockerfile_to_a_prebuilt_image(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    values = {"docker_image": "prebuilt", "context_dir": tmp_path}
    assert not ContainerSpec("x", **values).builds
    assert ContainerSpec("x", rebuild=True, **values).builds
    assert not ContainerSpec("x", rebuild=True, docker_image="prebuilt").builds


def test_a_failing_step_is_told_with_its_line_and_the_end_of_the_log(
    make_box: MakeBox, make_context: MakeContext, tmp_path: Path, fresh: str, builder: str
):
    context = make_context(fresh + "RUN echo good\n\n# why\nRUN echo some && \\\n    exit 7\n")
    box = make_box(context_dir=context, log_path=tmp_path / "build.log")
    with pytest.raises(ImageBuildError) as caught:
        box.start()
    message = str(caught.value)
    assert message.startswith(f"{context / 'Dockerfile'}:6: RUN echo some")
    assert "code: 7" in message
    assert "some" in logs(tmp_path)
    assert str(tmp_path / "build.log") in message


def test_a_dockerfile_that_makes_no_sense(make_box: MakeBox, make_context: MakeContext):
    with pytest.raises(ImageBuildError, match="NONSENSE"):
        make_box(context_dir=make_context("NONSENSE here\n")).start()


def test_a_build_that_takes_too_long_is_ended(
    make_box: MakeBox,
    make_context: MakeContext,
    fresh: str,
    builder: str,
    engine: Engine,
):
    context = make_context(fresh + "RUN echo waiting && sleep 8001\n")
    box = make_box(context_dir=context)
    with pytest.raises(EnvironmentStartTimeoutError) as caught:
        box.start(timeout_sec=2)
    message = str(caught.value)
    assert "build limit of 2 s" in message
    assert "RUN echo waiting && sleep 8001" in message
    assert "build_timeout_sec" in message
    assert wait_until(lambda: "8001" not in commands(engine))


def test_dockerignore_keeps_files_out_of_the_image(
    make_box: MakeBox, make_context: MakeContext, fresh: str, builder: str
):
    context = make_context(fresh + "COPY . /in/\n")
    (context / ".dockerignore").write_text("secret*\n")
    (context / "secret.txt").write_text("x")
    (context / "open.txt").write_text("x")
    box = make_box(context_dir=context)
    box.start()
    assert box.exec(["ls", "/in"]).stdout.split() == ["Dockerfile", "open.txt"]


def test_images_carry_the_labels(engine: Engine, make_context: MakeContext, fresh: str):
    image = ensure_image(engine, ContainerSpec("l", context_dir=make_context(fresh)), FOREVER)
    labels = engine.api.inspect_image(image.id)["Config"]["Labels"]
    assert labels["pytest-harbor"] == "1"
    assert labels["pytest-harbor.run"] == engine.run_id
    assert image.reference.endswith(labels["pytest-harbor.content"])


# Prebuilt images


def test_a_missing_image_is_named_with_the_engines_words(make_box: MakeBox):
    box = make_box(docker_image="localhost:1/no/such:tag")
    with pytest.raises(ImageNotFoundError) as caught:
        box.start(timeout_sec=60)
    message = str(caught.value)
    assert "localhost:1/no/such:tag is not on the engine and cannot be pulled" in message
    assert "docker login" in message
    assert "connection refused" in message


@pytest.mark.parametrize("name", ["UPPER case", "a b", "", "x:y:z"])
def test_a_name_that_is_none(make_box: MakeBox, name: str):
    with pytest.raises(ImageNotFoundError):
        make_box(docker_image=name).start(timeout_sec=60)


def test_neither_image_nor_dockerfile(engine: Engine):
    with pytest.raises(ImageNotFoundError, match="nothing-here names no image"):
        DockerEnvironment(ContainerSpec("nothing-here"), engine).start()


# The log


def test_the_log_is_whole_in_its_file_and_its_end_in_the_message(tmp_path: Path):
    with BuildLog.opened(tmp_path / "deep" / "build.log") as log:
        for number in range(100):
            log.write(f"line {number}\nSt")
            log.write("ep 1/2 : RUN x\n")
    text = (tmp_path / "deep" / "build.log").read_text()
    assert text.count("\n") == 200
    assert "line 99" in log.tail()
    assert "line 50" not in log.tail()
    assert "RUN x" in log.last_step()


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Step 3/5 : RUN exit 7", "3/5 RUN exit 7"),
        ("#6 [2/3] RUN exit 7", "2/3 RUN exit 7"),
        ("#12 [stage-1 10/11] COPY a b", "10/11 COPY a b"),
        ("#1 [internal] load build definition from Dockerfile", None),
        ("#6 0.123 Step by step", None),
    ],
)
def test_steps_are_told_as_they_begin(line: str, step: str | None):
    told: list[str] = []
    with BuildLog.opened(None, told.append) as log:
        log.write(line)
        assert told == []
        log.write("\n")
    assert told == ([] if step is None else [step])


def test_how_far_a_pull_is():
    pulled = PullProgress()
    told = [
        pulled.take({"status": status, "id": layer})
        for status, layer in (
            ("Pulling from library/debian", "bookworm"),
            ("Already exists", "a"),
            ("Pulling fs layer", "b"),
            ("Waiting", "c"),
            ("Downloading", "b"),
            ("Pull complete", "b"),
            ("Pull complete", "c"),
        )
    ]
    assert told == ["", *(f"{n} layers" for n in ("1/1", "1/2", "1/3", "1/3", "2/3", "3/3"))]


def test_a_build_tells_what_it_does_and_how_long_it_took(
    engine: Engine, fresh: str, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    told: list[str] = []
    work = ImageWork(told.append)
    spec = ContainerSpec("l", context_dir=make_context(fresh), image_work=work)
    image = ensure_image(engine, spec, FOREVER)
    assert told[:2] == ["waiting for l", "building l"]
    assert told[2].startswith("building l: 1/")
    assert told[-1] == ""
    assert [(one.kind, one.image) for one in work.times] == [("build", image.reference)]
    told.clear()
    ensure_image(engine, spec, FOREVER)
    assert told == []


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("RUN a", 2),
        ("RUN b &&     c", 3),
        ("RUN missing", None),
        ("", None),
        ("COPY x y", 6),
    ],
)
def test_the_line_of_a_step(tmp_path: Path, step: str, line: int | None):
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM x\nRUN a\nRUN b && \\\n  # remark\n    c\nCOPY x y\n")
    assert line_of_step(dockerfile, step) == line


@given(st.text(), st.text())
def test_the_line_of_a_step_copes_with_any_text(content: str, step: str):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "Dockerfile"
        file.write_text(content, encoding="utf-8", errors="replace")
        number = line_of_step(file, step)
    assert number is None or 1 <= number <= len(content.splitlines())


def test_locks_are_this_users_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from pytest_harbor.environment.docker.locks import lock_folder, locked

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lock_folder.cache_clear()
    try:
        with locked("a/b: c", FOREVER):
            assert stat.S_IMODE(lock_folder().stat().st_mode) == 0o700
            assert [p.name for p in lock_folder().iterdir()] == ["a-b-c.lock"]
            again = locked("a/b: c", Deadline(0.05))
            with pytest.raises(EnvironmentStartTimeoutError, match="another process"), again:
                pass
    finally:
        lock_folder.cache_clear()

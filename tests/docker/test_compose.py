"""Boxes of several containers, on a real engine."""

import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.environment.docker import ContainerSpec, Engine
from pytest_harbor.environment.docker.attach import Deadline, DeadlinePassedError
from pytest_harbor.environment.docker.compose import ComposeEnvironment, ComposeSource
from pytest_harbor.environment.docker.compose_cli import ComposeCli
from pytest_harbor.errors import (
    ComposeFileError,
    EnvironmentFault,
    EnvironmentLostError,
    EnvironmentStartError,
    EnvironmentStartTimeoutError,
    ImageBuildError,
    ImageNotFoundError,
)
from pytest_harbor.task.network import NetworkPolicy

OPEN, CLOSED = (NetworkPolicy(),), (NetworkPolicy("no-network"),)

BASE_IMAGE = "debian:bookworm-slim"
SIDECAR = f"""\
  db:
    image: {BASE_IMAGE}
    command: ["sh", "-c", "sleep infinity"]
    init: true
"""

MakeProject = Callable[..., ComposeEnvironment]


def project_of(box: ComposeEnvironment) -> str:
    return box.name.removesuffix("-main-1")


def left_of(engine: Engine, project: str) -> list[str]:
    """What is on the engine with the project's label."""
    filters: dict[str, Any] = {"label": f"com.docker.compose.project={project}"}
    api = engine.api
    things = [each["Names"][0] for each in api.containers(all=True, filters=filters)]
    things += [each["Name"] for each in api.networks(filters=filters)]
    return things + [each["Name"] for each in api.volumes(filters=filters)["Volumes"] or []]


@pytest.fixture
def make_project(engine: Engine, tmp_path: Path) -> Iterator[MakeProject]:
    """Writes a task's folder with a compose file; its box is removed at the test's end."""
    with ExitStack() as stack:

        def make(
            compose: str | bytes,
            *,
            files: dict[str, str] | None = None,
            dockerfile: str | None = None,
            services_dir: Path | None = None,
            allow_privileged: bool = False,
            **spec: object,
        ) -> ComposeEnvironment:
            folder = tmp_path / "task" / "environment"
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in (files or {}).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(textwrap.dedent(content))
            if dockerfile is not None:
                (folder / "Dockerfile").write_text(dockerfile)
            file = folder / "docker-compose.yaml"
            file.write_bytes(
                compose if isinstance(compose, bytes) else textwrap.dedent(compose).encode()
            )
            values: dict[str, object] = {
                "name_hint": "compose",
                "network": CLOSED,
                **spec,
            }
            if dockerfile is not None:
                values["context_dir"] = folder
            else:
                values.setdefault("docker_image", BASE_IMAGE)
            source = ComposeSource(
                file,
                folder,
                folder.parent,
                services_dir=services_dir,
                allow_privileged=allow_privileged,
            )
            box = ComposeEnvironment(ContainerSpec(**values), source, engine)  # type: ignore[arg-type]
            stack.callback(box.stop)
            return box

        yield make


# -- main alone -----------------------------------------------------------------------


def test_a_lone_main_with_only_a_working_folder(make_project: MakeProject) -> None:
    box = make_project("services:\n  main:\n    working_dir: /app\n")
    box.start(timeout_sec=120)
    assert box.workdir == "/app"
    assert box.exec("pwd").stdout == "/app\n"
    assert box.services == ()
    assert (
        box.exec("touch /logs/agent/a /logs/verifier/b /logs/artifacts/c", user="nobody").exit_code
        == 0
    )


def test_a_lone_main_with_only_a_network_mode(make_project: MakeProject) -> None:
    box = make_project("services:\n  main:\n    network_mode: none\n", network=OPEN)
    box.start(timeout_sec=120)
    assert box.exec("cat /proc/net/route").stdout.count("\n") == 1


ENTRYPOINT = rf"""
FROM {BASE_IMAGE}
RUN printf '#!/bin/sh\necho entered > /entered\nexec "$@"\n' > /enter && chmod +x /enter
WORKDIR /built
ENTRYPOINT ["/enter"]
"""


def test_main_is_built_from_the_folder_and_keeps_its_entrypoint(make_project: MakeProject) -> None:
    compose = "services:\n  main:\n    environment: {A: file}\n"
    box = make_project(compose, dockerfile=ENTRYPOINT)
    box.start(timeout_sec=300)
    assert box.read("/entered") == b"entered\n"
    assert (box.workdir, box.default_user) == ("/built", "root")
    assert box.exec("echo $A").stdout == "file\n"


def test_the_old_boilerplate_works_as_it_is(make_project: MakeProject) -> None:
    box = make_project(
        """\
        services:
          main:
            build:
              context: ${CONTEXT_DIR}
            image: ${MAIN_IMAGE_NAME}
            command: ["sh", "-c", "sleep infinity"]
            environment:
              - TEST_DIR=${TEST_DIR}
            volumes:
              - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}
              - ${HOST_AGENT_LOGS_PATH}:${ENV_AGENT_LOGS_PATH}
            network_mode: ${NETWORK_MODE:-bridge}
            deploy:
              resources:
                limits:
                  cpus: ${CPUS}
                  memory: ${MEMORY}
        """,
        dockerfile=f"FROM {BASE_IMAGE}\nWORKDIR /app\n",
        cpus=1,
        memory_mb=256,
        network=OPEN,
    )
    box.start(timeout_sec=300)
    assert box.exec("echo $TEST_DIR; cat /sys/fs/cgroup/memory.max").stdout.split() == [
        "/tests",
        str(256 * 1024**2),
    ] or box.exec("cat /sys/fs/cgroup/memory/memory.limit_in_bytes").stdout.split() == [
        str(256 * 1024**2)
    ]
    assert box.exec("echo 1 > /logs/verifier/reward.txt", user="nobody").exit_code == 0
    assert box.read("/logs/verifier/reward.txt") == b"1\n"


def test_the_environment_of_the_task_wins_over_the_file(make_project: MakeProject) -> None:
    box = make_project(
        """\
        services:
          main:
            environment: {A: file, B: file, C: "${FROM_TASK}", D: "a$$b"}
            env_file: [more.env]
        """,
        files={"more.env": "E=env file\n"},
        env={"A": "task $HOME ${X}", "FROM_TASK": "filled"},
    )
    box.start(timeout_sec=120)
    assert box.exec('echo "$A|$B|$C|$D|$E"').stdout == "task $HOME ${X}|file|filled|a$b|env file\n"


def test_nothing_of_this_machine_can_be_filled_in(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-value")
    box = make_project(
        "services:\n  main:\n    environment: {T: '${MY_TOKEN:-none}', U: '${MY_TOKEN}'}\n"
    )
    box.start(timeout_sec=120)
    assert box.exec('echo "$T|$U"').stdout == "none|\n"
    assert any("MY_TOKEN is not set" in note for note in box.notes)


# -- services -------------------------------------------------------------------------


def test_services_start_healthy_reach_each_other_and_share_volumes(
    make_project: MakeProject, engine: Engine, tmp_path: Path
) -> None:
    logs = tmp_path / "services"
    box = make_project(
        f"""\
        services:
          main:
            depends_on:
              db: {{condition: service_healthy}}
              seed: {{condition: service_completed_successfully}}
            volumes: ["shared:/shared"]
          db:
            image: {BASE_IMAGE}
            working_dir: /srv
            environment: {{ONLY: db}}
            command: ["bash", "-c", "echo db is up; sleep 1; touch /healthy; exec sleep infinity"]
            healthcheck: {{test: ["CMD", "test", "-e", "/healthy"], interval: 1s, retries: 20}}
            ports: ["8080:80"]
            container_name: fixed
          seed:
            image: {BASE_IMAGE}
            command: ["sh", "-c", "echo seeded > /shared/seed"]
            volumes: ["shared:/shared"]
        volumes:
          shared: {{}}
        """,
        services_dir=logs,
        env={"TASK": "yes"},
        workdir="/tmp",
    )
    box.start(timeout_sec=120)
    assert sorted(box.services) == ["db", "seed"]
    assert box.read("/shared/seed") == b"seeded\n"
    assert box.exec("getent hosts db").exit_code == 0
    db = box.service("db")
    assert db.exec('echo "$0 $PWD $ONLY $TASK"').stdout == "sh /srv db \n"
    db.write("/srv/out.txt", "from db")
    assert db.read("/srv/out.txt") == b"from db"
    assert any("container_name" in note for note in box.notes)
    assert any("not published" in note for note in box.notes)
    with pytest.raises(EnvironmentFault, match="no service 'nobody'"):
        box.service("nobody")
    project = project_of(box)
    box.stop()
    box.stop()
    assert left_of(engine, project) == []
    assert "db is up" in (logs / "db.log").read_text()


def test_main_stops_alone_and_keeps_its_files(make_project: MakeProject) -> None:
    box = make_project(f"services:\n  main: {{}}\n{SIDECAR}")
    box.start(timeout_sec=120)
    box.write("/root/kept.txt", "kept")
    box.stop_main()
    assert box.read("/root/kept.txt") == b"kept"
    assert box.service("db").exec("echo alive").stdout == "alive\n"
    with pytest.raises(EnvironmentLostError):
        box.exec("true")


def test_log_folders_that_services_mount_are_shared_with_main(make_project: MakeProject) -> None:
    box = make_project(
        f"""\
        services:
          main: {{}}
          writer:
            image: {BASE_IMAGE}
            user: nobody
            command: ["sh", "-c", "echo written > /var/out/side.txt; sleep infinity"]
            init: true
            volumes: ["${{HOST_ARTIFACTS_PATH}}:/var/out"]
        """
    )
    box.start(timeout_sec=120)
    assert (
        box.exec(
            "until [ -e /logs/artifacts/side.txt ]; do sleep 0.1; done", timeout_sec=20
        ).exit_code
        == 0
    )


def test_files_of_the_task_that_are_mounted_are_copied(make_project: MakeProject) -> None:
    box = make_project(
        f"""\
        services:
          main:
            volumes: ["./data:/data"]
          db:
            image: {BASE_IMAGE}
            command: ["sh", "-c", "cat /etc/my.conf; sleep infinity"]
            init: true
            volumes: ["./my.conf:/etc/my.conf:ro"]
        """,
        files={"my.conf": "setting", "data/rows.csv": "1,2"},
    )
    box.start(timeout_sec=120)
    box.exec("echo changed > /data/rows.csv")
    assert box.service("db").read("/etc/my.conf") == b"setting"
    assert (box._source.build_folder / "data/rows.csv").read_text() == "1,2"
    assert any("copy of the task's" in note for note in box.notes)


def test_build_context_above_the_folder_and_a_build_with_arguments(
    make_project: MakeProject, tmp_path: Path
) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "shared.txt").write_text("shared")
    box = make_project(
        """\
        services:
          main:
            build:
              context: ${CONTEXT_DIR}/..
              dockerfile: environment/Main.dockerfile
              args: {WORD: "money $$"}
            image: debian:bookworm-slim
        """,
        files={
            "Main.dockerfile": f"FROM {BASE_IMAGE}\nARG WORD\nCOPY shared.txt /\n"
            'RUN echo "$WORD" > /word\n'
        },
        dockerfile=f"FROM {BASE_IMAGE}\n",
    )
    box.start(timeout_sec=300)
    assert box.read("/shared.txt") == b"shared"
    assert box.read("/word") == b"money $\n"


def test_a_service_with_the_image_of_main(make_project: MakeProject) -> None:
    box = make_project(
        """\
        services:
          main:
            build: {context: "${CONTEXT_DIR}"}
            image: ${MAIN_IMAGE_NAME}
          second:
            image: ${MAIN_IMAGE_NAME}
            command: ["sleep", "infinity"]
            init: true
        """,
        dockerfile=f"FROM {BASE_IMAGE}\nRUN touch /own\n",
    )
    box.start(timeout_sec=300)
    assert box.service("second").exec("ls /own").exit_code == 0


# -- network --------------------------------------------------------------------------


TWO_NETWORKS = f"""\
services:
  main: {{}}
{SIDECAR}\
    networks: [default, back]
  far:
    image: {BASE_IMAGE}
    command: ["sleep", "infinity"]
    init: true
    networks: [back]
networks:
  back: {{}}
"""


def test_two_networks_part_services(make_project: MakeProject) -> None:
    box = make_project(TWO_NETWORKS, network=OPEN)
    box.start(timeout_sec=120)
    assert box.exec("getent hosts db").exit_code == 0
    assert box.exec("getent hosts far").exit_code != 0
    assert box.service("db").exec("getent hosts far").exit_code == 0


def test_without_network_services_reach_each_other_and_nothing_else(
    make_project: MakeProject, listener: Any
) -> None:
    """Nobody outside, not this machine by any of its addresses, and no name server."""
    box = make_project(TWO_NETWORKS)
    box.start(timeout_sec=120)
    probe = (
        "bridge=$(hostname -I | awk '{print $1}' | sed 's/[.][0-9]*$/.1/'); "
        f"for host in $bridge {listener.address} 192.0.2.7; do "
        f'timeout 3 bash -c "</dev/tcp/$host/{listener.port}" 2>/dev/null && echo reached $host; '
        "done; getent hosts example.com; true"
    )
    assert box.exec("getent hosts db").exit_code == 0
    assert box.exec(probe, timeout_sec=60).stdout == ""
    assert box.service("far").exec(["bash", "-c", probe], timeout_sec=60).stdout == ""
    assert listener.visits() == 0


# -- the calls of compose -------------------------------------------------------------


def alive_with(text: str) -> list[str]:
    """Command lines of living processes that hold ``text``."""
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if text in line]


def test_compose_is_ended_at_its_limit_with_all_that_it_started(
    engine: Engine, tmp_path: Path
) -> None:
    """Its parser unfolds nested aliases for minutes, and takes no notice of SIGTERM."""
    lines = ["services: {main: {image: x}}", "x-0: &x0 [a, a, a, a, a, a, a, a, a]"]
    for level in range(1, 8):
        aliases = ", ".join([f"*x{level - 1}"] * 9)
        lines.append(f"x-{level}: &x{level} [{aliases}]")
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text("\n".join(lines))
    cli = ComposeCli(engine, "bomb", {})
    with pytest.raises(DeadlinePassedError):
        cli.run(["config"], [bomb], tmp_path, Deadline(2.0))
    assert alive_with(str(bomb)) == []


# -- refusals and faults --------------------------------------------------------------


def test_unknown_image_names_its_service_and_leaves_nothing(
    make_project: MakeProject, engine: Engine
) -> None:
    box = make_project("services:\n  main: {}\n  cache:\n    image: nowhere.invalid/cache:1\n")
    with pytest.raises(ImageNotFoundError, match=r"service 'cache'.*nowhere\.invalid/cache:1"):
        box.start(timeout_sec=120)
    box.stop()
    assert left_of(engine, project_of(box)) == []


def test_broken_build_names_its_service(make_project: MakeProject) -> None:
    box = make_project(
        "services:\n  main: {}\n  api:\n    build: {context: ./api, args: {A: '1'}}\n",
        files={"api/Dockerfile": f"FROM {BASE_IMAGE}\nRUN echo words; exit 7\n"},
    )
    with pytest.raises(ImageBuildError, match=r"service 'api'(?s:.)*words"):
        box.start(timeout_sec=120)


def test_service_that_fails_says_its_last_words(make_project: MakeProject, engine: Engine) -> None:
    box = make_project(
        f"""\
        services:
          main:
            depends_on: {{seed: {{condition: service_completed_successfully}}}}
          seed:
            image: {BASE_IMAGE}
            command: ["sh", "-c", "echo no rows to load; exit 4"]
        """
    )
    with pytest.raises(
        EnvironmentStartError, match=r"service 'seed' ended: exit code 4(?s:.)*no rows"
    ):
        box.start(timeout_sec=120)
    box.stop()
    assert left_of(engine, project_of(box)) == []


def test_unhealthy_service_shows_its_check(make_project: MakeProject) -> None:
    check = '{test: ["CMD-SHELL", "echo not today; exit 1"], interval: 1s, retries: 1}'
    box = make_project(f"services:\n  main: {{}}\n{SIDECAR}    healthcheck: {check}\n")
    with pytest.raises(EnvironmentStartError, match=r"service 'db' is unhealthy(?s:.)*not today"):
        box.start(timeout_sec=120)


def test_start_ends_at_its_limit_and_names_what_it_waited_for(
    make_project: MakeProject, engine: Engine
) -> None:
    check = '{test: ["CMD", "false"], interval: 60s, start_period: 600s}'
    box = make_project(
        f"services:\n  main: {{depends_on: {{db: {{condition: service_healthy}}}}}}\n"
        f"{SIDECAR}    healthcheck: {check}\n"
    )
    with pytest.raises(EnvironmentStartTimeoutError, match=r"db \(starting\)"):
        box.start(timeout_sec=8)
    box.stop()
    assert left_of(engine, project_of(box)) == []


def test_refused_file_starts_nothing(make_project: MakeProject, engine: Engine) -> None:
    box = make_project("services:\n  main: {privileged: true}\n")
    with pytest.raises(ComposeFileError, match=r"'main': privileged(?s:.)*") as raised:
        box.start(timeout_sec=120)
    assert "--harbor-allow-privileged" in str(raised.value)
    assert left_of(engine, project_of(box)) == []


def test_allowed_rights_are_given(make_project: MakeProject) -> None:
    box = make_project(
        "services:\n  main: {cap_add: [NET_ADMIN]}\n",
        allow_privileged=True,
        network=OPEN,
    )
    box.start(timeout_sec=120)
    effective = int(box.exec("grep CapEff /proc/self/status").stdout.split()[1], 16)
    assert effective & (1 << 12)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("services: [unclosed\n", "not valid YAML", id="no-yaml"),
        pytest.param("just words\n", "compose refuses it", id="no-mapping"),
        pytest.param("services:\n  main: {wrong_key: 1}\n", "wrong_key", id="unknown-key"),
    ],
)
def test_a_file_that_compose_cannot_use_is_named(
    make_project: MakeProject, content: str, words: str
) -> None:
    box = make_project(content)
    with pytest.raises(ComposeFileError, match=words) as raised:
        box.start(timeout_sec=60)
    assert "docker-compose.yaml" in str(raised.value)


def test_kept_project_outlives_stop_and_sweeps(make_project: MakeProject, engine: Engine) -> None:
    from pytest_harbor.environment.docker import remove_run

    main = "main: {volumes: ['data:/v']}"
    box = make_project(f"services:\n  {main}\n{SIDECAR}volumes: {{data: {{}}}}\n")
    box.start(timeout_sec=120)
    project = project_of(box)
    text = str(box.keep())
    box.stop()
    remove_run(engine, engine.run_id)
    left = left_of(engine, project)
    remove_run(engine, engine.run_id, kept=True)
    assert len(left) == 4
    assert f"--project-name {project} down --volumes" in text
    assert left_of(engine, project) == []

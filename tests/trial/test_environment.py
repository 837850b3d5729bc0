"""The container as the task asked for it, seen from inside."""

import json

import pytest

pytestmark = pytest.mark.docker

REWARD_ALWAYS = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"


def see(command: str) -> str:
    """A test script that prints what a command says, and always gives the reward."""
    return f"#!/bin/bash\n{command}\necho 1 > /logs/verifier/reward.txt\n"


def test_users_workdir_and_variables(make_task, run_tasks, monkeypatch):
    monkeypatch.setenv("FROM_HOST", "host value")
    make_task(
        toml="""\
        =version = "1.0"
        [agent]
        user = "worker"
        [verifier]
        user = "grader"
        env = { PLACE = "verifier", FROM_HOST = "${FROM_HOST}", UNSET = "${NOT_SET:-fallback}" }
        [environment]
        workdir = "/custom"
        env = { PLACE = "environment", BASE = "b" }
        [solution]
        env = { PLACE = "solution" }
        """,
        dockerfile="""\
        FROM debian:bookworm-slim
        RUN useradd worker && useradd grader && mkdir /custom && chmod 777 /custom
        """,
        solve='#!/bin/bash\necho "$(whoami) $(pwd) $PLACE $BASE $FROM_HOST" > seen\n',
        test=see('cat seen; echo "$(whoami) $(pwd) $PLACE $BASE $FROM_HOST $UNSET"'),
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    assert (ran.folder() / "verifier" / "test-stdout.txt").read_text().splitlines() == [
        "worker /custom solution b ",
        "grader /custom verifier b host value fallback",
    ]


def test_cpu_and_memory_limits(make_task, run_tasks):
    make_task(
        toml="cpus = 0.5\nmemory_mb = 256\n",
        test=see(
            "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null;"
            "cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null"
        ),
    )
    ran = run_tasks("tasks", "--harbor-resource-multiplier=2")
    ran.run.assert_outcomes(passed=1)
    words = (ran.folder() / "verifier" / "test-stdout.txt").read_text().split()
    assert str(512 * 1024**2) in words
    assert "100000" in words


def test_entrypoint_is_kept(make_task, run_tasks):
    folder = make_task(
        dockerfile="""\
        FROM debian:bookworm-slim
        WORKDIR /app
        COPY entry.sh /entry.sh
        RUN chmod +x /entry.sh
        ENTRYPOINT ["/entry.sh"]
        """,
        test="#!/bin/bash\n[ -e /started ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n",
    )
    make_task.write(folder, "environment/entry.sh", '#!/bin/bash\ntouch /started\nexec "$@"\n')
    run_tasks("tasks").run.assert_outcomes(passed=1)


def test_entrypoint_that_ends_is_an_error_that_says_so(make_task, run_tasks):
    make_task(
        dockerfile="""\
        FROM debian:bookworm-slim
        ENTRYPOINT ["sh", "-c", "echo no licence found; exit 4"]
        """
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*no licence found*"])
    assert ran.one()["pytest_harbor"]["category"] == "environment"


def test_image_with_another_user_at_its_end(make_task, run_tasks):
    make_task(
        dockerfile="""\
        FROM debian:bookworm-slim
        RUN useradd app && mkdir /app && chown app /app
        WORKDIR /app
        USER app
        """,
        solve="#!/bin/bash\nwhoami > /app/out.txt; echo log > /logs/agent/own.txt\n",
        test="""\
        #!/bin/bash
        if [ "$(whoami) $(cat /app/out.txt)" = "app app" ]; then r=1; else r=0; fi
        echo $r > /logs/verifier/reward.txt
        """,
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    assert (ran.folder() / "agent" / "own.txt").read_text() == "log\n"


def test_image_with_nothing_but_busybox(make_task, run_tasks):
    make_task(
        dockerfile="""\
        FROM debian:bookworm-slim AS tools
        RUN apt-get update && apt-get install -y --no-install-recommends busybox-static
        FROM scratch
        COPY --from=tools /bin/busybox /bin/sh
        WORKDIR /app
        """,
        solve="#!/bin/sh\necho ok > /app/out.txt\n",
        test="#!/bin/sh\nread -r word < /app/out.txt\n"
        '[ "$word" = ok ] && echo 1 > /logs/verifier/reward.txt\n',
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)


@pytest.mark.parametrize("first_line", ["", "# a comment\n"])
def test_scripts_without_shebang_or_execute_bit(make_task, run_tasks, first_line):
    folder = make_task(
        solve=f"{first_line}[[ 1 == 1 ]] && echo ok > /app/out.txt\n",
        test=f"{first_line}[[ $(cat /app/out.txt) == ok ]]; "
        "echo $((1 - $?)) > /logs/verifier/reward.txt\n",
    )
    for script in ("solution/solve.sh", "tests/test.sh"):
        (folder / script).chmod(0o600)
    ran = run_tasks("tasks", "-W", "ignore")
    ran.run.assert_outcomes(passed=1)


def test_line_ends_of_another_system_are_named(make_task, run_tasks):
    make_task(test="#!/bin/bash\r\necho 1 > /logs/verifier/reward.txt\r\n")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.fnmatch_lines(["*test.sh*CRLF*"])


def test_no_network(make_task, run_tasks, listener):
    """Both spellings, in every phase (case 33); the public task shows that the probe works."""
    target = f"/dev/tcp/{listener.address}/{listener.port}"
    probe = f"(exec 3<>{target}) 2>/dev/null && echo open; ls /sys/class/net"
    lines = {
        "public": "",
        "new": 'network_mode = "no-network"\n',
        "old": "allow_internet = false\n",
    }
    for name, line in lines.items():
        make_task(name, toml=line, solve=f"#!/bin/bash\n{probe}\n", test=see(probe))
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=3)
    logs = ("agent/oracle.txt", "verifier/test-stdout.txt")
    for log in logs:
        assert "open" in (ran.folder("public") / log).read_text().split()
    for name in ("new", "old"):
        for log in logs:
            assert (ran.folder(name) / log).read_text().split() == ["lo"]
        assert set(ran.one(name)["pytest_harbor"]["network"].values()) == {"no-network"}
    assert listener.visits() == len(logs)


def test_prebuilt_image(make_task, run_tasks):
    make_task(toml='docker_image = "debian:bookworm-slim"\n', remove=("environment/Dockerfile",))
    folder = make_task.root / "hello"
    make_task.write(folder, "environment/data.txt", "shipped\n")
    make_task.write(
        folder, "solution/solve.sh", "#!/bin/bash\nmkdir /app; cp data.txt /app/out.txt"
    )
    make_task.write(
        folder,
        "tests/test.sh",
        "#!/bin/bash\ngrep -q shipped /app/out.txt; echo $((1 - $?)) > /logs/verifier/reward.txt",
    )
    run_tasks("tasks").run.assert_outcomes(passed=1)


def test_missing_image_is_an_error_that_names_it(make_task, run_tasks):
    make_task(
        toml='docker_image = "localhost:1/no-such-image:none"\n', remove=("environment/Dockerfile",)
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*localhost:1/no-such-image:none*"])


def test_health_check_is_awaited(make_task, run_tasks):
    make_task(
        toml="""\
        [environment.healthcheck]
        command = "test -e /ready"
        interval_sec = 0.2
        retries = 50
        """,
        dockerfile="""\
        FROM debian:bookworm-slim
        WORKDIR /app
        ENTRYPOINT ["bash", "-c", "(sleep 1; touch /ready) & exec \\"$@\\"", "--"]
        """,
        solve="#!/bin/bash\n[ -e /ready ] && echo ok > /app/out.txt\n",
    )
    run_tasks("tasks").run.assert_outcomes(passed=1)


def test_failed_health_check_is_an_error_with_its_output(make_task, run_tasks):
    make_task(
        toml="""\
        [environment.healthcheck]
        command = "echo not yet; exit 9"
        interval_sec = 0.1
        retries = 2
        """
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*failed 2 times in a row*exit status 9*", "*not yet*"])
    assert ran.one()["exception_info"]["exception_type"] == "HealthcheckError"


def test_hung_health_check_is_a_failed_one(make_task, run_tasks):
    make_task(
        toml="""\
        [environment.healthcheck]
        command = "[ -e /tried ] || { touch /tried; sleep 600; }"
        interval_sec = 0.1
        timeout_sec = 1
        """
    )
    run_tasks("tasks").run.assert_outcomes(passed=1)


def test_artifacts_come_home(make_task, run_tasks):
    folder = make_task(
        solve="""\
        #!/bin/bash
        echo ok > /app/out.txt
        mkdir -p /data/sub; echo a > /data/a.txt; echo b > /data/sub/b.lock
        echo report > /logs/artifacts/report.txt
        """
    )
    toml = (folder / "task.toml").read_text()
    entries = (
        '["out.txt", "/missing", {source = "/data", destination = "d", exclude = ["*.lock"]},'
        ' {source = "/data/a.txt", destination = "e.txt", exclude = ["*.lock"]}]'
    )
    (folder / "task.toml").write_text(f"artifacts = {entries}\n{toml}")
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    home = ran.folder() / "artifacts"
    assert (home / "app" / "out.txt").read_text() == "ok\n"
    assert (home / "d" / "a.txt").read_text() == "a\n"
    assert not (home / "d" / "sub" / "b.lock").exists()
    assert (home / "logs" / "artifacts" / "report.txt").read_text() == "report\n"
    rows = json.loads((home / "manifest.json").read_text())
    assert {row["source"]: row["status"] for row in rows} == {
        "/logs/artifacts": "ok",
        "out.txt": "ok",
        "/missing": "failed",
        "/data": "ok",
        "/data/a.txt": "ok",
    }
    left_out = {row["source"]: row["exclude"] for row in rows if row["exclude"]}
    assert left_out == {"/data": ["*.lock"]}  # in Harbor files have none

"""Whole trials of tasks with a compose file."""

import json

import pytest

BASE_IMAGE = "debian:bookworm-slim"
WITH_DB = f"""\
services:
  main:
    depends_on: {{db: {{condition: service_healthy}}}}
  db:
    image: {BASE_IMAGE}
    init: true
    environment: {{PASSWORD: "${{API_TOKEN:-}}"}}
    command: ["sh", "-c", "echo db says $$PASSWORD; touch /ready; sleep infinity"]
    healthcheck: {{test: ["CMD", "test", "-e", "/ready"], interval: 1s}}
"""


def left_on(engine, word="hello"):
    """Names on the engine that a trial of the task would have used."""
    names = [each["Names"][0] for each in engine.api.containers(all=True)]
    names += [each["Name"] for each in engine.api.networks()]
    names += [each["Name"] for each in engine.api.volumes()["Volumes"] or []]
    return [name for name in names if word in name]


def test_services_give_artifacts_and_logs_without_secrets(
    make_task, run_tasks, monkeypatch, engine
):
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-value")
    folder = make_task(
        "withservices",
        toml="""
        env = { API_TOKEN = "${MY_TOKEN}" }
        [[verifier.collect]]
        service = "db"
        command = "echo dumped > /dump.txt"
        """,
    )
    toml = folder / "task.toml"
    artifacts = 'artifacts = [{ source = "/dump.txt", service = "db" }]\n'
    toml.write_text(artifacts + toml.read_text())
    make_task.write(folder, "environment/docker-compose.yaml", WITH_DB)
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    trial = ran.folder("withservices")
    assert [file.read_text() for file in trial.rglob("dump.txt")] == ["dumped\n"]
    (log,) = trial.rglob("db.log")
    assert "db says" in log.read_text()
    assert "s3cr3t-value" not in log.read_text()
    assert left_on(engine, "withservices") == []


def test_the_jobs_lock_has_the_image_of_each_service_with_its_digest(
    make_task, run_tasks, engine, pytester
):
    folder = make_task("listed")
    services = f"""\
services:
  main: {{depends_on: [web, db]}}
  db: {{image: "{BASE_IMAGE}", command: [sleep, infinity], init: true}}
  web: {{build: {{context: web}}, command: [sleep, infinity], init: true}}
"""
    make_task.write(folder, "environment/docker-compose.yaml", services)
    make_task.write(folder, "environment/web/Dockerfile", f"FROM {BASE_IMAGE}\nENV WEB=listed\n")
    run_tasks("tasks").run.assert_outcomes(passed=1)
    (job,) = pytester.path.glob("jobs/*")
    path = job / "lock.json"
    lock = json.loads(path.read_text())
    (seen,) = lock["pytest_harbor"]["seen"].values()
    found = dict(one.rsplit("@", 1) for one in seen["images"])
    assert [*found][1] == BASE_IMAGE  # of db; main stands first, web last
    assert len(found) == 3
    for reference, digest in found.items():
        assert digest == engine.api.inspect_image(reference)["Id"]
    assert "WEB=listed" in engine.api.inspect_image([*found][2])["Config"]["Env"]

    locked = f"--harbor-locked={job}"
    again = run_tasks("tasks", locked).run
    again.assert_outcomes(passed=1)
    again.stdout.fnmatch_lines(["the same tasks, options, versions, agents and images"])
    seen["images"][1] = f"{BASE_IMAGE}@sha256:{'0' * 64}"
    path.write_text(json.dumps(lock))
    other = run_tasks("tasks", locked).run
    other.stdout.fnmatch_lines(
        [f"tasks/listed/task.toml::oracle: images were *{BASE_IMAGE}@sha256:0000* are *"]
    )


@pytest.mark.long
def test_a_verifier_of_its_own_may_have_services(make_task, run_tasks, engine):
    folder = make_task(
        "judged",
        toml="[verifier.environment]\nbuild_timeout_sec = 200\n",
        test="""\
        #!/bin/bash
        getent hosts judge && getent hosts db || r=0
        grep -q ok /app/out.txt && getent hosts judge && r=1
        echo "${r:-0}" > /logs/verifier/reward.txt
        """,
    )
    toml = folder / "task.toml"
    toml.write_text('artifacts = ["/app/out.txt"]\n' + toml.read_text())
    make_task.write(folder, "environment/docker-compose.yaml", WITH_DB)
    make_task.write(
        folder, "tests/Dockerfile", f"FROM {BASE_IMAGE}\nCOPY test.sh /tests/\nRUN mkdir /app\n"
    )
    make_task.write(
        folder,
        "tests/docker-compose.yaml",
        f"services: {{main: {{}}, judge: {{image: '{BASE_IMAGE}', command: [sleep, infinity]}}}}\n",
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1)
    assert left_on(engine, "judged") == []


@pytest.mark.parametrize("name", ["docker-compose.yml", "compose.yaml"])
@pytest.mark.long
def test_a_file_under_another_name_is_used_with_a_warning(make_task, run_tasks, name):
    folder = make_task(test='#!/bin/bash\necho "${FROM_COMPOSE:-0}" > /logs/verifier/reward.txt\n')
    make_task.write(
        folder, f"environment/{name}", "services: {main: {environment: {FROM_COMPOSE: '1'}}}\n"
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(passed=1, warnings=1)
    assert "Harbor reads only the name docker-compose.yaml" in ran.text


def test_rights_over_the_host_are_an_error_unless_they_are_allowed(make_task, run_tasks):
    folder = make_task()
    make_task.write(
        folder, "environment/docker-compose.yaml", "services: {main: {cap_add: [SYS_PTRACE]}}\n"
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*'main': cap_add: *SYS_PTRACE*"])
    assert "--harbor-allow-privileged" in ran.text
    run_tasks("tasks", "--harbor-allow-privileged").run.assert_outcomes(passed=1)


def test_a_start_that_fails_half_way_names_the_service_and_leaves_nothing(
    make_task, run_tasks, engine
):
    folder = make_task("halfway")
    make_task.write(
        folder,
        "environment/docker-compose.yaml",
        "services: {main: {}, cache: {image: 'nowhere.invalid/cache:1'}}\n",
    )
    ran = run_tasks("tasks")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*service 'cache'*"])
    assert left_on(engine, "halfway") == []

"""A job's verifiers once more, over what its trials left."""

import json
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from docker.errors import NotFound

from pytest_harbor.__main__ import main

pytestmark = pytest.mark.docker

TOML = "=artifacts = ['/app/out.txt']\n[agent]\n[verifier]\nenvironment_mode = 'separate'\n"
# It wants another word than the solution writes.
WRONG = """\
#!/bin/bash
[ "$(cat /app/out.txt 2>/dev/null)" = fine ]
echo $((1 - $?)) > /logs/verifier/reward.txt
"""
IMAGE = "FROM debian:bookworm-slim\nRUN mkdir /tests\nCOPY test.sh /tests/test.sh\n"


def jobs(path: Path) -> list[Path]:
    return sorted((path / "jobs").iterdir(), key=lambda job: job.stat().st_mtime)


def results(job: Path) -> dict[str, Any]:
    found = [json.loads(file.read_text()) for file in job.glob("*/result.json")]
    return {
        f"{Path(one['task_id']['path']).name} {one['agent_info']['name']}": one for one in found
    }


def test_fixed_tests_are_run_over_what_the_agents_left(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester
) -> None:
    folder = make_task(toml=TOML, test=WRONG)
    make_task.write(folder, "tests/Dockerfile", IMAGE)
    make_task("shared")
    first = run_tasks("tasks", "--harbor-agent=oracle", "--harbor-agent=nop")
    first.run.assert_outcomes(passed=1, failed=3)
    (old,) = jobs(pytester.path)
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}

    make_task.write(folder, "tests/test.sh", WRONG.replace("fine", "ok"))
    again = run_tasks("tasks", f"--harbor-regrade={old}", "-rs")
    again.run.assert_outcomes(passed=1, failed=1, skipped=2)
    again.run.stdout.fnmatch_lines(
        [
            f"*harbor: regraded {old.name}*",
            "2 of 4 trials graded again: 1 with another verdict, 2 not*",
            "hello oracle: failed with 0* -> passed with 1*",
        ],
    )
    again.run.stdout.fnmatch_lines(["SKIPPED*its verifier shares the agent's container*"])
    _, new = jobs(pytester.path)
    verdict = results(new)["hello oracle"]
    assert verdict["verifier_result"] == {"rewards": {"reward": 1.0}}
    earlier = verdict["pytest_harbor"]["regraded"]
    assert (earlier["job"], earlier["passed"], earlier["rewards"]) == (
        old.name,
        False,
        {"reward": 0.0},
    )
    assert verdict["agent_execution"] == results(old)["hello oracle"]["agent_execution"]
    kept = new / verdict["trial_name"] / "artifacts/app/out.txt"
    assert kept.read_text() == "ok\n"
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


OWNED = """\
#!/bin/bash
mkdir -p /app/model/sub && cd /app/model
echo x > tool && ln tool twin && ln -s tool link && echo y > sub/file
chmod 700 sub && chmod 4751 tool && chmod 400 sub/file && touch -d @1700000000 sub/file
chown -R 1500:1501 . && chown -h 1502 link
"""
# Set-id bits do not leave the agent's container; all else is as it was.
RULES = """\
#!/bin/bash
cd /app/model && found=$(stat -c '%n %a %u %g %h %F' . tool twin link sub sub/file)
found+=$(readlink link; stat -c %Y sub/file)
wanted='. 755 1500 1501 3 directory
tool 751 1500 1501 2 regular file
twin 751 1500 1501 2 regular file
link 777 1502 1501 1 symbolic link
sub 700 1500 1501 2 directory
sub/file 400 1500 1501 1 regular filetool
1700000000'
echo "$found"
[ "$found" = "$wanted" ]
echo $((1 - $?)) > /logs/verifier/reward.txt
"""


def test_a_verifier_has_artifacts_with_the_owners_that_they_had(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester
) -> None:
    toml = TOML.replace("/app/out.txt", "/app/model")
    folder = make_task(toml=toml, test=RULES, solve=OWNED)
    make_task.write(folder, "tests/Dockerfile", IMAGE)
    run_tasks("tasks").run.assert_outcomes(passed=1)
    # A regraded job is graded again like the first.
    for _ in range(2):
        job = jobs(pytester.path)[-1]
        again = run_tasks("tasks", f"--harbor-regrade={job}")
        again.run.assert_outcomes(passed=1)
        again.run.stdout.fnmatch_lines(["1 of 1 trials graded again: 0 with another verdict*"])
        assert "did not record" not in again.text
    job = jobs(pytester.path)[-1]
    assert results(job)["hello oracle"]["pytest_harbor"]["regraded"]["owners_recorded"] is True

    # A job from before owners were recorded says that they are unknown.
    (record,) = job.glob("*/artifacts.json")
    whole = record.read_text()
    record.unlink()
    old = run_tasks("tasks", f"--harbor-regrade={job}")
    old.run.assert_outcomes(failed=1)
    old.run.stdout.fnmatch_lines(["1 of them with artifacts whose owners *did not record*"])
    own = results(jobs(pytester.path)[-1])["hello oracle"]["pytest_harbor"]
    assert own["regraded"]["owners_recorded"] is False
    assert any("/app/model were not recorded" in one for one in own["findings"])

    # A record that cannot be used is no reason to guess.
    record.write_text(whole.replace("1501", "-1"))
    broken = run_tasks("tasks", f"--harbor-regrade={job}", "-rs")
    broken.run.assert_outcomes(skipped=1)
    broken.run.stdout.fnmatch_lines(["SKIPPED*artifacts.json*gid*"])


@pytest.mark.long
def test_a_ready_image_is_not_blamed_for_what_the_agent_left(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester
) -> None:
    ready = "[environment]\ndocker_image = 'debian:bookworm-slim'\nworkdir = '/app'\n"
    # The solution lies in the saved files: its place is as empty in the image as it was.
    folder = make_task(toml=f"=version = '1.0'\n{ready}", remove=("environment",), test=WRONG)
    run_tasks("tasks/hello", "--harbor-save-files").run.assert_outcomes(failed=1)
    (old,) = jobs(pytester.path)
    make_task.write(folder, "tests/test.sh", WRONG.replace("fine", "ok"))
    fails = "--harbor-on-tamper=fail"
    again = run_tasks("tasks/hello", f"--harbor-regrade={old}", fails, "--harbor-keep=all")
    again.run.assert_outcomes(passed=1)
    again.run.stdout.fnmatch_lines(["kept: * (the agent's)", "enter: *", "verify: *", "remove: *"])
    (kept,) = [line.split()[1] for line in again.text.splitlines() if line.startswith("kept: ")]
    assert again.text.count("environment is not kept") == 0
    found = subprocess.run(["docker", "exec", kept, "cat", "/app/out.txt"], capture_output=True)
    assert found.stdout == b"ok\n"
    new = jobs(pytester.path)[-1]
    assert not (new / ".running").exists()
    main(["remove", str(new)])

    # Saved files that were changed since are told of, and are no verdict.
    (archive,) = old.glob("*/saved/files.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-1])
    broken = run_tasks("tasks/hello", f"--harbor-regrade={old}", "-rs")
    broken.run.stdout.fnmatch_lines(["0 of 1 trials graded again: 0 with another verdict, 1 not*"])
    broken.run.stdout.fnmatch_lines(["SKIPPED*files were changed since*"])


BUILDER = """\
from pytest_harbor import Agent
from pytest_harbor.environment.base import ImageLayer


class Builder(Agent):
    name = "builder"

    def layers(self, timeout_sec):
        return (ImageLayer("regrade-layer", "echo ok > /word", {key!r}, "", timeout_sec),)

    def run(self, instruction, environment, context):
        environment.exec("cp /word /app/out.txt")
"""


@pytest.mark.parametrize("compose", ["", "services: {main: {environment: {A: b}}}\n"])
@pytest.mark.long
def test_an_image_that_is_gone_is_built_again_with_what_was_installed(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester, engine: Any, compose: str
) -> None:
    key = uuid.uuid4().hex
    pytester.makepyfile(regradebuilder=BUILDER.format(key=key))
    folder = make_task(test=WRONG, dockerfile=f"FROM debian:bookworm-slim\nWORKDIR /app\n# {key}\n")
    if compose:
        make_task.write(folder, "environment/docker-compose.yaml", compose)
    run_tasks("--harbor-agent=regradebuilder:Builder", "--harbor-save-files").run.assert_outcomes(
        failed=1
    )
    (old,) = jobs(pytester.path)
    note = json.loads(next(old.glob("*/saved/files.json")).read_text())
    repository, _, tag = note["image"].partition(":")
    try:
        # Built again it has another id, as after days, and so has what is installed on it.
        (made,) = [one for one in engine.api.images() if note["image"] in (one["RepoTags"] or ())]
        assert made["Id"] == note["image_id"]
        box = engine.api.create_container(made["Id"], "true")["Id"]
        engine.api.commit(box, repository=repository, tag=tag, changes=f"LABEL again={key}")
        engine.api.remove_container(box)
        make_task.write(folder, "tests/test.sh", WRONG.replace("fine", "ok"))
        run_tasks("tasks", f"--harbor-regrade={old}").run.assert_outcomes(passed=1)
    finally:
        for name in (note["image"], "pytest-harbor/regrade-layer"):
            for one in engine.api.images(name=name):
                engine.api.remove_image(one["Id"], force=True)
        with suppress(NotFound):  # it went with those that were made of it
            engine.api.remove_image(note["image_id"], force=True)


@pytest.mark.long
def test_files_are_not_put_over_an_image_of_the_same_name_that_is_another(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester, engine: Any
) -> None:
    name = f"regrade-{uuid.uuid4().hex}"
    folder = make_task(test=WRONG)
    main = f"{{build: !reset null, image: '{name}:1', command: [sleep, '99']}}"
    make_task.write(folder, "environment/docker-compose.yaml", f"services: {{main: {main}}}")
    try:
        engine.api.tag("debian:bookworm-slim", name, "1")
        run_tasks("tasks", "--harbor-save-files").run.assert_outcomes(failed=1)
        (old,) = jobs(pytester.path)
        box = engine.api.create_container("debian:bookworm-slim", "true")["Id"]
        engine.api.commit(box, repository=name, tag="1", changes="LABEL other=1")
        engine.api.remove_container(box)
        again = run_tasks("tasks", f"--harbor-regrade={old}", "-rs")
        again.run.stdout.fnmatch_lines([f"SKIPPED*saved over the image {name}:1*"])
    finally:
        engine.api.remove_image(f"{name}:1", force=True)


STEPS = """\
[[steps]]
name = 'one'
[[steps]]
name = 'two'
"""


def test_a_shared_verifier_is_run_over_what_was_saved_step_by_step(
    make_task: Any, run_tasks: Any, pytester: pytest.Pytester
) -> None:
    folder = make_task(toml=STEPS, remove=("instruction.md", "solution", "tests"))
    test = "#!/bin/bash\n[ $(</app/out) = {} ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n"
    # The verifier of a step finds its own step's state, and the image's programs.
    planted = "printf '#!/bin/sh\\necho two' > /usr/bin/cat; rm /etc/motd"
    for name, work in (("one", planted), ("two", "rm /app/out")):
        make_task.write(folder, f"steps/{name}/instruction.md", "Do.\n")
        solve = f"#!/bin/bash\n{work}\necho {name} > /app/out\n"
        make_task.write(folder, f"steps/{name}/solution/solve.sh", solve)
        make_task.write(folder, f"steps/{name}/tests/test.sh", test.format("broken"))
    make_task("unsaved", toml="[metadata]\nneeds_services = true\n")
    run_tasks("tasks", "--harbor-save-files=all").run.assert_outcomes(passed=1, failed=3)
    (old,) = jobs(pytester.path)

    for name in ("one", "two"):
        mended = test.format(name) + "[ ! -e /etc/motd ] && cat /app/out | grep -qx " + name
        mended += " || echo 0 > /logs/verifier/reward.txt\n"
        make_task.write(folder, f"steps/{name}/tests/test.sh", mended)
    again = run_tasks("tasks", f"--harbor-regrade={old}", "-rs")
    again.run.stdout.fnmatch_lines(["SKIPPED*what the agent leaves running*"])
    _, new = jobs(pytester.path)
    result = results(new)["hello oracle"]
    assert result["pytest_harbor"]["regraded"]["passed"] is False
    for step in result["step_results"]:
        assert step["verifier_result"] == {"rewards": {"reward": 1.0}}
        report = step["pytest_harbor"]["integrity"]
        assert (report["grading"], report["restored"]) == ("isolated", ["/usr/bin/cat"])
        assert [one["remedied"] for one in report["findings"] if one["code"] == "replaced-program"]

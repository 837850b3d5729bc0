"""Every code: a task that has it, and one that nearly has."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from pytest_harbor.check.registry import CHECKS, TRIAL_CHECKS
from pytest_harbor.check.rules import HouseRules

Files = dict[str, str | bytes | None]

DOCKERFILE = "environment/Dockerfile"
BASE = "FROM debian:bookworm-slim\nWORKDIR /app\n"
TEST = "tests/test.sh"
SOLVE = "solution/solve.sh"
REWARD = "/logs/verifier/reward.txt"
LONG = "print('the very answer that only the tests may know', 42 * 7)\n" * 3
KEY = "ghp_" + "9aK2xQ7mZ4vT8bR1nW6cY3pL5dJ0fH2gS7eU"
SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
LIMITS = "[agent]\ntimeout_sec = 60\n"


class Row(NamedTuple):
    code: str
    bad: Files
    good: Files
    rules: Mapping[str, Any] = MappingProxyType({})


def test_script(body: str) -> str:
    return f"#!/bin/bash\n{body}"


test_script.__test__ = False  # type: ignore[attr-defined]

ROWS = [
    Row("invalid-toml", {"task.toml": "a = \n"}, {"task.toml": LIMITS}),
    Row("invalid-field", {"task.toml": "[agent]\ntimeout_sec = 'x'\n"}, {"task.toml": LIMITS}),
    Row("unknown-field", {"task.toml": LIMITS + "time = 1\n"}, {"task.toml": LIMITS}),
    Row(
        "swallowed-field",
        {"task.toml": LIMITS + 'artifacts = ["/app/x"]\n'},
        {"task.toml": 'artifacts = ["/app/x"]\n' + LIMITS},
    ),
    Row("doubtful-field", {"task.toml": 'version = "7"\n' + LIMITS}, {"task.toml": LIMITS}),
    Row("missing-file", {TEST: None}, {}),
    Row("empty-file", {"instruction.md": "\n"}, {"instruction.md": "Do it.\n"}),
    Row("unreadable-file", {"instruction.md": b"\xff\xfe\x00"}, {}),
    Row(
        "lost-heading",
        {"instruction.md": "# The canary in the mine\n\nDo it.\n"},
        {"instruction.md": "# The bird\n\nFree the canary.\n"},
    ),
    Row("ignore-file", {"environment/.harborignore": "x\n"}, {"tests/.harborignore": "x\n"}),
    Row(
        "script-crlf",
        {"environment/run.sh": "#!/bin/sh\r\n"},
        {"environment/run.sh": "#!/bin/sh\n"},
    ),
    Row("script-shebang", {SOLVE: "echo ok > /app/out.txt\n"}, {}),
    Row("compose-name", {"environment/compose.yml": "services: {main: {}}\n"}, {}),
    Row("no-solution", {SOLVE: None}, {}),
    Row("large-file", {"environment/data": "x" * 2000}, {}, {"file_mb": 0.0015}),
    Row("large-task", {"environment/data": "x" * 9000}, {}, {"task_mb": 0.005}),
    Row("litter", {"tests/__pycache__/a.pyc": "x"}, {"tests/cache/a.py": "x"}),
    Row("awkward-file-name", {"tests/a .css ": "x"}, {"tests/a b.css": "x"}),
    Row(
        "open-background",
        {SOLVE: "#!/bin/bash\npython3 /app/server.py &\n"},
        {SOLVE: "#!/bin/bash\npython3 /app/server.py > /tmp/log 2>&1 &\n"},
    ),
    Row(
        "pkill-by-text",
        {SOLVE: "#!/bin/bash\npkill -f server\n"},
        {SOLVE: "#!/bin/bash\npkill -x server\n"},
    ),
    Row(
        "machine-size",
        {TEST: test_script(f"make -j$(nproc)\necho 1 > {REWARD}\n")},
        {TEST: test_script(f"make -j2\necho 1 > {REWARD}\n")},
    ),
    Row("unpinned-image", {DOCKERFILE: "FROM python\n"}, {DOCKERFILE: "FROM python:3.12\n"}),
    Row("unpinned-image", {DOCKERFILE: "FROM a:latest\n"}, {DOCKERFILE: "FROM scratch\n"}),
    Row(
        "unpinned-image",
        {"task.toml": LIMITS + '[environment]\ndocker_image = "a/b"\n'},
        {"task.toml": LIMITS + '[environment]\ndocker_image = "a:5000/b:1"\n'},
    ),
    Row(
        "unpinned-image",
        {DOCKERFILE: "FROM a:1\n"},
        {DOCKERFILE: f"FROM a:1@sha256:{'0' * 64} AS b\nFROM b\n"},
        {"digests": True},
    ),
    Row(
        "fixed-platform",
        {DOCKERFILE: "FROM --platform=linux/amd64 a:1\n"},
        {DOCKERFILE: "FROM --platform=$BUILDPLATFORM a:1\n"},
    ),
    Row("base-image", {DOCKERFILE: "FROM a:1\n"}, {}, {"base_images": ("debian:*",)}),
    Row(
        "missing-source",
        {DOCKERFILE: BASE + "COPY data.csv /app/\n"},
        {DOCKERFILE: BASE + "COPY data.csv /app/\n", "environment/data.csv": "1\n"},
    ),
    Row(
        "missing-source",
        {DOCKERFILE: BASE + 'COPY ["a b.txt", "/app/"]\n'},
        {DOCKERFILE: BASE + "COPY --from=x /y /z\nCOPY <<EOF /app/x\nhello\nEOF\n"},
    ),
    Row(
        "pinned-apt",
        {DOCKERFILE: BASE + "RUN apt-get update && apt-get install -y curl=7.88.1-10\n"},
        {DOCKERFILE: BASE + "RUN apt-get update && apt-get install -y curl\n"},
    ),
    Row(
        "apt-without-update",
        {DOCKERFILE: BASE + "RUN apt-get install -y curl\n"},
        {DOCKERFILE: BASE + "RUN apt-get update\nRUN apt-get install -y curl\n"},
    ),
    Row(
        "no-workdir",
        {
            DOCKERFILE: "FROM ubuntu:24.04\n",
            TEST: test_script('[ "$PWD" = "/" ] && exit 1\necho 1 > ' + REWARD),
        },
        {TEST: test_script('[ "$PWD" = "/" ] && exit 1\necho 1 > ' + REWARD)},
    ),
    Row(
        "unpinned-package",
        {DOCKERFILE: BASE + "RUN true && \\\n    pip install --no-cache-dir numpy\n"},
        {DOCKERFILE: BASE + "RUN pip install numpy==2.0 -r req.txt . 'x[a]==1' ./y.whl\n"},
    ),
    Row(
        "unpinned-package",
        {TEST: test_script(f"uvx --with pytest pytest /tests\necho 1 > {REWARD}\n")},
        {TEST: test_script(f"uvx -p 3.13 --with pytest==8.4.1 pytest /tests\necho 1 > {REWARD}\n")},
    ),
    Row(
        "unpinned-package",
        {DOCKERFILE: BASE + "RUN npm install -g typescript\n"},
        {DOCKERFILE: BASE + "RUN npm install -g typescript@5.4.0 && npm install\n"},
    ),
    Row(
        "unpinned-source",
        {DOCKERFILE: BASE + "RUN git clone https://example.com/a.git\n"},
        {DOCKERFILE: BASE + "RUN git clone https://example.com/a.git && git checkout 1a2b\n"},
    ),
    Row("tests-in-image", {"environment/test_x.py": LONG, "tests/test_x.py": LONG}, {}),
    Row(
        "tests-in-image",
        {DOCKERFILE: BASE + "COPY test.sh /app/\n", "environment/test.sh": "x"},
        {DOCKERFILE: BASE + "COPY tests /app/tests\n", "environment/tests/a.py": "x"},
    ),
    Row("solution-in-image", {"environment/fix.py": LONG, "solution/fix.py": LONG}, {}),
    Row(
        "solution-in-instruction",
        {"solution/fix.py": LONG, "instruction.md": f"Do it:\n{LONG}"},
        {"solution/fix.py": LONG, "instruction.md": "Print the very answer.\n"},
    ),
    Row(
        "path-not-in-image",
        {"instruction.md": "Read `/app/data/inputs.csv`.\n"},
        {"instruction.md": "Read `/app/data/inputs.csv`.\n", "environment/inputs.csv": "1\n"},
    ),
    Row(
        "relative-path",
        {"instruction.md": "Write `results/out.txt`.\n"},
        {"instruction.md": "Write `/app/results/out.txt` (`results/out.txt`).\n"},
    ),
    Row(
        "undocumented-output",
        {"tests/test_x.py": 'open("/app/hidden.json")\n', "solution/a.py": "hidden.json\n"},
        {
            "tests/test_x.py": 'open("/app/hidden.json")\n',
            "solution/a.py": "hidden.json\n",
            "instruction.md": "Write hidden.json into /app.\n",
        },
    ),
    Row(
        "instruction-end",
        {"instruction.md": "Do it. You have 9 seconds.\n"},
        {"instruction.md": "Do it. You have 60 seconds.\n"},
        {"instruction_end": "You have {timeout} seconds."},
    ),
    Row("no-reward", {TEST: test_script("exit 0\n")}, {}),
    Row(
        "reward-not-always",
        {TEST: test_script(f"if pytest; then echo 1 > {REWARD}; fi\n")},
        {TEST: test_script(f"if pytest; then echo 1 > {REWARD}; else echo 0 > {REWARD}; fi\n")},
    ),
    Row(
        "verifier-download",
        {TEST: test_script(f"curl -LsSf https://example.com/i.sh | sh\necho 1 > {REWARD}\n")},
        {TEST: test_script(f"curl -s http://localhost:8000/x\necho 1 > {REWARD}\n")},
    ),
    Row(
        "verifier-without-network",
        {
            "task.toml": LIMITS + '[environment]\nnetwork_mode = "no-network"\n',
            TEST: test_script(f"pip install pytest==8.0\necho 1 > {REWARD}\n"),
        },
        {TEST: test_script(f"pip install pytest==8.0\necho 1 > {REWARD}\n")},
    ),
    Row(
        "tests-not-in-verifier",
        {"task.toml": SEPARATE + LIMITS, "tests/Dockerfile": "FROM debian:12\n"},
        {"task.toml": SEPARATE + LIMITS, "tests/Dockerfile": "FROM debian:12\nCOPY . /tests/\n"},
    ),
    Row(
        "artifact-parent",
        {
            "task.toml": 'artifacts = ["/app/out/x"]\n' + SEPARATE + LIMITS,
            "tests/Dockerfile": "FROM debian:12\nCOPY . /tests/\n",
        },
        {
            "task.toml": 'artifacts = ["/app/out/x"]\n' + SEPARATE + LIMITS,
            "tests/Dockerfile": "FROM debian:12\nCOPY . /tests/\nRUN mkdir -p /app/out\n",
        },
        {"separate": True},
    ),
    Row("shared-verifier", {}, {"task.toml": SEPARATE + LIMITS}, {"separate": True}),
    Row("timeout-range", {"task.toml": "[agent]\ntimeout_sec = 1\n"}, {}),
    Row("timeout-range", {"task.toml": LIMITS + "[verifier]\ntimeout_sec = 99999\n"}, {}),
    Row("no-agent-timeout", {"task.toml": ""}, {}),
    Row(
        "gpu-type",
        {"task.toml": LIMITS + '[environment]\ngpu_types = ["X9"]\n'},
        {"task.toml": LIMITS + '[environment]\ngpu_types = ["H100"]\n'},
        {"gpu_types": ("H100",)},
    ),
    Row("network-mode", {}, {}, {"network": ("no-network",)}),
    Row("invalid-compose", {"environment/docker-compose.yaml": "a: [\n"}, {}),
    Row(
        "privileged",
        {"environment/docker-compose.yaml": "services:\n  main:\n    privileged: true\n"},
        {
            "environment/docker-compose.yaml": "services:\n  main:\n"
            "    security_opt: [no-new-privileges]\n    network_mode: none\n"
        },
    ),
    Row(
        "host-mount",
        {"environment/docker-compose.yaml": "services:\n  m:\n    volumes: ['/var/run/x:/x']\n"},
        {
            "environment/docker-compose.yaml": "services:\n  m:\n"
            "    volumes: ['data:/x', './a:/b', '${HOST_VERIFIER_LOGS_PATH}:/logs/verifier']\n"
        },
    ),
    Row("secret", {"environment/.env": f"T={KEY}\n"}, {"environment/.env": f"T=ghp_{'x' * 36}\n"}),
    Row(
        "private-key",
        {"environment/id": f"-----BEGIN PRIVATE KEY-----\n{'Mii9' * 12}\n"},
        {"environment/id": "-----BEGIN PRIVATE KEY-----\n…\n"},
    ),
    Row("no-canary", {}, {}, {"canary": "no such mark"}),
    Row(
        "metadata-missing",
        {"task.toml": LIMITS + '[metadata]\ncategory = " "\n'},
        {"task.toml": LIMITS + '[metadata]\ncategory = "x"\n'},
        {"metadata": {"category": ()}},
    ),
    Row(
        "metadata-value",
        {"task.toml": LIMITS + '[metadata]\ntags = ["a", "z"]\n'},
        {"task.toml": LIMITS + '[metadata]\ntags = ["a"]\n'},
        {"metadata": {"tags": ("a", "b")}},
    ),
    Row("long-name", {}, {}, {"name_words": 0}),
    Row(
        "unknown-code",
        {"task.toml": LIMITS + '[metadata]\nharbor_ignore = ["no-such"]\n'},
        {"task.toml": LIMITS + '[metadata]\nharbor_ignore = ["litter"]\n'},
    ),
]
ELSEWHERE = {
    "outside-link", "script-not-run", "house-check", "duplicate-name", "similar-instruction",
}  # fmt: skip


def written(make_task: Callable[..., Path], name: str, files: Files) -> Path:
    folder = make_task(name)
    for path, content in files.items():
        place = folder / path
        if content is None:
            place.unlink()
            if path == SOLVE:
                place.parent.rmdir()
            continue
        make_task.write(folder, path, content)  # type: ignore[attr-defined]
    return folder


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.code)
def test_a_code_is_found_where_it_is_and_not_where_it_nearly_is(
    row: Row, make_task: Callable[..., Path], codes: Callable[..., set[str]]
) -> None:
    rules = HouseRules(**row.rules)
    assert row.code in codes(written(make_task, "bad", row.bad), rules)
    if row.good or not row.rules:
        assert row.code not in codes(written(make_task, "good", row.good), rules)


@pytest.mark.parametrize("code", ["base-image", "large-file", "large-task"])
def test_a_sound_task_keeps_the_rules_of_a_house(
    code: str, make_task: Callable[..., Path], codes: Callable[..., set[str]]
) -> None:
    rules = HouseRules(base_images=("debian:*",), file_mb=0.0015, task_mb=0.005)
    assert code not in codes(make_task(), rules)


def test_every_code_has_a_row() -> None:
    later = {check.code for check in TRIAL_CHECKS}
    assert {row.code for row in ROWS} | ELSEWHERE | later == set(CHECKS)


def test_a_sound_task_has_no_findings(
    make_task: Callable[..., Path], check: Callable[..., Any]
) -> None:
    assert check(make_task()) == ()


@pytest.mark.parametrize(
    "name", sorted(p.parent.name for p in Path("example_tasks").glob("*/task.toml"))
)
def test_the_examples_have_no_findings(name: str, check: Callable[..., Any]) -> None:
    assert check(Path("example_tasks").absolute() / name) == ()

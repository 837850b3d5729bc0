"""Check the file that was rendered, and the program on templates of its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

# EXPECTED_STAGE comes from [verifier] env, the other values from the task.
RENDERED = f"""\
# Rendered by /app/render; questions to ops@example.com or @ops.
[service]
region = eu-north
stage = {os.environ["EXPECTED_STAGE"]}
greeting = "ships & docks \\o/"
replica = eu-north-{os.environ["EXPECTED_STAGE"]}-1
"""

# Template, variables, and the expected exit status, output and word in the complaint.
CASES = [
    (b"a @X@ b", {"X": "1"}, (0, b"a 1 b", b"")),
    (b"@X@@X@@Y_2@", {"X": "1", "Y_2": "2"}, (0, b"112", b"")),
    (b"@X@", {"X": ""}, (0, b"", b"")),
    (b"@X@", {"X": "@Y@", "Y": "no"}, (0, b"@Y@", b"")),
    (b"@X@\n", {"X": r"\1 & / \n"}, (0, b"\\1 & / \\n\n", b"")),
    (b"me@x.org @low@ @2X@ @ X@", {}, (0, b"me@x.org @low@ @2X@ @ X@", b"")),
    (b"\xff@X@\r\n", {"X": "1"}, (0, b"\xff1\r\n", b"")),
    (b"@X@ @NOT_SET@", {"X": "1"}, (3, b"", b"NOT_SET")),
]


def complaint(template, variables, expected):
    """What is wrong with the program's answer to one template, or None."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(template)
        file.flush()
        # Only these variables: the environment of this check would give itself away.
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **variables}
        done = subprocess.run(
            ["/app/render", file.name], env=environment, capture_output=True, timeout=5
        )
    status, output, word = expected
    if (done.returncode, done.stdout) != (status, output) or word not in done.stderr:
        return f"{template!r} with {variables}: expected {expected}, got {done}"
    return None


def complaints():
    rendered = Path("/app/service.conf")
    if not rendered.is_file() or rendered.read_text(errors="replace") != RENDERED:
        yield "/app/service.conf is not the template rendered from the environment"
    for case in CASES:
        try:
            yield complaint(*case)
        except (OSError, subprocess.TimeoutExpired) as error:
            yield str(error)


found = [text for text in complaints() if text]
print(*found, sep="\n")
sys.exit(bool(found))

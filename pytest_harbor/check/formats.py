"""What reading a task finds already: the codes of its problems. Warnings count as errors here."""

from __future__ import annotations

from pytest_harbor.check.finding import Check

CHECKS = (
    Check("invalid-toml", "the file cannot be read as Harbor reads it", "write TOML 1.0"),
    Check("invalid-field", "Harbor refuses the value", "write what is accepted"),
    Check("unknown-field", "Harbor ignores the key without a word", "correct or remove it"),
    Check(
        "swallowed-field",
        "a table header above it makes the key the table's own, where it does nothing",
        "move it above the first table header",
    ),
    Check("doubtful-field", "the value cannot be meant", "write what is meant"),
    Check("missing-file", "the task cannot run without it", "add the file"),
    Check("empty-file", "an empty file says or does nothing", "fill or remove it"),
    Check("unreadable-file", "it cannot be read as text", "save it as UTF-8, readable"),
    Check("lost-heading", "the agent does not see it: it is taken for a canary mark", "reword it"),
    Check("outside-link", "nothing outside a task's folder is part of it", "copy the file in"),
    Check("ignore-file", "a .harborignore has no effect or leaves out too much", "correct it"),
    Check("script-crlf", "a Unix shell takes Windows line ends for part of a word", "write LF"),
    Check("script-shebang", "the script is run by its path", "begin it with #!/bin/bash"),
    Check("script-not-run", "another script is run in its place", "remove it, or the other"),
    Check("compose-name", "Harbor reads another name", "name it docker-compose.yaml"),
    Check("no-solution", "nothing shows that the task can be solved", "add solution/solve.sh"),
    Check("house-check", "a check of the project's own found it", "see what it says"),
)

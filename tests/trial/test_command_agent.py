"""A command of the user's as the agent, in a real container."""

import pytest

pytestmark = pytest.mark.docker

INSTRUCTION = 'It\'s "quoted", costs $HOME and `id`,\nand has {instruction_file} in it.\n'
COMPARE = """\
    #!/bin/bash
    cmp /app/out.txt /tests/expected && r=1 || r=0
    echo $r > /logs/verifier/reward.txt
    """


@pytest.mark.parametrize(
    "command",
    [
        "printf %s {instruction} > /app/out.txt",
        'printf %s "{instruction}" > /app/out.txt',
        'cat "{instruction_file}" > /app/out.txt',
        'printf %s "$HARBOR_INSTRUCTION" > /app/out.txt',
    ],
)
def test_the_instruction_arrives_as_it_is(make_task, run_tasks, command):
    folder = make_task(instruction=INSTRUCTION, test=COMPARE)
    make_task.write(folder, "tests/expected", INSTRUCTION)
    run_tasks("tasks", f"--harbor-agent-command={command}").run.assert_outcomes(passed=1)


def test_an_instruction_of_any_size_arrives_in_the_file(make_task, run_tasks):
    text = "much to do, and it's said at length\n" * 20_000
    folder = make_task(instruction=text, test=COMPARE)
    make_task.write(folder, "tests/expected", text)
    ran = run_tasks("tasks", "--harbor-agent-command=cat {instruction_file} > /app/out.txt")
    ran.run.assert_outcomes(passed=1)
    ran = run_tasks("tasks", "--harbor-agent-command=echo {instruction}")
    ran.run.assert_outcomes(errors=1)
    ran.run.stdout.fnmatch_lines(["*with the instruction in it, the command has * bytes*"])

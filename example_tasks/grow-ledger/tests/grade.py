"""Run the agent's program on the cases of a step; write the share that is right.

A case is ``{"name", "ledger", "arguments", "output"}``; ``{}`` among the arguments stands
for the ledger's file. Those of earlier steps are marked ``"old": true``.
"""

import json
import subprocess
import sys
import tempfile

PROGRAM = "/app/ledger"


def run(case):
    """What the program prints for one case; None if it fails."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(case["ledger"])
        file.flush()
        arguments = [file.name if word == "{}" else word for word in case["arguments"]]
        try:
            done = subprocess.run(
                [PROGRAM, *arguments], capture_output=True, timeout=5, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"{case['name']}: {error}")
            return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def is_right(case):
    printed = run(case)
    if printed == case["output"]:
        return True
    print(f"{case['name']}: expected {case['output']!r}, got {printed!r}")
    return False


def share(outcomes):
    return sum(outcomes) / len(outcomes)


def main(cases_file, reward_file):
    with open(cases_file) as file:
        cases = json.load(file)
    outcomes = [(bool(case.get("old")), is_right(case)) for case in cases]
    every = [right for _, right in outcomes]
    # The first step has nothing to break: all that it does is counted for both.
    kept = [right for old, right in outcomes if old] or every
    rewards = {"reward": share(every), "old": share(kept)}
    with open(reward_file, "w") as file:
        json.dump(rewards, file)


main(*sys.argv[1:])

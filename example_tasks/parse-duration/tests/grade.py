"""Run the agent's program on arguments it has not seen; write the named rewards."""

import json
import subprocess
import sys

PROGRAM = "/app/parse-duration"

ACCEPTED = {
    "0s": 0,
    "45s": 45,
    "90m": 5400,
    "1h30m": 5400,
    "1d12h": 129600,
    "2d3h4m5s": 183845,
    "007m": 420,
    "0d0h0m7s": 7,
    "1d1s": 86401,
    "1000000d": 86400000000,
}

REFUSED = [
    [""],
    ["12"],
    ["h"],
    ["1h 30m"],
    [" 1h"],
    ["1h\n"],
    ["-1h"],
    ["+5m"],
    ["1.5h"],
    ["30m1h"],
    ["1h1h"],
    ["1H"],
    ["1w"],
    ["\u0663m"],
    [],
    ["1h", "30m"],
]


def run(arguments):
    """Exit status, standard output and whether anything came on standard error."""
    try:
        done = subprocess.run(
            [PROGRAM, *arguments], capture_output=True, timeout=5, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{arguments}: {error}")
        return None, b"", False
    return done.returncode, done.stdout.strip(), bool(done.stderr)


def share(outcomes):
    """The share of right outcomes, each wrong one told."""
    for arguments, is_right, seen in outcomes:
        if not is_right:
            print(f"wrong for {arguments!r}: {seen}")
    return round(sum(is_right for _, is_right, _ in outcomes) / len(outcomes), 3)


def accepts():
    for text, seconds in ACCEPTED.items():
        status, output, _ = seen = run([text])
        yield text, (status, output) == (0, str(seconds).encode()), seen


def rejects():
    for arguments in REFUSED:
        seen = run(arguments)
        yield arguments, seen == (2, b"", True), seen


def main(reward_file):
    rewards = {"accepts": share(list(accepts())), "rejects": share(list(rejects()))}
    # A parser that accepts everything, or nothing, is worth nothing.
    rewards["reward"] = min(rewards.values())
    with open(reward_file, "w") as file:
        json.dump(rewards, file)


main(sys.argv[1])

"""Grade the filter on messages that only this image has."""

import json
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

MODEL = Path("/app/model")
HIDDEN = Path("/hidden/messages.tsv")


def keeps_the_rules():
    """Whether all of the model is the filter's, and nobody else may write to it."""
    owner = pwd.getpwnam("filter").pw_uid
    for path in [MODEL, *MODEL.rglob("*")]:
        status = path.lstat()
        if status.st_uid != owner or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            print(f"{path}: owner {status.st_uid}, mode {stat.filemode(status.st_mode)}")
            return False
    return True


def accuracy():
    """The share of hidden messages that the filter, run as its own user, gets right."""
    labelled = [line.split("\t", 1) for line in HIDDEN.read_text().splitlines()]
    done = subprocess.run(
        [MODEL / "classify"],
        input="".join(f"{text}\n" for _, text in labelled),
        capture_output=True,
        text=True,
        timeout=20,
        user="filter",
        group="filter",
        extra_groups=[],
        env={"PATH": os.environ["PATH"]},
    )
    answers = done.stdout.split("\n")[:-1]
    if done.returncode or len(answers) != len(labelled):
        print(f"exit status {done.returncode}, {len(answers)} answers\n{done.stderr[-500:]}")
        return 0.0
    pairs = zip(labelled, answers, strict=True)
    return sum(label == answer for (label, _), answer in pairs) / len(labelled)


def main(reward_file):
    rules = MODEL.is_dir() and keeps_the_rules()
    try:
        share = accuracy()
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error)
        share = 0.0
    enough = share >= float(os.environ["NEEDED_ACCURACY"])
    rewards = {"accuracy": round(share, 3), "rules": int(rules), "reward": int(rules and enough)}
    with open(reward_file, "w") as file:
        json.dump(rewards, file)


main(sys.argv[1])

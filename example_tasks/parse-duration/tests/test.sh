#!/bin/bash
# Grades with a small program that writes reward.json; this script sees to it
# that there is a reward even if the grader fails.
set -u

rewards=/logs/verifier/reward.json
trap '[ -s "$rewards" ] || echo "{\"reward\": 0}" >"$rewards"' EXIT

# -I: nothing that the agent left in the working directory or in PYTHON*
# variables is imported into the grader.
python3 -I /tests/grade.py "$rewards"

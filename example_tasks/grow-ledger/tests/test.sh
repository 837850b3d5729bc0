#!/bin/bash
# Runs after every step. The step's own tests/ was laid over this folder: cases.json is
# the step's, grade.py everybody's.
set -u

rewards=/logs/verifier/reward.json
trap '[ -s "$rewards" ] || echo "{\"reward\": 0, \"old\": 0}" >"$rewards"' EXIT

python3 -I /tests/grade.py /tests/cases.json "$rewards"

#!/bin/bash
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

if diff -u /tests/expected.csv /app/manifest.csv; then
    reward=1
fi

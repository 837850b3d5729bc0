#!/bin/bash
# Grades what the agent left, and is brought into the container after the agent.
# Without a reward file there is no verdict: so it is written on every way out.
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

# The agent may have left modules, settings of pytest and a conftest.py: none of them is read.
unset PYTEST_ADDOPTS PYTEST_PLUGINS
cd /tests || exit
if python3 -I -m pytest -c /dev/null --rootdir=/tests --noconftest -p no:cacheprovider \
    /tests/test_outputs.py; then
    reward=1
fi

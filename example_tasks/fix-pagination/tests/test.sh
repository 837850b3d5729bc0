#!/bin/bash
# Runs the test suite beside this script with the image's own pytest: nothing is
# downloaded while grading.
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

# The agent worked as root in this very container. These keep what it may have
# left behind out of the grading:
#   -P, cd        no module is taken from the working directory
#   -c /dev/null  no pytest.ini or pyproject.toml is read
#   --noconftest  no conftest.py is loaded, not even one planted in /tests
unset PYTEST_ADDOPTS PYTEST_PLUGINS PYTHONSTARTUP PYTHONHOME
export PYTHONPATH=/tests PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
cd /tests || exit

# The test file is named, so that a planted one does not count. And code under
# test can end the whole process with status 0: only a run that got as far as its
# report has passed.
report=/logs/verifier/ctrf.json
rm -f "$report"
if python3 -P -m pytest -c /dev/null --rootdir=/tests --noconftest -p no:cacheprovider \
    -p ctrf_report -rA /tests/test_pagination.py && [ -s "$report" ]; then
    reward=1
fi

#!/bin/bash
# Compares what is there now with a list, line by line: owner, digest, path.
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

cd /srv/reports || exit

state() {
    # -type f -links 1: neither links in place of the files, nor further names for them.
    find . -type f -links 1 | LC_ALL=C sort | while IFS= read -r path; do
        printf '%s %s %s\n' "$(stat -c %U "$path")" "$(sha256sum <"$path" | cut -c 1-16)" "$path"
    done
}

state >/tmp/state.txt
if diff -u /tests/expected-state.txt /tmp/state.txt; then
    reward=1
fi

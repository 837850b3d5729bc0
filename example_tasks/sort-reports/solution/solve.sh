#!/bin/bash
# Runs as clerk in /srv/reports, so plain relative paths will do.
set -euo pipefail

for report in inbox/*_[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].txt; do
    name=$(basename "$report" .txt)
    branch=${name%_*}
    date=${name##*_}
    if [ -s "$report" ]; then
        folder=archive/${date:0:4}/${date:5:2}
        mkdir -p "$folder"
        mv "$report" "$folder/${branch}_${date:8:2}.txt"
    else
        rm "$report"
        echo "$branch $date" >>missing.txt
    fi
done
sort -k2,2 -o missing.txt missing.txt

#!/bin/bash
set -euo pipefail

cd /app/vendor
{
    while read -r digest path; do
        if [ ! -e "$path" ]; then
            echo "missing $path"
        elif [ "$(sha256sum <"$path" | cut -d ' ' -f 1)" != "$digest" ]; then
            echo "changed $path"
        fi
    done <SHA256SUMS
    comm -13 <(cut -c 67- SHA256SUMS | LC_ALL=C sort) \
        <(find . -type f ! -path ./SHA256SUMS -printf '%P\n' | LC_ALL=C sort) |
        sed 's/^/unlisted /'
} | LC_ALL=C sort -k2 >/app/findings.txt

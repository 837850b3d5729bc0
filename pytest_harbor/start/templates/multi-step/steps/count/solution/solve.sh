#!/bin/bash
set -euo pipefail

count=0
while read -r _; do
    count=$((count + 1))
done </app/numbers.txt
echo "$count" >/app/count.txt

#!/bin/bash
# What the oracle runs: it shows that the task can be solved. No agent gets to see it.
set -euo pipefail

sum=0
while read -r number; do
    sum=$((sum + number))
done </app/numbers.txt
echo "$sum" >/app/sum.txt

#!/bin/bash
set -euo pipefail

cd /app/model
cp /app/messages.tsv training.tsv
cat >classify <<'PROGRAM'
#!/usr/bin/env python3
"""Naive Bayes over the words of the messages beside this file."""

import math
import re
import sys
from collections import Counter
from pathlib import Path


def words(text):
    return re.findall(r"[a-z]+", text.lower())


counts = {"spam": Counter(), "ham": Counter()}
for line in (Path(__file__).parent / "training.tsv").read_text().splitlines():
    label, text = line.split("\t", 1)
    counts[label].update(words(text))
known = len(counts["spam"] | counts["ham"])


def score(label, text):
    total = counts[label].total() + known
    return sum(math.log((counts[label][word] + 1) / total) for word in words(text))


for line in sys.stdin:
    print(max(counts, key=lambda label: score(label, line)))
PROGRAM
chmod 755 classify
chmod 644 training.tsv

#!/bin/bash
set -euo pipefail

cat >/app/ledger <<'PROGRAM'
#!/usr/bin/env python3
"""Balances of a ledger."""

import sys
from collections import defaultdict
from decimal import Decimal


def bookings(path):
    with open(path) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                date, account, amount, currency = line.split()
                yield date, account, Decimal(amount), currency


def balance(path):
    sums = defaultdict(Decimal)
    for _date, account, amount, currency in bookings(path):
        sums[account, currency] += amount
    for (account, currency), amount in sorted(sums.items()):
        print(f"{account} {amount:.2f} {currency}")


balance(sys.argv[2])
PROGRAM
chmod +x /app/ledger

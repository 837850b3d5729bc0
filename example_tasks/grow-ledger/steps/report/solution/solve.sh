#!/bin/bash
# Takes the last four lines, which choose what to do, away and adds to the rest.
set -euo pipefail

head -n -4 /app/ledger >/tmp/ledger
cat >>/tmp/ledger <<'PROGRAM'
def monthly(path):
    sums = defaultdict(Decimal)
    for date, _account, amount, currency in bookings(path):
        sums[date[:7], currency] += amount
    for (month, currency), amount in sorted(sums.items()):
        print(f"{month} {amount:.2f} {currency}")


if sys.argv[1] == "monthly":
    monthly(sys.argv[2])
elif sys.argv[3:] == ["--in", "EUR"]:
    in_euros(sys.argv[2])
else:
    balance(sys.argv[2])
PROGRAM
cat /tmp/ledger >/app/ledger

#!/bin/bash
# Takes the last line of the first step's program away and adds to the rest.
set -euo pipefail

sed -i '$d' /app/ledger
cat >>/app/ledger <<'PROGRAM'
def in_euros(path):
    with open("/app/rates.csv") as file:
        rates = dict(line.strip().split(",") for line in file)
    sums = defaultdict(Decimal)
    for _date, account, amount, currency in bookings(path):
        sums[account] += amount * Decimal(rates[currency])
    for account, amount in sorted(sums.items()):
        print(f"{account} {amount.quantize(Decimal('0.01')):.2f} EUR")


if sys.argv[3:] == ["--in", "EUR"]:
    in_euros(sys.argv[2])
else:
    balance(sys.argv[2])
PROGRAM

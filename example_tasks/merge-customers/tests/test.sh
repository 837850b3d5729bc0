#!/bin/bash
# Asks the database itself; what it inserts it takes back.
set -u

reward=0
trap 'echo "$reward" >/logs/verifier/reward.txt' EXIT

ask() { psql --no-psqlrc --quiet --tuples-only --no-align --field-separator=, --command "$1"; }

refused() { ! ask "BEGIN; INSERT INTO customers (id, name, email) VALUES (100, 'x', '$1'); ROLLBACK"; }

expect() {
    [ "$2" = "$3" ] && return
    printf '%s:\n  expected %s\n  found    %s\n' "$1" "$2" "$3"
    exit 0
}

expect customers "1,ada@example.org 2,grace@example.org 3,alan@example.org 5,edsger@example.org" \
    "$(ask 'SELECT id, email FROM customers ORDER BY id' | paste -sd ' ')"
expect orders "1,1,1200 2,1,350 3,1,99 4,2,4000 5,2,1 6,3,780 7,3,20 8,5,560 9,1,2500" \
    "$(ask 'SELECT id, customer_id, cents FROM orders ORDER BY id' | paste -sd ' ')"

for address in ada@example.org ADA@example.org Alan@Example.Org; do
    if ! refused "$address" 2>/dev/null; then
        echo "a second customer $address is not refused"
        exit 0
    fi
done
if refused new@example.org; then
    echo "a new customer is refused"
    exit 0
fi
reward=1

#!/bin/bash
set -euo pipefail

cat >/app/parse-duration <<'PROGRAM'
#!/usr/bin/env python3
"""Print the seconds of one duration such as 1h30m."""

import re
import sys

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
DURATION = re.compile("".join(rf"(?:([0-9]+){unit})?" for unit in SECONDS))


def main(arguments):
    match = DURATION.fullmatch(arguments[0]) if len(arguments) == 1 else None
    if match is None or not arguments[0]:
        print("usage: parse-duration DURATION, such as 1d2h30m or 90s", file=sys.stderr)
        return 2
    amounts = zip(match.groups(default="0"), SECONDS.values())
    print(sum(int(amount) * seconds for amount, seconds in amounts))
    return 0


sys.exit(main(sys.argv[1:]))
PROGRAM
chmod +x /app/parse-duration

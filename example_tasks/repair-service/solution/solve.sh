#!/bin/bash
set -euo pipefail

cd /app
sed -i 's/^port = .*/port = 8080/; s|/app/date/|/app/data/|; s/refuze/refuse/' server.ini

# A session and streams of its own: a background process that keeps this script's
# output open looks to the runner as if the script had not finished.
setsid nohup python3 server.py >/tmp/server.log 2>&1 </dev/null &

# Only a service that answers is left behind.
for _ in $(seq 50); do
    if (: </dev/tcp/127.0.0.1/8080) 2>/dev/null; then exit 0; fi
    sleep 0.1
done
cat /tmp/server.log >&2
exit 1

#!/bin/bash
# What the oracle runs. It works from the log alone, as an agent would have to.
set -euo pipefail

{
    echo 'path,requests,errors,bytes'
    awk '{
        path = $4
        sub(/"$/, "", path)
        sub(/\?.*/, "", path)
        requests[path]++
        errors[path] += ($5 >= 400)
        bytes[path] += $6
    }
    END {
        for (path in requests)
            printf "%s,%d,%d,%d\n", path, requests[path], errors[path], bytes[path]
    }' access.log | LC_ALL=C sort -t, -k2,2nr -k1,1
} >report.csv

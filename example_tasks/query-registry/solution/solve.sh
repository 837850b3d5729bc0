#!/bin/bash
set -euo pipefail

# The oracle is handed no tools: it starts the server by itself, as an agent's client would.
python3 -I /solution/make_manifest.py

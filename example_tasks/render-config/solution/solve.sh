#!/bin/bash
set -euo pipefail

# PROGRAM comes from [solution] env in task.toml.
cat >"$PROGRAM" <<'RENDER'
#!/usr/bin/env python3
"""Print a template with its @NAME@ placeholders replaced from the environment."""

import os
import re
import sys
from pathlib import Path

template = Path(sys.argv[1]).read_bytes()
try:
    rendered = re.sub(rb"@([A-Z][A-Z0-9_]*)@", lambda match: os.environb[match[1]], template)
except KeyError as error:
    sys.stderr.buffer.write(error.args[0] + b" is not set\n")
    sys.exit(3)
sys.stdout.buffer.write(rendered)
RENDER
chmod +x "$PROGRAM"
"$PROGRAM" service.conf.template >service.conf

"""What stands in a report's file."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r'<script type="text/plain" id="([a-z0-9-]+)">([A-Za-z0-9+/=]*)</script>')


def blocks(page: Path) -> dict[str, Any]:
    """The data of a report by the names of their blocks."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return {name: json.loads(gzip.decompress(base64.b64decode(data))) for name, data in found}

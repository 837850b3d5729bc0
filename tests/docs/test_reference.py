"""docs/reference.md is what the code says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "scripts/reference"))["page"]()
    written = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    assert made == written, "run: python scripts/reference"

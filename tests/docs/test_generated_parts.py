"""The parts of the docs and of the chart that are generated are what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_generated_parts_are_up_to_date() -> None:
    words = [sys.executable, str(ROOT / "docs/generate.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

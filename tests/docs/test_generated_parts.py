"""The parts of the docs and of the chart that are generated are what the code says, figures among them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", ["generate.py", "figures.py"])
def test_the_generated_parts_are_up_to_date(program: str) -> None:
    words = [sys.executable, str(ROOT / "docs" / program), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""The page on security names only tests that are there, and every finding says what became of it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:tests/[a-z_/]+/)?test_[a-z_]+\.py)`", PAGE)
    known = {
        path for test in (ROOT / "tests").rglob("test_*.py") for path in (test.name, str(test.relative_to(ROOT)))
    }
    assert named
    assert sorted(set(named) - known) == []


def test_every_finding_says_what_became_of_it_and_which_test_holds_it() -> None:
    rows = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row[0].strip("| ")) for row in rows] == list(range(1, 17))
    for row in rows:
        assert re.match(r"fixed", row[2]), row[0]
        assert "test_" in row[3], row[0]

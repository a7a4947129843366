"""The pages on security and reliability name only tests that are there, and say what became of each finding."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECURITY, RELIABILITY = (ROOT / "docs" / name for name in ("security.md", "reliability.md"))
NAMED = re.compile(r"`([a-z_/]+\.py)?(?:::(test_\w+))?`")


def named_tests(page: Path) -> list[tuple[str, str]]:
    """Return the files and tests that a page names; a test without a file is in the one named before it."""
    file, found = "", []
    for match in NAMED.finditer(page.read_text()):
        file = match[1] or file
        if (match[1] or match[2]) and file.startswith("tests/"):
            found.append((file, match[2] or ""))
    return found


def rows(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the rows of the first table below a heading."""
    below = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("page", [SECURITY, RELIABILITY], ids=lambda page: page.stem)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    named = named_tests(page)
    assert len(named) > 20
    missing = [file for file, _ in named if not (ROOT / file).is_file()]
    assert missing == []
    unknown = [name for file, name in named if name and f"def {name}(" not in (ROOT / file).read_text()]
    assert unknown == []


@pytest.mark.parametrize("page", [SECURITY, RELIABILITY], ids=lambda page: page.stem)
def test_every_finding_says_what_became_of_it_and_which_test_holds_it(page: Path) -> None:
    findings = rows(page, "Findings")
    assert len(findings) > 15
    for *_, became, held_by in findings:
        assert re.match(r"(fixed|a decision)", became, re.IGNORECASE), became
        assert "tests/" in held_by or "benchmarks/" in held_by, held_by


def test_every_threat_has_a_test() -> None:
    threats = rows(SECURITY, "Threats, line by line")
    assert len(threats) > 12
    for threat, *_, held_by in threats:
        assert "tests/" in held_by, threat

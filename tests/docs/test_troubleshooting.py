"""Each message that the page on troubleshooting quotes is one that the code says, with a cause and a way out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
SPOKEN = ("scheduler", "hub_extension", "spawner", "widgets", "training")
HOLE = "…"
STRINGS = re.compile(r'"([^"\\\n]*)"')
"""Strings of JavaScript, as its formatter writes them."""


def rows() -> list[list[str]]:
    """Return the cells of the page's tables, without their heads."""
    lines = PAGE.read_text().splitlines()
    tables = [line for line, after in pairwise([*lines, ""]) if line.startswith("| ") and "| --- " not in after]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in tables if "| --- " not in line]


MESSAGES = [re.sub(r"^`|`$", "", row[0]) for row in rows()]


@cache
def said() -> list[str]:
    """Return the texts in the sources of the product, with a hole for each value."""
    files = (path for folder in SPOKEN for path in (ROOT / folder).rglob("*.py"))
    scripts = (path for folder in SPOKEN for path in (ROOT / folder).rglob("*.js"))
    of_scripts = (text for path in scripts for text in STRINGS.findall(path.read_text()))
    return [*(text for path in files for text in _texts(ast.parse(path.read_text()))), *of_scripts]


def _texts(tree: ast.AST) -> Iterator[str]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else HOLE for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{[\w!:]*\}", lambda found: found[0] if found[0] == "{code}" else HOLE, node.value)


def pattern(message: str) -> re.Pattern[str]:
    """Return what a text matches that says the message, whatever its values are."""
    return re.compile(".*".join(re.escape(part.strip()) for part in message.split(HOLE)), re.DOTALL)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_quoted_message_is_said_by_the_code(message: str) -> None:
    wanted = pattern(message)
    assert any(wanted.search(text) for text in said()), message


def test_a_message_that_nobody_says_would_be_found_out() -> None:
    assert not any(pattern("The moon … is made of cheese.").search(text) for text in said())


def test_each_message_has_a_cause_and_a_way_out() -> None:
    assert len(MESSAGES) > 90
    assert len(set(MESSAGES)) == len(MESSAGES)
    assert [row for row in rows() if len(row) != 3 or not all(row)] == []
    assert all(len(re.sub(r"\W", "", message)) > 8 for message in MESSAGES)

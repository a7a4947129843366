"""The pictures of README and documentation: each is made by one program, and shown somewhere with words for it."""

from __future__ import annotations

import ast
import re
import struct
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/pictures"
SHOWN = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<path>[^)]+)\)|```\{image\} (?P<file>\S+)\n:alt: (?P<alt>[^\n]+)")
MOST_BYTES = 350_000
NARROWEST = 800


def shown() -> dict[Path, list[str]]:
    """Return the words that stand for each picture, by its file."""
    found: dict[Path, list[str]] = {}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for match in SHOWN.finditer(page.read_text()):
            file = (page.parent / (match["path"] or match["file"])).resolve()
            found.setdefault(file, []).append(match["words"] or match["alt"] or "")
    return found


def test_every_picture_that_a_page_shows_is_there_and_each_is_shown_with_words() -> None:
    pages = shown()
    assert sorted(pages) == sorted([*PICTURES.glob("*.png"), *PICTURES.glob("*.svg")])
    assert [file.name for file, words in pages.items() if not all(words)] == []


def test_every_picture_is_taken_by_the_program_that_takes_them() -> None:
    program = ast.parse((PICTURES / "make.py").read_text())
    calls = [node for node in ast.walk(program) if isinstance(node, ast.Call)]
    taken = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "take"]
    names = [ast.literal_eval(name) for name in taken]
    assert sorted(names) == sorted(file.stem for file in PICTURES.glob("*.png"))


def test_a_picture_is_wide_enough_to_read_and_small_enough_to_load() -> None:
    for file in PICTURES.glob("*.png"):
        (width,) = struct.unpack(">I", file.read_bytes()[16:20])
        assert width >= NARROWEST, file.name
        assert file.stat().st_size <= MOST_BYTES, file.name

"""Scripts that a hostile page runs in a visitor's browser, and the judgement of what they got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STORY = Path(__file__).parents[2] / "story"


def script(name: str) -> str:
    """Return the function of a script, without the comment above it."""
    return (STORY / name).read_text().partition("*/\n")[2].strip().removesuffix(";")


def assert_no_token_was_made(result: dict[str, Any]) -> None:
    """Check the result of ``hostile_hub.js``: it read no page and no cookie of the hub, and made no token."""
    assert len(result["got"]) >= 16
    assert result["xsrf"] == 0, result["got"]
    read = [how for how, what in result["got"] if "<title>JupyterHub</title>" in what and "user:" in what]
    assert read == []
    assert result["made"]
    assert {status for _, _, status in result["made"]} <= {403, 415, "TypeError", 0}, result["made"]

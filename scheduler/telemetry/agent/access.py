"""Where an agent gives its report, and the token that it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPORT_PATH: Final = "/v1/report"
SHORTEST_TOKEN: Final = 32
"""Minimum length of the token, in characters."""


class TokenError(Exception):
    """There is no usable token; the message says what was expected."""


def read_token(file: Path) -> str:
    """Return the token in a file. Raises `TokenError`."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"The token of agents cannot be read from {file}: {error}.") from error
    if len(token) < SHORTEST_TOKEN or not token.isalnum():
        raise TokenError(f"{file} has no token of {SHORTEST_TOKEN} letters and digits or more.")
    return token

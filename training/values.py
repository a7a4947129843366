"""Conversion of frameworks' logged values into plain numbers."""

from __future__ import annotations

from typing import Any, Dict, Mapping


def plain(values: Mapping[str, Any]) -> Dict[str, float]:
    """Return the values that are numbers, or hold exactly one, as numbers."""
    found: Dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, (str, bytes, bool)):
            continue
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            continue
    return found

"""Numbers of cores and amounts of memory as people and Kubernetes write them. The only parser of both."""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import Final

from springtide.scheduler.wording import given

CORES_PATTERN: Final = r"^[0-9]{1,9}(?:\.[0-9]{1,9})?m?(?!\n)$"
"""Regular expression of a number of cores in text: cores, or thousandths of one with an m."""
CORES_EXAMPLES: Final = "4, 0.5 or 500m"
MEMORY_PATTERN: Final = r"^[0-9]{1,20}(?:\.[0-9]{1,9})? *(?:[kKMGTP]i?)?B?(?!\n)$"
"""Regular expression of an amount of memory in text: a number of bytes, or one with a unit."""
MEMORY_EXAMPLES: Final = "16Gi, 16 GB or a number of bytes"
MAX_LENGTH: Final = 64
"""Maximum number of characters of either in text."""

_POWERS: Final = "kMGTP"
_MEMORY: Final = re.compile(r"(?P<number>[\d.]+)\s*(?P<unit>[kKMGTP]?)(?P<binary>i?)B?")


def cores(value: object) -> float:
    """Return a number of cores, in thousandths at most.

    Accept a number, and text such as ``4``, ``0.5`` or ``500m``. Raises `ValueError` for anything else.
    """
    if isinstance(value, str):
        text = value.strip()
        if len(text) > MAX_LENGTH or re.match(CORES_PATTERN, text) is None:
            raise _wrong(value, "a number of cores", CORES_EXAMPLES)
        number = float(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)
    elif isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise _wrong(value, "a number of cores", CORES_EXAMPLES)
    else:
        number = float(value)
    return round(number, 3)


def memory(value: object) -> int:
    """Return an amount of memory in bytes.

    Accept a whole number of bytes, and text such as ``16Gi``, ``16 GiB``, ``16 GB`` or ``512M``: with an i a unit
    is a power of 1024, else of 1000. Raises `ValueError` for anything else.
    """
    if isinstance(value, str):
        text = value.strip()
        found = _MEMORY.fullmatch(text) if len(text) <= MAX_LENGTH and re.match(MEMORY_PATTERN, text) else None
        if found is None:
            raise _wrong(value, "an amount of memory", MEMORY_EXAMPLES)
        power = _POWERS.index(found["unit"].replace("K", "k")) + 1 if found["unit"] else 0
        factor: int = (1024 if found["binary"] else 1000) ** power
        return round(float(found["number"]) * factor)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, "an amount of memory", MEMORY_EXAMPLES)
    return value


def shown_cores(number: float) -> str:
    """Return a number of cores as text that `cores` accepts."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


def shown_memory(number: int) -> str:
    """Return bytes as text that `memory` accepts, in the largest unit of which they are a whole number."""
    for unit, power in (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if number and number % (1 << power) == 0:
            return f"{number >> power}{unit}"
    return str(number)


def _wrong(value: object, what: str, examples: str) -> ValueError:
    return ValueError(f"{given(value)} is not {what} such as {examples}")

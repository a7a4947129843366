"""What a TensorBoard of jobs says about itself to the notebook server."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

PROGRAM: Final = "springtide.widgets.tensorboard"
"""The module that Python runs: ``python -m`` with the ids of the jobs."""


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far it is, in ``words``; once it is ready, its ``socket`` and ``notes`` on what it does not show."""

    state: Literal["reading", "ready", "failed"]
    words: str = ""
    socket: str = ""
    notes: list[str] = []

"""What a TrainJob in the cluster shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OURS = "springtide.io/cancel"
"""The finalizer that the service sets."""


def told(found: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """The conditions of a TrainJob: status, reason and message by type."""
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found["status"]["conditions"]}


def finalizers(found: Mapping[str, Any]) -> list[str]:
    """Who has to let go of it before it can be deleted."""
    names: list[str] = found["metadata"].get("finalizers", [])
    return names


def state(found: Mapping[str, Any]) -> str | None:
    """The state of its job, None if nothing is known of it yet."""
    shown: str | None = found.get("status", {}).get("state")
    return shown


def ended_and_released(found: Mapping[str, Any]) -> bool:
    """Whether its job has succeeded and nobody holds it any more."""
    return state(found) == "succeeded" and not finalizers(found)

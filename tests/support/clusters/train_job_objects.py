"""The visible state of a SpringtideJob in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OURS = "springtide.io/cancel"
"""Finalizer that the service sets."""


def told(found: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Return the conditions of a SpringtideJob: status, reason and message by type."""
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found["status"]["conditions"]}


def finalizers(found: Mapping[str, Any]) -> list[str]:
    """Return the finalizers that delay the deletion of a SpringtideJob."""
    names: list[str] = found["metadata"].get("finalizers", [])
    return names


def state(found: Mapping[str, Any]) -> str | None:
    """Return the state of its job, None if it is not known yet."""
    shown: str | None = found.get("status", {}).get("state")
    return shown


def ended_and_released(found: Mapping[str, Any]) -> bool:
    """Return whether its job has succeeded and no finalizer is left."""
    return state(found) == "succeeded" and not finalizers(found)

"""Springtide in a JupyterHub: the service with its API and pages, `configure`, and the ``springtide`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from springtide.hub_extension.configuration import configure

__all__ = ["configure"]


def __getattr__(name: str) -> object:
    """Load `configure` at its first use: the command line works without a hub installed."""
    if name == "configure":
        from springtide.hub_extension.configuration import configure  # noqa: PLC0415

        return configure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The one client of the pool's API: synchronous, safe to share between threads, light to import."""

from __future__ import annotations

from springtide.scheduler.client.client import Client, own_token, place_for
from springtide.scheduler.client.errors import PoolError, Unreachable

__all__ = ["Client", "PoolError", "Unreachable", "own_token", "place_for"]

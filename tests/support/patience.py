"""How long tests wait for other processes, threads and tasks."""

from __future__ import annotations

PATIENCE_S = 120.0
"""Maximum time for one step of something else, in seconds: enough on a busy machine that is ten times slower.

A test that passes never waits so long. What takes minutes on such a machine has a larger limit of its own.
"""

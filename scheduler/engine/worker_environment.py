"""The environment of processes that compute for the service."""

from __future__ import annotations

import os

PRIVATE_PREFIXES = ("JUPYTERHUB_", "SPRINGTIDE_", "CONFIGPROXY_")
"""Prefixes of environment variables, among them secrets, that such a process does not get."""


def environment_of_worker() -> dict[str, str]:
    """Return the environment of the service without private variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE_PREFIXES)}

"""The channels of a pool on which all are set up."""

from __future__ import annotations

EMAIL, WEBHOOK = "email", "webhook"
CHANNELS = ("browser", EMAIL, WEBHOOK)
WITH_ADDRESS = frozenset({WEBHOOK})

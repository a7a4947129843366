"""The channels of a pool on which all are set up."""

from __future__ import annotations

from springtide.scheduler.notifications import ON_PAGES

EMAIL, WEBHOOK = "email", "webhook"
CHANNELS = (*sorted(ON_PAGES), EMAIL, WEBHOOK)
WITH_ADDRESS = frozenset({WEBHOOK})

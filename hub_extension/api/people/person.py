"""The person that a call is about: its caller."""

from __future__ import annotations

from springtide.hub_extension.api.routes import Call
from springtide.scheduler.refusal import Refusal


def person(call: Call, what: str) -> str:
    """Return the caller's name. Raises `Refusal` 403 for a service, which has none of ``what``."""
    if call.caller.service:
        raise Refusal(403, "forbidden", f"Only people have {what}.")
    return call.caller.name

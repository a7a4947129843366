"""Payloads of functions: those of tests, and the content of those that are sent."""

from __future__ import annotations

import io
import pickle
from typing import Any

from springtide.widgets.submission.definitions import namespace_of, payload_dumps


def payload_of(call: dict[str, Any]) -> bytes:
    """The payload of a call with its function, as a notebook sends it."""
    rest = {name: value for name, value in call.items() if name != "function"}
    return payload_dumps(call["function"], rest, namespace_of(call["function"])).data


def content_of(payload: bytes) -> dict[str, Any]:
    """The call in a payload with its function, without its names."""
    unpickler = pickle.Unpickler(io.BytesIO(payload))
    parts = []
    for _ in range(2):
        parts.append(unpickler.load())
        while unpickler.load():
            pass
    return {"function": parts[0], **parts[1]}

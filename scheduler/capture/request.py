"""The request that submits what was captured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springtide.scheduler.capture.command import Captured
from springtide.scheduler.wire import Submission


def submission(captured: Captured, options: Mapping[str, Any], key: str | None = None) -> Submission:
    """Return the request for a job with these options, which are those of `wire.OPTIONS` as requests carry them.

    ``key`` makes the request safe to repeat.
    """
    return Submission(
        **{
            **options,
            "name": options.get("name") or captured.name,
            "env": {**captured.env, **options.get("env", {})},
        },
        argv=list(captured.argv),
        kind=captured.kind,
        cwd=captured.cwd,
        files=dict(captured.files),
        source=captured.source,
        key=key,
    )

"""The states in which people see jobs, as conditions on rows."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from sqlalchemy import JSON, ColumnElement, and_, cast, func, or_

from springtide.scheduler.model import LIVE, STOPPING
from springtide.scheduler.store import schema

_jobs = schema.jobs
_LIVE = frozenset(state.value for state in LIVE)
_ENDS = frozenset(STOPPING.values())


def in_states(states: AbstractSet[str], database: str) -> ColumnElement[bool]:
    """Return that a job is shown in one of the states.

    Why a job ends for good is no column: it is looked up for live ones alone, when not all of them are asked for.
    """
    held = states & (_LIVE | _ENDS)
    if not held or held == _LIVE | _ENDS:
        return _jobs.c.state.in_(sorted(states - _ENDS))
    standing = _jobs.c.standing
    as_json = cast(standing, JSON)["stopping"].as_string()
    why = func.json_extract(standing, "$.stopping") if database == "sqlite" else as_json
    reasons = sorted(reason for reason, shown in STOPPING.items() if shown in states)
    return or_(
        _jobs.c.state.in_(sorted(states - _LIVE - _ENDS)),
        and_(_jobs.c.state.in_(sorted(states & _LIVE)), why.is_(None)),
        and_(_jobs.c.state.in_(sorted(_LIVE)), why.in_(reasons)),
    )

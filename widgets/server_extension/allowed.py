"""The calls of the pool's API that a notebook server passes on, as data; pure.

Requests to the pool are built from the matched parts alone. Any other path is refused, however it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from springtide.scheduler.wire import Problem
from springtide.scheduler.wording import given

MAX_VALUE: Final = 512
"""Maximum length of a query parameter's value, in characters."""
MAX_NAME: Final = 4096
"""Maximum length of the name of a job's output with its folders, in characters."""
_ID: Final = r"(?P<id>[A-Za-z0-9]{1,64})"
_FILTERS: Final = frozenset(
    {
        "state",
        "project",
        "mine",
        "search",
        "where",
        "zone",
        "tag",
        "since",
        "archived",
        "pinned",
        "order",
        "starts",
    }
)
_PAGING: Final = frozenset({"cursor", "limit"})


@dataclass(frozen=True, slots=True)
class Allowed:
    """One call. ``path`` is a regular expression below ``/api/v1/``, ``query`` names the parameters passed on."""

    method: str
    path: str
    query: frozenset[str] = frozenset()
    takes_body: bool = False
    is_slow: bool = False
    """Whether the pool may copy files before its answer."""


ALLOWED: Final = (
    Allowed("GET", "me"),
    Allowed("GET", "pool"),
    Allowed("GET", "jobs", _FILTERS | _PAGING),
    Allowed("POST", "jobs/actions", takes_body=True),
    Allowed("GET", f"jobs/{_ID}"),
    Allowed("PATCH", f"jobs/{_ID}", takes_body=True),
    Allowed("DELETE", f"jobs/{_ID}", frozenset({"dry_run"})),
    Allowed("GET", f"jobs/{_ID}/log", frozenset({"offset", "limit", "rank"})),
    Allowed("POST", f"jobs/{_ID}/stack"),
    Allowed("GET", f"jobs/{_ID}/points", frozenset({"after", "limit"})),
    Allowed("GET", f"jobs/{_ID}/trials", _PAGING),
    Allowed("GET", f"jobs/{_ID}/output"),
    Allowed("POST", f"jobs/{_ID}/pause"),
    Allowed("POST", f"jobs/{_ID}/resume"),
    Allowed("POST", f"jobs/{_ID}/cancel"),
    Allowed("POST", f"jobs/{_ID}/end"),
    Allowed("POST", f"jobs/{_ID}/finish"),
    Allowed("POST", f"jobs/{_ID}/hold", takes_body=True),
    Allowed("POST", f"jobs/{_ID}/release", takes_body=True),
    Allowed("POST", f"jobs/{_ID}/edit", takes_body=True),
    Allowed("POST", f"jobs/{_ID}/retry"),
    Allowed("GET", f"jobs/{_ID}/rerun", frozenset({"checkpoint", "from_start"})),
    Allowed("POST", f"jobs/{_ID}/rerun", takes_body=True, is_slow=True),
    Allowed("GET", f"jobs/{_ID}/checkpoints"),
    Allowed("POST", f"jobs/{_ID}/checkpoints/delete", takes_body=True),
    Allowed("POST", f"jobs/{_ID}/fork", takes_body=True, is_slow=True),
    Allowed("POST", "forecast", takes_body=True),
)
"""Calls with one answer. The event stream and the outputs of jobs are passed on by handlers of their own."""

EVENTS_QUERY: Final = frozenset({"job"})
_LAST_ID: Final = re.compile(r"[0-9]{1,16}")


@dataclass(frozen=True, slots=True)
class Target:
    """A request to the pool: ``path`` is below ``/api/v1/`` and has its query."""

    method: str
    path: str
    takes_body: bool = False
    is_slow: bool = False


def target(method: str, path: str, query: Mapping[str, Sequence[str]]) -> Target | Problem:
    """Return the request to the pool, or the refusal of a call."""
    matching = [call for call in ALLOWED if re.fullmatch(call.path, path, re.ASCII)]
    if not matching:
        return _refusal(404, "not_found", f"A notebook server does not pass {given(path)} on to the pool.")
    for call in matching:
        if call.method == method:
            return Target(method, path + query_text(query, call.query), call.takes_body, call.is_slow)
    return _refusal(405, "method_not_allowed", f"A notebook server passes no {method[:10]} of {given(path)} on.")


def output_target(job_id: str, name: str) -> Target | Problem:
    """Return the request to the pool for a file of a job's output directory, or the refusal of its name.

    ``name`` is the path of the file in that directory. Each of its parts is encoded, so none leads elsewhere.
    """
    parts = name.split("/")
    if not re.fullmatch(_ID, job_id, re.ASCII) or len(name) > MAX_NAME or not {"", ".", ".."}.isdisjoint(parts):
        return _refusal(404, "not_found", f"{given(name)} is no name of a job's output.")
    encoded = [quote(part, safe="") for part in parts]
    return Target("GET", "/".join(("jobs", job_id, "output", *encoded)))


def table_target(query: Mapping[str, Sequence[str]]) -> Target:
    """Return the request to the pool for a list of jobs as CSV."""
    return Target("GET", f"jobs.csv{query_text(query, _FILTERS)}")


def query_text(query: Mapping[str, Sequence[str]], names: frozenset[str]) -> str:
    """Return the parameters to pass on, with their question mark; others, such as a token, are dropped."""
    known = {name: values[-1][:MAX_VALUE] for name, values in query.items() if name in names and values}
    return f"?{urlencode(known)}" if known else ""


def last_event_id(value: str | None) -> str | None:
    """Return the id to resume the stream from if it is one."""
    return value if value is not None and _LAST_ID.fullmatch(value) else None


def _refusal(status: int, code: str, message: str) -> Problem:
    return Problem(status=status, code=code, message=message, hint="The pool's own pages offer all of its API.")

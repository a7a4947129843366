"""Who asked an API server to bind, evict or delete pods and nodes, by its audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",  # the grace period of a deletion is in its body
            "verbs": ["delete", "deletecollection"],
            "resources": [{"group": "", "resources": ["pods", "nodes"]}],
        },
        {
            "level": "Metadata",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding", "pods/eviction"]}],
        },
        {"level": "None"},
    ],
}
BINDING, EVICTION = "binding", "eviction"
_GRACE = "gracePeriodSeconds"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that an API server has answered.

    ``received`` and ``answered`` are in seconds since the epoch. ``by`` is the program that asked. ``grace`` is
    the grace period of a deletion in seconds, None if the request leaves it to the object.
    """

    verb: str
    namespace: str
    name: str
    subresource: str
    by: str
    received: float
    answered: float
    code: int
    grace: int | None

    @property
    def removes(self) -> bool:
        """Whether it asks for the end of an object, and was granted."""
        asked = self.subresource == EVICTION or (self.verb == "delete" and not self.subresource)
        return asked and self.code < 300

    @property
    def binds(self) -> bool:
        """Whether it binds a pod to a node, and was granted."""
        return self.subresource == BINDING and self.code < 300

    def __str__(self) -> str:
        what = f"{self.verb} {self.subresource}".rstrip()
        grace = "" if self.grace is None else f" within {self.grace} s"
        took = (self.answered - self.received) * 1000
        return f"{self.by} asked to {what} {self.name}{grace}: {self.code} after {took:.0f} ms"


def requests_about(log: Path, namespace: str, name: str) -> list[Request]:
    """Return the requests of an audit log about a pod, or about a node in the namespace ``""``, in their order."""
    if not log.exists():
        return []
    wanted = f'"{name}"'
    with log.open() as lines:
        found = [read(line) for line in lines if wanted in line and line.endswith("\n")]
    return [each for each in found if (each.namespace, each.name) == (namespace, name)]


def read(line: str) -> Request:
    """Return the request of a line of an audit log."""
    event = json.loads(line)
    about = event["objectRef"]
    return Request(
        event["verb"],
        about.get("namespace", ""),
        about.get("name", ""),
        about.get("subresource", ""),
        event.get("userAgent", event["user"]["username"]),
        _seconds(event["requestReceivedTimestamp"]),
        _seconds(event["stageTimestamp"]),
        int(event.get("responseStatus", {}).get("code", 0)),
        next(_graces(event), None),
    )


def _graces(event: dict[str, Any]) -> Iterator[int]:
    """Yield the grace periods that a request names, in its body and in its address."""
    body = event.get("requestObject") or {}
    if body.get(_GRACE) is not None:
        yield int(body[_GRACE])
    for given in parse_qs(urlsplit(event["requestURI"]).query).get(_GRACE, ()):
        yield int(given)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()

"""Entries of the journals: events, decisions and the audit trail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A recorded event of the stream. ``data`` is JSON."""

    id: int
    at: float
    kind: str
    data: bytes


UNDO = "undo."
"""Prefix of the kinds of entries that undo another; they cannot be undone themselves."""

ENDS: Final = {
    "node.drain": "node.undrain",
    "gpu.drain": "gpu.undrain",
    "project.freeze": "project.unfreeze",
    "job.hold": "job.release",
}
"""Kinds of entries of what holds from then on, and of what ends it; only the first have values after."""
_BEGINS: Final = {end: begin for begin, end in ENDS.items()}

RENAME = "person.rename"
"""The kind of entries of people whom JupyterHub renamed: the subject is the name after it."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry of the audit trail: who changed what. ``undone`` says that the change was undone.

    ``project`` is the one that it concerns, empty if it concerns the pool or a person; ``other_project`` a second
    one, which a job was moved from.
    """

    id: int
    at: float
    who: str
    what: str
    subject: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    undone: bool = False
    project: str = ""
    other_project: str = ""

    @property
    def effect(self) -> str:
        """The kind of the change itself: that of an undo is the kind of what it did, not of what it took back."""
        kind = self.what.removeprefix(UNDO)
        begin = _BEGINS.get(kind, kind)
        if kind == self.what or begin not in ENDS:
            return kind
        return begin if self.after else ENDS[begin]


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision with all that is needed to replay it.

    ``base`` is the id of the latest decision with a ``snapshot``, ``changes`` what changed since the decision
    before; snapshot, changes and plan are JSON. ``digest`` is that of the snapshot the decision was made on.
    """

    id: int
    at: float
    epoch: int
    base: int
    snapshot: bytes | None
    changes: bytes
    plan: bytes
    digest: str

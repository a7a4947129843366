"""Snapshots, changes and plans as plain JSON data, and a snapshot's digest.

What is stored this way can be read back and planned again: equal data give the equal plan.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from springtide.scheduler.model import (
    Change,
    Decision,
    Drop,
    JobChanged,
    JobRemoved,
    Move,
    NodesChanged,
    Pause,
    Plan,
    ProjectsChanged,
    Reserve,
    SettingsChanged,
    Snapshot,
    Start,
)

Data = dict[str, Any]
T = TypeVar("T")

CHANGES: dict[str, type[Change]] = {
    "job": JobChanged,
    "job-removed": JobRemoved,
    "projects": ProjectsChanged,
    "nodes": NodesChanged,
    "settings": SettingsChanged,
}
DECISIONS: dict[str, type[Decision]] = {
    "start": Start,
    "pause": Pause,
    "move": Move,
    "reserve": Reserve,
    "drop": Drop,
}


def digest(snapshot: Snapshot) -> str:
    """The SHA-256 of the snapshot in hex; the order of its nodes, projects and jobs does not matter."""
    ordered = replace(
        snapshot,
        nodes=tuple(sorted(snapshot.nodes, key=lambda node: node.name)),
        projects=tuple(sorted(snapshot.projects, key=lambda project: project.name)),
        jobs=tuple(sorted(snapshot.jobs, key=lambda job: job.id)),
    )
    return sha256(msgspec.json.encode(ordered, order="deterministic")).hexdigest()


def snapshot_to_data(snapshot: Snapshot) -> Data:
    """The snapshot as JSON data."""
    return _to_data(snapshot)


def snapshot_from_data(data: Data) -> Snapshot:
    """The snapshot that was stored. Raises `msgspec.ValidationError` for anything else."""
    return _from_data(data, Snapshot)


def change_to_data(change: Change) -> Data:
    """The change as JSON data, with its ``kind``."""
    return _tagged(change, CHANGES)


def change_from_data(data: Data) -> Change:
    """The change that was stored. Raises `msgspec.ValidationError` for anything else."""
    return _from_data(data, CHANGES[_kind(data, CHANGES)])


def plan_to_data(plan: Plan) -> Data:
    """The plan as JSON data."""
    return {
        "decisions": [_tagged(decision, DECISIONS) for decision in plan.decisions],
        "wake_at": plan.wake_at,
    }


def plan_from_data(data: Data) -> Plan:
    """The plan that was stored. Raises `msgspec.ValidationError` for anything else."""
    decisions = [
        _from_data(one, DECISIONS[_kind(one, DECISIONS)])
        for one in msgspec.convert(data.get("decisions"), list[dict[str, Any]])
    ]
    return Plan(tuple(decisions), msgspec.convert(data.get("wake_at"), float | None))


def _tagged(value: object, kinds: dict[str, type[Any]]) -> Data:
    kind = next(name for name, each in kinds.items() if type(value) is each)
    return {"kind": kind, **_to_data(value)}


def _kind(data: Data, kinds: dict[str, type[Any]]) -> str:
    kind = data.get("kind")
    if kind not in kinds:
        raise msgspec.ValidationError(f"expected a kind of {', '.join(kinds)}, got {kind!r}")
    return str(kind)


def _to_data(value: object) -> Data:
    data: Data = msgspec.json.decode(msgspec.json.encode(value, order="deterministic"))
    return data


def _from_data(data: Data, kind: type[T]) -> T:
    return msgspec.convert(data, kind)

"""What happened to the pods and nodes of a day, to tell how a problem came about; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from clusters.audit import Request

BEFORE_S, AFTER_S = 60.0, 10.0
"""Time before the first and after the last event of a pod in which its story tells of its node, in seconds."""


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a watch, seen ``at`` seconds since the epoch; ``node`` is that of a pod."""

    at: float
    node: str
    text: str


class Trail:
    """All events of pods, by uid, and of nodes, by name."""

    def __init__(self) -> None:
        self._subjects: dict[str, tuple[str, str]] = {}
        self._pods: defaultdict[str, list[Step]] = defaultdict(list)
        self._nodes: defaultdict[str, list[Step]] = defaultdict(list)

    def see_pod(self, kind: str, found: Mapping[str, Any], at: float, *, missed: bool) -> None:
        """Keep an event of a pod; ``missed``: it is made up from what a new list lacks."""
        meta = found["metadata"]
        text = f"{meta['name']} {_head(kind, found, missed)} {', '.join(_pod_facts(found))}"
        self._subjects[meta["uid"]] = meta.get("namespace", ""), meta["name"]
        self._pods[meta["uid"]].append(Step(at, found["spec"].get("nodeName", ""), text))

    def see_node(self, kind: str, found: Mapping[str, Any], at: float) -> None:
        """Keep an event of a node."""
        name = found["metadata"]["name"]
        text = f"{name} {_head(kind, found, False)} {', '.join(_node_facts(found))}"
        self._nodes[name].append(Step(at, name, text))

    def subjects(self, uids: Collection[str]) -> set[tuple[str, str]]:
        """Return namespace and name of these pods and of their nodes; those of nodes are ``""``."""
        nodes = {step.node for uid in uids for step in self._pods.get(uid, ())} - {""}
        return {self._subjects[uid] for uid in uids if uid in self._subjects} | {("", name) for name in nodes}

    def story(self, uids: Collection[str], requests: Iterable[Request]) -> list[str]:
        """Return what is known of these pods and their nodes meanwhile, line by line in the order of time."""
        steps = [step for uid in uids for step in self._pods.get(uid, ())]
        if not steps:
            return []
        first, last = min(step.at for step in steps) - BEFORE_S, max(step.at for step in steps) + AFTER_S
        nodes = {name for namespace, name in self.subjects(uids) if not namespace}
        steps += [step for name in sorted(nodes) for step in self._nodes[name] if first <= step.at <= last]
        steps += [Step(each.received, "", str(each)) for each in requests if first <= each.received <= last]
        return [f"{_clock(step.at)} {step.text}" for step in sorted(steps, key=lambda step: step.at)]


def _head(kind: str, found: Mapping[str, Any], missed: bool) -> str:
    version = found["metadata"].get("resourceVersion", "?")
    return f"{kind}{' (not seen itself)' if missed else ''} at version {version}:"


def _pod_facts(found: Mapping[str, Any]) -> Iterator[str]:
    meta, status = found["metadata"], found["status"]
    yield f"{status.get('phase', 'no phase')} on {found['spec'].get('nodeName') or 'no node'}"
    if status.get("startTime"):
        yield f"begun {status['startTime']}"
    if meta.get("deletionTimestamp"):
        yield f"to end by {meta['deletionTimestamp']}, within {meta.get('deletionGracePeriodSeconds')} s"
    if meta.get("finalizers"):
        yield f"finalizers {' '.join(meta['finalizers'])}"
    for each in status.get("containerStatuses") or ():
        yield from (f"{state} {facts.get('reason', '')}".strip() for state, facts in each["state"].items())
        yield from (f"exit code {state['exitCode']}" for state in each["state"].values() if "exitCode" in state)
    for each in status.get("conditions") or ():
        if each["type"] in ("DisruptionTarget", "PodScheduled"):
            yield f"{each['type']}={each['status']} {each.get('reason', '')}".rstrip()


def _node_facts(found: Mapping[str, Any]) -> Iterator[str]:
    spec, status = found.get("spec", {}), found.get("status", {})
    yield f"uid {found['metadata'].get('uid', '?')}"
    yield from (f"Ready={each['status']}" for each in status.get("conditions") or () if each["type"] == "Ready")
    if spec.get("unschedulable"):
        yield "unschedulable"
    yield from (f"{taint['key']}:{taint.get('effect', '')}" for taint in spec.get("taints") or ())


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]

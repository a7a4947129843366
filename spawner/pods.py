"""Resources of a notebook's pod, and descriptions of its state, as pure functions over objects of the API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from springtide.scheduler.wording import count, plural

Pod: TypeAlias = Mapping[str, Any]
Event: TypeAlias = Mapping[str, Any]

NOTEBOOK: Final = "notebook"
"""Name of the notebook server's container, as set by KubeSpawner."""
LOST_AFTER_S: Final = 60.0
"""Time after a pod's deletion deadline at which its node counts as unreachable, in seconds."""
HOPELESS: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "InvalidImageName",
    }
)
"""Reasons of waiting containers that do not resolve by themselves."""
LONGEST: Final = 400

_NODES = re.compile(r"^(\d+) (.*)$")
_MISSING_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted)')
_LACKS: Final = (
    ("Insufficient memory", "too little free memory"),
    ("Insufficient cpu", "too few free CPUs"),
    ("Insufficient ephemeral-storage", "too little free disk"),
    ("Too many pods", "too many notebooks and other pods already"),
    ("were unschedulable", "been closed by an admin"),
    ("untolerated taint {node.kubernetes.io/unreachable", "stopped answering"),
    ("untolerated taint {node.kubernetes.io/not-ready", "stopped answering"),
    ("untolerated taint", "been set aside for other work"),
    ("volume node affinity conflict", "no way to your home's volume"),
    ("plugin(s) [NodeAffinity]", "no place for this kind of notebook"),
    ("didn't match Pod's node affinity/selector", "no place for this kind of notebook"),
    ("Insufficient ", "too few free GPUs"),
)
_STARTING: Final = {
    "Pulling": "Its image is being fetched: {message}",
    "Pulled": "Its image is there.",
    "Failed": "It does not start yet: {message}",
    "BackOff": "It does not start yet: {message}",
    "FailedMount": "Its volume cannot be mounted yet: {message}",
    "FailedAttachVolume": "Its volume cannot be attached yet: {message}",
    "FailedCreatePodSandBox": "Its node cannot make it yet: {message}",
}


# ---------- resources


def resources(found: Mapping[str, Any], patterns: Sequence[str], reserved: Mapping[str, int]) -> dict[str, Any]:
    """Return a container's resources with the reserved GPUs in place of all that it asked for; 0 is written too.

    ``patterns`` are those of the names of GPU resources, ``reserved`` numbers of GPUs by resource.
    """
    own = {resource: str(gpus) for resource, gpus in reserved.items()}
    parts: dict[str, dict[str, Any]] = {part: found.get(part) or {} for part in ("limits", "requests")}
    asked = {name for part in parts.values() for name in part if any(fnmatchcase(name, each) for each in patterns)}
    none = dict.fromkeys(sorted(asked), "0")
    return {**found, **{part: {**quantities, **none, **own} for part, quantities in parts.items()}}


def pinned(affinity: Mapping[str, Any], node: str) -> dict[str, Any]:
    """Return the affinity that restricts a pod to one node, in addition to its earlier requirements."""
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    before = affinity.get("nodeAffinity") or {}
    required = before.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or []), here]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    return {
        **affinity,
        "nodeAffinity": {**before, "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
    }


# ---------- end of a pod


def over(pod: Pod, now: float) -> str | None:
    """Return why a pod, and with it its notebook, has ended; None while it may still run.

    ``now`` is in seconds since the epoch.
    """
    status = pod["status"]
    if status.get("phase") in {"Failed", "Succeeded"}:
        return f"Its pod has ended: {_reason(status)}."
    leaving = pod["metadata"].get("deletionTimestamp")
    if leaving is not None and now - datetime.fromisoformat(leaving).timestamp() > LOST_AFTER_S:
        return f"The node {pod['spec'].get('nodeName')} that it ran on does not answer any more."
    return None


def ended_by_itself(pod: Pod) -> bool:
    """Return whether all containers of the pod have ended, so that its object in the API may be deleted."""
    return pod["status"].get("phase") in {"Failed", "Succeeded"}


def hopeless(pod: Pod) -> str | None:
    """Return why a starting pod can never become ready; None if it can."""
    status = pod["status"]
    if status.get("phase") in {"Failed", "Succeeded"}:
        return f"The notebook's pod ended before it was ready: {_reason(status)}."
    for container in [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]:
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in HOPELESS:
            said = brief(waiting.get("message") or waiting["reason"])
            ended = container.get("lastState", {}).get("terminated")
            code = f" It ended with exit code {ended.get('exitCode')}." if ended else ""
            return f"The notebook's container does not start: {said}.{code}"
    return None


def _reason(status: Mapping[str, Any]) -> str:
    reason, message = status.get("reason"), status.get("message")
    if reason == "Evicted":
        return brief(f"it was evicted from its node ({message})" if message else "it was evicted from its node")
    for container in status.get("containerStatuses", ()):
        ended = container.get("state", {}).get("terminated")
        if container.get("name") == NOTEBOOK and ended:
            why = f" ({ended['reason']})" if ended.get("reason") not in {None, "Error", "Completed"} else ""
            return f"the notebook server ended with exit code {ended.get('exitCode')}{why}"
    return brief(message or reason or "no reason is known")


# ---------- start of a pod


def news(pod: Pod | None, events: Sequence[Event], place: int | None) -> str:
    """Return a sentence about the progress of a starting pod and the reason of its wait.

    ``events`` are the pod's own, oldest first; ``place`` is its place in the queue, None if unknown.
    """
    if pod is None:
        return "Your notebook's pod is being made."
    if not pod["spec"].get("nodeName"):
        return _waits_for_room(events, place)
    for event in reversed(events):
        if event.get("reason") in _STARTING:
            sentence = _STARTING[event["reason"]].format(message=brief(event.get("message") or ""))
            return f"Your notebook has a place on {pod['spec']['nodeName']}. {_ended(sentence)}"
    return f"Your notebook has a place on {pod['spec']['nodeName']} and is starting there."


def _waits_for_room(events: Sequence[Event], place: int | None) -> str:
    line = f" Your notebook is number {place} in line." if place is not None else ""
    for event in reversed(events):
        if event.get("reason") == "TriggeredScaleUp":
            return f"The cluster is adding a node for your notebook, which takes some minutes.{line}"
        if event.get("reason") == "FailedScheduling":
            return no_room(event.get("message") or "") + line
    return f"Your notebook waits for a node with room for it.{line}"


def no_room(message: str) -> str:
    """Return a sentence for the message of the cluster's scheduler when no node fits."""
    if claim := _MISSING_CLAIM.search(message):
        return f"The volume {claim[1]} that your notebook needs does not exist."
    if "unbound immediate PersistentVolumeClaims" in message:
        return "The volume with your home is still being made."
    reasons = message.partition(" nodes are available: ")[2].partition(". ")[0].strip().rstrip(".")
    lacking: dict[str, int] = {}
    for part in reasons.split(", "):
        if found := _NODES.match(part):
            lacks = next((words for sign, words in _LACKS if sign in found[2]), f"said: {found[2]}")
            lacking[lacks] = lacking.get(lacks, 0) + int(found[1])
    if not lacking:
        return f"No node takes your notebook yet: {_ended(brief(message))}"
    parts = [f"{count(nodes, 'node')} {plural(nodes, 'has', 'have')} {what}" for what, nodes in lacking.items()]
    return brief(f"No node has room for your notebook yet: {', '.join(parts)}") + "."


def place_in_line(pod: Pod, others: Iterable[Pod]) -> int | None:
    """Return the pod's place among the notebooks that wait for a node, from 1; None if the pod has a node."""
    if pod["spec"].get("nodeName"):
        return None
    waiting = [
        other
        for other in others
        if not other["spec"].get("nodeName") and other["status"].get("phase") == "Pending"
    ]
    return sum(_age(other) <= _age(pod) for other in waiting)


def _age(pod: Pod) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("creationTimestamp") or "", metadata.get("uid") or ""


def events_of(pod: Pod, events: Iterable[Event]) -> list[Event]:
    """Return the events of this pod, oldest first, without those of an earlier pod with the same name."""
    uid = pod["metadata"].get("uid")
    mine = [event for event in events if event.get("involvedObject", {}).get("uid") == uid]
    return sorted(mine, key=_time)


def _time(event: Event) -> str:
    last = event.get("lastTimestamp") or event.get("eventTime")
    return str(last or event["metadata"].get("creationTimestamp") or "")


# ---------- text


def brief(text: str) -> str:
    """Return the text as one line, cut to `LONGEST` printable characters, without a full stop."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return (line if len(line) <= LONGEST else f"{line[:LONGEST]}…").rstrip(". ")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(".") else f"{sentence}."

"""What a notebook's pod asks for, and what its state means in words; pure, over the objects of the API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from springtide.spawner.options import count

Pod: TypeAlias = Mapping[str, Any]
Event: TypeAlias = Mapping[str, Any]

NOTEBOOK: Final = "notebook"
"""The container that the notebook server runs in, as KubeSpawner calls it."""
LOST_AFTER_S: Final = 60.0
"""A pod that should have ended so long ago is on a node that does not answer."""
HOPELESS: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "InvalidImageName",
    }
)
"""What a container waits for that does not get better by waiting."""
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


# ---------- what it asks for


def resources(found: Mapping[str, Any], resource: str, gpus: int) -> dict[str, Any]:
    """A container's resources with exactly so many GPUs, whatever was asked for before; 0 is said too."""
    own = {resource: str(gpus)}
    return {
        **found,
        "limits": {**(found.get("limits") or {}), **own},
        "requests": {**(found.get("requests") or {}), **own},
    }


def pinned(affinity: Mapping[str, Any], node: str) -> dict[str, Any]:
    """The affinity of a pod that may run on one node only; what it required before, it still requires."""
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


# ---------- how it ended


def over(pod: Pod, now: float) -> str | None:
    """Why a pod has ended and its notebook with it; None while it may still run. ``now`` is seconds since 1970."""
    status = pod["status"]
    if status.get("phase") in {"Failed", "Succeeded"}:
        return f"Its pod has ended: {_reason(status)}."
    leaving = pod["metadata"].get("deletionTimestamp")
    if leaving is not None and now - datetime.fromisoformat(leaving).timestamp() > LOST_AFTER_S:
        return f"The node {pod['spec'].get('nodeName')} that it ran on does not answer any more."
    return None


def ended_by_itself(pod: Pod) -> bool:
    """Whether all of it has ended, so that what is left in the API may be deleted."""
    return pod["status"].get("phase") in {"Failed", "Succeeded"}


def hopeless(pod: Pod) -> str | None:
    """Why a pod that was to start will not, None if it may."""
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
    return brief(message or reason or "nobody said why")


# ---------- how it starts


def news(pod: Pod | None, events: Sequence[Event], place: int | None) -> str:
    """How far a pod has come that is to start, and what it waits for. ``events`` are its own, oldest first."""
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
    """What the cluster's scheduler says when it finds no node, in words."""
    if claim := _MISSING_CLAIM.search(message):
        return f"The volume {claim[1]} that your notebook needs does not exist."
    if "unbound immediate PersistentVolumeClaims" in message:
        return "The volume with your home is still being made."
    told = message.partition(" nodes are available: ")[2].partition(". ")[0].strip().rstrip(".")
    lacking: dict[str, int] = {}
    for part in told.split(", "):
        if found := _NODES.match(part):
            lacks = next((words for sign, words in _LACKS if sign in found[2]), f"said: {found[2]}")
            lacking[lacks] = lacking.get(lacks, 0) + int(found[1])
    if not lacking:
        return f"No node takes your notebook yet: {_ended(brief(message))}"
    parts = [f"{count(nodes, 'node')} {'has' if nodes == 1 else 'have'} {what}" for what, nodes in lacking.items()]
    return brief(f"No node has room for your notebook yet: {', '.join(parts)}") + "."


def place_in_line(pod: Pod, others: Iterable[Pod]) -> int | None:
    """How many of the notebooks that wait for a node have waited at least as long, itself among them."""
    if pod["spec"].get("nodeName"):
        return None
    waiting = [
        each for each in others if not each["spec"].get("nodeName") and each["status"].get("phase") == "Pending"
    ]
    return sum(_age(each) <= _age(pod) for each in waiting)


def _age(pod: Pod) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("creationTimestamp") or "", metadata.get("uid") or ""


def events_of(pod: Pod, events: Iterable[Event]) -> list[Event]:
    """The events of this very pod, oldest first; one of an earlier pod with its name does not count."""
    uid = pod["metadata"].get("uid")
    mine = [event for event in events if event.get("involvedObject", {}).get("uid") == uid]
    return sorted(mine, key=_time)


def _time(event: Event) -> str:
    last = event.get("lastTimestamp") or event.get("eventTime")
    return str(last or event["metadata"].get("creationTimestamp") or "")


# ---------- words


def brief(text: str) -> str:
    """One line of printable characters, not too long, without a full stop."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return (line if len(line) <= LONGEST else f"{line[:LONGEST]}…").rstrip(". ")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(".") else f"{sentence}."

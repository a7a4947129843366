"""Judges a day on a cluster by the pods and nodes of its API server alone, whatever the pool's service says; pure.

Whose a pod is say its labels and annotations, how many GPUs it holds say its requests.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster_day.trail import Trail
from clusters.audit import Request

GPU = "nvidia.com/gpu"
JOB, ATTEMPT, RANK = "springtide.io/job", "springtide.io/attempt", "springtide.io/rank"
PROJECT, WORKER, SIZE = "springtide.io/project", "springtide.io/worker", "springtide.io/size"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class SeenPod:
    """What the judge reads of a pod. ``slots`` are the GPUs of its node that the pool planned it on.

    ``begun``: the kubelet of its node has begun with it. ``grace`` is its time to end, in seconds.
    """

    uid: str
    name: str
    node: str
    gpus: int
    ended: bool
    code: int | None
    job: str = ""
    attempt: int = 0
    rank: int = 0
    size: int = 1
    project: str = ""
    slots: tuple[int, ...] = ()
    begun: bool = True
    grace: float = 30.0

    @property
    def holds(self) -> bool:
        """Whether it has its GPUs: bound to a node, and not ended."""
        return bool(self.node) and not self.ended


@dataclass(frozen=True, slots=True)
class SeenNode:
    """What the judge reads of a node: ``up`` unless its kubelet is silent, ``takes`` pods unless it is closed."""

    uid: str
    name: str
    gpus: int
    up: bool
    takes: bool
    fenced: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job that the pool has accepted; its own program ends with ``code``."""

    job: str
    project: str
    gpus: int
    workers: int = 1
    code: int = 0

    @property
    def size(self) -> int:
        """All its GPUs."""
        return self.gpus * self.workers


@dataclass(slots=True)
class Judge:
    """The verdict on a day so far; ``quotas`` are in GPUs, by project.

    ``limit`` is the longest time in seconds for which a project may wait for GPUs within its quota that others
    hold beyond theirs, or nobody has; None tolerates any. ``longest`` is the longest time that there was.
    What happened has to be said within ``said_within`` seconds; ``said_after`` has the times, by who said it.
    ``completed`` counts how often each job ran to its end; of those in ``unsure`` an end may have been missed.
    ``ghosts`` are pods that are gone from the API and may still run. ``cut_short`` counts the pods that the API
    server removed at once although they were to have time to end. ``about`` has the uids of the pods of problems.
    Times are in seconds on one clock, that of the requests' log.
    """

    quotas: Mapping[str, int]
    limit: float | None = None
    said_within: float | None = None
    problems: list[str] = field(default_factory=list)
    longest: float = 0.0
    pods: dict[str, SeenPod] = field(default_factory=dict)
    nodes: dict[str, SeenNode] = field(default_factory=dict)
    ghosts: dict[str, SeenPod] = field(default_factory=dict)
    wanted: dict[str, Wanted] = field(default_factory=dict)
    completed: Counter[str] = field(default_factory=Counter)
    unsure: set[str] = field(default_factory=set)
    cut_short: int = 0
    events: int = 0
    trail: Trail = field(default_factory=Trail)
    about: dict[str, tuple[str, ...]] = field(default_factory=dict)
    said_after: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _ends: dict[tuple[str, int], dict[int, int | None]] = field(default_factory=dict)
    _codes: defaultdict[str, set[int | None]] = field(default_factory=lambda: defaultdict(set))
    _starved_since: dict[str, float] = field(default_factory=dict)
    _ghosts_until: dict[str, float] = field(default_factory=dict)
    _uids: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    _bound: dict[str, int] = field(default_factory=dict)
    _newest: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _deleted: dict[str, int] = field(default_factory=dict)

    # ---------- events

    def see_node(self, kind: str, found: Mapping[str, Any], *, at: float = 0.0) -> None:
        """Take in an event of a watch of nodes, or a look at a node, which may be ahead of the watch."""
        self.trail.see_node(kind, found, at)
        name, version = found["metadata"]["name"], _version(found)
        if version < self._newest[name]:
            return
        before, self._newest[name] = self.nodes.get(name), version
        if kind == "DELETED":
            self.nodes.pop(name, None)
            self._deleted[name] = version
        else:
            self.nodes[name] = read_node(found)
            if before is not None and before.uid != self.nodes[name].uid:
                self._deleted[name] = version
        node = self.nodes.get(name)
        if node is None or node.fenced:
            self._lay({uid for uid, pod in self.ghosts.items() if pod.node == name})
        elif node.up:
            ghosts = self.ghosts.keys() - self._ghosts_until.keys()
            self._lay({uid for uid in ghosts if self.ghosts[uid].node == name})

    def see_pod(
        self,
        kind: str,
        found: Mapping[str, Any],
        *,
        missed: bool = False,
        at: float = 0.0,
        requests: Collection[Request] = (),
    ) -> None:
        """Take in an event of a watch of pods; ``missed``: it is made up from what a new list lacks.

        ``requests`` are those about the pod, if it is gone without an end.
        """
        self.events += 1
        self.trail.see_pod(kind, found, at, missed=missed)
        pod = read_pod(found)
        before = self.pods.get(pod.uid)
        self._uids[pod.job][pod.uid] = None
        if pod.node:
            self._bound.setdefault(pod.uid, _version(found))
        if kind == "DELETED":
            self.pods.pop(pod.uid, None)
            if pod.holds and not missed:
                self._vanished(pod, at, requests)
        else:
            self.pods[pod.uid] = pod
        if pod.ended and pod.job and (before is None or not before.ended):
            self._ended(pod)
        if pod.holds and (before is None or not before.holds):
            self._check_node(pod.node)
            self._check_job(pod.job)

    def _vanished(self, pod: SeenPod, at: float, requests: Collection[Request]) -> None:
        """A pod is gone that had not ended: on a node that is up its program runs on.

        The API server removes one at once that is deleted while it is being bound. If its kubelet was fast enough
        to begin with it, it has as long to end as it was to have.
        """
        node = self.nodes.get(pod.node)
        if node is None or node.fenced or not pod.begun or self._bound[pod.uid] < self._deleted.get(pod.node, 0):
            return
        if not node.up:
            self.ghosts[pod.uid] = pod
        elif is_cut_short(requests):
            self.cut_short += 1
            self.ghosts[pod.uid], self._ghosts_until[pod.uid] = pod, at + pod.grace
        else:
            self.report(f"{pod.name} was removed from {pod.node}, which is up, before it had ended", [pod.uid])

    def _lay(self, ghosts: Iterable[str]) -> None:
        """Forget ghosts, which run no longer."""
        for uid in ghosts:
            del self.ghosts[uid]
            self._ghosts_until.pop(uid, None)

    def _ended(self, pod: SeenPod) -> None:
        ends = self._ends.setdefault((pod.job, pod.attempt), {})
        ends.setdefault(pod.rank, pod.code)
        self._codes[pod.job].add(pod.code)
        wanted = self.wanted.get(pod.job)
        if wanted is not None and wanted.code and pod.code == wanted.code:
            del self.wanted[pod.job]
        if len(ends) == pod.size and all(code == 0 for code in ends.values()):
            self.completed[pod.job] += 1
            self.wanted.pop(pod.job, None)
            if self.completed[pod.job] > 1:
                times = self.completed[pod.job]
                self.report(f"the job {pod.job} ran to its end {times} times", self.uids_of(pod.job))

    def _held(self) -> Iterable[SeenPod]:
        return (pod for pod in (*self.pods.values(), *self.ghosts.values()) if pod.holds)

    def _check_node(self, name: str) -> None:
        node = self.nodes.get(name)
        here = [pod for pod in self._held() if pod.node == name]
        names, uids = ", ".join(sorted(pod.name for pod in here if pod.gpus)), [pod.uid for pod in here]
        if node is not None and sum(pod.gpus for pod in here) > node.gpus:
            self.report(f"{name} has {node.gpus} GPUs, and more are bound: {names}", uids)
        slots = Counter(slot for pod in here for slot in pod.slots)
        for slot, times in slots.items():
            if times > 1:
                self.report(f"GPU {slot} of {name} is bound {times} times: {names}", uids)

    def _check_job(self, job: str) -> None:
        running = [pod for pod in self._held() if job and pod.job == job]
        if len({pod.attempt for pod in running}) > 1:
            names = ", ".join(sorted(pod.name for pod in running))
            self.report(f"two attempts run at once: {names}", [pod.uid for pod in running])

    def report(self, problem: str, uids: Iterable[str] = ()) -> None:
        """Record a problem, once, with the pods that it is about."""
        if problem not in self.about:
            self.about[problem] = tuple(uids)
            self.problems.append(problem)

    def uids_of(self, job: str) -> list[str]:
        """Return all pods that a job has had."""
        return list(self._uids[job])

    def miss_some(self) -> None:
        """Record that events may have been missed: the ends of jobs that are there may be among them."""
        self.unsure |= self.wanted.keys() | {pod.job for pod in self.pods.values()}

    # ---------- words

    def hear(self, who: str, after: float) -> None:
        """Record that what happened was said, and after how many seconds."""
        self.said_after[who].append(after)
        if self.said_within is not None and after > self.said_within:
            self.report(f"{who} said what happened after {after:.0f} s, not within {self.said_within:g} s")

    # ---------- quotas

    def accept(self, wanted: Wanted) -> None:
        """Record that the pool has accepted a job, in the order of submission; its answer may be late."""
        if wanted.code not in self._codes[wanted.job]:
            self.wanted[wanted.job] = wanted

    def look(self, now: float, *, excused: bool) -> None:
        """Measure how long projects wait within their quotas; ``excused``: something keeps all jobs waiting."""
        self._lay([uid for uid, until in self._ghosts_until.items() if until <= now])
        starved = set() if excused else set(self.starved())
        for project in set(self._starved_since) - starved:
            del self._starved_since[project]
        for project in starved:
            since = self._starved_since.setdefault(project, now)
            self.longest = max(self.longest, now - since)
            if self.limit is not None and now - since > self.limit:
                self.report(f"{project} waited for more than {self.limit:g} s within its quota")

    def starved(self) -> Iterable[str]:
        """Yield the projects whose next job would fit into their quota and onto the nodes, but does not run."""
        held: Counter[str] = Counter()
        for pod in self._held():
            held[pod.project] += pod.gpus
        alive = {pod.job for pod in (*self.pods.values(), *self.ghosts.values()) if not pod.ended}
        for project, quota in self.quotas.items():
            waiting = (job for job in self.wanted.values() if job.project == project and job.job not in alive)
            following = next(iter(waiting), None)
            if following is None or held[project] + following.size > quota:
                continue
            if self._room(following, held) >= following.workers:
                yield project

    def _room(self, job: Wanted, held: Mapping[str, int]) -> int:
        """Return how many workers of a job the nodes could hold if borrowers left."""
        beyond = {project: max(0, held[project] - quota) for project, quota in self.quotas.items()}
        sizes: Counter[str] = Counter()
        for pod in self._held():
            sizes[pod.job] += pod.gpus
        workers = 0
        for node in self.nodes.values():
            if not (node.takes and node.up):
                continue
            here = [pod for pod in self._held() if pod.node == node.name]
            free = node.gpus - sum(pod.gpus for pod in here)
            borrowed: Counter[str] = Counter()
            for pod in here:
                if pod.project != job.project and pod.project in beyond and sizes[pod.job] <= beyond[pod.project]:
                    borrowed[pod.project] += pod.gpus
            free += sum(min(gpus, beyond[project]) for project, gpus in borrowed.items())
            workers += free // job.gpus
        return workers


def is_cut_short(requests: Collection[Request]) -> bool:
    """Return whether the API server removed a pod at once, although everybody who asked gave it time to end.

    It decides so about a pod that has no node yet, and does so even if the pod is bound in between.
    """
    removals = [request for request in requests if request.removes]
    bound = max((request.answered for request in requests if request.binds), default=None)
    if bound is None or not removals or any(request.grace == 0 for request in removals):
        return False
    return min(request.received for request in removals) < bound


def read_node(found: Mapping[str, Any]) -> SeenNode:
    """Return what the judge reads of a node."""
    conditions = found["status"].get("conditions") or []
    up = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    taints = found["spec"].get("taints") or []
    fenced = any(taint["key"] == OUT_OF_SERVICE for taint in taints)
    takes = not taints and not found["spec"].get("unschedulable")
    gpus = int((found["status"].get("allocatable") or {}).get(GPU, 0))
    return SeenNode(found["metadata"].get("uid", ""), found["metadata"]["name"], gpus, up, takes, fenced)


def read_pod(found: Mapping[str, Any]) -> SeenPod:
    """Return what the judge reads of a pod."""
    meta, spec, status = found["metadata"], found["spec"], found["status"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    gpus = sum(int(each["resources"].get("requests", {}).get(GPU, 0)) for each in spec["containers"])
    codes = [
        each["state"]["terminated"]["exitCode"]
        for each in status.get("containerStatuses") or []
        if "terminated" in each.get("state", {})
    ]
    return SeenPod(
        uid=meta["uid"],
        name=meta["name"],
        node=spec.get("nodeName", ""),
        gpus=gpus,
        ended=status.get("phase") in ENDED,
        code=codes[0] if codes else None,
        job=labels.get(JOB, ""),
        attempt=int(labels.get(ATTEMPT, 0)),
        rank=int(labels.get(RANK, 0)),
        size=int(notes.get(SIZE, 1)),
        project=notes.get(PROJECT, ""),
        slots=tuple(json.loads(notes[WORKER])["gpus"]) if WORKER in notes else (),
        begun=status.get("startTime") is not None,
        grace=float(spec.get("terminationGracePeriodSeconds", 30)),
    )


def _version(found: Mapping[str, Any]) -> int:
    """Return the version of an object; those of pods and nodes count the changes of one store."""
    return int(found["metadata"]["resourceVersion"])

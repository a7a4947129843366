"""What kubelets of fake nodes do not do: run the programs of pods to their ends."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
from cluster import Cluster, ClusterError

ATTEMPT, JOB, RANK = "springtide.io/attempt", "springtide.io/job", "springtide.io/rank"
FOREIGN = "example.com/seconds"
"""Annotation of a pod outside the pool: how long its program runs."""


class Programs:
    """The programs of all pods that run; each ``work SECONDS CODE`` counts its seconds over all attempts.

    What a program is to do is in the launch record that the pool wrote to the volume of jobs, in ``state``.
    Programs on a node in ``silent`` run, and nobody hears of their ends. One that ends by itself says so as the
    supervisor in a pod does: without that its end just after the deletion of its pod would count as a pause.
    """

    def __init__(self, cluster: Cluster, state: Path) -> None:
        self._cluster = cluster
        self._state = state
        self._lock = Lock()
        self._running: dict[str, tuple[dict[str, Any], float]] = {}
        self._done: dict[str, float] = defaultdict(float)
        self.silent: set[str] = set()

    def see_pod(self, kind: str, found: dict[str, Any], _missed: bool) -> None:
        """Take in an event of a watch of pods."""
        uid, runs = found["metadata"]["uid"], found["status"].get("phase") == "Running"
        with self._lock:
            if kind != "DELETED" and runs:
                began = self._running.get(uid, ({}, time.monotonic()))[1]
                self._running[uid] = (found, began)
            elif uid in self._running:
                pod, began = self._running.pop(uid)
                if _labels(pod).get(RANK) == "0":
                    self._done[_job(pod)] += time.monotonic() - began

    def end_some(self) -> None:
        """End the programs that have done their work; what the cluster does not take now is tried again."""
        with self._lock:
            due = [(pod, began) for pod, began in self._running.values() if self._is_due(pod, began)]
        for pod, _ in due:
            meta = pod["metadata"]
            if pod["spec"]["nodeName"] in self.silent or meta.get("deletionTimestamp"):
                continue
            with contextlib.suppress(ClusterError, httpx.HTTPError, KeyError):
                code = self._work(pod)[1]
                message = {"kind": "exited", "at": time.time(), "code": code, "paused": False}
                self._cluster.end_pod(meta["namespace"], meta["name"], code, json.dumps(message))

    def _is_due(self, pod: dict[str, Any], began: float) -> bool:
        return self._done[_job(pod)] + time.monotonic() - began >= self._work(pod)[0]

    def _work(self, pod: dict[str, Any]) -> tuple[float, int]:
        labels = _labels(pod)
        if JOB not in labels:
            return float(pod["metadata"]["annotations"][FOREIGN]), 0
        record = self._state / "jobs" / labels[JOB] / "launches" / f"{labels[ATTEMPT]}.json"
        _, seconds, code = json.loads(record.read_bytes())["spec"]["argv"]
        return float(seconds), int(code)


def _job(pod: dict[str, Any]) -> str:
    return str(_labels(pod).get(JOB, pod["metadata"]["uid"]))


def _labels(pod: dict[str, Any]) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}

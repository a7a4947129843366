"""What kubelets of fake nodes do not do: run the programs of pods to their ends."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
from clusters.cluster import Cluster, ClusterError

from springtide.scheduler.executors.supervisor.pod import SIGNALLED
from springtide.scheduler.executors.supervisor.records import Names, write_record

ATTEMPT, JOB, RANK = "springtide.io/attempt", "springtide.io/job", "springtide.io/rank"
FOREIGN = "example.com/seconds"
"""Annotation of a pod outside the pool: how long its program runs."""


class Programs:
    """The programs of all pods that run; each ``work SECONDS CODE`` counts its seconds over all attempts.

    What a program is to do is in the launch record that the pool wrote to the volume of jobs, in ``state``.
    Programs on a node in ``silent`` run, and nobody hears of their ends. Starts and ends are recorded as the
    supervisor in a pod does, in the termination message and on the volume: the pod may be gone before the service
    sees how it ended.
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
                if uid not in self._running:
                    self._record(found, {"started": time.time()}, ended=False)
                began = self._running.get(uid, ({}, time.monotonic()))[1]
                self._running[uid] = (found, began)
            elif uid in self._running:
                pod, began = self._running.pop(uid)
                if _labels(pod).get(RANK) == "0":
                    self._done[_job(pod)] += time.monotonic() - began
                if (end := _end(found)) is not None:
                    self._record(found, end, ended=True)

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

    def _record(self, pod: dict[str, Any], record: dict[str, Any], *, ended: bool) -> None:
        """Write the record of a start or an end to the volume of jobs."""
        labels = _labels(pod)
        if JOB not in labels:
            return
        path = self._state / "jobs" / labels[JOB] / "attempts" / labels[ATTEMPT]
        with contextlib.suppress(FileNotFoundError):  # the service has removed what is left of the attempt
            directory = os.open(path, os.O_RDONLY)
            try:
                names = Names(int(labels[RANK]))
                write_record(directory, names.exit if ended else names.record, record, durable=False)
            finally:
                os.close(directory)

    def _is_due(self, pod: dict[str, Any], began: float) -> bool:
        return self._done[_job(pod)] + time.monotonic() - began >= self._work(pod)[0]

    def _work(self, pod: dict[str, Any]) -> tuple[float, int]:
        labels = _labels(pod)
        if JOB not in labels:
            return float(pod["metadata"]["annotations"][FOREIGN]), 0
        record = self._state / "jobs" / labels[JOB] / "launches" / f"{labels[ATTEMPT]}.json"
        _, seconds, code = json.loads(record.read_bytes())["spec"]["argv"]
        return float(seconds), int(code)


def _end(pod: dict[str, Any]) -> dict[str, Any] | None:
    """Return the record of a program's end, None if nobody knows of it; one that a signal ends was to pause."""
    for status in pod["status"].get("containerStatuses") or ():
        ended = status["state"].get("terminated")
        if ended is not None and ended.get("message"):
            return dict(json.loads(ended["message"]))
        if ended is not None:
            return {
                "kind": "exited",
                "at": time.time(),
                "signal": ended["exitCode"] - SIGNALLED,
                "paused": True,
            }
    return None


def _job(pod: dict[str, Any]) -> str:
    return str(_labels(pod).get(JOB, pod["metadata"]["uid"]))


def _labels(pod: dict[str, Any]) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}

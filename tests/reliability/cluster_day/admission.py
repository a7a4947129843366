"""Webhooks of a cluster that shape, refuse or keep waiting the pods of a namespace."""

from __future__ import annotations

import base64
import contextlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Lock
from typing import Any

from clusters.cluster import Cluster
from clusters.webhooks import admission

STOP_AFTER, NO_IMAGE = "springtide.io/fake-stop-after", "springtide.io/fake-image"
REFUSAL = "pods of this namespace need a cost centre"
UNREACHABLE = "Back-off pulling image: ErrImagePull: rpc error: code = Unavailable desc = registry away"
LONGEST_STALL_S = 30.0


class Admission:
    """Two webhooks, which its attributes direct.

    Pods take up to ``slowest_end`` seconds to end. With ``registry_away`` they get no image, with ``refuses`` they
    are refused, and with ``stalls`` the answer comes when the API server has given up waiting. ``counts`` says how
    often.
    """

    def __init__(self, rng: random.Random, slowest_end: float) -> None:
        self.registry_away = self.refuses = self.stalls = False
        self.counts: Counter[str] = Counter()
        self._slowest_end = slowest_end
        self._rng = rng
        self._lock = Lock()
        self._stopping = Event()

    @contextlib.contextmanager
    def serving(self, cluster: Cluster, namespace: str, folder: Path, *, timeout_s: int) -> Iterator[None]:
        """Have the API server ask about all new pods of the namespace; it waits ``timeout_s`` seconds."""
        kinds = {"mutating": "Ignore", "validating": "Fail"}
        with admission(cluster, namespace, folder, self.answer, kinds=kinds, timeout_s=timeout_s):
            try:
                yield
            finally:
                self._stopping.set()

    def answer(self, kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a request."""
        if kind == "mutating":
            notes = {**(request["object"]["metadata"].get("annotations") or {}), **self._notes()}
            patch = [{"op": "add", "path": "/metadata/annotations", "value": notes}]
            return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        if self.stalls:
            self._count("stalled")
            self._stopping.wait(LONGEST_STALL_S)
        elif self.refuses:
            self._count("refused")
            return {"allowed": False, "status": {"code": 403, "message": REFUSAL}}
        return {}

    def _notes(self) -> dict[str, str]:
        with self._lock:
            notes = {STOP_AFTER: f"{self._rng.random() * self._slowest_end * 1000:.0f}ms"}
        return notes | ({NO_IMAGE: UNREACHABLE} if self.registry_away else {})

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

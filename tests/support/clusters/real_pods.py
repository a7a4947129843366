"""Pods on a real node, their output and their exit codes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clusters.cluster import Cluster, ClusterError
from clusters.node_images import image
from clusters.real_node import RealNode
from patience import PATIENCE_S

TIMEOUT_S = 1.5 * PATIENCE_S
RECORDED = "springtide.io/recorded"
USER = 1000


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods on one real node, in one namespace that accepts restricted pods only."""

    cluster: Cluster
    node: RealNode
    namespace: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def create(
        self,
        name: str,
        program: str,
        *arguments: str,
        container: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        **spec: Any,
    ) -> str:
        """Create a pod that runs a Python program in the notebook image; return its name."""
        body = {
            "metadata": {"name": name, **(metadata or {})},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "nodeSelector": {"kubernetes.io/hostname": self.node.name},
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER,
                    "fsGroup": 100,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "program",
                        "image": image("notebook"),
                        "command": ["python3", "-c", program, *arguments],
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        **(container or {}),
                    }
                ],
                **spec,
            },
        }
        self.cluster.request("POST", self.path, body)
        return name

    def get(self, name: str) -> dict[str, Any]:
        pod: dict[str, Any] = self.cluster.request("GET", f"{self.path}/{name}")
        return pod

    def delete(self, name: str, grace_s: int) -> None:
        self.cluster.request("DELETE", f"{self.path}/{name}", gracePeriodSeconds=str(grace_s))

    def log(self, name: str) -> str:
        return str(self.cluster.request("GET", f"{self.path}/{name}/log"))

    def wait(self, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the pod as soon as the condition holds; an AssertionError has its status and log."""
        deadline = time.monotonic() + TIMEOUT_S
        while not holds(pod := self.get(name)):
            assert time.monotonic() < deadline, (pod["status"], self._log_if_any(name))
            time.sleep(0.1)
        return pod

    def _log_if_any(self, name: str) -> str:
        try:
            return self.log(name)
        except ClusterError as error:
            return f"no log: {error}"

    def says(self, name: str, words: str) -> None:
        """Wait until the pod has printed a text."""
        self.wait(name, lambda pod: _runs_or_ran(pod) and words in self.log(name))

    def exit_code(self, name: str) -> int:
        """Wait until the pod's program has ended, and return its exit code."""
        pod = self.wait(name, lambda pod: ended(pod) is not None)
        code = ended(pod)
        assert code is not None
        return code

    def run(self, name: str, program: str, *arguments: str, **options: Any) -> str:
        """Run a program to completion and return its output; its exit code has to be 0."""
        self.create(name, program, *arguments, **options)
        code, said = self.exit_code(name), self.log(name)
        assert code == 0, said
        return said


def ended(pod: dict[str, Any]) -> int | None:
    """Return the exit code of a pod's one container; None while it has not ended."""
    for status in pod["status"].get("containerStatuses", []):
        if "terminated" in status["state"]:
            return int(status["state"]["terminated"]["exitCode"])
    return None


def _runs_or_ran(pod: dict[str, Any]) -> bool:
    return any("waiting" not in status["state"] for status in pod["status"].get("containerStatuses", []))

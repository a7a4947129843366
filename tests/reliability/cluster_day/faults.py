"""What happens to clusters: maintenance, losses, other people's pods, refusals, and processes that are away."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
from cluster_day.admission import NO_IMAGE
from cluster_day.day import POOL, Day
from cluster_day.programs import FOREIGN
from cluster_day.words import say_not_ready, say_without_image
from clusters.cluster import STRATEGIC_PATCH, ClusterError
from clusters.drains import drain

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ANY = [{"operator": "Exists"}]
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
Effect = Callable[[], Any]


def _nothing() -> None:
    """Do nothing."""


def hold(
    day: Day, fault: str, effect: Effect, *, least: float = 0.0, kills: bool = True, then: Effect = _nothing
) -> None:
    """Let a fault stay for ``least`` seconds or longer, and until it has had an effect; ``then`` do something.

    The service is killed meanwhile now and then, if it ``kills``.
    """
    figures, plan = day.figures, day.plan
    figures.faults[fault] += 1
    ends = time.monotonic() + max(least, day.rng.random() * plan.hold)
    if kills and day.rng.random() < plan.kills:
        day.kill_service()
    if not day.until(effect, f"{fault} has an effect", patience=2 * plan.hold or plan.patience):
        figures.without_effect[fault] += 1
    then()
    time.sleep(max(0.0, ends - time.monotonic()))


def _busy_node(day: Day) -> str:
    """Return a node with a job on it, or any if there is none for long."""
    busy: list[str] = []

    def found() -> bool:
        busy[:] = [name for name in day.nodes if any(pod.job for pod in day.held_on(name))]
        return bool(busy)

    day.until(found, "a node is busy", patience=day.plan.patience)
    return day.rng.choice(busy or day.nodes)


# ---------- maintenance and losses


def drained_node(day: Day) -> None:
    """A node is drained, and taken back."""
    name = _busy_node(day)
    gone = drain(day.cluster, name, emptied=True)
    hold(day, "drain", lambda: gone)
    day.cluster.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": False}})


def upgraded_node(day: Day) -> None:
    """A node is drained and removed, and comes back with another version."""
    name = _busy_node(day)
    drain(day.cluster, name, emptied=True)
    day.cluster.request("DELETE", f"/api/v1/nodes/{name}")
    hold(day, "node upgrade", lambda: name not in day.judge.nodes)
    day.add_node(name)
    version = {"status": {"nodeInfo": {"kubeletVersion": f"v1.35.{day.figures.faults['node upgrade']}"}}}
    day.cluster.request("PATCH", f"/api/v1/nodes/{name}/status", version, STRATEGIC_PATCH)


@contextlib.contextmanager
def _silent(day: Day, name: str) -> Iterator[None]:
    """Have a node fall silent with what runs on it; the figures keep how soon that is said."""
    day.programs.silent.add(name)
    silent_since = time.monotonic()
    try:
        if day.plan.hold:
            day.cluster.silence_node(name)
        else:
            day.cluster.lose_node(name)
        day.until(lambda: not day.judge.nodes[name].up, f"{name} is not ready")
        day.figures.not_ready_after.append(time.monotonic() - silent_since)
        say_not_ready(day, name)
        yield
    finally:
        day.cluster.return_node(name)
        day.programs.silent.discard(name)


def silent_node(day: Day) -> None:
    """A node falls silent, and is back later with all that runs on it."""
    name = _busy_node(day)
    with _silent(day, name):
        hold(day, "silent node", lambda: not day.judge.nodes[name].up)


def fenced_node(day: Day) -> None:
    """A node falls silent, somebody turns its machine off and says so, and it is back later, empty."""
    name = _busy_node(day)
    path = f"/api/v1/nodes/{name}"
    with _silent(day, name):
        taints = day.cluster.request("GET", path)["spec"].get("taints") or []
        off = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
        day.cluster.request("PATCH", path, {"spec": {"taints": [*taints, off]}})
        hold(day, "node turned off", lambda: not day.held_on(name))
        rest = [
            taint for taint in day.cluster.request("GET", path)["spec"]["taints"] if taint["key"] != OUT_OF_SERVICE
        ]
        day.cluster.request("PATCH", path, {"spec": {"taints": rest}})


def deleted_pod(day: Day) -> None:
    """Somebody deletes the pod of a job."""
    pods = [
        found
        for found in list(day.pods.values())
        if (found["metadata"].get("labels") or {}).get("springtide.io/job")
    ]
    for found in day.rng.sample(pods, min(2, len(pods))):
        with contextlib.suppress(ClusterError):
            day.cluster.request("DELETE", f"/api/v1/namespaces/{day.namespace}/pods/{found['metadata']['name']}")
    hold(day, "deleted pods", lambda: True)


# ---------- pods of others


def _foreign_job(day: Day, name: str, pods: int, gpus: int, **spec: Any) -> str:
    """Create a batch Job of somebody else on the pool's nodes; return its path."""
    container = {"name": "x", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    seconds = day.rng.uniform(day.plan.shortest, day.plan.longest)
    template = {
        "metadata": {"annotations": {FOREIGN: f"{seconds:.1f}"}},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {POOL: day.namespace},
            "tolerations": ANY,
            "containers": [container],
            **spec,
        },
    }
    body = {"metadata": {"name": name}, "spec": {"parallelism": pods, "completions": pods, "template": template}}
    path = f"/apis/batch/v1/namespaces/{day.team}/jobs"
    day.cluster.request("POST", path, body)
    return f"{path}/{name}"


def _foreign_pods(day: Day) -> list[dict[str, Any]]:
    return [pod for pod in list(day.pods.values()) if pod["metadata"]["namespace"] == day.team]


def _remove_foreign(day: Day, path: str) -> None:
    day.cluster.request("DELETE", path, propagationPolicy="Background")
    day.until(lambda: not _foreign_pods(day), "the pods of others are gone")


def foreign_job(day: Day) -> None:
    """Somebody else's batch Job takes GPUs as they become free."""
    path = _foreign_job(day, f"batch-{day.figures.faults['foreign Job']}", pods=2, gpus=1)
    hold(day, "foreign Job", lambda: any(pod["spec"].get("nodeName") for pod in _foreign_pods(day)))
    _remove_foreign(day, path)


def preemptor(day: Day) -> None:
    """A pod of a higher priority class drives jobs from a node."""
    name = f"above-{day.namespace}"
    day.cluster.request("POST", PRIORITIES, {"metadata": {"name": name}, "value": 1000})
    try:
        number = day.figures.faults["preemptor"]
        path = _foreign_job(day, f"above-{number}", pods=1, gpus=8, priorityClassName=name)
        hold(day, "preemptor", lambda: any(pod["spec"].get("nodeName") for pod in _foreign_pods(day)))
        _remove_foreign(day, path)
    finally:
        day.cluster.request("DELETE", f"{PRIORITIES}/{name}")


# ---------- refusals


def _says_refused(day: Day) -> bool:
    return any("could not be started" in (job.get("reason") or {}).get("text", "") for job in day.jobs())


def _refused_by(day: Day, fault: str, kind: str, spec: dict[str, Any]) -> None:
    path = f"/api/v1/namespaces/{day.namespace}/{kind}"
    with day.outage():
        day.cluster.request("POST", path, {"metadata": {"name": "day"}, "spec": spec})
        hold(day, fault, lambda: _says_refused(day))
        day.cluster.request("DELETE", f"{path}/day")


def resource_quota(day: Day) -> None:
    """A ResourceQuota lets no further pod in."""
    _refused_by(day, "ResourceQuota", "resourcequotas", {"hard": {"pods": "0"}})


def limit_range(day: Day) -> None:
    """A LimitRange refuses what is larger than half a core."""
    limits = [{"type": "Container", "max": {"cpu": "500m"}, "default": {"cpu": "500m"}}]
    _refused_by(day, "LimitRange", "limitranges", {"limits": limits})


def refusing_webhook(day: Day) -> None:
    """A webhook refuses all pods."""
    with day.outage():
        before, day.admission.refuses = day.admission.counts["refused"], True
        hold(day, "refusing webhook", lambda: day.admission.counts["refused"] > before)
        day.admission.refuses = False


def stalling_webhook(day: Day) -> None:
    """A webhook does not answer in time."""
    with day.outage():
        before, day.admission.stalls = day.admission.counts["stalled"], True
        hold(day, "stalling webhook", lambda: day.admission.counts["stalled"] > before)
        day.admission.stalls = False


def registry_away(day: Day) -> None:
    """No image can be pulled."""

    def without_image() -> list[dict[str, Any]]:
        return [pod for pod in list(day.pods.values()) if NO_IMAGE in (pod["metadata"].get("annotations") or {})]

    def waits(pod: dict[str, Any]) -> bool:
        return any("waiting" in each["state"] for each in pod["status"].get("containerStatuses") or ())

    def pulled() -> bool:
        for pod in without_image():
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            with contextlib.suppress(ClusterError):
                day.cluster.request("PATCH", path, {"metadata": {"annotations": {NO_IMAGE: None}}})
        return not without_image()

    with day.outage():
        day.admission.registry_away = True
        least = 0.0 if day.figures.faults["registry away"] else day.plan.registry_away
        said = partial(say_without_image, day) if least else _nothing
        hold(day, "registry away", lambda: any(map(waits, without_image())), least=least, then=said)
        day.admission.registry_away = False
        day.until(pulled, "all images are pulled")


# ---------- processes


def frozen_api(day: Day) -> None:
    """The API server hangs: connections stay open, and nothing answers."""
    with day.outage(), day.cluster.frozen():
        hold(day, "hanging API server", lambda: True, least=2.0, kills=False)


def killed_api(day: Day) -> None:
    """The API server is away, and comes back; it is an outage until the cluster's own clients are back, too."""
    with day.outage():
        day.cluster.stop_api()
        hold(day, "API server away", lambda: True, least=2.0, kills=False)
        day.cluster.return_api()
        day.until(lambda: _reached(day), "all nodes are ready again")
        path = _foreign_job(day, f"probe-{day.figures.faults['API server away']}", pods=1, gpus=0)
        day.until(lambda: any(map(_begun, _foreign_pods(day))), "the cluster starts a pod of others")
        _remove_foreign(day, path)


def _reached(day: Day) -> bool:
    with contextlib.suppress(httpx.HTTPError, ClusterError):
        return set(day.nodes) <= day.cluster.ready_nodes()
    return False


def _begun(pod: dict[str, Any]) -> bool:
    return pod["status"].get("startTime") is not None


def killed_service(day: Day) -> None:
    """The pool's service is killed, and started again."""
    day.kill_service()
    hold(day, "service killed", day.answers, kills=False)


FAULTS: tuple[Callable[[Day], None], ...] = (
    drained_node,
    upgraded_node,
    silent_node,
    fenced_node,
    deleted_pod,
    foreign_job,
    preemptor,
    resource_quota,
    limit_range,
    refusing_webhook,
    stalling_webhook,
    registry_away,
    frozen_api,
    killed_api,
    killed_service,
)

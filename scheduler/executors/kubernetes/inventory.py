"""The nodes of the pool, from the cluster's nodes and the pods that are not jobs; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.kubernetes.objects.api_types import ClusterNode, Pod, Taint
from springtide.scheduler.executors.kubernetes.objects.manifests import pod_tolerations
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Environment, Gpu, Node

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
SIMULATED_GPUS = "springtide.io/simulated-gpus"
REPELLING_EFFECTS = ("NoSchedule", "NoExecute")
DEFAULT_GPU_TYPE = "gpu"
STATIC_NODE_KEYS = {"name", "gpus", "gpu_type", "environment", "labels"}


class Inventory:
    """The pool's nodes, with the GPUs that are out of order or used by pods that are not jobs.

    GPUs are numbered slots: the node decides which device a pod gets, so only the number of taken slots matters.
    The slots that count as taken are chosen among those that no job holds, and stay chosen.
    """

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._nodes = {node.name: node for node in map(static_node, settings.static_nodes)}
        self._unhealthy: dict[str, int] = {}
        self._other_use: dict[str, dict[str, int]] = {}
        self._taken_slots: dict[str, frozenset[int]] = {}
        self._seen = set(self._nodes)

    def update_node(self, before: ClusterNode | None, after: ClusterNode | None) -> bool:
        """Record the present state of a node; return whether the inventory changed."""
        name = (after or before or ClusterNode()).metadata.name
        previous = self._nodes.get(name), self._unhealthy.get(name)
        node = pool_node(after, self._settings) if after is not None else None
        if after is None or node is None:
            self._nodes.pop(name, None)
            self._unhealthy.pop(name, None)
        else:
            self._nodes[name] = node
            self._unhealthy[name] = max(
                0, node.gpus - _count(after.status.allocatable.get(self._settings.gpu_resource))
            )
            self._seen.add(name)
        return (self._nodes.get(name), self._unhealthy.get(name)) != previous

    def update_other_pod(self, before: Pod | None, after: Pod | None) -> bool:
        """Record the present state of a pod that is not a job's; return whether the inventory changed."""
        was, now = (self._gpu_use(pod) for pod in (before, after))
        if was == now:
            return False
        if was is not None:
            self._other_use.get(was[0], {}).pop(was[1], None)
        if now is not None:
            self._other_use.setdefault(now[0], {})[now[1]] = now[2]
        return True

    def _gpu_use(self, pod: Pod | None) -> tuple[str, str, int] | None:
        """Return node, pod uid and number of GPUs of a pod that uses GPUs, None of any other."""
        if pod is None or pod.ended:
            return None
        gpus = gpus_of(pod, self._settings.gpu_resource)
        return (pod.spec.node_name, pod.metadata.uid, gpus) if gpus else None

    def has_seen(self, name: str) -> bool:
        """Return whether the node is in the pool, or was since the service started."""
        return name in self._seen

    def train_node(self, name: str) -> Node | None:
        """Return the train node of this name, None if there is none now."""
        node = self._nodes.get(name)
        return node if node is not None and node.environment is Environment.TRAIN else None

    def nodes(self, held: Mapping[str, Collection[int]], *, fresh: bool) -> tuple[Node, ...]:
        """Return all nodes; ``held`` are the slots that jobs hold. Unless ``fresh``, none is available."""
        return tuple(
            replace(
                node,
                available=node.available and fresh,
                taken=self._choose_taken(node, held.get(node.name, ())),
            )
            for _, node in sorted(self._nodes.items())
        )

    def _choose_taken(self, node: Node, held: Collection[int]) -> frozenset[int]:
        count = self._unhealthy.get(node.name, 0)
        if node.environment is Environment.TRAIN:  # pods on build nodes are notebooks
            count += sum(self._other_use.get(node.name, {}).values())
        free = [index for index in reversed(range(node.gpus)) if index not in held]
        before = self._taken_slots.get(node.name, frozenset())
        free.sort(key=lambda index: index not in before)
        chosen = self._taken_slots[node.name] = frozenset(free[:count])
        return chosen


def pool_node(node: ClusterNode, settings: KubernetesSettings) -> Node | None:
    """Return the pool's view of a node, None if the node has no environment label or no GPUs."""
    labels = node.metadata.labels
    gpus = _count(node.status.capacity.get(settings.gpu_resource))
    environment = labels.get(settings.environment_label)
    if environment not in tuple(Environment) or gpus == 0:
        return None
    gpu_type = next((labels[label] for label in settings.gpu_type_labels if label in labels), DEFAULT_GPU_TYPE)
    return Node(
        name=node.metadata.name,
        gpus=gpus,
        gpu_type=gpu_type,
        environment=Environment(environment),
        labels={level: labels[label] for label, level in settings.topology.items() if label in labels},
        available=ready(node) and not node.spec.unschedulable and _tolerated(node.spec.taints, settings),
        devices=_slots(node.metadata.name, gpus, gpu_type, simulated=labels.get(SIMULATED_GPUS) == "true"),
    )


def static_node(given: Mapping[str, Any]) -> Node:
    """Return a node of the setting ``static_nodes``. Raises `ExecutorError` if it is malformed."""
    wrong = ", ".join(sorted(set(given) - STATIC_NODE_KEYS))
    try:
        name, gpus = str(given["name"]), int(given["gpus"])
        gpu_type = str(given.get("gpu_type", DEFAULT_GPU_TYPE))
        environment = Environment(given.get("environment", "train"))
        labels = {str(level): str(value) for level, value in given.get("labels", {}).items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        wrong = wrong or str(error)
    if wrong:
        raise ExecutorError(
            f"static_nodes: {dict(given)!r} is not a node ({wrong}). Expected name and gpus, and optionally "
            f"gpu_type, environment (train or build) and labels."
        )
    return Node(name, gpus, gpu_type, environment, labels, devices=_slots(name, gpus, gpu_type))


def ready(node: ClusterNode) -> bool:
    """Return whether the node's condition ``Ready`` is true."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def unreachable_since(node: ClusterNode) -> float | None:
    """Return since when the node is unreachable, in seconds since the epoch; None if it is not."""
    for each in node.status.conditions:
        if each.type == "Ready" and each.status == "Unknown" and each.last_transition_time is not None:
            return each.last_transition_time.timestamp()
    return None


def out_of_service(node: ClusterNode) -> bool:
    """Return whether the node has the taint by which an admin asserts that it is shut down."""
    return any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def gpus_of(pod: Pod, resource: str) -> int:
    """Return the number of GPUs that a pod requests."""
    return sum(_count(container.resources.requests.get(resource)) for container in pod.spec.containers)


def _tolerated(taints: Collection[Taint], settings: KubernetesSettings) -> bool:
    tolerations = pod_tolerations(settings)
    return all(
        taint.effect not in REPELLING_EFFECTS or any(_tolerates(each, taint) for each in tolerations)
        for taint in taints
    )


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    exists = toleration.get("operator", "Equal") == "Exists"
    return (
        toleration.get("key", "") in ("", taint.key)
        and toleration.get("effect", "") in ("", taint.effect)
        and (exists or toleration.get("value", "") == taint.value)
    )


def _slots(node: str, count: int, gpu_type: str, *, simulated: bool = False) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"{node}/{index}", index, gpu_type, simulated=simulated) for index in range(count))


def _count(quantity: str | float | None) -> int:
    try:
        return int(quantity or 0)
    except ValueError:
        return 0

"""The nodes of the pool, from what the cluster says of its nodes and of other people's pods; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.kubernetes.manifests import pod_tolerations
from springtide.scheduler.executors.kubernetes.seen import ClusterNode, Pod, Taint
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Environment, Gpu, Node

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
SIMULATED = "springtide.io/simulated-gpus"
KEEPS_AWAY = ("NoSchedule", "NoExecute")
ANY_TYPE = "gpu"
STATIC_KEYS = {"name", "gpus", "gpu_type", "environment", "labels"}


class Inventory:
    """The pool's nodes, with the GPUs that somebody else uses or that are out of order.

    GPUs are numbered slots: which device a pod gets is decided on the node. So it matters only how many slots are
    taken; they are chosen among those that no job holds, and stay chosen.
    """

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._nodes = {node.name: node for node in map(static_node, settings.static_nodes)}
        self._broken: dict[str, int] = {}
        self._foreign: dict[str, dict[str, int]] = {}
        self._chosen: dict[str, frozenset[int]] = {}
        self._ever = set(self._nodes)

    def saw_node(self, before: ClusterNode | None, after: ClusterNode | None) -> bool:
        """Take in how a node is now; whether that matters."""
        name = (after or before or ClusterNode()).metadata.name
        known = self._nodes.get(name), self._broken.get(name)
        node = pool_node(after, self._settings) if after is not None else None
        if after is None or node is None:
            self._nodes.pop(name, None)
            self._broken.pop(name, None)
        else:
            self._nodes[name] = node
            self._broken[name] = max(
                0, node.gpus - _count(after.status.allocatable.get(self._settings.gpu_resource))
            )
            self._ever.add(name)
        return (self._nodes.get(name), self._broken.get(name)) != known

    def saw_foreign(self, before: Pod | None, after: Pod | None) -> bool:
        """Take in how a pod of somebody else is now; whether that matters."""
        was, now = (self._use(pod) for pod in (before, after))
        if was == now:
            return False
        if was is not None:
            self._foreign.get(was[0], {}).pop(was[1], None)
        if now is not None:
            self._foreign.setdefault(now[0], {})[now[1]] = now[2]
        return True

    def _use(self, pod: Pod | None) -> tuple[str, str, int] | None:
        """Node, pod and number of the GPUs that the pod uses, None if it uses none."""
        if pod is None or pod.ended:
            return None
        gpus = gpus_of(pod, self._settings.gpu_resource)
        return (pod.spec.node_name, pod.metadata.uid, gpus) if gpus else None

    def ever_had(self, name: str) -> bool:
        """Whether the node is, or was since we began, one of the pool."""
        return name in self._ever

    def train_node(self, name: str) -> Node | None:
        """The train node of this name, None if there is none now."""
        node = self._nodes.get(name)
        return node if node is not None and node.environment is Environment.TRAIN else None

    def nodes(self, held: Mapping[str, Collection[int]], *, fresh: bool) -> tuple[Node, ...]:
        """All nodes; ``held`` are the slots that jobs hold. What is not ``fresh`` takes nothing new."""
        return tuple(
            replace(
                node,
                available=node.available and fresh,
                taken=self._taken(node, held.get(node.name, ())),
            )
            for _, node in sorted(self._nodes.items())
        )

    def _taken(self, node: Node, held: Collection[int]) -> frozenset[int]:
        wanted = self._broken.get(node.name, 0)
        if node.environment is Environment.TRAIN:  # what runs on build nodes are notebooks
            wanted += sum(self._foreign.get(node.name, {}).values())
        free = [index for index in reversed(range(node.gpus)) if index not in held]
        before = self._chosen.get(node.name, frozenset())
        free.sort(key=lambda index: index not in before)
        chosen = self._chosen[node.name] = frozenset(free[:wanted])
        return chosen


def pool_node(node: ClusterNode, settings: KubernetesSettings) -> Node | None:
    """A node as one of the pool, None if it is not one: it says nothing of its environment, or has no GPUs."""
    labels = node.metadata.labels
    gpus = _count(node.status.capacity.get(settings.gpu_resource))
    environment = labels.get(settings.environment_label)
    if environment not in tuple(Environment) or gpus == 0:
        return None
    gpu_type = next((labels[label] for label in settings.gpu_type_labels if label in labels), ANY_TYPE)
    return Node(
        name=node.metadata.name,
        gpus=gpus,
        gpu_type=gpu_type,
        environment=Environment(environment),
        labels={level: labels[label] for label, level in settings.topology.items() if label in labels},
        available=ready(node) and not node.spec.unschedulable and _tolerated(node.spec.taints, settings),
        devices=_slots(node.metadata.name, gpus, gpu_type, simulated=labels.get(SIMULATED) == "true"),
    )


def static_node(told: Mapping[str, Any]) -> Node:
    """A node as the admin tells it. Raises `ExecutorError` for what cannot be one."""
    wrong = ", ".join(sorted(set(told) - STATIC_KEYS))
    try:
        name, gpus = str(told["name"]), int(told["gpus"])
        gpu_type = str(told.get("gpu_type", ANY_TYPE))
        environment = Environment(told.get("environment", "train"))
        labels = {str(level): str(value) for level, value in told.get("labels", {}).items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        wrong = wrong or str(error)
    if wrong:
        raise ExecutorError(
            f"static_nodes: {dict(told)!r} is not a node ({wrong}). Expected name, gpus, and if need be gpu_type, "
            f"environment (train or build) and labels."
        )
    return Node(name, gpus, gpu_type, environment, labels, devices=_slots(name, gpus, gpu_type))


def ready(node: ClusterNode) -> bool:
    """Whether the node says that it works."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def silent_since(node: ClusterNode) -> float | None:
    """Since when nothing is heard of the node, None if it speaks."""
    for each in node.status.conditions:
        if each.type == "Ready" and each.status == "Unknown" and each.last_transition_time is not None:
            return each.last_transition_time.timestamp()
    return None


def out_of_service(node: ClusterNode) -> bool:
    """Whether somebody vouches that the node stands still."""
    return any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def gpus_of(pod: Pod, resource: str) -> int:
    """The GPUs that a pod takes."""
    return sum(_count(container.resources.requests.get(resource)) for container in pod.spec.containers)


def _tolerated(taints: Collection[Taint], settings: KubernetesSettings) -> bool:
    tolerations = pod_tolerations(settings)
    return all(
        taint.effect not in KEEPS_AWAY or any(_tolerates(each, taint) for each in tolerations) for taint in taints
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

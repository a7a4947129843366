"""The nodes of the pool, from the cluster's nodes, the GPUs published there, and the use of others; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import structs

from springtide.scheduler import wording
from springtide.scheduler.executors.base import ExecutorError, NodeGroup
from springtide.scheduler.executors.kubernetes.devices.claimed import ClaimedDevices
from springtide.scheduler.executors.kubernetes.devices.published import PublishedGpu, PublishedGpus
from springtide.scheduler.executors.kubernetes.devices.templates import by_model, resource_of
from springtide.scheduler.executors.kubernetes.node_groups.groups import ClusterGroup, cluster_groups
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.objects.api_types import (
    ClusterNode,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Taint,
)
from springtide.scheduler.executors.kubernetes.objects.capacity import HostCapacity
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import (
    counts,
    gpus_of,
    model_of,
    own_model,
    pool_names,
)
from springtide.scheduler.executors.kubernetes.objects.manifests import base_tolerations, pod_tolerations
from springtide.scheduler.executors.kubernetes.pod_template import requests_beside
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.kubernetes.slots import PodName, PodPlaces, assign
from springtide.scheduler.gpu_types import machine_of, type_name
from springtide.scheduler.model import Closure, Environment, Gpu, Node
from springtide.scheduler.resources import quantities
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu, nearest, per_gpu_of

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
LEAVING = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "cloud.google.com/impending-node-termination",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "node.cloudprovider.kubernetes.io/shutdown",
)
"""Keys of taints by which autoscalers and clouds announce the removal of a node."""
SIMULATED_GPUS = "springtide.io/simulated-gpus"
NOWHERE: Final[PodPlaces] = MappingProxyType({})
REPELLING_EFFECTS = ("NoSchedule", "NoExecute")
STATIC_NODE_KEYS = {"name", "gpus", "gpu_type", "resource", "environment", "labels", "cpus", "memory", "rdma"}


class Use(NamedTuple):
    """The GPUs of one resource that a pod other than a job's has: of a notebook these are reserved in the pool."""

    pod: str
    gpus: int
    is_notebook: bool


class Inventory:
    """The pool's nodes, with the GPUs that are broken or used by other pods than jobs.

    GPUs are numbered slots: the node decides which device a pod gets, so only the number of taken slots matters.
    Slots that count as taken are chosen among those without a job, and stay chosen. Where pods have more GPUs than
    the node offers, all of its slots are taken: the end of a job there frees none, until the others fit. Notebooks
    count by their reservations, all other pods wherever they are. All names are those of the pool's nodes; a
    cluster's node with several resources has several. Of claimed GPUs it is known which pod has which: slots
    represent them.
    """

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self.groups = cluster_groups(settings)
        self._nodes = {node.name: node for node in static_nodes(settings)}
        self._cordoned: set[str] = set()
        self._last_of_group: dict[str, Node] = {}
        self._unhealthy: dict[str, int] = {}
        self._hosts: dict[str, ClusterNode] = {}
        self._published = PublishedGpus()
        self._claimed = ClaimedDevices(settings.device_driver, settings.pool, settings.claim_namespaces)
        self._gpus_of: dict[str, tuple[PublishedGpu, ...]] = {}
        self._behind: dict[str, dict[int, str]] = {}
        self._of_host: dict[str, tuple[str, ...]] = {}
        self._other_use: dict[tuple[str, str], dict[str, Use]] = {}
        self._nominated_use: dict[tuple[str, str], dict[str, Use]] = {}
        self._capacity = HostCapacity(
            settings.rdma_resources, requests_beside(settings.pod_template, settings.project_pod_templates)
        )
        self._taken_slots: dict[str, frozenset[int]] = {}
        self._overfull: set[str] = set()
        self._set_aside: set[str] = set()
        self._seen = set(self._nodes)

    def update_node(self, before: ClusterNode | None, after: ClusterNode | None) -> bool:
        """Record the present state of a cluster's node; return whether the inventory changed."""
        host = (after or before or ClusterNode()).metadata.name
        if after is None:
            self._hosts.pop(host, None)
            self._published.forget(host)
        else:
            self._hosts[host] = after
        return self._update_host(host)

    def update_slice(self, before: ResourceSlice | None, after: ResourceSlice | None) -> bool:
        """Record the present state of a slice of the driver's; return whether the inventory changed."""
        hosts = self._published.update(before, after) & self._hosts.keys()
        changed = [host for host in sorted(hosts) if self._update_host(host)]
        return bool(changed)

    def update_claim(self, before: ResourceClaim | None, after: ResourceClaim | None) -> bool:
        """Record the present state of a claim of devices; return whether the inventory may have changed."""
        return self._claimed.update(before, after)

    def _update_host(self, host: str) -> bool:
        """Work out the pool's nodes of a cluster's node again; return whether anything of them changed."""
        after = self._hosts.get(host)
        was = self._of_host.get(host, ())
        previous = [self._facts(name) for name in was]
        for name in was:
            del self._nodes[name], self._unhealthy[name], self._gpus_of[name]
        published = self._published.of(host)
        found = [] if after is None else pool_nodes(after, self._settings, self.groups, published)
        by_resource = {resource_of(*model, self._settings): gpus for model, gpus in by_model(published).items()}
        self._cordoned.discard(host)
        if after is not None and after.spec.unschedulable:
            self._cordoned.add(host)
        usable = {} if after is None else counts(after.status.allocatable, self._settings.gpu_resources)
        for node in found:
            self._nodes[node.name] = node
            self._gpus_of[node.name] = by_resource.get(node.resource, ())
            is_claimed = bool(self._gpus_of[node.name])
            self._unhealthy[node.name] = 0 if is_claimed else max(0, node.gpus - usable.get(node.resource, 0))
            self._seen.add(node.name)
        self._of_host[host] = tuple(node.name for node in found)
        self._capacity.update_node(host, {} if after is None else after.status.allocatable)
        return [self._facts(node.name) for node in found] != previous

    def _facts(self, name: str) -> tuple[Node, int, tuple[PublishedGpu, ...]]:
        """Return the known state of a node, apart from its use by others."""
        return self._with_per_gpu(self._nodes[name]), self._unhealthy[name], self._gpus_of[name]

    def update_other_pod(self, before: Pod | None, after: Pod | None) -> bool:
        """Record the present state of a pod other than a job's; return whether the inventory changed."""
        was, now = (self._gpu_use(pod) for pod in (before, after))
        if was == now:
            return not now and self._update_capacity(before, after)
        for place in was:
            self._other_use[place].pop((before or Pod()).metadata.uid, None)
        for place, use in now.items():
            self._other_use.setdefault(place, {})[(after or Pod()).metadata.uid] = use
        return True

    def update_nominated_pod(self, before: Pod | None, after: Pod | None) -> bool:
        """Record the present state of a pod for which the cluster's scheduler frees a node.

        Return whether the inventory changed: its GPUs are taken while the pods that hold them are ended for it.
        """
        was, now = (self._gpu_use(pod) for pod in (before, after))
        for place in was:
            self._nominated_use[place].pop((before or Pod()).metadata.uid, None)
        for place, use in now.items():
            self._nominated_use.setdefault(place, {})[(after or Pod()).metadata.uid] = use
        return was != now

    def _update_capacity(self, before: Pod | None, after: Pod | None) -> bool:
        """Record another pod without GPUs; return whether the cores, memory or RDMA for each GPU changed.

        A pod with claims of devices may have GPUs, and its cores belong to these.
        """
        if self._settings.device_class is not None and (after or before or Pod()).spec.resource_claims:
            return False
        names = self._of_host.get((after or before or Pod()).spec.node_name, ())
        former = [self._with_per_gpu(self._nodes[name]) for name in names]
        self._capacity.update_pod(before, after)
        return former != [self._with_per_gpu(self._nodes[name]) for name in names]

    def _with_per_gpu(self, node: Node) -> Node:
        """Return a node with the cores, memory and RDMA for each GPU; a node of the settings unchanged."""
        host = machine_of(node.name)
        names = self._of_host.get(host, ())
        if not names or node.environment is not Environment.TRAIN:
            return node
        return structs.replace(
            node, per_gpu=self._capacity.per_gpu(host, sum(self._nodes[name].gpus for name in names))
        )

    def _gpu_use(self, pod: Pod | None) -> dict[tuple[str, str], Use]:
        """Return what a pod uses by resource and by its present or nominated host."""
        if pod is None or pod.ended:
            return {}
        used = gpus_of(pod, self._settings.gpu_resources)
        host = pod.spec.node_name or pod.status.nominated_node_name
        meta, is_notebook = pod.metadata, names.WORKSPACE in pod.metadata.labels
        return {
            (host, resource): Use(f"{meta.namespace}/{meta.name}", gpus, is_notebook)
            for resource, gpus in used.items()
        }

    def node_groups(self) -> tuple[NodeGroup, ...]:
        """Return the node groups of the settings; once a node was there, the next is expected to be like it."""
        for node in self._nodes.values():
            if node.group:
                self._last_of_group[node.group] = self._with_per_gpu(node)
        return tuple(self._present_group(group.group) for group in self.groups)

    def _present_group(self, group: NodeGroup) -> NodeGroup:
        of_group = [machine_of(node.name) for node in self._nodes.values() if node.group == group.name]
        last = self._last_of_group.get(group.name, group.node)
        like = structs.replace(group.node, gpus=last.gpus, gpu_type=last.gpu_type, per_gpu=last.per_gpu)
        return replace(group, node=like, closed=len(self._cordoned.intersection(of_group)))

    def set_aside(self, host: str) -> None:
        """Stop new placements on a host until `offer` is called."""
        self._set_aside.add(host)

    def offer(self, host: str) -> None:
        """Allow new placements on a host again."""
        self._set_aside.discard(host)

    def has_seen(self, name: str) -> bool:
        """Return whether the node is in the pool, or was since the service started."""
        return name in self._seen

    def has_host(self, host: str) -> bool:
        """Return whether a machine has nodes of the pool."""
        return any(machine_of(name) == host for name in self._nodes)

    def train_node(self, name: str) -> Node | None:
        """Return the train node of this name, None if there is none now."""
        node = self._nodes.get(name)
        return self._with_per_gpu(node) if node is not None and node.environment is Environment.TRAIN else None

    def part_without_gpus(self) -> PerGpu:
        """Return the most that a job without GPUs gets by default: what one GPU comes with, or a node without any.

        It is of the node that has most of the settings' default, among those that take pods without GPUs.
        """
        chosen = PerGpu(self._settings.cpu_per_gpu or 0.0, (self._settings.memory_per_gpu or 0.0) * (1 << 30))
        tolerations = base_tolerations(self._settings)
        hosts = (
            self._capacity.per_gpu(name, max(1, sum(self._nodes[each].gpus for each in self._of_host[name])))
            for name, host in self._hosts.items()
            if closure_of(host)[0] is None and _tolerated(host.spec.taints, tolerations)
        )
        of_settings = (node.per_gpu for node in self._nodes.values() if not self._hosts)
        return nearest(chosen, (*hosts, *of_settings) or (UNSPECIFIED,))

    def nodes(
        self, held: Mapping[str, Collection[int]], *, fresh: bool, places: PodPlaces = NOWHERE
    ) -> tuple[Node, ...]:
        """Return all nodes; ``held`` are the slots of jobs, ``places`` those of pods of jobs and workspaces.

        Unless ``fresh``, none is available. One that is set aside is not either.
        """
        by_node: dict[str, dict[PodName, tuple[int, ...]]] = {}
        for pod, (name, slots) in places.items():
            by_node.setdefault(name, {})[pod] = slots
        return tuple(
            self._seen_now(node, held.get(name, ()), by_node.get(name, {}), fresh=fresh)
            for name, node in sorted(self._nodes.items())
        )

    def claim_templates(self) -> list[tuple[str, str, int]]:
        """Return attribute and model of the GPUs that pods may claim, with the numbers of them on one node."""
        return sorted(
            {
                (gpus[0].named_by, gpus[0].model, number)
                for gpus in self._gpus_of.values()
                for number in range(1, len(gpus) + 1)
            }
        )

    def _seen_now(
        self, node: Node, held: Collection[int], pods: Mapping[PodName, tuple[int, ...]], *, fresh: bool
    ) -> Node:
        aside = machine_of(node.name) in self._set_aside
        available = node.available and fresh and not aside
        if aside and node.available:
            node = structs.replace(node, closure=Closure.SET_ASIDE)
        if self._gpus_of.get(node.name):
            return structs.replace(self._with_claimed(node, held, pods), available=available)
        return structs.replace(self._with_takers(node, held), available=available)

    def is_overfull(self, name: str) -> bool:
        """Return whether pods had more GPUs of a node than it offers when its state was last returned."""
        return name in self._overfull

    def _with_takers(self, node: Node, held: Collection[int]) -> Node:
        """Return a node with its taken slots and the pods that have them.

        A slot has no name that is taken for a broken GPU, or for a job on a slot that the node has no more.
        """
        place = machine_of(node.name), node.resource
        use = {**self._nominated_use.get(place, {}), **self._other_use.get(place, {})}
        pods = [
            each.pod
            for each in sorted(use.values())
            for _ in range(each.gpus)
            if node.environment is Environment.TRAIN or not each.is_notebook
        ]
        free = [index for index in reversed(range(node.gpus)) if index not in held]
        before = self._taken_slots.get(node.name, frozenset())
        free.sort(key=lambda index: index not in before)
        gone = sum(index >= node.gpus for index in held)
        owners = [*pods, *[""] * (self._unhealthy.get(node.name, 0) + gone)]
        takers = dict(zip(free, owners, strict=False))
        self._taken_slots[node.name] = taken = frozenset(takers)
        if len(owners) > len(free):
            self._overfull.add(node.name)
            taken = frozenset(range(node.gpus))
        else:
            self._overfull.discard(node.name)
        return structs.replace(self._with_per_gpu(node), taken=taken, takers=takers)

    def _with_claimed(self, node: Node, held: Collection[int], pods: Mapping[PodName, tuple[int, ...]]) -> Node:
        """Return a node with the published GPUs behind its slots; those of others and broken ones are taken."""
        gpus = {gpu.uuid: gpu for gpu in self._gpus_of[node.name]}
        keys = {gpu.key: gpu.uuid for gpu in gpus.values()}
        owners = {uuid: owner for key, uuid in keys.items() if (owner := self._claimed.foreign_owner(key))}
        owners |= {gpu.uuid: "" for gpu in gpus.values() if not (gpu.usable or self._claimed.is_held(gpu.key))}
        of_pods: dict[tuple[int, ...], Collection[str]] = {
            slots: [keys[key] for key in self._claimed.of_pod(pod) if key in keys] for pod, slots in pods.items()
        }
        busy = {*held, *(slot for slots in of_pods for slot in slots)}
        for slot in busy.difference(*of_pods):
            of_pods[slot,] = ()
        before = self._behind.get(node.name, {})
        free = [slot for slot in reversed(range(node.gpus)) if slot not in busy]
        free.sort(key=lambda slot: before.get(slot) not in owners)
        taken = structs.replace(node, taken=frozenset(free[: len(owners)]))
        behind = self._behind[node.name] = assign(taken, list(gpus), of_pods, owners, before)
        devices = tuple(
            replace(slot, uuid=gpu.uuid, name=gpu.model or slot.name, memory_mib=gpu.memory_mib)
            if (gpu := gpus.get(behind.get(slot.index, "")))
            else slot
            for slot in node.devices
        )
        takers = {slot: owners[uuid] for slot in taken.taken if (uuid := behind.get(slot, "")) in owners}
        return structs.replace(self._with_per_gpu(node), devices=devices, taken=frozenset(takers), takers=takers)


def pool_nodes(
    node: ClusterNode,
    settings: KubernetesSettings,
    groups: Collection[ClusterGroup] = (),
    published: Collection[PublishedGpu] = (),
) -> list[Node]:
    """Return the pool's view of a node: one for each resource of GPUs; none without an environment label.

    The ``published`` GPUs count, by model, on a node without extended resources of GPUs, which may be the same.
    """
    labels = node.metadata.labels
    environment = labels.get(settings.environment_label)
    if environment not in tuple(Environment):
        return []
    closure, since = closure_of(node)
    available = closure is None and _tolerated(node.spec.taints, pod_tolerations(settings))
    levels = {level: labels[label] for label, level in settings.topology.items() if label in labels}
    return [
        Node(
            name=kind.name,
            gpus=kind.gpus,
            gpu_type=settings.types.of(kind.model),
            environment=Environment(environment),
            labels=levels,
            available=available,
            devices=_slots(kind.name, kind.gpus, kind.model, simulated=labels.get(SIMULATED_GPUS) == "true"),
            resource=kind.resource,
            group=next((group.group.name for group in groups if group.has(labels, kind.resource)), ""),
            closure=closure,
            closed_since=since,
        )
        for kind in _extended(node, settings) or _claimed(node, settings, published)
    ]


class _Kind(NamedTuple):
    """GPUs of a cluster's node that are one node of the pool."""

    name: str
    resource: str
    model: str
    gpus: int


def _extended(node: ClusterNode, settings: KubernetesSettings) -> list[_Kind]:
    """Return the GPUs of a node that pods request as extended resources."""
    found = counts(node.status.capacity, settings.gpu_resources)
    names = pool_names(node.metadata.name, found, settings.gpu_resources)
    return [
        _Kind(
            names[resource],
            resource,
            model_of(resource, node.metadata.labels, settings.gpu_type_labels, settings.gpu_resources),
            gpus,
        )
        for resource, gpus in found.items()
        if gpus
    ]


def _claimed(node: ClusterNode, settings: KubernetesSettings, published: Collection[PublishedGpu]) -> list[_Kind]:
    """Return the GPUs of a node that pods claim; those of the first model have the node's name.

    Labels of no vendor, by which an admin says the type, come before the model that the driver names.
    """
    host, labels, found = node.metadata.name, node.metadata.labels, by_model(published)
    kinds: list[_Kind] = []
    for (named_by, model), gpus in found.items():
        own = own_model(labels, settings.gpu_type_labels, settings.gpu_resources) if len(found) == 1 else ""
        usual = model_of(settings.gpu_resources[0], labels, settings.gpu_type_labels, settings.gpu_resources)
        resource = resource_of(named_by, model, settings)
        name = f"{host}/{type_name(model or usual)}" if kinds else host
        is_unique = all(kind.name != name for kind in kinds)
        kinds.append(
            _Kind(name if is_unique else f"{host}/{resource}", resource, own or model or usual, len(gpus))
        )
    return kinds


def static_nodes(settings: KubernetesSettings) -> list[Node]:
    """Return the nodes of the setting ``static_nodes``. Raises `ExecutorError` if one is malformed."""
    nodes = [_static_node(given, settings) for given in settings.static_nodes]
    names = [node.name for node in nodes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ExecutorError(
            f"static_nodes: {wording.given(twice)} is listed twice. Expected one entry for each resource."
        )
    return nodes


def _static_node(given: Mapping[str, Any], settings: KubernetesSettings) -> Node:
    wrong = ", ".join(sorted(set(given) - STATIC_NODE_KEYS))
    try:
        host, gpus = str(given["name"]), int(given["gpus"])
        resource = str(given.get("resource", settings.gpu_resources[0]))
        gpu_type = str(given.get("gpu_type", model_of(resource, {}, (), settings.gpu_resources)))
        environment = Environment(given.get("environment", "train"))
        labels = {str(level): str(value) for level, value in given.get("labels", {}).items()}
        cpus, memory = quantities.cores(given.get("cpus", 0)), quantities.memory(given.get("memory", 0))
        rdma = int(given.get("rdma", 0))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        wrong = wrong or str(error)
    if wrong:
        raise ExecutorError(
            f"static_nodes: {wording.given(dict(given))} is not a node ({wrong}). Expected name and gpus, and "
            "optionally gpu_type, resource, environment (train or build), labels, cpus, memory and rdma "
            "(how many workers may have RDMA there)."
        )
    name = pool_names(host, (resource,), settings.gpu_resources)[resource]
    return Node(
        name,
        gpus,
        settings.types.of(gpu_type),
        environment,
        labels,
        devices=_slots(name, gpus, gpu_type),
        resource=resource,
        per_gpu=per_gpu_of(cpus, memory, gpus, rdma),
    )


def closure_of(node: ClusterNode) -> tuple[Closure | None, float | None]:
    """Return why the cluster has closed a node, and since when, in seconds since the epoch; None if unknown."""
    if not ready(node):
        changed = [each.last_transition_time for each in node.status.conditions if each.type == "Ready"]
        return Closure.NOT_READY, next((at.timestamp() for at in changed if at is not None), None)
    if leaving_by(node) is not None:
        return Closure.LEAVING, None
    return (Closure.CORDONED if node.spec.unschedulable else None), None


def leaving_by(node: ClusterNode) -> str | None:
    """Return the key of the taint that announces the removal of a node, None if there is none."""
    return next((taint.key for taint in node.spec.taints if taint.key in LEAVING), None)


def ready(node: ClusterNode) -> bool:
    """Return whether the node's condition ``Ready`` is true."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def unreachable_since(node: ClusterNode) -> float | None:
    """Return since when the node is unreachable, in seconds since the epoch; None if it is not."""
    for condition in node.status.conditions:
        if (
            condition.type == "Ready"
            and condition.status == "Unknown"
            and condition.last_transition_time is not None
        ):
            return condition.last_transition_time.timestamp()
    return None


def out_of_service(node: ClusterNode) -> bool:
    """Return whether the node has the taint by which an admin asserts that it is shut down."""
    return any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def _tolerated(taints: Collection[Taint], tolerations: Collection[Mapping[str, Any]]) -> bool:
    return all(
        taint.effect not in REPELLING_EFFECTS or any(_tolerates(toleration, taint) for toleration in tolerations)
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

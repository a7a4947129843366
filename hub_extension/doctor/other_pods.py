"""Checks of pods outside the pool: the GPUs that they hold, and whether they may evict jobs.

Needs the extra ``kubernetes``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from springtide.hub_extension.doctor.devices import read_claims, read_devices
from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.scheduler.executors.kubernetes.cluster_resources import ALIVE_AND_BOUND
from springtide.scheduler.executors.kubernetes.inventory import pool_nodes
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.objects.api_types import ClusterNode, Pod
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import gpus_of
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.kube import NODES, PODS, Api, ApiError
from springtide.scheduler.kube.resources import PRIORITY_CLASSES
from springtide.scheduler.model import Environment
from springtide.scheduler.resources.device_claims import is_claimed
from springtide.scheduler.wording import count, gpus, listed, plural

CHECK: Final = "GPUs of others"
PRIORITIES: Final = "priority of others"
MAX_SHOWN: Final = 5
"""Maximum number of pods that a finding names."""
OF_THE_CLUSTER: Final = "system-"
"""Prefix of the PriorityClasses that Kubernetes reserves for its own parts, such as those of each node."""


async def other_pods(api: Api, settings: KubernetesSettings) -> AsyncIterator[Finding]:
    """Report pods outside the pool that hold its GPUs, and those that may evict jobs from train nodes."""
    if settings.static_nodes:
        return
    selector = ",".join(f"{name}={value}" for name, value in sorted(settings.node_selector.items()))
    try:
        listed_nodes, _ = await api.list(NODES, None, labels=selector)
        found, _ = await api.list(PODS, None, labels=f"{names.POOL}!={settings.pool}", fields=ALIVE_AND_BOUND)
        published = (await read_devices(api, settings)).published
        claimed = await read_claims(api, settings)
    except ApiError as error:
        yield note(
            CHECK,
            f"The pods outside the pool cannot be listed: {error.message or error} Their GPUs do not count.",
            "Install the chart with nodes.foreignPods, or run this with the KUBECONFIG of a cluster's admin.",
        )
        return
    nodes = [
        node
        for each in (msgspec.convert(each, ClusterNode) for each in listed_nodes)
        for node in pool_nodes(each, settings, published=published.of(each.metadata.name))
    ]
    hosts = {machine_of(node.name): node.environment for node in nodes}
    pods = [pod for pod in (msgspec.convert(each, Pod) for each in found) if pod.spec.node_name in hosts]
    claims = Counter(
        (owner, host)
        for host in {machine_of(node.name) for node in nodes if is_claimed(node.resource)}
        for gpu in published.of(host)
        if (owner := claimed.foreign_owner(gpu.key))
    )
    yield _gpus_of_others(pods, hosts, settings.gpu_resources, claims)
    train = [pod for pod in pods if hosts[pod.spec.node_name] is Environment.TRAIN]
    async for finding in _priorities(api, settings, train):
        yield finding


def _gpus_of_others(
    pods: Iterable[Pod],
    hosts: Mapping[str, Environment],
    patterns: Sequence[str],
    claims: Counter[tuple[str, str]],
) -> Finding:
    """Return who outside the pool holds its GPUs, with the environment of each node.

    ``claims`` are the numbers of GPUs that others have claimed, by owner and host.
    """
    held = claims.copy()
    for pod in pods:
        if names.WORKSPACE not in pod.metadata.labels and (number := sum(gpus_of(pod, patterns).values())):
            held[_shown(pod), pod.spec.node_name] += number
    if not held:
        return ok(CHECK, "No pod outside the pool holds GPUs of its nodes.")
    who = [f"{pod} {number} on {host} ({hosts[host]})" for (pod, host), number in held.most_common()]
    return note(
        CHECK,
        f"{count(len(held), 'pod')} outside the pool {plural(len(held), 'holds', 'hold')} {gpus(held.total())} of "
        f"its nodes: {_few(who)}.",
        "The pool gives out the other GPUs only. Taint its nodes to keep pods of others off them.",
    )


async def _priorities(api: Api, settings: KubernetesSettings, pods: Iterable[Pod]) -> AsyncIterator[Finding]:
    """Check that the pods of others on train nodes do not come before jobs, those of the cluster's parts aside."""
    try:
        found, _ = await api.list(PRIORITY_CLASSES)
    except ApiError:
        yield note(
            PRIORITIES,
            "This account may not list PriorityClasses: whether pods of others may evict jobs is unknown.",
            "Run springtide doctor with the KUBECONFIG of an admin of the cluster.",
        )
        return
    usual = next((each["value"] for each in found if each.get("globalDefault")), 0)
    values = {each["metadata"]["name"]: each["value"] for each in found}
    own = values.get(settings.priority_class or "", usual)
    evicting = {
        each["metadata"]["name"]
        for each in found
        if each["value"] > own and each.get("preemptionPolicy", "PreemptLowerPriority") != "Never"
    }
    above = {name for name in evicting if not name.startswith(OF_THE_CLUSTER)}
    users = [pod for pod in pods if pod.spec.priority_class_name in above]
    if not users:
        yield ok(PRIORITIES, "No pod of others on train nodes has a priority that evicts jobs.")
        return
    classes = sorted({pod.spec.priority_class_name for pod in users})
    theirs = listed([f"{name} ({values[name]})" for name in classes])
    yield problem(
        PRIORITIES,
        f"Jobs have the priority {own}. Pods of the {plural(len(classes), 'PriorityClass', 'PriorityClasses')} "
        f"{theirs} run on train nodes and may evict them, also within their quota: "
        f"{_few(sorted(map(_shown, users)))}.",
        "Give jobs a PriorityClass above these (train.priorityClass), or taint the train nodes.",
    )


def _shown(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _few(names: Collection[str]) -> str:
    shown = list(names)[:MAX_SHOWN]
    more = len(names) - len(shown)
    return f"{', '.join(shown)} and {more} more" if more else listed(shown)

"""Checks of the jobs' cluster. Needs the extra ``kubernetes``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec

from springtide.hub_extension.doctor.devices import Devices, devices, read_devices
from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.hub_extension.doctor.homes import homes
from springtide.hub_extension.doctor.job_pods import job_pods
from springtide.hub_extension.doctor.other_pods import other_pods
from springtide.scheduler.datasets import Dataset
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.executors.kubernetes.devices.published import PublishedGpus
from springtide.scheduler.executors.kubernetes.inventory import pool_nodes
from springtide.scheduler.executors.kubernetes.objects.api_types import ClusterNode
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.kube import Api, ApiError
from springtide.scheduler.kube.resources import (
    ACCESS_REVIEWS,
    CLAIM_TEMPLATES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    SPRINGTIDE_JOBS,
    TRAIN_JOBS,
    VOLUME_CLAIMS,
    Resource,
)
from springtide.scheduler.model import Environment
from springtide.scheduler.wording import count, listed, plural

Access = tuple[Resource, tuple[str, ...]]
NEEDED: Final[tuple[Access, ...]] = (
    (PODS, ("get", "list", "watch", "create", "patch", "delete")),
    (SERVICES, ("get", "create", "delete")),
    (VOLUME_CLAIMS, ("get", "list", "watch")),
    (LEASES, ("get", "create", "update")),
    (NAMESPACES, ("get",)),
)
"""Verbs that the service needs in the namespace of jobs."""
ENTERED: Final[Access] = (Resource("", "v1", "pods/exec"), ("get", "create"))
CLAIMING: Final[Access] = (CLAIM_TEMPLATES, ("list", "watch", "create"))
"""Verbs that the service needs in each namespace whose pods claim GPUs."""
PUBLISHED: Final[tuple[Access, ...]] = (
    (RESOURCE_SLICES, ("list", "watch")),
    (RESOURCE_CLAIMS, ("list", "watch")),
)
"""Verbs that it needs in all namespaces if GPUs are claimed."""
POLICIES: Final[Access] = (NETWORK_POLICIES, ("get", "create", "delete"))
WATCHED: Final[Access] = (NODES, ("get", "list", "watch"))
TAKEN: Final[tuple[Access, ...]] = (
    (SPRINGTIDE_JOBS, ("get", "list", "watch", "create", "patch", "delete")),
    (TRAIN_JOBS, ("get", "list", "watch", "patch", "delete")),
    (EVENTS, ("get", "create", "patch")),
)
"""Verbs that the service needs in each namespace with SpringtideJobs."""
RBAC = "Install the chart with rbac.create, or bind a role like that of the chart (templates/service/rbac.yaml)."


async def cluster(
    api: Api,
    settings: KubernetesSettings,
    train_jobs: Sequence[str],
    declared: Mapping[str, Dataset],
    secrets: Mapping[str, NamedSecret],
) -> AsyncIterator[Finding]:
    """Check rights, nodes, published GPUs, agents, volumes, the PriorityClass, pods of jobs and of others.

    ``declared`` are the datasets by name, as are ``secrets``.
    """
    try:
        async for finding in _rights(api, settings, train_jobs):
            yield finding
    except ApiError as error:
        yield problem("cluster", f"The cluster does not answer: {error}", "Check KUBECONFIG, and the API server.")
        return
    async for finding in _definition(api, train_jobs):
        yield finding
    async for finding in _nodes(api, settings):
        yield finding
    async for finding in devices(api, settings):
        yield finding
    async for finding in _agents(api, settings):
        yield finding
    async for finding in _volume(api, settings):
        yield finding
    async for finding in homes(api, settings):
        yield finding
    async for finding in _datasets(api, settings.namespace, declared):
        yield finding
    async for finding in _priority_class(api, settings):
        yield finding
    async for finding in job_pods(api, settings, secrets):
        yield finding
    async for finding in other_pods(api, settings):
        yield finding


async def _rights(api: Api, settings: KubernetesSettings, train_jobs: Sequence[str]) -> AsyncIterator[Finding]:
    """Ask the cluster what this account may do: a SelfSubjectAccessReview for each verb."""
    inside = [*NEEDED, *([ENTERED] if settings.sessions else []), *([POLICIES] if settings.network_policy else [])]
    requests = [(settings.namespace, access) for access in inside]
    if not settings.static_nodes:
        requests.append(("", WATCHED))
    if settings.device_class is not None:
        requests += [(namespace, CLAIMING) for namespace in settings.claim_namespaces]
        requests += [("", access) for access in PUBLISHED]
    requests += [("" if name == "*" else name, access) for name in train_jobs for access in TAKEN]
    lacking = [
        f"{verb} {resource.plural}" + (f" in {namespace}" if namespace else " in all namespaces")
        for namespace, (resource, verbs) in requests
        for verb in verbs
        if not await _may(api, namespace, resource, verb)
    ]
    going = [name for name in train_jobs if name not in ("*", settings.namespace)]
    if lacking:
        yield problem("rights", f"This account may not {listed(lacking)}.", RBAC)
    elif going and not await _may(api, "", SPRINGTIDE_JOBS, "patch"):
        yield problem(
            "rights",
            f"This account may patch springtidejobs by roles in {listed(going)} only. Such a role is deleted with "
            "its namespace, which then waits for ever for its SpringtideJobs.",
            "Bind a ClusterRole for springtidejobs like that of the chart (templates/service/rbac.yaml).",
        )
    else:
        yield ok("rights", f"This account may do all that jobs in {settings.namespace} need.")


async def _definition(api: Api, train_jobs: Sequence[str]) -> AsyncIterator[Finding]:
    """Check that the cluster has SpringtideJobs: an upgrade by Helm alone does not bring their definition."""
    if not train_jobs:
        return
    namespace = None if "*" in train_jobs else train_jobs[0]
    try:
        await api.list(SPRINGTIDE_JOBS, namespace)
    except ApiError as error:
        if error.status != 404:
            return
        yield problem(
            "SpringtideJobs",
            "The cluster has no definition of SpringtideJobs: nobody can create one, and TrainJobs stay what they "
            "are.",
            "kubectl apply --server-side --force-conflicts -f helm/springtide/crds/",
        )
    else:
        yield ok("SpringtideJobs", "The cluster has their definition.")


async def _may(api: Api, namespace: str, resource: Resource, verb: str) -> bool:
    plural, _, subresource = resource.plural.partition("/")
    attributes = {"namespace": namespace, "group": resource.group, "resource": plural, "verb": verb}
    attributes["subresource"] = subresource
    review = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await api.create(ACCESS_REVIEWS, None, review)
    return bool(answer.get("status", {}).get("allowed"))


async def _nodes(api: Api, settings: KubernetesSettings) -> AsyncIterator[Finding]:
    """Check that nodes are in the pool, and that they have GPUs under a known name, or published ones."""
    if settings.static_nodes:
        yield ok("nodes", f"The settings name {count(len(settings.static_nodes), 'node')}.")
        return
    selector = _selector(settings.node_selector)
    try:
        found, _ = await api.list(NODES, None, labels=selector)
    except ApiError as error:
        yield problem("nodes", f"The nodes cannot be listed: {error}", RBAC)
        return
    published = (await _devices(api, settings)).published
    nodes = [msgspec.convert(node, ClusterNode) for node in found]
    of_pool = {
        node.metadata.name: pool_nodes(node, settings, published=published.of(node.metadata.name))
        for node in nodes
    }
    pool = [each for of_host in of_pool.values() for each in of_host]
    labelled = [
        node for node in nodes if node.metadata.labels.get(settings.environment_label) in tuple(Environment)
    ]
    if not labelled:
        yield problem(
            "nodes",
            f"No node has the label {settings.environment_label}"
            + (f" among those with {selector}." if selector else "."),
            f"kubectl label node NAME {settings.environment_label}=train (or build)",
        )
        return
    without = [node.metadata.name for node in labelled if not of_pool[node.metadata.name]]
    if without:
        claimed = "" if settings.device_class is None else f", and no GPU that {settings.device_driver} publishes"
        yield problem(
            "GPUs",
            f"{listed(sorted(without))} {plural(len(without), 'has', 'have')} no "
            f"{' or '.join(settings.gpu_resources)}{claimed}.",
            "Install the device plugin, or name its resource in kubernetes.gpu_resources.",
        )
    for environment in Environment:
        here = [node for node in pool if node.environment is environment]
        if here:
            kinds = sorted({node.gpu_type for node in here})
            yield ok(
                f"{environment.value} nodes",
                f"{count(sum(node.gpus for node in here), 'GPU')} on {count(len(here), 'node')}: {listed(kinds)}.",
            )
        else:
            said, label = (
                f"The pool has no {environment.value} node.",
                f"{settings.environment_label}={environment}",
            )
            make = problem if environment is Environment.TRAIN else note
            yield make(f"{environment.value} nodes", said, f"kubectl label node NAME {label}")


async def _agents(api: Api, settings: KubernetesSettings) -> AsyncIterator[Finding]:
    """Check that an agent runs on each node of the pool, if the settings have agents measure GPUs."""
    if settings.agent_port is None:
        yield note(
            "agents",
            "No agents measure the GPUs of nodes: use, faults and how GPUs are linked are not known.",
            "Install the chart with agent.enabled.",
        )
        return
    selector = _selector(settings.agent_labels)
    namespace = settings.agent_namespace or settings.namespace
    try:
        pods, _ = await api.list(PODS, namespace, labels=selector)
        here = await _machines(api, settings)
    except ApiError as error:
        yield problem("agents", f"The agents of nodes cannot be listed: {error}", RBAC)
        return
    running = {each["spec"].get("nodeName") for each in pods if each.get("status", {}).get("phase") == "Running"}
    without = sorted(here - running)
    if without:
        yield problem(
            "agents",
            f"No agent runs on {listed(without)}.",
            f"Look at the pods with {selector} in {namespace}; they have to tolerate the taints of these nodes.",
        )
    else:
        yield ok("agents", f"{count(len(here), 'node')} of the pool, an agent on each.")


async def _machines(api: Api, settings: KubernetesSettings) -> set[str]:
    """Return the names of the pool's nodes in the cluster. Raises `ApiError`."""
    if settings.static_nodes:
        return {machine_of(str(node["name"])) for node in settings.static_nodes}
    found, _ = await api.list(NODES, None, labels=_selector(settings.node_selector))
    published = (await _devices(api, settings)).published
    nodes = [msgspec.convert(node, ClusterNode) for node in found]
    return {
        node.metadata.name
        for node in nodes
        if pool_nodes(node, settings, published=published.of(node.metadata.name))
    }


async def _devices(api: Api, settings: KubernetesSettings) -> Devices:
    """Return the published GPUs; none if they cannot be listed, which `devices` reports."""
    try:
        return await read_devices(api, settings)
    except ApiError:
        return Devices(PublishedGpus())


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


async def _volume(api: Api, settings: KubernetesSettings) -> AsyncIterator[Finding]:
    if settings.jobs_claim is None:
        yield note(
            "volume of jobs",
            f"Jobs keep their files in {settings.jobs_host_path} of their node.",
            "Use a claim (jobs_claim) on a cluster of several nodes.",
        )
        return
    try:
        claim = await api.get(VOLUME_CLAIMS, settings.namespace, settings.jobs_claim)
    except ApiError as error:
        yield problem(
            "volume of jobs",
            f"The claim {settings.jobs_claim} in {settings.namespace} cannot be read: {error}",
            "Create it, or name another one in kubernetes.jobs_claim.",
        )
        return
    phase = claim.get("status", {}).get("phase", "Pending")
    modes = claim.get("spec", {}).get("accessModes", [])
    if phase == "Lost" or "ReadWriteMany" not in modes:
        yield problem(
            "volume of jobs",
            f"The claim {settings.jobs_claim} is {phase} with access {listed(modes)}; service and jobs share it.",
            "Use a claim with ReadWriteMany (on a cluster of one node ReadWriteOnce serves).",
        )
    else:
        yield ok("volume of jobs", f"The claim {settings.jobs_claim} is {phase}.")


async def _datasets(api: Api, namespace: str, declared: Mapping[str, Dataset]) -> AsyncIterator[Finding]:
    """Check that each volume claim is in the namespace of jobs, and has a volume or waits for its first pod."""
    sound = True
    for claim in sorted({each.claim for each in declared.values()}):
        names = ", ".join(sorted(each.name for each in declared.values() if each.claim == claim))
        try:
            found = await api.get(VOLUME_CLAIMS, namespace, claim)
        except ApiError as error:
            sound = False
            yield problem(
                "datasets",
                f"The claim {claim} of {names} in {namespace} cannot be read: {error}",
                "Create it in the namespace of jobs, or name another one in c.Springtide.datasets.",
            )
            continue
        if found.get("status", {}).get("phase") == "Lost":
            sound = False
            yield problem(
                "datasets",
                f"The claim {claim} of {names} has lost its volume.",
                "Restore the volume, or make a new claim.",
            )
    if declared and sound:
        yield ok("datasets", f"The volume claims of the {count(len(declared), 'declared dataset')} are there.")


async def _priority_class(api: Api, settings: KubernetesSettings) -> AsyncIterator[Finding]:
    name = settings.priority_class
    if name is None:
        yield note(
            "PriorityClass",
            "Pods of jobs have the cluster's default priority: pods of others may evict them.",
            "Set kubernetes.priority_class to one whose preemptionPolicy is Never.",
        )
        return
    try:
        found = await api.get(PRIORITY_CLASSES, None, name)
    except ApiError as error:
        if error.status == 403:
            yield note(
                "PriorityClass", f"This account may not read the PriorityClass {name}.", "Look at it as an admin."
            )
        else:
            yield problem("PriorityClass", f"The PriorityClass {name} cannot be read: {error}", "Create it.")
        return
    if found.get("preemptionPolicy") == "Never":
        yield ok("PriorityClass", f"{name} never preempts other pods.")
    else:
        yield problem(
            "PriorityClass",
            f"Pods of {name} may evict others: the cluster would take GPUs that the pool's policy gave.",
            "Make one with preemptionPolicy: Never.",
        )

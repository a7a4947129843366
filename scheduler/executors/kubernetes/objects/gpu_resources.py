"""Extended resources of GPUs on a cluster's nodes, and their GPU types; pure.

A pod requests GPUs of one model by one resource. A node with several such resources, as with MIG slices of two
sizes, is several nodes of the pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.gpu_types import UNKNOWN, type_name

ANY = "*"


def counts(quantities: Mapping[str, str | float], patterns: Sequence[str]) -> dict[str, int]:
    """Return the numbers of GPUs by resource, in the order of the patterns; resources of 0 GPUs included."""
    found: dict[str, int] = {}
    for pattern in patterns:
        for resource in sorted(quantities):
            if fnmatchcase(resource, pattern) and resource not in found:
                found[resource] = _count(quantities[resource])
    return found


def gpus_of(pod: Pod, patterns: Sequence[str]) -> dict[str, int]:
    """Return the numbers of GPUs that a pod requests by resource, without resources of 0 GPUs.

    As the cluster's scheduler counts: those of its containers and sidecars, or of an init container that asks for
    more with the sidecars before it.
    """
    total, sidecars, most = Counter[str](), Counter[str](), Counter[str]()
    for container in pod.spec.init_containers:
        asked = Counter(counts(container.resources.requests, patterns))
        if container.restart_policy == "Always":
            sidecars += asked
            asked = sidecars
        else:
            asked = asked + sidecars
        most |= asked
    for container in pod.spec.containers:
        total += Counter(counts(container.resources.requests, patterns))
    return dict(+(most | (total + sidecars)))


def pool_names(host: str, resources: Collection[str], patterns: Sequence[str]) -> dict[str, str]:
    """Return the name of the pool's node for each resource of the cluster's node ``host``.

    The first resource that a pattern without ``*`` names has the host's name: a node whose whole GPUs are one
    resource is called as in the cluster. Others add the resource (`gpu_types.machine_of`): ``gpu-3/mig-1g.5gb``.
    """
    plain = next((resource for resource in resources if resource in patterns), None)
    return {
        resource: host if resource == plain else f"{host}/{resource.rpartition('/')[2]}" for resource in resources
    }


def model_of(resource: str, labels: Mapping[str, str], type_labels: Sequence[str], patterns: Sequence[str]) -> str:
    """Return the model of a node's GPUs of one resource, from the first of ``type_labels`` that the node has.

    Labels of other vendors' GPUs do not count. A MIG slice adds its profile to the model of the whole GPU; a GPU
    without a label is called by its vendor, or `UNKNOWN` if that is the vendor of the first pattern.
    """
    vendors = {pattern.partition("/")[0] for pattern in patterns}
    vendor = resource.partition("/")[0]
    known = (
        labels[label] for label in type_labels if label in labels and _vendor(label) not in vendors - {vendor}
    )
    model = next(known, UNKNOWN if patterns[0].partition("/")[0] == vendor else vendor.partition(".")[0])
    if resource in patterns:
        return model
    profile = resource.rpartition("/")[2]
    return model if type_name(model).endswith(profile) else f"{model}-{profile}"


def own_model(labels: Mapping[str, str], type_labels: Sequence[str], patterns: Sequence[str]) -> str:
    """Return the model that an admin has labelled a node with, empty if only labels of vendors say one."""
    vendors = {_vendor(pattern) for pattern in patterns}
    return next((labels[each] for each in type_labels if each in labels and _vendor(each) not in vendors), "")


def _vendor(label: str) -> str:
    return label.partition("/")[0]


def _count(quantity: str | float) -> int:
    try:
        return int(quantity or 0)
    except ValueError:
        return 0

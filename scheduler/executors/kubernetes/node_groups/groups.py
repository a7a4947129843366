"""The node groups of the settings; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from springtide.scheduler import wording
from springtide.scheduler.executors.base import ExecutorError, NodeGroup
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import ANY
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.model import Environment, Node
from springtide.scheduler.resources import quantities
from springtide.scheduler.resources.per_gpu import per_gpu_of

REQUIRED = {"name", "gpu_type", "gpus", "max_nodes", "node_selector"}
OPTIONAL = {"tolerations", "resource", "cpus", "memory", "rdma"}
EXPECTED = (
    "Expected name (at most 40 small letters, digits and dashes), gpu_type, gpus (of one node, from 1), max_nodes "
    "(from 1) and node_selector (at least one label of its nodes), and optionally tolerations, resource (one "
    "name), cpus and memory (of one node) and rdma (how many workers may have RDMA on one)."
)

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """A node group as the plan has it, with the labels shared by its nodes and its placeholders."""

    group: NodeGroup
    labels: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...] = ()

    def has(self, labels: Mapping[str, str], resource: str) -> bool:
        """Return whether a node with these labels and GPUs of this resource belongs to the group."""
        return resource == self.group.node.resource and self.labels.items() <= labels.items()


def cluster_groups(settings: KubernetesSettings) -> tuple[ClusterGroup, ...]:
    """Return the node groups of the settings. Raises `ExecutorError` for one that is not well-formed."""
    groups = tuple(_group(given, settings) for given in settings.node_groups)
    names = [group.group.name for group in groups]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ExecutorError(
            f"node_groups: {wording.given(twice)} is listed twice. Expected one entry for each name."
        )
    for one in groups:
        for other in groups:
            if one is not other and other.has(one.labels, one.group.node.resource):
                raise ExecutorError(
                    f"node_groups: a node of {wording.given(one.group.name)} would be one of "
                    f"{wording.given(other.group.name)}, too. Expected node_selectors that distinguish them."
                )
    if groups and settings.static_nodes:
        raise ExecutorError(
            "node_groups and static_nodes are both set: which nodes have joined is seen only where the service "
            "lists the cluster's nodes. Leave one of them out."
        )
    return groups


def _group(given: Mapping[str, Any], settings: KubernetesSettings) -> ClusterGroup:
    wrong = ", ".join(
        [*sorted(set(given) - REQUIRED - OPTIONAL), *(f"no {key}" for key in sorted(REQUIRED - set(given)))]
    )
    if wrong:
        raise ExecutorError(f"node_groups: {wording.given(dict(given))} is not a node group ({wrong}). {EXPECTED}")
    name, selector, resource = (
        given["name"],
        given["node_selector"],
        given.get("resource", settings.gpu_resources[0]),
    )
    faults = {
        "name": not isinstance(name, str) or not _NAME.fullmatch(name),
        "gpu_type": not isinstance(given["gpu_type"], str) or not given["gpu_type"],
        "gpus": not _is_count(given["gpus"]),
        "max_nodes": not _is_count(given["max_nodes"]),
        "node_selector": not _is_table_of_text(selector) or not selector,
        "tolerations": not isinstance(given.get("tolerations", []), list | tuple)
        or not all(isinstance(toleration, Mapping) for toleration in given.get("tolerations", [])),
        "resource": not isinstance(resource, str) or ANY in resource,
        "rdma": "rdma" in given and not _is_count(given["rdma"]),
    }
    bad = next((key for key, is_bad in faults.items() if is_bad), None)
    try:
        cpus, memory = quantities.cores(given.get("cpus", 0)), quantities.memory(given.get("memory", 0))
    except (ValueError, TypeError) as error:
        raise ExecutorError(
            f"node_groups: {wording.given(name)} is not a node group ({error}). {EXPECTED}"
        ) from error
    if bad is not None:
        what = f"{bad} is {wording.given(given.get(bad, resource))}"
        raise ExecutorError(f"node_groups: {wording.given(name)} is not a node group ({what}). {EXPECTED}")
    labels = {**settings.node_selector, **selector, settings.environment_label: Environment.TRAIN.value}
    node = Node(
        f"~{name}",
        given["gpus"],
        settings.types.of(given["gpu_type"]),
        labels={level: labels[label] for label, level in settings.topology.items() if label in labels},
        resource=resource,
        per_gpu=per_gpu_of(cpus, memory, given["gpus"], given.get("rdma", 0)),
        group=name,
    )
    tolerations = tuple(dict(toleration) for toleration in given.get("tolerations", ()))
    return ClusterGroup(NodeGroup(name, node, given["max_nodes"]), labels, tolerations)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_table_of_text(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)

"""What a pod template may not have, because the pool promises otherwise or the namespace forbids it; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from springtide.scheduler import wording
from springtide.scheduler.datasets import MOUNTS
from springtide.scheduler.executors.environment import gpu_environment
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.pod_template import (
    InitContainer,
    Mount,
    PodTemplate,
    Quantity,
    Volume,
    merge,
)
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings

_PLANNED: Final = "the pool plans the node of each pod with GPUs"
_ACCOUNT: Final = "pods of jobs have no account of the cluster"
_STANDARD: Final = "pods of jobs keep to the restricted Pod Security Standard"
_JOB: Final = "the pool makes the container of the job"
_SUPERVISED: Final = "the pool ends pods by the grace period of their job"
FORBIDDEN: Final[Mapping[str, str]] = {
    "affinity": _PLANNED,
    "nodeName": _PLANNED,
    "topologySpreadConstraints": _PLANNED,
    "schedulingGates": _PLANNED,
    "serviceAccountName": _ACCOUNT,
    "serviceAccount": _ACCOUNT,
    "automountServiceAccountToken": _ACCOUNT,
    "serviceAccountToken": _ACCOUNT,
    "hostNetwork": _STANDARD,
    "hostPID": _STANDARD,
    "hostIPC": _STANDARD,
    "hostUsers": _STANDARD,
    "hostPath": _STANDARD,
    "nfs": f"{_STANDARD}; use a claim",
    "privileged": _STANDARD,
    "allowPrivilegeEscalation": _STANDARD,
    "capabilities": _STANDARD,
    "seccompProfile": _STANDARD,
    "appArmorProfile": _STANDARD,
    "seLinuxOptions": _STANDARD,
    "procMount": _STANDARD,
    "runAsNonRoot": _STANDARD,
    "mountPropagation": _STANDARD,
    "containers": f"{_JOB}; a sidecar is one of initContainers with restartPolicy: Always",
    "command": _JOB,
    "args": _JOB,
    "image": f"{_JOB}; its images are those of Springtide.images",
    "resources": f"{_JOB}; set cpu_per_gpu and memory_per_gpu instead",
    "resourceClaims": _JOB,
    "restartPolicy": _SUPERVISED,
    "terminationGracePeriodSeconds": _SUPERVISED,
    "activeDeadlineSeconds": "jobs have time limits of their own",
    "priority": "set priority_class instead",
    "priorityClassName": "set priority_class instead",
    "preemptionPolicy": "set priority_class instead",
    "finalizers": "drains of nodes would wait for them",
    "ownerReferences": "the controller of a pod is its namespace",
    "tolerationSeconds": "a toleration that ends would end running jobs",
}
"""Fields of the API that a template may not have, with the reason."""
OWN_PATHS: Final = ("/springtide", "/dev/shm", MOUNTS, "/proc", "/sys")  # noqa: S108 - where pods have it
OWN_VOLUMES: Final = re.compile(r"jobs|home|shared-memory|datasets-\d+")
OWN_ANNOTATIONS: Final = (names.SAFE_TO_EVICT, names.DO_NOT_DISRUPT)
OWN_DOMAIN: Final = "springtide.io"
OWN_VARIABLES: Final = frozenset({"HOME", *gpu_environment([])})
RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
"""The resources that containers of a template may have; GPUs are not among them."""
SOURCES: Final = ("secret", "configMap", "downwardAPI")
"""The sources of projected volumes."""

_LABEL_NAME = re.compile(r"([A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_PART_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


def forbidden_field(given: Any, at: str) -> str | None:
    """Return which field a template may not have, and why; None if there is none. ``at`` is its name."""
    if not isinstance(given, Mapping):
        return None
    for place, part in ((at, given), *_parts(given, at)):
        allowed = _allowed(place)
        for field in part:
            if field in FORBIDDEN and field not in allowed:
                return f"{place}.{field} cannot be set: {FORBIDDEN[field]}"
    return None


def _allowed(place: str) -> frozenset[str]:
    """Return the fields of `FORBIDDEN` that the part at a place has nevertheless."""
    if not re.search(r"\.initContainers\[\d+\]$", place):
        return frozenset()
    return frozenset({"command", "args", "image", "resources", "restartPolicy"})


def _parts(given: Mapping[str, Any], at: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the parts of a template that have fields which the API's pods have, too, with their places."""
    for key in ("volumes", "volumeMounts", "initContainers", "tolerations", "securityContext"):
        value = given.get(key)
        for place, part in _items(value, f"{at}.{key}"):
            yield place, part
            if key != "volumes":
                yield from _parts(part, place)
            else:
                projected = part.get("projected")
                sources = projected.get("sources") if isinstance(projected, Mapping) else None
                yield from _items(sources, f"{place}.projected.sources")


def _items(value: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        yield place, value
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from ((f"{place}[{number}]", each) for number, each in enumerate(value) if isinstance(each, Mapping))


def template_faults(settings: KubernetesSettings) -> Iterator[str]:
    """Yield the faults of the templates of the settings, each beginning with the place of the field."""
    everywhere = settings.pod_template
    yield from (f"pod_template.{fault}" for fault in _faults(everywhere, everywhere, settings))
    for project, template in settings.project_pod_templates.items():
        whole = merge(everywhere, template)
        at = f"project_pod_templates[{wording.given(project)}]"
        yield from (f"{at}.{fault}" for fault in _faults(template, whole, settings))


def _faults(template: PodTemplate, whole: PodTemplate, settings: KubernetesSettings) -> Iterator[str]:
    """Yield the faults of a template; ``whole`` is its merge with that of all pods."""
    yield from _faults_of_metadata(template, settings)
    secrets = ((f"imagePullSecrets[{at}].name", each.name) for at, each in enumerate(template.image_pull_secrets))
    named = {"runtimeClassName": template.runtime_class_name, "schedulerName": template.scheduler_name}
    for key, name in (*named.items(), *secrets):
        if name is not None and not _OBJECT_NAME.fullmatch(name):
            yield f"{key} is {wording.given(name)}; expected the name of an object of the cluster"
    for number, toleration in enumerate(template.tolerations):
        if toleration.operator == "Exists" and toleration.value:
            yield f"tolerations[{number}] has the operator Exists and a value; leave one of them out"
        if toleration.operator != "Exists" and not toleration.key:
            yield f"tolerations[{number}] has no key; expected one, or the operator Exists for all taints"
    yield from _faults_of_volumes(template)
    volumes = [volume.name for volume in whole.volumes]
    yield from _faults_of_container(template, volumes, settings.home_path)
    yield from _faults_of_others(template, volumes)


def _faults_of_metadata(template: PodTemplate, settings: KubernetesSettings) -> Iterator[str]:
    own = [*OWN_ANNOTATIONS, *([names.NETWORKS] if settings.rdma_networks else [])]
    for kind, table in (
        ("labels", template.labels),
        ("annotations", template.annotations),
        ("nodeSelector", template.node_selector),
    ):
        for name, value in table.items():
            if not _LABEL_NAME.fullmatch(name):
                yield f"{kind} has {wording.given(name)}; expected a name such as example.com/cost-centre"
            elif kind != "nodeSelector" and (
                name.partition("/")[0].endswith(OWN_DOMAIN) or name == names.MANAGED_BY or name in own
            ):
                yield f"{kind} has {wording.given(name)}, which the pool sets itself; leave it out"
            elif kind != "annotations" and not _LABEL_VALUE.fullmatch(value):
                yield (
                    f"{kind} has {wording.given(value)} for {name}; expected at most 63 letters, digits, dots, "
                    "dashes and underscores"
                )


def _faults_of_volumes(template: PodTemplate) -> Iterator[str]:
    for number, volume in enumerate(template.volumes):
        at = f"volumes[{number}]"
        if not _PART_NAME.fullmatch(volume.name):
            yield f"{at}.name is {wording.given(volume.name)}; expected small letters, digits and dashes"
        if OWN_VOLUMES.fullmatch(volume.name):
            yield f"{at}.name is {wording.given(volume.name)}, a volume of the pool; choose another name"
        kinds = {kind: value for kind, value in msgspec.to_builtins(volume).items() if kind != "name"}
        if len(kinds) != 1:
            yield f"{at} has {wording.count(len(kinds), 'source')}; expected one, such as configMap or emptyDir"
        yield from _faults_of_source(volume, at)
    yield from _twice("volumes", (volume.name for volume in template.volumes))


def _faults_of_source(volume: Volume, at: str) -> Iterator[str]:
    for kind, source, key in (
        ("secret", volume.secret, "secretName"),
        ("configMap", volume.config_map, "name"),
        ("persistentVolumeClaim", volume.persistent_volume_claim, "claimName"),
        ("csi", volume.csi, "driver"),
    ):
        name = "" if source is None else source.get(key)
        if source is not None and not (isinstance(name, str) and _OBJECT_NAME.fullmatch(name)):
            yield f"{at}.{kind}.{key} is {wording.given(name)}; expected a name"
    sources = () if volume.projected is None else volume.projected.get("sources")
    if not isinstance(sources, list | tuple):
        yield f"{at}.projected.sources is {wording.given(sources)}; expected a list"
        return
    for number, source in enumerate(sources):
        if not isinstance(source, Mapping) or len(source) != 1 or next(iter(source)) not in SOURCES:
            yield f"{at}.projected.sources[{number}] is {wording.given(source)}; expected {' or '.join(SOURCES)}"
        elif "downwardAPI" not in source:
            (part,) = source.values()
            if not isinstance(part, Mapping) or not isinstance(part.get("name"), str):
                yield f"{at}.projected.sources[{number}] is {wording.given(source)}; expected a name in it"


def _faults_of_container(
    container: PodTemplate | InitContainer, volumes: Sequence[str], home: str, at: str = ""
) -> Iterator[str]:
    """Yield the faults of variables and mounts of a container.

    ``volumes`` are those that it may mount, ``home`` is where it has a home, ``at`` is empty for that of the job.
    """
    for number, each in enumerate(container.env):
        place = f"{at}env[{number}]"
        if not _VARIABLE_NAME.fullmatch(each.name):
            yield f"{place}.name is {wording.given(each.name)}; expected the name of an environment variable"
        if each.name in OWN_VARIABLES or each.name.startswith("SPRINGTIDE_"):
            yield f"{place}.name is {wording.given(each.name)}, which the pool sets itself; leave it out"
        if each.value is not None and each.value_from is not None:
            yield f"{place} has value and valueFrom; expected one of them"
        if each.value_from is not None and len(msgspec.to_builtins(each.value_from)) != 1:
            yield f"{place}.valueFrom has no source, or several; expected one, such as secretKeyRef"
    for number, many in enumerate(container.env_from):
        if (many.secret_ref is None) == (many.config_map_ref is None):
            yield f"{at}envFrom[{number}] has no source, or two; expected secretRef or configMapRef"
    for number, mount in enumerate(container.volume_mounts):
        place = f"{at}volumeMounts[{number}]"
        if mount.name not in volumes:
            known = wording.listed(list(volumes)) if volumes else "none"
            yield f"{place}.name is {wording.given(mount.name)}; expected one of the template's volumes: {known}"
        yield from _faults_of_path(mount, home, place)
    yield from _twice(f"{at}env", (each.name for each in container.env))
    yield from _twice(f"{at}volumeMounts", (mount.mount_path for mount in container.volume_mounts))


def _faults_of_path(mount: Mount, home: str, place: str) -> Iterator[str]:
    path, inside = PurePosixPath(mount.mount_path), PurePosixPath(mount.sub_path)
    shown = wording.given(mount.mount_path, wording.LONG_GIVEN)
    if not path.is_absolute() or ".." in path.parts or ":" in mount.mount_path:
        yield f"{place}.mountPath is {shown}; expected an absolute path"
        return
    own = next((each for each in OWN_PATHS if path.is_relative_to(each)), None)
    if own is not None:
        yield f"{place}.mountPath is {shown}; {own} is the pool's"
    kept = (*OWN_PATHS, home) if home else OWN_PATHS
    covered = next((each for each in kept if PurePosixPath(each).is_relative_to(path)), None)
    if own is None and covered is not None:
        yield f"{place}.mountPath is {shown}, which would hide {covered}"
    if inside.is_absolute() or ".." in inside.parts:
        yield f"{place}.subPath is {wording.given(mount.sub_path)}; expected a path within the volume"


def _faults_of_others(template: PodTemplate, volumes: Sequence[str]) -> Iterator[str]:
    for number, container in enumerate(template.init_containers):
        at = f"initContainers[{number}]"
        if not _PART_NAME.fullmatch(container.name) or container.name == names.CONTAINER:
            yield (
                f"{at}.name is {wording.given(container.name)}; expected small letters, digits and dashes, and "
                f"not {names.CONTAINER}, the container of the job"
            )
        yield from _faults_of_container(container, volumes, "", f"{at}.")
        resources = container.resources
        for part in ("requests", "limits") if resources is not None else ():
            yield from _faults_of_quantities(getattr(resources, part), f"{at}.resources.{part}")
    yield from _twice("initContainers", (container.name for container in template.init_containers))


def _faults_of_quantities(quantities: Mapping[str, Quantity], at: str) -> Iterator[str]:
    from kubernetes.utils.quantity import parse_quantity  # noqa: PLC0415 - the extra may be missing

    for resource, quantity in quantities.items():
        if resource not in RESOURCES:
            yield f"{at} has {wording.given(resource)}, which the pool gives out; expected {', '.join(RESOURCES)}"
            continue
        try:
            amount = parse_quantity(quantity)
        except ValueError:
            amount = None
        if amount is None or amount < 0:
            yield f"{at} has {wording.given(quantity)} of {resource}; expected a quantity such as 500m or 2Gi"


def _twice(what: str, keys: Iterable[str]) -> Iterator[str]:
    yield from (f"{what} has {wording.given(key)} twice" for key, number in Counter(keys).items() if number > 1)

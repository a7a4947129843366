"""Validation of the admin's settings of the cluster."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from socket import gethostname
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import inspect

from springtide.hub_extension.api.intake import struct_of
from springtide.scheduler import wording
from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.kubernetes.node_groups.groups import cluster_groups
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.kubernetes.template_limits import forbidden_field, template_faults
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.settings import SettingError
from springtide.scheduler.wire.wrong_values import words

SETTING: Final = "Springtide.kubernetes"
SET_ELSEWHERE: Final = {
    "state_dir": "Springtide.state_dir",
    "images": "Springtide.images",
    "types": "Springtide.gpu_types",
}
TEMPLATES: Final = ("pod_template", "project_pod_templates")
SHARED_MEMORY_VOLUMES: Final = ("ephemeral", "csi", "emptyDir")
POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""File in a pod that holds the name of the pod's namespace."""
POOL: Final = "springtide"

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def cluster_settings(
    given: Mapping[str, Any],
    *,
    state_dir: Path,
    images: tuple[str, ...],
    types: DeclaredTypes | None = None,
    pod_namespace: Path = POD_NAMESPACE,
) -> KubernetesSettings:
    """Return the settings of the executor. Raises `SettingError` naming the key that is wrong.

    The default of ``namespace`` is the namespace of this pod, that of ``pool`` is ``springtide``.
    """
    kinds = {
        name: kind
        for name, kind in get_type_hints(KubernetesSettings, include_extras=True).items()
        if name not in SET_ELSEWHERE
    }
    checked = {key: _checked(key, value, kinds) for key, value in given.items()}
    namespace = checked.pop("namespace", None) or _own_namespace(pod_namespace)
    checked.setdefault("service_pod", _own_pod(pod_namespace, namespace))
    settings = KubernetesSettings(
        namespace=namespace,
        pool=checked.pop("pool", POOL),
        state_dir=state_dir,
        images=images,
        types=types or DeclaredTypes(),
        **checked,
    )
    wrong = next(_faults(settings), None)
    if wrong is not None:
        raise SettingError(f"{SETTING}: {wrong}.")
    return settings


def _checked(key: str, value: object, kinds: Mapping[str, Any]) -> Any:
    if key in SET_ELSEWHERE:
        raise SettingError(f"{SETTING} has the key {wording.given(key)}; set {SET_ELSEWHERE[key]} instead.")
    if key not in kinds:
        close = difflib.get_close_matches(str(key), kinds, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known are: {', '.join(sorted(kinds))}."
        raise SettingError(f"{SETTING} has an unknown key {wording.given(key)}. {hint}")
    if key in TEMPLATES:
        return _template(key, value, kinds[key])
    try:
        return msgspec.convert(value, kinds[key])
    except msgspec.ValidationError:
        wanted = words(inspect.type_info(kinds[key]))
        raise SettingError(f"{SETTING}: {key} is {wording.given(value)}; expected {wanted}.") from None


def _template(key: str, value: object, kind: Any) -> Any:
    """Return pod templates. Raises `SettingError` naming the field that is wrong, or forbidden."""
    parts: Mapping[str, object] = {key: value}
    if isinstance(value, Mapping) and key != "pod_template":
        parts = {f"{key}[{wording.given(name)}]": part for name, part in value.items()}
    wrong = next(filter(None, (forbidden_field(part, at) for at, part in parts.items())), None)
    if wrong is not None:
        raise SettingError(f"{SETTING}: {wrong}.")
    try:
        return getattr(struct_of({key: value}, msgspec.defstruct("Given", [(key, kind)])), key)
    except Refusal as refusal:
        raise SettingError(f"{SETTING}: {refusal.message} {refusal.hint}".rstrip()) from None


def _own_namespace(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        raise SettingError(
            f"{SETTING} has no namespace. It says in which namespace jobs run; only a service that runs in a pod "
            "of the cluster can do without."
        ) from None


def _own_pod(file: Path, namespace: str) -> str:
    """Return the name of this pod if it is one of that namespace, else nothing."""
    try:
        return gethostname() if file.read_text().strip() == namespace else ""
    except OSError:
        return ""


def _faults(settings: KubernetesSettings) -> Iterator[str]:
    """Yield a description of each invalid value."""
    for key in ("namespace", "pool"):
        value = getattr(settings, key)
        if not _NAME.fullmatch(value):
            yield f"{key} is {wording.given(value)}; expected at most 63 small letters, digits and dashes"
    volumes = [key for key in ("jobs_claim", "jobs_host_path") if getattr(settings, key)]
    if len(volumes) != 1:
        what = "both jobs_claim and jobs_host_path are" if volumes else "neither jobs_claim nor jobs_host_path is"
        yield f"{what} given; jobs keep their files on one volume"
    if not settings.gpu_resources:
        yield "gpu_resources is empty; expected names of extended resources, such as nvidia.com/gpu"
    sub_path = PurePosixPath(settings.jobs_sub_path)
    if sub_path.is_absolute() or ".." in sub_path.parts:
        yield (
            f"jobs_sub_path is {wording.given(settings.jobs_sub_path, wording.LONG_GIVEN)}; expected a path "
            "within the volume"
        )
    for key in ("jobs_host_path", "home_path"):
        path = getattr(settings, key)
        if path and not (path.startswith("/") and ".." not in PurePosixPath(path).parts):
            yield f"{key} is {wording.given(path, wording.LONG_GIVEN)}; expected an absolute path"
    if (settings.run_as is None) != (settings.fs_group is None):
        yield "one of run_as and fs_group is None; the cluster assigns both, or neither"
    if settings.agent_port is not None:
        yield from _faults_of_agents(settings)
    yield from _faults_of_shared_memory(settings.shared_memory)
    yield from _faults_of_rdma(settings)
    for node in settings.static_nodes:
        gpus = node.get("gpus")
        if (
            not isinstance(node.get("name"), str)
            or isinstance(gpus, bool)
            or not isinstance(gpus, int)
            or gpus < 0
        ):
            yield f"static_nodes has {node}; expected a name and a whole number of gpus"
    if settings.device_class is not None and settings.static_nodes:
        yield (
            "device_class and static_nodes are both set: published GPUs are seen only where the service lists the "
            "cluster's nodes; expected one of them"
        )
    if settings.gpu_resources:
        yield from _faults_of_groups(settings)
    yield from template_faults(settings)


def _faults_of_shared_memory(given: str | Mapping[str, Any]) -> Iterator[str]:
    if isinstance(given, str):
        return
    if len(given) != 1 or not all(isinstance(given.get(kind), Mapping) for kind in given):
        yield f"shared_memory is {wording.given(dict(given))}; expected memory, runtime or one kind of volume"
    elif given.keys().isdisjoint(SHARED_MEMORY_VOLUMES):
        yield (
            f"shared_memory is a volume of the kind {wording.given(next(iter(given)))}; expected one of "
            f"{', '.join(SHARED_MEMORY_VOLUMES)}"
        )


def _faults_of_rdma(settings: KubernetesSettings) -> Iterator[str]:
    for name, number in settings.rdma_resources.items():
        if "/" not in name or "*" in name or any(fnmatchcase(name, each) for each in settings.gpu_resources):
            yield (
                f"rdma_resources has {wording.given(name)}; expected an extended resource that is none of "
                "gpu_resources, such as rdma/rdma_shared_device_a"
            )
        if number < 1:
            yield f"rdma_resources has {number} of {wording.given(name)}; expected a number from 1"
    said = {
        "a node of static_nodes": any("rdma" in node for node in settings.static_nodes),
        "one of node_groups": any("rdma" in group for group in settings.node_groups),
        "rdma_networks": bool(settings.rdma_networks),
    }
    about = next((what for what, is_said in said.items() if is_said), None)
    if about is not None and not settings.rdma_resources:
        yield (
            f"{about} is about RDMA, and rdma_resources is empty; expected the extended resources that give "
            "RDMA to one worker, such as {'rdma/rdma_shared_device_a': 1}"
        )


def _faults_of_groups(settings: KubernetesSettings) -> Iterator[str]:
    try:
        cluster_groups(settings)
    except ExecutorError as error:
        yield str(error).removesuffix(".")


def _faults_of_agents(settings: KubernetesSettings) -> Iterator[str]:
    if not settings.agent_labels:
        yield "agent_port is given and agent_labels is empty; expected labels that only the pods of agents have"
    if not settings.agent_token_file.startswith("/"):
        yield (
            f"agent_token_file is {wording.given(settings.agent_token_file, wording.LONG_GIVEN)}; expected the "
            "absolute path of the file with the token of agents"
        )

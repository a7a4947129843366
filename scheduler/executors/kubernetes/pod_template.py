"""The admin's part of the pods of jobs, in the words of the Kubernetes API, and its merge; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from springtide.scheduler.executors.environment import gpu_environment

if TYPE_CHECKING:
    from springtide.scheduler.kube import Object

T = TypeVar("T")
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Quantity = str | int | float


class Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A part of a template; its fields are named as in the API."""


class Toleration(Part, frozen=True):
    """A toleration without an end: one with ``tolerationSeconds`` would end running jobs."""

    key: str = ""
    operator: Literal["Equal", "Exists"] | None = None
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class LocalReference(Part, frozen=True):
    """The name of an object in the namespace of jobs."""

    name: Name
    optional: bool | None = None


class PullSecret(Part, frozen=True):
    """The name of a Secret with credentials of a registry."""

    name: Name


class KeyReference(Part, frozen=True):
    """A key of a Secret or ConfigMap in the namespace of jobs."""

    name: Name
    key: Name
    optional: bool | None = None


class VariableSource(Part, frozen=True):
    """The source of a variable, of which one is given."""

    secret_key_ref: KeyReference | None = None
    config_map_key_ref: KeyReference | None = None
    field_ref: dict[str, str] | None = None
    resource_field_ref: dict[str, str] | None = None


class Variable(Part, frozen=True):
    """An environment variable."""

    name: Name
    value: str | None = None
    value_from: VariableSource | None = None


class VariablesOf(Part, frozen=True):
    """The variables of a whole Secret or ConfigMap."""

    prefix: str = ""
    secret_ref: LocalReference | None = None
    config_map_ref: LocalReference | None = None


class Volume(Part, frozen=True):
    """A volume of one of the kinds that the restricted Pod Security Standard permits."""

    name: Name
    secret: dict[str, Any] | None = None
    config_map: dict[str, Any] | None = None
    empty_dir: dict[str, Any] | None = None
    persistent_volume_claim: dict[str, Any] | None = None
    projected: dict[str, Any] | None = None
    csi: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None
    downward_api: dict[str, Any] | None = msgspec.field(default=None, name="downwardAPI")


class Mount(Part, frozen=True):
    """The place of a volume of the template in a container."""

    name: Name
    mount_path: Annotated[str, Meta(min_length=1, max_length=1024)]
    sub_path: str = ""
    read_only: bool | None = None


class Resources(Part, frozen=True):
    """The resources of a container beside that of the job."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class ContainerIdentity(Part, frozen=True):
    """What a container may differ in from the pod, within the restricted Pod Security Standard."""

    run_as_user: Annotated[int, Meta(ge=1)] | None = None
    run_as_group: Annotated[int, Meta(ge=0)] | None = None
    read_only_root_filesystem: bool | None = None


class InitContainer(Part, frozen=True):
    """A container that ends before the job starts, or with ``restartPolicy: Always`` a sidecar."""

    name: Annotated[str, Meta(min_length=1, max_length=63)]
    image: Annotated[str, Meta(min_length=1)]
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariablesOf, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()
    resources: Resources | None = None
    restart_policy: Literal["Always"] | None = None
    startup_probe: dict[str, Any] | None = None
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    lifecycle: dict[str, Any] | None = None
    security_context: ContainerIdentity | None = None

    @property
    def is_sidecar(self) -> bool:
        """Whether it runs as long as the job."""
        return self.restart_policy == "Always"


class PodTemplate(Part, frozen=True):
    """What an admin adds to the pods of jobs.

    ``env``, ``envFrom`` and ``volumeMounts`` are those of the job's container. ``nodeSelector`` is for pods
    without GPUs, as the pool plans the nodes of the others.
    """

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    runtime_class_name: Name | None = None
    scheduler_name: Name | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    image_pull_secrets: tuple[PullSecret, ...] = ()
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariablesOf, ...] = ()
    volumes: tuple[Volume, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()
    init_containers: tuple[InitContainer, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is added."""
        return self != EMPTY

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the Secrets that pods read."""
        return frozenset(self._named("secret", "secretName"))

    @property
    def config_maps(self) -> frozenset[str]:
        """The names of the ConfigMaps that pods read."""
        return frozenset(self._named("configMap", "name"))

    @property
    def claims(self) -> frozenset[str]:
        """The names of the volume claims that pods mount."""
        found = (volume.persistent_volume_claim for volume in self.volumes)
        return frozenset(claim["claimName"] for claim in found if claim is not None)

    def _named(self, kind: str, key: str) -> Iterator[str]:
        """Yield the names of objects of a kind, which volumes have under ``key``; optional ones are left out."""
        plain = plain_object(self)
        for container in (plain, *plain.get("initContainers", ())):
            whole = (each.get(f"{kind}Ref") for each in container.get("envFrom", ()))
            keys = (each.get("valueFrom", {}).get(f"{kind}KeyRef") for each in container.get("env", ()))
            yield from (each["name"] for each in (*whole, *keys) if each and not each.get("optional"))
        for volume in plain.get("volumes", ()):
            sources = volume.get("projected", {}).get("sources", ())
            parts = ((volume.get(kind), key), *((source.get(kind), "name") for source in sources))
            yield from (part[name] for part, name in parts if part and not part.get("optional"))


def plain_object(template: PodTemplate) -> Object:
    """Return a template as objects of the API have it."""
    plain: Object = msgspec.json.decode(msgspec.json.encode(template))
    return plain


EMPTY = PodTemplate()


def template_of(
    projects: Sequence[str], everywhere: PodTemplate, of_projects: Mapping[str, PodTemplate]
) -> PodTemplate:
    """Return the template of a project; ``projects`` are itself and those that it is in, the nearest first."""
    inner = [of_projects[name] for name in projects if name in of_projects]
    merged = everywhere
    for template in reversed(inner):
        merged = merge(merged, template)
    return merged


def merge(outer: PodTemplate, inner: PodTemplate) -> PodTemplate:
    """Return both templates as one; what both name is that of the inner one.

    Tables are joined by key, lists by name (mounts by path), and tolerations and sources of variables added.
    """
    return PodTemplate(
        labels={**outer.labels, **inner.labels},
        annotations={**outer.annotations, **inner.annotations},
        runtime_class_name=inner.runtime_class_name or outer.runtime_class_name,
        scheduler_name=inner.scheduler_name or outer.scheduler_name,
        node_selector={**outer.node_selector, **inner.node_selector},
        tolerations=tuple(dict.fromkeys((*outer.tolerations, *inner.tolerations))),
        image_pull_secrets=tuple(dict.fromkeys((*outer.image_pull_secrets, *inner.image_pull_secrets))),
        env=_joined(outer.env, inner.env, _name),
        env_from=(*outer.env_from, *inner.env_from),
        volumes=_joined(outer.volumes, inner.volumes, _name),
        volume_mounts=_joined(outer.volume_mounts, inner.volume_mounts, lambda mount: mount.mount_path),
        init_containers=_joined(outer.init_containers, inner.init_containers, _name),
    )


def _name(part: Variable | Volume | InitContainer) -> str:
    return part.name


def _joined(outer: Sequence[T], inner: Sequence[T], key: Callable[[T], str]) -> tuple[T, ...]:
    return tuple({**{key(each): each for each in outer}, **{key(each): each for each in inner}}.values())


def requests_beside(
    everywhere: PodTemplate, of_projects: Mapping[str, PodTemplate]
) -> list[list[Mapping[str, Quantity]]]:
    """Return the requests of the sidecars in the pods of each project that has a template, and of the others."""
    templates = [everywhere, *(merge(everywhere, template) for template in of_projects.values())]
    sidecars = [[each for each in template.init_containers if each.is_sidecar] for template in templates]
    return [[each.resources.requests for each in row if each.resources is not None] for row in sidecars]


def shaped(pod: Object, template: PodTemplate, *, gpus: int) -> Object:
    """Return the pod of a worker with ``gpus`` GPUs and what the template adds.

    What the pool sets itself stays. Containers of the template see no GPUs.
    """
    if not template:
        return pod
    added = plain_object(template)
    spec = dict(pod["spec"])
    (job,) = spec["containers"]
    spec["containers"] = [_with_environment(job, added)]
    if template.runtime_class_name:
        spec["runtimeClassName"] = template.runtime_class_name
    if "nodeSelector" in added and not gpus:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **added["nodeSelector"]}
    for key in ("tolerations", "imagePullSecrets"):
        more = [each for each in added.get(key, ()) if each not in spec.get(key, ())]
        if more:
            spec[key] = [*spec.get(key, ()), *more]
    spec["volumes"] = [*spec["volumes"], *added.get("volumes", ())]
    if template.init_containers:
        spec["initContainers"] = [_confined(each) for each in added["initContainers"]]
    return marked({**pod, "spec": spec}, template)


def marked(pod: Object, template: PodTemplate) -> Object:
    """Return a pod that waits for a node with what others see of the template: labels, annotations, scheduler."""
    meta = pod["metadata"]
    scheduler = {"schedulerName": template.scheduler_name} if template.scheduler_name else {}
    metadata = {
        **meta,
        "labels": {**template.labels, **meta["labels"]},
        "annotations": {**template.annotations, **meta["annotations"]},
    }
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], **scheduler}}


def _with_environment(job: Object, added: Mapping[str, Any]) -> Object:
    """Return the container of the job with variables and mounts; its own come last, and count."""
    env = [*added.get("env", ()), *job.get("env", ())]
    env_from = [*added.get("envFrom", ()), *job.get("envFrom", ())]
    return {
        **job,
        "volumeMounts": [*job["volumeMounts"], *added.get("volumeMounts", ())],
        **({"env": env} if env else {}),
        **({"envFrom": env_from} if env_from else {}),
    }


def _confined(container: Object) -> Object:
    """Return a container within the restricted Pod Security Standard, which sees none of the node's GPUs."""
    own = container.get("securityContext", {})
    unseen = [{"name": name, "value": value} for name, value in gpu_environment([]).items()]
    return {
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **container,
        "env": [*container.get("env", ()), *unseen],
        "securityContext": {**own, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }

"""From a TrainJob's manifest to a submission, or to a sentence that says what is wrong with it. Pure.

The API server has checked what the schema declares. It keeps fields that the schema does not know, so that they
are refused here in words instead of being dropped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from springtide.hub_extension.api.intake import body_of
from springtide.hub_extension.train_jobs.owner import PROJECT, USER, Owner, named
from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire.shapes import Positive, Request, Word

POD_FIELDS: Final = frozenset(
    {
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "ephemeralContainers",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostPath",
        "hostUsers",
        "hostname",
        "imagePullPolicy",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "podSpec",
        "podTemplate",
        "ports",
        "priorityClassName",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "shareProcessNamespace",
        "subdomain",
        "template",
        "tolerations",
        "topologySpreadConstraints",
        "volumeMounts",
        "volumes",
    }
)
"""Fields of pods that somebody may hope to set."""
OWNER_FIELDS: Final = ("project", "user")
ENGINE_FIELDS: Final[Mapping[str, str]] = {
    "argv": "command",
    "cwd": "workingDirectory",
    "time_limit": "timeLimitSeconds",
    "grace": "graceSeconds",
}
"""What the pool calls otherwise than the manifest, beyond the way of writing."""
LONGEST_TIME: Final = 10 * 365 * 86_400


class TrainJobSpec(Request, frozen=True, kw_only=True, rename="camel"):
    """The spec of a TrainJob: what `wire.Submission` has, as manifests write it. Durations are seconds."""

    command: Annotated[list[str], Meta(min_length=1, max_length=4096)]
    image: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    gpus: Positive = 1
    workers: Positive = 1
    min_workers: Positive | None = None
    priority: Word | Annotated[int, Meta(ge=0, le=1_000_000)] = "train"
    preemptible: bool | None = None
    rotate: bool = True
    gpu_types: Annotated[list[Word], Meta(max_length=100)] = []  # noqa: RUF012 - msgspec copies empty defaults
    require: Word | None = None
    prefer: Word | None = None
    time_limit_seconds: Annotated[float, Meta(gt=0, le=LONGEST_TIME)] | None = None
    retries: Annotated[int, Meta(ge=0, le=100)] = 0
    grace_seconds: Annotated[float, Meta(ge=0, le=3600)] | None = None
    env: dict[str, str] = {}  # noqa: RUF012 - as above
    working_directory: Annotated[str, Meta(max_length=4096)] | None = None
    files: dict[str, str] = {}  # noqa: RUF012 - as above


def submission_of(manifest: Mapping[str, Any], owner: Owner) -> wire.Submission:
    """What a TrainJob submits for its owner. Its key is the object's uid, so that it is accepted once only.

    Raises `Refusal` (422) naming the field that is wrong; ``field`` is a path such as ``spec.minWorkers``.
    """
    metadata = manifest["metadata"]
    _check_claims(metadata, owner)
    given = manifest.get("spec") or {}
    _check_fields(given, owner)
    try:
        spec = body_of(msgspec.json.encode(given), TrainJobSpec)
    except Refusal as refusal:
        raise _at(f"spec.{refusal.field}" if refusal.field else "spec", refusal) from None
    return wire.Submission(
        argv=spec.command,
        name=str(metadata["name"])[: wire.MAX_NAME],
        image=spec.image,
        gpus=spec.gpus,
        workers=spec.workers,
        min_workers=spec.min_workers,
        priority=spec.priority,
        preemptible=spec.preemptible,
        rotate=spec.rotate,
        gpu_types=spec.gpu_types,
        require=spec.require,
        prefer=spec.prefer,
        time_limit=spec.time_limit_seconds,
        retries=spec.retries,
        grace=spec.grace_seconds,
        env=spec.env,
        cwd=spec.working_directory,
        files={path: text.encode() for path, text in spec.files.items()},
        key=str(metadata["uid"]),
    )


def in_manifest(refusal: Refusal) -> Refusal:
    """The same refusal with the field's path in the manifest."""
    if refusal.field is None or refusal.field.startswith(("spec.", "metadata.")):
        return refusal
    name = ENGINE_FIELDS.get(refusal.field, refusal.field)
    head, *rest = name.split("_")
    path = f"spec.{head}{''.join(word.title() for word in rest)}"
    return _at(path, refusal)


def _at(path: str, refusal: Refusal) -> Refusal:
    return Refusal(refusal.status, refusal.code, refusal.message, field=path, hint=refusal.hint)


def _check_claims(metadata: Mapping[str, Any], owner: Owner) -> None:
    """A manifest may say whose it is, but only the truth."""
    for kind in ("labels", "annotations"):
        for key, what, true in ((PROJECT, "project", owner.project), (USER, "user", owner.user)):
            claimed = (metadata.get(kind) or {}).get(key)
            if claimed is not None and claimed != true:
                raise _not_yours(f"metadata.{kind}", f"{key}: {named(claimed)}", what, true, owner.namespace)


def _check_fields(given: Mapping[str, Any], owner: Owner) -> None:
    for what, true in zip(OWNER_FIELDS, (owner.project, owner.user), strict=True):
        if what in given:
            raise _not_yours(f"spec.{what}", named(given[what]), what, true, owner.namespace)
    wanted = sorted(POD_FIELDS & given.keys())
    if wanted:
        raise Refusal(
            422,
            "pod_field",
            f"A TrainJob cannot set {', '.join(wanted)}: the pool makes the pods, as its admins say.",
            field=f"spec.{wanted[0]}",
            hint="Leave it out. `kubectl explain trainjob.spec` shows what can be set.",
        )


def _not_yours(field: str, given: str, what: str, true: str, namespace: str) -> Refusal:
    return Refusal(
        403,
        "forbidden",
        f"The manifest asks for the {what} {given}, but TrainJobs in namespace {namespace!r} belong to the {what} "
        f"{true!r}. An administrator of the cluster decides that, with the namespace; the manifest cannot.",
        field=field,
        hint="Leave it out.",
    )

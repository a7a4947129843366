"""How a TrainJob becomes a SpringtideJob of the same namespace and name. Pure.

A SpringtideJob *succeeds* a TrainJob that is still there if it is what the service makes of it. Then, and only
then, it gets the TrainJob's job. Whoever may create SpringtideJobs can make such an object, too, but gains nothing
by it: roles give rights on objects by their names, whoever has made them, and the content is the TrainJob's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from springtide.hub_extension.train_jobs import schema
from springtide.hub_extension.train_jobs.cluster import FINALIZER
from springtide.hub_extension.train_jobs.kinds import SPRINGTIDE_JOB
from springtide.hub_extension.train_jobs.owner import PROJECT, USER, person_of
from springtide.scheduler.kube import Object

CONVERTED_FROM: Final = "springtide.io/converted-from"
"""Annotation of a SpringtideJob: the uid of the TrainJob that it was made of."""
TRACKED: Final = frozenset({"app.kubernetes.io/instance", "argocd.argoproj.io/instance"})
TRACKED_BY_ANNOTATION: Final = "argocd.argoproj.io/tracking-id"
"""Marks of what Argo CD has applied. It deletes an object that has them and is in none of its manifests."""
FIRST_GENERATION: Final = 1


def converted(old: Object, claim: Mapping[str, str], *, unfinished: bool) -> Object:
    """Return the SpringtideJob that a TrainJob becomes.

    ``claim`` are the annotations of one that has a job; ``unfinished`` says whether this job has not ended.
    """
    metadata = old["metadata"]
    annotations = _without(metadata.get("annotations"), {TRACKED_BY_ANNOTATION})
    made: Object = {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "labels": _without(metadata.get("labels"), TRACKED),
        "annotations": {**annotations, **claim, CONVERTED_FROM: metadata["uid"]},
    }
    if owners := metadata.get("ownerReferences"):
        made["ownerReferences"] = owners
    if unfinished:
        made["finalizers"] = [FINALIZER]
    kind = SPRINGTIDE_JOB
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.name,
        "metadata": made,
        "spec": old.get("spec") or {},
    }


def origin(found: Mapping[str, Any]) -> str | None:
    """Return the uid of the TrainJob that a SpringtideJob says it was made of."""
    return (found["metadata"].get("annotations") or {}).get(CONVERTED_FROM)


def succeeds(found: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether a SpringtideJob is what becomes of a TrainJob of the same namespace and name.

    Only the fields that can be changed may differ.
    """
    metadata, before = found["metadata"], old["metadata"]
    return (
        origin(found) == before["uid"]
        and _fixed(found) == _fixed(old)
        and (metadata.get("ownerReferences") or []) == (before.get("ownerReferences") or [])
        and all(_said(found, key) == _said(old, key) for key in (PROJECT, USER))
    )


def repeats(old: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Return whether a TrainJob asks for nothing else than the SpringtideJob of its name."""
    return (
        old.get("spec") == found.get("spec")
        and person_of(old) == person_of(found)
        and "deletionTimestamp" not in found["metadata"]
    )


def changed_since(found: Mapping[str, Any], old: Mapping[str, Any], own: set[int]) -> Object | None:
    """Return the changes of a SpringtideJob after a change of its TrainJob, None without any.

    Its own fields stay if they have been changed: its generation is then neither the first nor one of ``own``.
    """
    generation = found["metadata"].get("generation", FIRST_GENERATION)
    if generation != FIRST_GENERATION and generation not in own:
        return None
    before, now = (each.get("spec") or {} for each in (found, old))
    changes = {name: now.get(name) for name in sorted(schema.CHANGEABLE) if before.get(name) != now.get(name)}
    return {"spec": changes} if changes else None


def _fixed(found: Mapping[str, Any]) -> dict[str, Any]:
    return _without(found.get("spec"), schema.CHANGEABLE)


def _said(found: Mapping[str, Any], key: str) -> tuple[Any, Any]:
    labels, annotations = (found["metadata"].get(each) or {} for each in ("labels", "annotations"))
    return labels.get(key), annotations.get(key)


def _without(given: Mapping[str, Any] | None, left_out: set[str] | frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in (given or {}).items() if key not in left_out}

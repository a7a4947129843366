"""Converts a train job's manifest into a submission, or into a refusal that explains its error. Pure.

The API server has checked what the schema declares (`rules`). What depends on the pool is checked here and by the
engine, and so is all of it where the cluster still has the definition of an earlier version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from springtide.hub_extension.api.intake import body_of
from springtide.hub_extension.train_jobs import schema
from springtide.hub_extension.train_jobs.owner import PROJECT, USER, Owner
from springtide.scheduler import wire, wording
from springtide.scheduler.refusal import Refusal


def submission_of(manifest: Mapping[str, Any], owner: Owner) -> wire.Submission:
    """Return the submission of a train job for its owner. Its key is the object's uid: it is accepted only once.

    Raises `Refusal` (422) naming the field that is wrong; ``field`` is a path such as ``spec.minWorkers``.
    """
    metadata = manifest["metadata"]
    _check_claims(metadata, owner)
    given = manifest.get("spec") or {}
    if not isinstance(given, Mapping):
        raise Refusal(
            422, "invalid", f"spec is {wording.given(given, 60)}; expected an object with a command.", field="spec"
        )
    try:
        spec = body_of(msgspec.json.encode(given), schema.SpringtideJobSpec)
    except Refusal as refusal:
        raise _at(f"spec.{refusal.field}" if refusal.field else "spec", refusal) from None
    return wire.Submission(
        **_options(spec),
        argv=spec.command,
        name=str(metadata["name"])[: wire.MAX_NAME],
        cwd=spec.cwd,
        files={path: text.encode() for path, text in spec.files.items()},
        key=str(metadata["uid"]),
    )


def suspended(manifest: Mapping[str, Any]) -> bool:
    """Return whether a train job asks for a pause of its job."""
    return _field(manifest, schema.OWN_FIELDS["suspend"]) is True


def priority(manifest: Mapping[str, Any]) -> str | None:
    """Return the priority that a train job asks for, as a text; None if the API server has set no default."""
    found = _field(manifest, schema.PRIORITY)
    return None if found is None else str(found)


def kept_for(manifest: Mapping[str, Any]) -> float | None:
    """Return the seconds for which a train job is kept once it has finished, None for ever."""
    seconds = _field(manifest, schema.OWN_FIELDS["ttl"])
    return float(seconds) if isinstance(seconds, int) else None


def _field(manifest: Mapping[str, Any], name: str) -> object:
    given = manifest.get("spec")
    return given.get(name) if isinstance(given, Mapping) else None


def _options(spec: Any) -> dict[str, Any]:
    """Return the options of a `SpringtideJobSpec`, those under an earlier name with the others."""
    found = {option.name: getattr(spec, option.name) for option in schema.OPTIONS}
    for option in schema.OPTIONS:
        old = getattr(spec, schema.old_name(option)) if option.old_field else None
        if old is not None and found[option.name] is not None:
            message = f"{option.field} and {option.old_field} are both set; they are the same option."
            raise Refusal(422, "invalid", message, field=f"spec.{option.old_field}", hint="Leave one of them out.")
        if old is not None:
            found[option.name] = old
    return found


def in_manifest(refusal: Refusal) -> Refusal:
    """Return the same refusal with the field's path in the manifest."""
    if refusal.field is None or refusal.field.startswith(("spec.", "metadata.")):
        return refusal
    option = wire.OPTIONS.get(refusal.field)
    name = schema.OWN_FIELDS.get(refusal.field, refusal.field) if option is None else option.field
    return _at(f"spec.{name}", refusal)


def _at(path: str, refusal: Refusal) -> Refusal:
    return Refusal(refusal.status, refusal.code, refusal.message, field=path, hint=refusal.hint)


def _check_claims(metadata: Mapping[str, Any], owner: Owner) -> None:
    """Raise `Refusal` for a manifest that names another project or user than its namespace's."""
    for kind in ("labels", "annotations"):
        for key, what, true in ((PROJECT, "project", owner.project), (USER, "user", owner.user)):
            claimed = (metadata.get(kind) or {}).get(key)
            if claimed is not None and claimed != true:
                raise _not_yours(
                    f"metadata.{kind}", f"{key}: {wording.given(claimed)}", what, true, owner.namespace
                )


def _not_yours(field: str, given: str, what: str, true: str, namespace: str) -> Refusal:
    return Refusal(
        403,
        "forbidden",
        f"The manifest asks for the {what} {given}, but train jobs in namespace {wording.given(namespace)} belong "
        f"to the {what} {wording.given(true)}. An administrator of the cluster decides that, with the namespace; "
        "the manifest cannot.",
        field=field,
        hint="Leave it out.",
    )

"""Records of jobs' environments, and their views; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from springtide.scheduler import wire, wording
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import EnvironmentRecord, JobSpec
from springtide.scheduler.wire.environments import missing_text

SHOWN_FILES: Final = 30
"""Number of files whose names are kept with the job's record; the bundle has all."""


def environment_of(
    submission: wire.Submission, image: str | None, contents: wire.ImageContents | None
) -> EnvironmentRecord | None:
    """Return the record of a submission's environment, None if it is empty.

    ``image`` is that of the job, None on one machine; ``contents`` are its declared contents. Raises `Refusal` for
    text with control characters.
    """
    sent, files = submission.environment, sorted(submission.files)
    if sent is None and not (files or submission.env or submission.requirements):
        return None
    kept = EnvironmentRecord(
        files=tuple(files[:SHOWN_FILES]),
        file_count=len(files),
        file_bytes=sum(map(len, submission.files.values())),
    )
    if sent is None:
        return kept
    _check([sent.python, sent.path, sent.name, sent.image, sent.program])
    _check([*sent.variables, *sent.variables.values()])
    _check([*sent.packages, *sent.packages.values(), *sent.missing, *sent.imports])
    return replace(
        kept,
        program=sent.program,
        python=sent.python,
        path=sent.path,
        name=sent.name,
        image=sent.image,
        variables={name: value for name, value in sent.variables.items() if name in wire.ACTIVATION},
        packages=dict(sent.packages),
        missing=tuple(wire.missing_modules(sent, image, submission.requirements, contents)),
        imports=tuple(sent.imports),
    )


def _check(texts: Iterable[str]) -> None:
    for text in texts:
        if not wording.is_printable(text):
            raise Refusal(
                422,
                "invalid",
                f"The environment names {wording.given(text, wire.MAX_NAME)}, which has control characters.",
                field="environment",
                hint="Leave it out, or send what springtide submit and notebooks send.",
            )


def environment_sent(spec: JobSpec) -> wire.PythonEnvironment | None:
    """Return the environment of a job as its submission had it, None if it had none."""
    kept = spec.environment
    if kept is None or not (kept.python or kept.variables):
        return None
    return wire.PythonEnvironment(
        program=kept.program,
        python=kept.python,
        path=kept.path,
        name=kept.name,
        image=kept.image,
        variables=dict(kept.variables),
        packages=dict(kept.packages),
        missing=list(kept.missing),
        imports=list(kept.imports),
    )


def environment_view(spec: JobSpec) -> wire.JobEnvironment | None:
    """Return the view of a job's environment, None if nothing was kept."""
    kept = spec.environment
    in_place = (spec.cwd or "") if spec.options.in_place else ""
    if kept is None and spec.tree is None and not in_place:
        return None
    kept = kept or EnvironmentRecord()
    return wire.JobEnvironment(
        program=kept.program,
        python=kept.python,
        path=kept.path,
        name=kept.name,
        image=kept.image,
        packages=dict(kept.packages),
        missing=list(kept.missing),
        missing_text=missing_text(kept.missing, spec.options.image or kept.path),
        files=list(kept.files),
        file_count=kept.file_count,
        file_bytes=kept.file_bytes,
        variables=sorted(spec.options.env),
        requirements=spec.options.requirements,
        tree=None if spec.options.in_place else spec.tree,
        in_place=in_place,
    )

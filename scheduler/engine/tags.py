"""The tags, the note and the marks of jobs, and what a change leaves of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import structs

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import Marks


def checked_tags(given: Sequence[str], field: str = "tags") -> tuple[str, ...]:
    """Return the tags, each once. Raises `Refusal` for one that is no plain word, and for too many."""
    tags = tuple(dict.fromkeys(given))
    for tag in tags:
        separates = any(character == "," or character.isspace() for character in tag)
        if separates or not wording.is_printable(tag) or not 0 < len(tag) <= wire.MAX_TAG:
            raise Refusal(
                422,
                "invalid",
                f"{wording.given(tag, wire.MAX_TAG)} cannot be a tag.",
                field=field,
                hint=f"Use words of at most {wire.MAX_TAG} characters, without spaces and commas.",
            )
    size = sum(len(tag.encode()) for tag in tags)
    if len(tags) > wire.MAX_TAGS or size > wire.MAX_TAGS_BYTES:
        raise Refusal(
            422,
            "invalid",
            f"The job has {len(tags)} tags, which take {size} bytes.",
            field=field,
            hint=f"Use at most {wire.MAX_TAGS} tags of at most {wire.MAX_TAGS_BYTES} bytes together.",
        )
    return tags


def changed_tags(before: Sequence[str], edit: wire.TagsEdit) -> tuple[str, ...]:
    """Return the tags after a change. Raises `Refusal`."""
    kept = before if edit.tags is None else edit.tags
    return checked_tags([*(tag for tag in kept if tag not in edit.remove), *edit.add])


def changed_marks(before: Marks, edit: wire.MarksEdit) -> Marks:
    """Return the marks after a change. Raises `Refusal` for a note with control characters."""
    changes = {name: value for name, value in structs.asdict(edit).items() if value is not None}
    note = str(changes.get("note", "")).strip()
    if not all(map(wording.is_printable, note.split("\n"))):
        message = "The note has control characters."
        raise Refusal(422, "invalid", message, field="note", hint="Use letters, digits, signs and new lines.")
    if "note" in changes:
        changes["note"] = note
    return structs.replace(before, **changes)


class TagCalls:
    """Changes the tags and marks of jobs, also of ended ones. ``request`` applies a change in a transaction."""

    def __init__(self, jobs: JobLookup, request: Callable[[Callable[[Transaction], Any]], Awaitable[Any]]) -> None:
        self._jobs = jobs
        self._request = request

    async def edit(self, job_id: str, edit: wire.TagsEdit, by: str) -> None:
        """Change the tags of a job for the user ``by``; that of another's job is audited. Raises `Refusal`."""
        found = await self._jobs.get(job_id)

        def apply(transaction: Transaction) -> None:
            job = transaction.job(job_id) or self._jobs.in_memory(job_id) or found
            tags = changed_tags(job.spec.options.tags, edit)
            if tags == job.spec.options.tags:
                return
            transaction.put_marks(job, job.spec.with_options(tags=tags))
            if by != job.spec.user:
                before = {"user": job.spec.user, "name": job.spec.name, "tags": list(job.spec.options.tags)}
                after = {"tags": list(tags)}
                transaction.add_audit_entry(by, "job.tags", job_id, before, after, project=job.spec.project)

        await self._request(apply)

    async def mark(self, job_id: str, edit: wire.MarksEdit, by: str) -> None:
        """Change the note and the marks of a job for the user ``by``; that of another's job is audited.

        Raises `Refusal`.
        """
        found = await self._jobs.get(job_id)

        def apply(transaction: Transaction) -> None:
            job = transaction.job(job_id) or self._jobs.in_memory(job_id) or found
            before, marks = job.spec.marks, changed_marks(job.spec.marks, edit)
            if marks == before:
                return
            transaction.put_marks(job, structs.replace(job.spec, marks=marks))
            if by != job.spec.user:
                who = {"user": job.spec.user, "name": job.spec.name}
                was, now = {**who, **_shown(before)}, _shown(marks)
                transaction.add_audit_entry(by, "job.marks", job_id, was, now, project=job.spec.project)

        await self._request(apply)


def _shown(marks: Marks) -> dict[str, Any]:
    return structs.asdict(marks)

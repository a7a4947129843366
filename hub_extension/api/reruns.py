"""Calls that run a job again."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Annotated, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.choices import project_for
from springtide.hub_extension.api.jobs import BUSY_RETRY_S, hold_intake, lineage_of, parameters_size, seen, take
from springtide.hub_extension.api.people.me import me
from springtide.hub_extension.api.permissions import Action
from springtide.hub_extension.api.presets import changes_with_preset, naming_preset
from springtide.hub_extension.api.routes import Call, Reply, Who, route
from springtide.hub_extension.web.problems import Busy
from springtide.scheduler.engine.forks import Source
from springtide.scheduler.engine.reruns import name_again, options_of
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.sentences.reruns import fork_words
from springtide.scheduler.store.records import JobSpec
from springtide.scheduler.wire import BadOption, Job, Rerun, changes_of
from springtide.scheduler.wire.form_fields import Form, filled, form_of, with_arguments
from springtide.scheduler.wire.reruns import arguments_of
from springtide.scheduler.wording import given


def hold_checkpoints(call: Call) -> AbstractContextManager[None]:
    """Count a call among those of the caller that read files of jobs. Raises `Busy` beyond the maximum."""
    return call.pool.checkpoints.hold(call.caller.name, _busy_with_checkpoints)


def _busy_with_checkpoints() -> Refusal:
    return Busy(
        "too_many",
        "Other requests of yours about checkpoints are being answered. Nothing was done.",
        retry_after=BUSY_RETRY_S,
        hint="Try again when they have finished; copying a large checkpoint takes a while.",
    )


async def rerunnable(call: Call, job_id: str) -> JobSpec:
    """Return the spec of the path's job. Raises `Refusal` unless the caller may run it again.

    A job runs under its user's account and has variables that no one else sees, so only that person may run it
    again.
    """
    caller, job = call.caller, await seen(call, job_id)
    if not permissions.may(caller, Action.RERUN, job.project, job.user):
        if not permissions.owns(caller, job.user):
            message = f"The job is {job.user}'s; only {job.user} may run it again, with its files and variables."
            raise Refusal(403, "forbidden", message, hint="Ask for the code, and submit it as a job of your own.")
        message = f"You are no longer in project {given(job.project)}, for which the job ran."
        raise Refusal(403, "forbidden", message, hint="Submit it again for a project of yours.")
    return await call.pool.engine.reruns.first(job.id)


class Changes(NamedTuple):
    """The ``options`` that a request changes of a job, with those that its ``preset`` has ``filled_in``."""

    project: str
    options: dict[str, Any]
    preset: str | None
    filled_in: dict[str, Any]


async def changes_asked(call: Call, body: Struct, first: JobSpec) -> Changes:
    """Return the changes of a request to run a job again or to fork it. Raises `Refusal`."""
    try:
        asked = changes_of(body)
    except BadOption as error:
        raise Refusal(422, "invalid", error.message, field=error.name, hint=error.hint) from None
    project = await project_for(call.pool, call.caller, asked.get("project") or first.project)
    options = changes_with_preset(call.pool, asked, project)
    filled_in = {name: value for name, value in options.items() if name not in asked}
    return Changes(project, options, asked.get("preset"), filled_in)


@route("POST", "/jobs/{id}/rerun", Who.LOGGED_IN, status=201, also=(200,), jobs=True)
async def rerun(call: Call, id: str, body: Annotated[Struct, Rerun]) -> Reply[Job]:
    """Submit a job once more, with some other options; it is stored on disk before the answer.

    A fork continues from the same checkpoint, unless ``from_start``; that is copied before the answer.
    """
    caller, pool = call.caller, call.pool
    first = await rerunnable(call, id)
    key: str | None = getattr(body, "key")  # noqa: B009 - made from the table, unknown to type checkers
    continues = first.fork is not None and not getattr(body, "from_start")  # noqa: B009
    if continues and key is not None and (known := await pool.engine.job_of_key(caller.name, key)) is not None:
        return Reply(known, 200)
    with hold_checkpoints(call) if continues else hold_intake(pool):
        take(pool.submissions, caller, "You submit faster than this pool takes jobs of one person.")
        changes = await changes_asked(call, body, first)
        sent = "You send files faster than this pool takes them of one person."
        take(pool.uploads, caller, sent, first.bundle_bytes)
        typed = arguments_of(body)
        source = await pool.engine.forks.source_again(first) if continues else None
        if source is None:
            submission = await pool.engine.reruns.submission(first.id, changes.options, key, typed)
        else:
            submission = await pool.engine.forks.submission(source, body, changes.options)
        take(pool.uploads, caller, sent, parameters_size(submission))
        requested_at = pool.clock()
        lineage = lineage_of(caller)
        with naming_preset(changes.preset, changes.filled_in):
            accepted = await pool.engine.submit(
                submission, caller.name, changes.project, again=first, fork=source, typed=typed, lineage=lineage
            )
        return Reply(accepted, 201 if accepted.submitted >= requested_at else 200)


class RerunQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Query parameters: the name of the ``checkpoint`` that a fork continues from, none for a run again.

    A run again of a fork continues from its checkpoint, unless it begins ``from_start``.
    """

    checkpoint: str | None = None
    from_start: bool = False


@route("GET", "/jobs/{id}/rerun", Who.LOGGED_IN, jobs=True)
async def form(call: Call, id: str, query: RerunQuery) -> Form:
    """Return the form to edit a job with before it is run again or forked, filled in; variables are left out."""
    first = await rerunnable(call, id)
    name, continues = name_again(first), ""
    forks = call.pool.engine.forks
    if query.checkpoint is not None:
        with hold_checkpoints(call):
            name = await forks.name_of(Source(*await forks.source(id, None, query.checkpoint)))
    elif first.rerun is not None and first.fork is not None and not query.from_start:
        with hold_checkpoints(call):
            name = await forks.name_of(await forks.source_again(first))
        continues = fork_words(first.rerun.name, first.fork.checkpoint, first.fork.step)
    form = filled(form_of(await me(call), []), {**options_of(first), "name": name})
    form = replace(form, continues=continues)
    return form if first.trials is not None else with_arguments(form, first.kind, first.argv, first.arguments)

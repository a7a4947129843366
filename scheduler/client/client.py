"""A method per call of the pool's API."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType, TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

import httpx
import msgspec

from springtide.scheduler import wire, wording
from springtide.scheduler.arguments import Typed
from springtide.scheduler.client.errors import PoolError, Unreachable
from springtide.scheduler.client.log_tail import last_lines
from springtide.scheduler.client.presets import as_filled
from springtide.scheduler.client.session import SessionConnection
from springtide.scheduler.client.stream import EventStream
from springtide.scheduler.client.transport import UNPROCESSABLE, Transport, sendable
from springtide.scheduler.file_names import real_name
from springtide.scheduler.time_zones import own_zone

NO_URL = (
    "No pool is known here: SPRINGTIDE_URL is not set. In a notebook of the hub it is set by itself; "
    "elsewhere set it to the service's address, such as http://127.0.0.1:8000/services/springtide."
)


SEND_TIMEOUT_S = 300.0
"""Time for sending a project tree, in seconds."""
STACK_TIMEOUT_S = 600.0
"""Time for the stacks of all workers of a job, in seconds."""
FILES_TIMEOUT_S = 90.0
"""Time for a request that reads folders of a job, in seconds."""
COPY_TIMEOUT_S = 1800.0
"""Time for a request that copies a checkpoint, in seconds."""
PAST_TIMEOUT_S = 300.0
"""Time for the past of a pool to arrive, in seconds."""
MOST_ENTRIES = 200
"""Number of entries of the audit trail that are asked for at a time."""
NO_CHANGES: Mapping[str, Any] = MappingProxyType({})


def own_token() -> str:
    """Return the token of this process: its ``JUPYTERHUB_API_TOKEN``, else that of the job; empty if it has none.

    Each attempt of a job has a token of its own, in the file ``SPRINGTIDE_TOKEN_FILE``.
    """
    token = os.environ.get("JUPYTERHUB_API_TOKEN", "")
    file = os.environ.get("SPRINGTIDE_TOKEN_FILE", "")
    if token or not file:
        return token
    try:
        return Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def place_for(name: str, to: str | os.PathLike[str]) -> Path:
    """Return where a file or folder of a job is saved, as ``cp`` has it: as ``to``, or in that directory.

    It is one that is there, or that is named with a slash at its end.
    """
    place = Path(to)
    return place / real_name(PurePosixPath(name).name) if _names_directory(to) or place.is_dir() else place


def _names_directory(to: str | os.PathLike[str]) -> bool:
    return os.fspath(to).endswith(("/", os.sep))


class Client:
    """The pool, as one caller sees it.

    ``url`` is the service's address without ``/api/v1`` (default: ``SPRINGTIDE_URL``), ``token`` the caller's
    token (default: `own_token`), ``timeout`` the seconds to wait for an answer.

    Every method raises `PoolError` when the pool refuses, and `Unreachable` when it does not answer. Reading
    and submitting, forks included, are tried again for a second or two before that, for ``patience`` seconds while
    nothing answers, and for a minute while the pool is busy and says when to come back. Threads may share one
    client.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        patience: float = 0.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        address = url or os.environ.get("SPRINGTIDE_URL", "")
        if not address:
            raise Unreachable(NO_URL)
        self._timeout = timeout
        self._token = token or own_token()
        self._http = Transport(address, self._token, timeout, patience, transport)

    @property
    def url(self) -> str:
        """The service's address."""
        return self._http.url

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def me(self) -> wire.Me:
        """Return the caller's identity and permissions."""
        return self._http.struct(wire.Me, "GET", "me")

    def edit_me(self, edit: wire.MeEdit) -> wire.Me:
        """Change the caller's own settings: the default project."""
        return self._http.struct(wire.Me, "PATCH", "me", body=edit)

    # ---------- jobs

    def submit(self, submission: wire.Submission, packed: bytes | None = None) -> wire.Job:
        """Submit a job. When this returns, the job is on disk.

        ``packed`` is the packed project tree of the submission, which is sent first unless the pool has it.

        A submission without a key gets one, so that a lost answer is asked for again without a second job. One
        without an image gets that of the notebook it is sent from (``SPRINGTIDE_IMAGE``), if that has one and its
        preset names none.
        """
        key = submission.key or uuid.uuid4().hex
        body = msgspec.structs.replace(submission, key=key, image=self._image(submission))
        if packed is not None and submission.tree is not None and submission.tree.digest is not None:
            self.send_tree(submission.tree.digest, packed)
        return self._http.struct(wire.Job, "POST", "jobs", body=body, repeat=True)

    def _image(self, submission: wire.Submission) -> str | None:
        """Return the image of a submission: that of this notebook if neither it nor its preset names one."""
        own = os.environ.get(wire.IMAGE_VARIABLE) or None
        if submission.image is not None or own is None:
            return submission.image
        return None if submission.preset and as_filled(submission, self.me()).image is not None else own

    def send_tree(self, digest: str, packed: bytes) -> wire.SentTree:
        """Send a packed project tree, unless the pool has it from this caller."""
        path = _path("trees", digest)
        try:
            return self._http.struct(wire.SentTree, "GET", path)
        except PoolError as error:
            if error.problem.code != "unknown_tree":
                raise
        return self._http.struct(wire.SentTree, "PUT", path, body=packed, repeat=True, timeout=SEND_TIMEOUT_S)

    def jobs(
        self,
        *,
        state: str | None = None,
        project: str | None = None,
        user: str | None = None,
        mine: bool = False,
        search: str | None = None,
        since: float | None = None,
        tag: str | None = None,
        sweep: str | None = None,
        where: str | None = None,
        archived: str | None = None,
        order: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> wire.JobPage:
        """Return jobs, newest first, and the cursor of those that come after.

        Trials of sweeps are left out, unless ``sweep`` names the sweep whose trials are asked for.

        ``state`` may name several, with commas between; ``search`` are words that the name, the user, the project,
        the id or a tag contains, or names of arguments that are set, ``since`` is the earliest time of submission,
        in seconds since 1970, ``tag`` is one of the tags. ``where`` is a condition such as
        ``lr > 0.1 and val_loss < 0.3``, with dates in the time zone of this process, ``order`` a value that sorts
        the jobs, such as ``-best.acc``. Archived jobs are left out unless ``archived`` is ``yes`` (only these) or
        ``all``. A ``limit`` above `wire.MAX_JOBS_PAGE` takes several requests.
        """
        filters = {
            "state": state,
            "project": project,
            "user": user,
            "mine": mine or None,
            "search": search,
            "since": since,
            "tag": tag,
            "sweep": sweep,
            "where": where,
            "zone": own_zone() if where else None,
            "archived": archived,
            "order": order,
        }
        found: list[wire.Job] = []
        while True:
            most = None if limit is None else min(limit - len(found), wire.MAX_JOBS_PAGE)
            query = {**filters, "cursor": cursor, "limit": most}
            page = self._http.struct(wire.JobPage, "GET", "jobs", query=query)
            found += page.items
            cursor = page.next
            if limit is None or cursor is None or len(found) >= limit:
                return wire.JobPage(items=found, next=cursor, looked_at=page.looked_at, note=page.note)

    def all_jobs(self, **filters: Any) -> Iterator[wire.Job]:
        """Yield every job that `jobs` would return for the same filters, page after page."""
        cursor: str | None = None
        while True:
            page = self.jobs(**filters, cursor=cursor, limit=wire.MAX_JOBS_PAGE)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def mark(self, job_id: str, edit: wire.MarksEdit) -> wire.Job:
        """Change the note of a job, or pin or archive it; it may have ended."""
        return self._http.struct(wire.Job, "PATCH", _path("jobs", job_id), body=edit)

    def job(self, job_id: str) -> wire.Job:
        """Return one job."""
        return self._http.struct(wire.Job, "GET", _path("jobs", job_id))

    def pause(self, job_id: str) -> wire.Job:
        """Pause a job at its next checkpoint; it waits until it is resumed."""
        return self._control(job_id, "pause")

    def resume(self, job_id: str) -> wire.Job:
        """Let a job that was paused by its user run again."""
        return self._control(job_id, "resume")

    def cancel(self, job_id: str) -> wire.Job:
        """End a job for good. It has its grace period to end, then it is killed."""
        return self._control(job_id, "cancel")

    def end(self, job_id: str) -> wire.Job:
        """End a job for good without time to save; one that is being cancelled is killed at once."""
        return self._control(job_id, "end")

    def delete(self, job_id: str, *, dry_run: bool = False) -> wire.Deletion:
        """Delete a job that has ended, with its files; with ``dry_run`` only measure these."""
        query = {"dry_run": "1"} if dry_run else {}
        return self._http.struct(wire.Deletion, "DELETE", _path("jobs", job_id), query=query)

    def cancel_with_children(self, job_id: str, *, now: bool = False) -> list[wire.JobActed]:
        """End a job for good, and the unfinished jobs that its program has submitted; ``now`` as by `end`.

        Returns the result for each.
        """
        body = wire.JobsAction(action="end" if now else "cancel", jobs=[job_id], children=True)
        return self._http.struct(wire.JobsActed, "POST", "jobs/actions", body=body, repeat=True).results

    def finish(self, job_id: str) -> wire.Job:
        """Mark a job that waits after an attempt as finished: it ends as succeeded, and is not run again."""
        return self._control(job_id, "finish")

    def hold(self, job_id: str, reason: str, *, finish: bool = False) -> wire.Job:
        """Put a job on hold until an administrator releases it; one that runs is paused, or may ``finish``."""
        body = wire.HoldRequest(reason=reason, finish=finish)
        return self._http.struct(wire.Job, "POST", _path("jobs", job_id, "hold"), body=body)

    def release(self, job_id: str, user: str | None = None) -> wire.Job:
        """Release a job that is on hold; ``user`` owns it from now on, if given."""
        body = wire.ReleaseRequest(user=user)
        return self._http.struct(wire.Job, "POST", _path("jobs", job_id, "release"), body=body)

    def edit(self, job_id: str, edit: wire.JobEdit) -> wire.Job:
        """Change priority, time limit or workers of a job while it does not run, or move it to another project."""
        return self._http.struct(wire.Job, "POST", _path("jobs", job_id, "edit"), body=edit)

    def _control(self, job_id: str, what: str) -> wire.Job:
        """Send a request to a job; a repeated one has no further effect."""
        return self._http.struct(wire.Job, "POST", _path("jobs", job_id, what), repeat=True)

    def rerun(
        self,
        job_id: str,
        changes: Mapping[str, Any] = NO_CHANGES,
        arguments: Typed = NO_CHANGES,
        *,
        from_start: bool = False,
    ) -> wire.Job:
        """Run a job again, with these options instead of those of then, as `wire.OPTIONS` have them.

        ``arguments`` are changed arguments by name, as people type them. Code, files, variables and all other
        arguments are those of the first run. A fork continues from the same checkpoint, unless ``from_start``.
        """
        body = wire.rerun(dict(changes), uuid.uuid4().hex, arguments, from_start=from_start)
        path = _path("jobs", job_id, "rerun")
        return self._http.struct(wire.Job, "POST", path, body=body, repeat=True, timeout=COPY_TIMEOUT_S)

    def checkpoints(self, job_id: str) -> wire.CheckpointList:
        """Return the checkpoints that a job has saved, the newest first."""
        return self._http.struct(
            wire.CheckpointList, "GET", _path("jobs", job_id, "checkpoints"), timeout=FILES_TIMEOUT_S
        )

    def delete_checkpoints(self, job_id: str, names: Sequence[str], *, force: bool = False) -> wire.CheckpointList:
        """Delete checkpoints of a job, with ``force`` also the one that it resumes from; return the others."""
        body = wire.CheckpointsDelete(names=list(names), force=force)
        path = _path("jobs", job_id, "checkpoints", "delete")
        return self._http.struct(wire.CheckpointList, "POST", path, body=body, timeout=FILES_TIMEOUT_S)

    def fork(
        self,
        job_id: str,
        changes: Mapping[str, Any] = NO_CHANGES,
        *,
        step: float | None = None,
        checkpoint: str | None = None,
        arguments: Typed = NO_CHANGES,
        program: wire.Program | None = None,
        packed: bytes | None = None,
    ) -> wire.Job:
        """Submit a job that continues from a checkpoint of another one.

        That is the newest one without ``step`` and ``checkpoint``, a name.
        ``changes`` and ``arguments`` are those of `rerun`.
        ``program`` runs in place of the first job's, ``packed`` is its packed project tree.
        """
        if step is not None and not _is_step(step):
            raise PoolError(_no_step(step))
        if (
            packed is not None
            and program is not None
            and program.tree is not None
            and program.tree.digest is not None
        ):
            self.send_tree(program.tree.digest, packed)
        body = wire.fork(
            dict(changes),
            uuid.uuid4().hex,
            step=step,
            checkpoint=checkpoint,
            arguments=arguments,
            program=program,
        )
        path = _path("jobs", job_id, "fork")
        return self._http.struct(wire.Job, "POST", path, body=body, repeat=True, timeout=COPY_TIMEOUT_S)

    def edit_tags(self, job_id: str, edit: wire.TagsEdit) -> wire.Job:
        """Change the tags of a job, also of one that has ended."""
        return self._http.struct(wire.Job, "PATCH", _path("jobs", job_id, "tags"), body=edit, repeat=True)

    # ---------- sweeps

    def trials(
        self,
        sweep: str,
        *,
        sort: str | None = None,
        state: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> wire.TrialPage:
        """Return trials of a sweep and the cursor of those that come after.

        ``sort`` is ``trial`` or ``value``, reversed with a minus before it. ``state`` may name several states,
        with commas between; ``pruned`` is one.
        """
        query = {"sort": sort, "state": state, "cursor": cursor, "limit": limit}
        return self._http.struct(wire.TrialPage, "GET", _path("jobs", sweep, "trials"), query=query)

    def all_trials(
        self, sweep: str, *, sort: str | None = None, state: str | None = None
    ) -> Iterator[wire.TrialRow]:
        """Yield every trial that `trials` would return, page after page."""
        cursor: str | None = None
        while True:
            page = self.trials(sweep, sort=sort, state=state, cursor=cursor, limit=wire.MAX_TRIALS_PAGE)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def retry_trials(self, sweep: str) -> wire.Job:
        """Put the failed trials of an unfinished sweep in again."""
        return self._control(sweep, "retry")

    def edit_trials(self, sweep: str, edit: wire.TrialsEdit) -> wire.Job:
        """Change the number or the bounds of an unfinished sweep's trials."""
        return self._http.struct(wire.Job, "PATCH", _path("jobs", sweep, "trials"), body=edit)

    # ---------- programs inside jobs

    def open_session(self, job_id: str, request: wire.SessionRequest) -> SessionConnection:
        """Start a program inside a running job of the caller's own, and connect to it."""
        opened = self._http.struct(wire.SessionOpened, "POST", _path("jobs", job_id, "sessions"), body=request)
        return SessionConnection(self._http.address(_path("sessions", opened.id)), self._token, self._timeout)

    def stack(self, job_id: str) -> wire.JobStack:
        """Return where the processes of all workers of a running job are now."""
        return self._http.struct(wire.JobStack, "POST", _path("jobs", job_id, "stack"), timeout=STACK_TIMEOUT_S)

    # ---------- logs, reports and outputs

    def log(
        self, job_id: str, *, rank: int = 0, offset: int = 0, limit: int | None = None, wait: float = 0
    ) -> wire.LogChunk:
        """Return a piece of a worker's log from ``offset`` bytes on, after up to ``wait`` seconds for more."""
        query = {"rank": rank, "offset": offset, "limit": limit, "wait": wait or None}
        path = _path("jobs", job_id, "log")
        return self._http.struct(wire.LogChunk, "GET", path, query=query, timeout=self._timeout + wait)

    def log_tail(self, job_id: str, lines: int, *, rank: int = 0) -> list[wire.LogChunk]:
        """Return the last ``lines`` lines of a worker's log, in pieces; the last one says where to read on."""
        return last_lines(
            lambda offset: self.log(job_id, rank=rank, offset=offset, limit=wire.LONGEST_LOG_PIECE), lines
        )

    def compare(self, job_ids: Sequence[str]) -> wire.Comparison:
        """Return 2 to `wire.MAX_COMPARED` jobs side by side, with what differs among them."""
        return self._http.struct(wire.Comparison, "GET", "comparison", query={"jobs": ",".join(job_ids)})

    def points(self, job_id: str, *, after: int = 0, limit: int | None = None) -> wire.Points:
        """Return the reports of the job after report number ``after``."""
        return self._http.struct(
            wire.Points, "GET", _path("jobs", job_id, "points"), query={"after": after, "limit": limit}
        )

    def metrics(self, job_id: str, *, step: float | None = None, goal: str | None = None) -> list[wire.Metric]:
        """Return the last and the best value of each metric, and those at a step."""
        query = {"step": step, "goal": goal}
        return self._http.struct(wire.MetricList, "GET", _path("jobs", job_id, "metrics"), query=query).items

    def all_points(self, job_id: str, *, after: int = 0) -> Iterator[wire.Point]:
        """Yield the reports of the job so far after report number ``after``, over all its attempts."""
        while True:
            points = self.points(job_id, after=after)
            yield from points.items
            if not points.items or points.next == after:
                return
            after = points.next

    def outputs(self, job_id: str) -> wire.OutputList:
        """Return the files of the job's output directory."""
        return self._http.struct(wire.OutputList, "GET", _path("jobs", job_id, "output"))

    def output(self, job_id: str, name: str) -> bytes:
        """Return a file of the job's output directory."""
        return self._http.raw("GET", _output(job_id, name))

    def download(self, job_id: str, name: str, to: str | os.PathLike[str]) -> Path:
        """Write a file of the job's output directory to `place_for` it; return the file.

        A directory that ``to`` names with a slash at its end is made. A file that was there is replaced once the
        whole new one is on disk. Raises `OSError` as files do.
        """
        target = place_for(name, to)
        there = target.parent
        if _names_directory(to):
            there = next(folder for folder in target.parents if folder.is_dir())
        part = there / f".{uuid.uuid4().hex}.part"
        try:
            with part.open("xb") as file:
                self._http.save(_output(job_id, name), file)
            target.parent.mkdir(parents=True, exist_ok=True)
            return part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def append_output(self, job_id: str, name: str, to: BinaryIO, *, after: int = 0) -> int:
        """Write a file of the job's output directory to an open one, without its first ``after`` bytes.

        Return the number of bytes written. Raises `OSError` as files do.
        """
        return self._http.save(_output(job_id, name), to, after=after)

    # ---------- forecasts and images

    def forecast(self, question: wire.WhatIf) -> wire.Forecast:
        """Return a forecast with a job that is not submitted, and for admins with other projects and nodes."""
        return self._http.struct(wire.Forecast, "POST", "forecast", body=question, repeat=True)

    def image_contents(self, image: str) -> wire.ImageContents | None:
        """Return the declared contents of a container image, None if there are none."""
        return self._http.struct(wire.DeclaredContents, "GET", "images/contents", query={"image": image}).contents

    def datasets(self) -> list[wire.DatasetView]:
        """Return the datasets that the caller may use, by name."""
        return self._http.struct(wire.DatasetList, "GET", "datasets").items

    def when(self, wish: wire.Wish) -> wire.Forecast:
        """Return when a job would start if it were submitted now. Nothing is submitted, and no code is sent."""
        return self.forecast(wire.WhatIf(job=wire.Wish.of(msgspec.structs.asdict(wish)), starts=[]))

    def advise(self, wish: wire.Wish) -> wire.Advice:
        """Return advice about the GPUs of a job from earlier runs of the same work. No code is sent."""
        return self._http.struct(
            wire.Advice, "POST", "advice", body=wire.Wish.of(msgspec.structs.asdict(wish)), repeat=True
        )

    # ---------- the pool

    def pool(self) -> wire.PoolView:
        """Return the pool: nodes, projects and the holders of GPUs."""
        return self._http.struct(wire.PoolView, "GET", "pool")

    def history(self, start: float | None = None, end: float | None = None) -> wire.History:
        """Return GPUs over time by project; the last day by default."""
        return self._http.struct(wire.History, "GET", "history", query={"start": start, "end": end})

    def report(
        self, start: str | None = None, end: str | None = None, by: Sequence[str] = ("project",)
    ) -> wire.Report:
        """Return GPU-hours, waits and costs from the day ``start`` to the day ``end``; by default of this month.

        Days are in UTC, such as ``2026-01-31``; ``by`` are values of `wire.ReportBy`.
        """
        query = {"start": start, "end": end, "by": ",".join(by)}
        return self._http.struct(wire.Report, "GET", "report", query=query)

    def mail_report(
        self, start: str | None = None, end: str | None = None, by: Sequence[str] = ("project",)
    ) -> wire.TrialSent:
        """Send yourself a report by e-mail, by default that of the last month, and return the outcome."""
        wanted = wire.ReportMail(start=start, end=end, by=",".join(by))
        return self._http.struct(wire.TrialSent, "POST", "report/mail", body=wanted)

    def past_scenario(
        self, start: float | None = None, end: float | None = None, *, anonymous: bool = False
    ) -> bytes:
        """Return the pool's past as a scenario for `springtide simulate`; only for admins of the pool or projects.

        The times are in seconds since the epoch, by default those of the last day. With ``anonymous`` all names
        are made up.
        """
        query = {"start": start, "end": end, "anonymous": "true" if anonymous else None}
        return self._http.raw("GET", "history/scenario", query=query, timeout=PAST_TIMEOUT_S)

    def past_what_if(self, question: wire.PastWhatIf) -> wire.PastRun:
        """Begin to calculate what would have been if the pool had been another; for admins of pool or projects."""
        return self._http.struct(
            wire.PastRun, "POST", "history/what-if", body=question, timeout=PAST_TIMEOUT_S, repeat=True
        )

    def past_run(self, run_id: str) -> wire.PastRun:
        """Return how far a calculation of yours is, and its answer."""
        return self._http.struct(wire.PastRun, "GET", _path("history", "what-if", run_id))

    def cancel_past_run(self, run_id: str) -> wire.PastRun:
        """Cancel a calculation of yours."""
        return self._http.struct(wire.PastRun, "DELETE", _path("history", "what-if", run_id))

    def events(
        self, job: str | None = None, last_event_id: int | None = None, *, stop: threading.Event | None = None
    ) -> Iterator[wire.Event]:
        """Yield events of one ``job``, or of all that the caller may see, without end; reconnect when necessary.

        With ``last_event_id`` it begins with what happened after that event. Setting ``stop`` ends it within
        some seconds. An event's ``at`` is when it arrived here.
        """
        return iter(EventStream(self._http, job, last_event_id, stop))

    # ---------- administration

    def admin(self) -> wire.Admin:
        """Return all projects and people, and the sums of quotas."""
        return self._http.struct(wire.Admin, "GET", "admin")

    def create_project(self, name: str, edit: wire.ProjectEdit) -> wire.ProjectView:
        """Make a project, and the hub's group of its name."""
        return self._http.struct(wire.ProjectView, "PUT", _path("projects", name), body=edit)

    def edit_project(self, name: str, edit: wire.ProjectEdit) -> wire.ProjectView:
        """Change a project."""
        return self._http.struct(wire.ProjectView, "PATCH", _path("projects", name), body=edit)

    def freeze(
        self, project: str, why: str = "", *, finish: bool = False, until: float | None = None
    ) -> wire.ProjectView:
        """Let no job of a project start; those that run are paused, or may ``finish``. It ends at ``until``."""
        body = wire.FreezeRequest(why=why, finish=finish, until=until)
        return self._http.struct(wire.ProjectView, "POST", _path("projects", project, "freeze"), body=body)

    def unfreeze(self, project: str) -> wire.ProjectView:
        """Let the jobs of a project start again."""
        return self._http.struct(wire.ProjectView, "POST", _path("projects", project, "unfreeze"))

    def set_budget(self, project: str, budget: wire.BudgetRequest) -> wire.BudgetView:
        """Give a project a budget for each month, or change it."""
        return self._http.struct(wire.BudgetView, "PUT", _path("projects", project, "budget"), body=budget)

    def remove_budget(self, project: str) -> None:
        """Take the budget of a project away."""
        self._http.raw("DELETE", _path("projects", project, "budget"))

    # ---------- presets

    def presets(self) -> list[wire.PresetView]:
        """Return the presets that your jobs may name, and those that you may change."""
        return self._http.struct(wire.PresetList, "GET", "presets").items

    def set_preset(self, name: str, preset: wire.PresetRequest) -> wire.PresetView:
        """Define a preset of a project or of the pool, or replace it as a whole."""
        return self._http.struct(wire.PresetView, "PUT", _path("presets", name), body=preset)

    def delete_preset(self, name: str, project: str | None = None) -> None:
        """Delete a preset of a project, or of the pool."""
        self._http.raw("DELETE", _path("presets", name), query={"project": project})

    def delete_project(self, name: str) -> None:
        """Delete a project, and the hub's group of its name if that was made with it."""
        self._http.raw("DELETE", _path("projects", name))

    def add_member(self, project: str, user: str) -> None:
        """Put a person into a project."""
        self._http.raw("PUT", _path("projects", project, "members", user))

    def remove_member(self, project: str, user: str) -> None:
        """Take a person out of a project."""
        self._http.raw("DELETE", _path("projects", project, "members", user))

    def edit_person(self, name: str, edit: wire.PersonEdit) -> wire.PersonView:
        """Set the build quota of one person."""
        return self._http.struct(wire.PersonView, "PATCH", _path("people", name), body=edit)

    def add_lead(self, project: str, user: str) -> None:
        """Let a person lead a project."""
        self._http.raw("PUT", _path("projects", project, "leads", user))

    def remove_lead(self, project: str, user: str) -> None:
        """Let a person not lead a project any more."""
        self._http.raw("DELETE", _path("projects", project, "leads", user))

    def leave(self, user: str, *, to: str | None = None, dry_run: bool = False) -> wire.Departure:
        """End what a person has in the pool: jobs go ``to`` another person or are cancelled."""
        body = wire.LeaveRequest(to=to, dry_run=dry_run)
        return self._http.struct(wire.Departure, "POST", _path("people", user, "leave"), body=body)

    def group_rules(self) -> wire.GroupRulesView:
        """Return the rules for an identity provider's groups, and what they do with those that the hub knows."""
        return self._http.struct(wire.GroupRulesView, "GET", "group-rules")

    def preview_group_rules(self, rules: Sequence[wire.GroupRule]) -> wire.GroupRulesView:
        """Return what other rules would do; nothing changes."""
        body = wire.GroupRulesPreview(rules=list(rules))
        return self._http.struct(wire.GroupRulesView, "POST", "group-rules/preview", body=body)

    def pool_file(self) -> wire.PoolFileView:
        """Return projects, people and rules as a file."""
        return self._http.struct(wire.PoolFileView, "GET", "pool-file")

    def copy_rules(self, project: str, copy: wire.RulesCopy) -> wire.PoolFileDifference:
        """Give a project the rules of another, or with ``dry_run`` return what that would change."""
        return self._http.struct(wire.PoolFileDifference, "POST", _path("projects", project, "rules"), body=copy)

    def apply_pool_file(self, edit: wire.PoolFileEdit) -> wire.PoolFileDifference:
        """Make the pool as a file has it, or with ``dry_run`` return what that would change."""
        return self._http.struct(wire.PoolFileDifference, "PUT", "pool-file", body=edit)

    def audit(
        self,
        cursor: str | None = None,
        limit: int | None = None,
        *,
        who: str | None = None,
        what: str | None = None,
        project: str | None = None,
        start: float | None = None,
        end: float | None = None,
    ) -> wire.AuditPage:
        """Return a page of the audit trail, newest first: that of the caller's projects, of all for admins.

        ``what`` is a kind such as ``job.hold``, or what kinds begin with, such as ``job``; entries are from
        ``start`` on and before ``end``.
        """
        chosen = {"who": who, "what": what, "project": project, "start": start, "end": end}
        return self._http.struct(
            wire.AuditPage, "GET", "audit", query={**chosen, "cursor": cursor, "limit": limit}
        )

    def all_audit(self, **chosen: Any) -> Iterator[wire.AuditEntry]:
        """Yield every entry that `audit` would return, page after page."""
        cursor: str | None = None
        while True:
            page = self.audit(cursor, MOST_ENTRIES, **chosen)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def undo(self, audit_id: int) -> None:
        """Take a change back."""
        self._http.raw("POST", _path("audit", str(audit_id), "undo"))

    def drain_node(
        self,
        node: str,
        why: str = "",
        *,
        gpu: int | None = None,
        finish: bool = False,
        until: float | None = None,
    ) -> wire.NodeView:
        """Let nothing new start on a node or a GPU; jobs there are paused and resume elsewhere, or ``finish``.

        It ends by itself at ``until``, if given.
        """
        body = wire.DrainRequest(node=node, gpu=gpu, why=why, finish=finish, until=until)
        return self._http.struct(wire.NodeView, "POST", "nodes/drain", body=body)

    def bookings(self) -> wire.Bookings:
        """Return the bookings that hold or are to come, the first to begin first."""
        return self._http.struct(wire.Bookings, "GET", "bookings")

    def book(self, request: wire.BookingRequest) -> wire.NewBooking:
        """Make a booking, or change the one that the request replaces."""
        return self._http.struct(wire.NewBooking, "POST", "bookings", body=request)

    def preview_booking(self, request: wire.BookingRequest) -> wire.BookingPreview:
        """Return what a booking would do, or why it would be refused. Nothing is booked."""
        return self._http.struct(wire.BookingPreview, "POST", "bookings/preview", body=request)

    def book_nodes(
        self,
        *nodes: str,
        end: float | None = None,
        start: float | None = None,
        every: wire.Weekly | None = None,
        why: str = "",
    ) -> wire.NewBooking:
        """Set nodes apart for a maintenance, from a start or now on to an end, in seconds since the epoch.

        Or at the times of ``every``, again and again.
        """
        return self.book(wire.BookingRequest(nodes=nodes, start=start, end=end, every=every, why=why))

    def book_gpus(
        self,
        project: str,
        gpus: int | dict[str, int | None],
        *,
        end: float | None = None,
        start: float | None = None,
        every: wire.Weekly | None = None,
        why: str = "",
        lends: Mapping[str, int | dict[str, int | None]] | None = None,
    ) -> wire.NewBooking:
        """Raise the quota of a project by ``gpus`` from a start or now on to an end, or at the times of ``every``.

        ``lends`` are the GPUs by which the quotas of other projects are lower meanwhile.
        """
        request = wire.BookingRequest(
            project=project, gpus=gpus, start=start, end=end, every=every, why=why, lends=dict(lends or {})
        )
        return self.book(request)

    def cancel_booking(self, number: int) -> None:
        """Take a booking back, before it begins or while it holds."""
        self._http.struct(wire.CancelledBooking, "DELETE", _path("bookings", str(number)))

    def change_requests(self) -> wire.ChangeRequests:
        """Return your requests, and those that you may decide: pending ones first."""
        return self._http.struct(wire.ChangeRequests, "GET", "requests")

    def request_change(self, wanted: wire.WantedChange, why: str) -> wire.ChangeRequestView:
        """Ask for a change that others decide, with a reason."""
        body = wire.NewChangeRequest(wanted=wanted, why=why)
        return self._http.struct(wire.ChangeRequestView, "POST", "requests", body=body)

    def withdraw_request(self, number: int) -> None:
        """Take a request of your own back."""
        self._http.raw("DELETE", _path("requests", str(number)))

    def approve_request(
        self, number: int, why: str = "", *, granted: wire.WantedChange | None = None
    ) -> wire.ChangeRequestView:
        """Make the change of a request, or the same change with other values."""
        body = wire.ChangeApproval(granted=granted, why=why)
        return self._http.struct(
            wire.ChangeRequestView, "POST", _path("requests", str(number), "approve"), body=body
        )

    def refuse_request(self, number: int, why: str) -> wire.ChangeRequestView:
        """Refuse a request, with a reason."""
        body = wire.ChangeRefusal(why=why)
        return self._http.struct(
            wire.ChangeRequestView, "POST", _path("requests", str(number), "refuse"), body=body
        )

    def undrain_node(self, node: str, *, gpu: int | None = None) -> None:
        """Let jobs start on a node or a GPU again."""
        self._http.raw("POST", "nodes/undrain", body=wire.UndrainRequest(node=node, gpu=gpu))

    def needs(self) -> wire.NeedList:
        """Return what needs an administrator. For administrators of the pool."""
        return self._http.struct(wire.NeedList, "GET", "needs")

    def leave_need(self, need: str, days: float = 7.0) -> wire.NeedList:
        """Leave an entry of `needs`, by its id, as it is for a number of days; return the remaining ones."""
        return self._http.struct(wire.NeedList, "POST", "needs/leave", body=wire.NeedLeave(id=need, days=days))

    def free_gpus(self, holder: str, *, end: bool = False) -> None:
        """Return the GPUs of something of `wire.PoolView.unmatched` that has ended to the pool, or ``end`` it."""
        self._http.raw("POST", "gpus/free", body=wire.FreeRequest(holder=holder, end=end))

    # ---------- workspaces

    def reserve_workspace(self, request: wire.WorkspaceRequest) -> wire.Workspace:
        """Reserve build GPUs for a notebook; asking again answers the same GPUs. For the hub's spawner.

        Sent once: the spawner asks again as long as the newest wish of a notebook says so.
        """
        return self._http.struct(wire.Workspace, "POST", "workspaces", body=request)

    def release_workspace(self, user: str, server: str = "") -> None:
        """Give a notebook's GPUs back. For the hub's spawner."""
        self._http.raw("DELETE", _path("workspaces", user), query={"server": server or None})

    def build_quota(self, user: str) -> wire.BuildQuota:
        """Return the build quota of a person and the remaining part."""
        return self._http.struct(wire.BuildQuota, "GET", _path("build-quota", user))


def _is_step(step: object) -> bool:
    return isinstance(step, int | float) and not isinstance(step, bool) and abs(step) <= sys.float_info.max


def _no_step(step: object) -> wire.Problem:
    return wire.Problem(
        status=UNPROCESSABLE,
        code="invalid",
        field="step",
        message=f"step is {wording.given(step, 40)}; expected the step of a checkpoint, a number.",
        hint="The list of checkpoints has the steps; without a step the newest one is taken.",
    )


def _no_name(part: str) -> wire.Problem:
    message = f"{wording.given(part)} is no part of an id or of a name." if part else "The id or name is empty."
    return wire.Problem(
        status=UNPROCESSABLE, code="invalid", message=message, hint="Give the name as a list has it."
    )


def _path(*parts: str) -> str:
    """Return a path of the API from parts that may hold anything.

    Raises `PoolError` for an empty one, ``.`` and ``..``.
    """
    for part in parts:
        if part in {"", ".", ".."}:
            raise PoolError(_no_name(part))
    with sendable():
        return "/".join(quote(part, safe="") for part in parts)


def _output(job_id: str, name: str) -> str:
    return _path("jobs", job_id, "output", *name.split("/"))

"""Answers of the pool in words: the state of a job, its environment, its placements, its expected start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import structs

from springtide.scheduler import wording
from springtide.scheduler.arguments import typed_words
from springtide.scheduler.client.presets import as_filled
from springtide.scheduler.wire import (
    IMAGE_VARIABLE,
    Advice,
    Attempt,
    Checkpoint,
    Forecast,
    Job,
    JobEnvironment,
    Me,
    MeasuredPlacement,
    ProjectTree,
    Reason,
    Starts,
    TrialRow,
    Wish,
    in_image_of_submission,
)
from springtide.scheduler.wording import ago, amount, count, listed, size

SHOWN: Final = 5
"""Maximum number of files that are named."""
SHOWN_VALUES: Final = 4
"""Maximum number of metrics that are shown with a checkpoint."""

HEADS = ("GPUs", "type", "placed", "speed", "runs")
NOTHING = (
    "Nothing is known of it yet: no run of a minute or more has ended that reports steps or ran without a pause. "
    "Runs count for jobs of the same name, project and person."
)
"""The text if no run was measured."""
ALIKE = "No other GPUs are known to be notably faster, or to be worth more."
"""The text if the measured runs give no advice."""
LATE = 60.0
"""Delay after which an expected start counts as late, in seconds."""


def filter_words(filters: Mapping[str, Any]) -> list[str]:
    """Return the filters of a list of jobs that choose among them: ``state “paused”``, ``where “lr > 100”``.

    They are parameters of `Client.jobs`; ``since`` is in seconds since the epoch.
    """
    others = {"order", "archived", "mine"}
    chosen = {name: value for name, value in filters.items() if value and name not in others}
    words = [f"{name} {wording.given(_filter_value(name, value))}" for name, value in chosen.items()]
    archived = {"yes": ["archived"], "all": ["archived or not"]}.get(filters.get("archived") or "no", [])
    return [*(["yours"] if filters.get("mine") else []), *words, *archived]


def _filter_value(name: str, value: Any) -> Any:
    return wording.dated(value) if name == "since" else value


def none_matches(filters: Mapping[str, Any]) -> str:
    """Return ``No job matches: state “paused”.``, empty if no filter chooses among the jobs."""
    words = filter_words(filters)
    return f"No job matches: {listed(words)}." if words else ""


def state_words(of: Job | Attempt | TrialRow) -> str:
    """Return the state of a job, an attempt or a trial in words; older services give its code alone."""
    return of.shown or of.state


def typed_command(job: Job) -> list[str]:
    """Return the words of a job's command with the paths that the person typed, as far as the answer has them."""
    tree = None if job.environment is None else job.environment.tree
    return typed_words(job.argv, None if tree is None else tree.root)


def facts(environment: JobEnvironment, image: str | None) -> list[tuple[str, str]]:
    """Return a job's environment as heads and values; ``image`` is its container image, None on one machine."""
    shown = [
        ("Program", program_words(environment, image)),
        ("Python", python_words(environment, image)),
        ("Packages", ", ".join(f"{name} {version}" for name, version in sorted(environment.packages.items()))),
        ("Installed for it", ", ".join(environment.requirements)),
        ("Missing", environment.missing_text),
        ("Files", files_words(environment)),
        ("Runs in place", in_place_words(environment)),
        ("Project", project_words(environment.tree)),
        ("Read and written in place", names_words(environment.tree, "linked")),
        ("Ignored", names_words(environment.tree, "ignored")),
        ("Image", image or ""),
        ("Variables", ", ".join(environment.variables)),
        ("Not sent", ", ".join(environment.unsent)),
    ]
    return [(head, words) for head, words in shown if words]


def checkpoint_rows(found: Sequence[Checkpoint], now: float) -> list[tuple[str, ...]]:
    """Return the cells of a table of checkpoints: name, step, size, time, metrics, and who writes such ones."""
    return [
        (
            each.name,
            "" if each.step is None else f"{each.step:g}",
            size(each.size),
            ago(each.written, now),
            ", ".join(f"{name}={value:.4g}" for name, value in sorted(each.values.items())[:SHOWN_VALUES]),
            f"{each.by or 'springtide.training'}{', the job resumes from it' if each.needed else ''}",
        )
        for each in found
    ]


def arguments_words(job: Job) -> str:
    """Return the arguments of a job on one line: ``lr=0.1, epochs=30``."""
    return ", ".join(f"{name}={argument.shown}" for name, argument in job.arguments.items())


def resumes_from(job: Job, now: float) -> str:
    """Return from which checkpoint a job resumes; empty after its end, and for a first start without one."""
    begins = job.started is None and (job.rerun is None or job.rerun.fork is None)
    if job.ended is not None or begins or job.trials is not None:
        return ""
    if job.saved is None:
        none = "no checkpoint of it has been seen yet" if job.state == "running" else "it has saved no checkpoint"
        why = "its checkpoints were deleted, or are damaged" if job.checkpoints_deleted else none
        return f"nothing: {why}"
    when = ago(job.saved, now)
    if job.checkpoint is None:
        step = "" if job.saved_step is None else f" at step {amount(job.saved_step)}"
        return f"its checkpoint{step}, saved {when}"
    found = job.checkpoint
    loads = "if its program loads it when it starts"
    if job.options.resume:
        loads = f"if its program loads it when it gets: {job.options.resume}"
    how = f"passed as: {job.options.resume}" if found.passed else loads
    return f"{found.path} ({found.by}, {size(found.size)}, written {when}), {how}"


def program_words(environment: JobEnvironment, image: str | None) -> str:
    """Return which program runs the job, unless it is Python itself; empty for a job in an image."""
    return "" if image or environment.program == environment.path else environment.program


def python_words(environment: JobEnvironment, image: str | None) -> str:
    """Return which Python runs the job; of a job in an image, which one was found where it was submitted."""
    if not environment.python:
        first = f"; first on its PATH is {environment.path}" if environment.path and not image else ""
        return f"the one that the command chooses{first}"
    named = f" (environment {environment.name})" if environment.name else ""
    words = f"{environment.python}, {environment.path}{named}"
    if not image:
        return words
    where = ", in the same image" if in_image_of_submission(environment, image) else "; the image has its own"
    return f"{words} where it was submitted{where}"


def files_words(environment: JobEnvironment) -> str:
    """Return the first files that are sent beside the project, and how many there are."""
    if not environment.file_count:
        return "" if environment.tree or environment.in_place else "none"
    return f"{_some(environment.files, environment.file_count)} ({size(environment.file_bytes)})"


def in_place_words(environment: JobEnvironment) -> str:
    """Return in which folder a job runs itself; empty for one that has a copy of its project, or none."""
    folder = environment.in_place
    return f"in {folder} itself, with the files as they are when it runs" if folder else ""


def project_words(tree: ProjectTree | None) -> str:
    """Return the folder of a project, and which of its files the job has copies of; empty without a project."""
    if tree is None:
        return ""
    copied = f"{count(tree.file_count, 'file')} copied ({size(tree.file_bytes)})"
    names = f": {_some(tree.files, tree.file_count)}" if tree.files else ""
    folders = listed([tree.root, *tree.outside])
    return f"{folders}, {copied}{names}"


def names_words(tree: ProjectTree | None, which: Literal["linked", "ignored"]) -> str:
    """Return the first names that a project has in place or ignores, and how many more there are."""
    if tree is None:
        return ""
    names, number = (tree.linked, tree.linked_count) if which == "linked" else (tree.ignored, tree.ignored_count)
    return _some(names, number) if number else ""


def _some(names: Sequence[str], number: int) -> str:
    named = names[:SHOWN]
    rest = number - len(named)
    more = f" and {count(rest, 'more', 'more')}" if rest > 0 else ""
    return f"{', '.join(named)}{more}"


def image_of(wish: Wish, me: Me) -> str | None:
    """Return the container image of a job before its submission, None on one machine, which has no images."""
    if not me.images:
        return None
    return as_filled(wish, me).image or os.environ.get(IMAGE_VARIABLE) or me.images[0]


def advice_words(advice: Advice) -> str:
    """Return the advice from earlier runs, in sentences."""
    return advice.text or (ALIKE if advice.placements else NOTHING)


def placement_rows(advice: Advice) -> list[Sequence[str]]:
    """Return a row for each placement that was measured, in the order of `HEADS`."""
    return [(_gpus(row), row.gpu_type, row.placed, _speed(row), str(row.runs)) for row in advice.placements]


def _gpus(row: MeasuredPlacement) -> str:
    return str(row.gpus) if row.workers == 1 else f"{row.workers} x {row.gpus}"


def _speed(row: MeasuredPlacement) -> str:
    if row.steps_per_second is None:
        return f"{wording.duration(row.run_seconds or 0.0)} for a run"
    if row.steps_per_second >= 1:
        return f"{wording.amount(float(f'{row.steps_per_second:.3g}'))} steps/s"
    return f"{1 / row.steps_per_second:.3g} s for a step"


def expectation(starts: Starts, now: float, verb: str = "starts", *, who: str = "") -> str:
    """Return ``Likely starts in about 12 min (between 5 and 40 min).``, or why that is not known.

    ``who`` is the subject if it is not the job itself: ``The next trial likely starts any moment.``
    """
    if starts.likely is None:
        return "" if starts.why is None else starts.why.text
    if now - starts.likely > LATE:
        late = wording.roughly(now - starts.likely)
        first, *others = verb.split()
        return f"{who or 'It'} was expected to {' '.join([first.removesuffix('s'), *others])} {late} ago."
    return f"{f'{who} likely' if who else 'Likely'} {verb} {moment(starts, now)}."


def expected_start(job: Job, now: float) -> str:
    """Return when a waiting job, or the next trial of a sweep, starts or resumes, or why that is not known.

    ``startWords`` of ``widgets/visuals/base/job_words.js`` says the same on cards and pages.
    """
    if job.starts is None:
        return ""
    who = "The next trial" if job.trials is not None and job.started is not None else ""
    return expectation(job.starts, now, start_verb(job), who=who)


def start_time(job: Job, now: float) -> str:
    """Return the same for a column: ``in about 12 min (between 5 and 40 min)``; empty if it is not known."""
    if job.starts is None or job.starts.likely is None:
        return ""
    if now - job.starts.likely > LATE:
        return f"expected {ago(job.starts.likely, now)}"
    return moment(job.starts, now)


def reason_at(reason: Reason, now: float) -> Reason:
    """Return a reason whose times count on: what happens ``in 21 s`` by one made 15 s ago happens ``in 6 s``.

    ``reasonAt`` of ``widgets/visuals/base/job_words.js`` does the same.
    """
    until = _moment(reason, "until")
    return reason if until is None else _with(reason, _until(until - now), _until(_seconds(reason)))


def lasting(reason: Reason) -> Reason:
    """Return a reason that stays true in a text that is not renewed: with times in UTC.

    They replace ``in 21 s`` and ``40 s ago``.
    """
    until, since = _moment(reason, "until"), _moment(reason, "since")
    if until is not None:
        reason = _with(reason, f"at {wording.utc(until, precise=True)}", _until(_seconds(reason)))
    if since is not None:
        reason = _with(reason, f"at {wording.utc(since, precise=True)}", ago(since, since + _seconds(reason)))
    return reason


def _moment(reason: Reason, name: str) -> float | None:
    """Return a time of a reason that gives its distance too, in seconds since the epoch; None if it has none."""
    at = reason.params.get(name)
    return at if isinstance(at, int | float) and isinstance(reason.params.get("seconds"), int | float) else None


def _seconds(reason: Reason) -> float:
    return float(str(reason.params["seconds"]))


def _until(seconds: float) -> str:
    return f"in {wording.roughly(max(1.0, seconds))}"


def _with(reason: Reason, new: str, old: str) -> Reason:
    """Return a reason whose sentences say ``new`` in place of ``old``."""
    lines = {name: getattr(reason, name).replace(old, new) for name in ("text", "headline", "brief")}
    sentences = [structs.replace(each, text=each.text.replace(old, new)) for each in reason.sentences]
    return structs.replace(reason, **lines, sentences=sentences)


def start_verb(job: Job) -> str:
    """Return what a job does when it gets GPUs: ``starts``, ``resumes``, ``starts again from the beginning``."""
    if not job.attempt:
        return "starts"
    return "starts again from the beginning" if job.from_start else "resumes"


def prospect(forecast: Forecast) -> str:
    """Return the prospects of a job before its submission; empty if the forecast has none."""
    return "" if forecast.estimate is None else forecast.estimate.text


def moment(starts: Starts, now: float) -> str:
    """Return ``in about 12 min (between 5 and 40 min)`` or ``any moment``, of a start with a likely time."""
    assert starts.likely is not None
    first = 0.0 if starts.earliest is None else starts.earliest - now
    return wording.moment(starts.likely - now, first, None if starts.latest is None else starts.latest - now)


def ended_without_return(job: Job) -> bool:
    """Return whether a job has succeeded although its process ended before its function or cell returned."""
    return job.reason is not None and job.reason.params.get("returned") == 0

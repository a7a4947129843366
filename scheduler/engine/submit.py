"""What may be submitted: every submission is hostile input until this module has looked at it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from springtide.scheduler import wire
from springtide.scheduler.engine import images
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.model import PREEMPTIBLE_BELOW, PRIORITIES, WITHIN_NODES, Node, Project
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobSpec

HIGHEST_PRIORITY = 1_000_000
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories that have no place in a name: control, direction and line characters."""


def bad(field: str, message: str, hint: str = "") -> Refusal:
    """A request that cannot be granted because of one of its fields."""
    return Refusal(422, "invalid", message, field=field, hint=hint)


@dataclass(frozen=True, slots=True)
class Pool:
    """What a submission is checked against."""

    nodes: Sequence[Node]
    projects: Mapping[str, Project]
    settings: EngineSettings


def check(submission: wire.Submission, user: str, project: str, pool: Pool, *, job_id: str, now: float) -> JobSpec:
    """The job's spec (``seq`` and ``bundle`` still to be set). Raises `Refusal` naming field and way out."""
    spec = check_wish(submission, user, project, pool, job_id=job_id, now=now)
    _texts(submission, pool.settings)
    _files(submission.files, pool.settings)
    _tries(submission, pool.settings)
    return replace(
        spec,
        name=spec.name or _name(submission),
        kind=submission.kind,
        argv=tuple(submission.argv),
        env=dict(submission.env),
        cwd=submission.cwd,
        image=images.chosen(submission.image, pool.settings.images),
        source=submission.source,
        key=submission.key,
        retries=submission.retries,
        grace=submission.grace,
    )


def check_wish(wish: wire.Wish, user: str, project: str, pool: Pool, *, job_id: str, now: float) -> JobSpec:
    """The spec of a job of which is known what it asks for, not what it runs. Raises `Refusal` like `check`."""
    _project(project, pool)
    workers, gpus, min_workers = _sizes(wish)
    priority = _priority(wish.priority)
    _words(wish)
    if wish.time_limit is not None and not (math.isfinite(wish.time_limit) and wish.time_limit > 0):
        raise bad("time_limit", f"The time limit is {wish.time_limit!r}; it must be a number of seconds above 0.")
    spec = JobSpec(
        id=job_id,
        seq=0,
        user=user,
        project=project,
        submitted=now,
        name=wish.name.strip(),
        kind="command",
        argv=(),
        workers=workers,
        gpus=gpus,
        min_workers=min_workers,
        priority=priority,
        preemptible=priority < PREEMPTIBLE_BELOW if wish.preemptible is None else wish.preemptible,
        gpu_types=tuple(wish.gpu_types),
        require=wish.require,
        prefer=wish.prefer,
        rotate=wish.rotate,
        time_limit=wish.time_limit,
    )
    check_fits(spec, pool)
    return spec


def _project(project: str, pool: Pool) -> None:
    if project not in pool.projects:
        known = ", ".join(sorted(pool.projects)) or "none yet"
        raise Refusal(
            422,
            "unknown_project",
            f"There is no project {project!r}.",
            field="project",
            hint=f"Projects: {known}.",
        )


def _whole(value: object, field: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= wire.MAX_GPUS:
        raise bad(field, f"{field} is {value!r}; it must be a whole number from {least} to {wire.MAX_GPUS}.")
    return value


def _sizes(wish: wire.Wish) -> tuple[int, int, int]:
    workers = _whole(wish.workers, "workers", 1)
    gpus = _whole(wish.gpus, "gpus", 1)
    least = workers if wish.min_workers is None else _whole(wish.min_workers, "min_workers", 1)
    if least > workers:
        raise bad(
            "min_workers",
            f"min_workers is {least}, but the job has {workers} worker{'s' if workers > 1 else ''}.",
            "Ask for more workers, or for fewer of them at least.",
        )
    return workers, gpus, least


def _priority(value: object) -> int:
    names = ", ".join(PRIORITIES)
    if isinstance(value, str):
        if value in PRIORITIES:
            return PRIORITIES[value]
        if not (value.isascii() and value.isdigit()):
            raise bad("priority", f"There is no priority {value!r}.", f"Use {names}, or a number.")
        value = int(value[:10])
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= HIGHEST_PRIORITY:
        raise bad(
            "priority", f"The priority is {value!r}.", f"Use {names}, or a number from 0 to {HIGHEST_PRIORITY}."
        )
    return value


def plain(text: str) -> bool:
    """Whether the text has no control, direction or line characters."""
    return all(unicodedata.category(character) not in HIDDEN for character in text)


def _words(wish: wire.Wish) -> None:
    if not plain(wish.name) or len(wish.name) > wire.MAX_NAME:
        raise bad(
            "name",
            f"The name is longer than {wire.MAX_NAME} or has control characters.",
            "Use letters, digits, spaces and signs.",
        )
    for field, words in (("gpu_types", wish.gpu_types), ("require", [wish.require or "-"])):
        if any(not word or not plain(word) or len(word) > wire.MAX_NAME for word in words):
            raise bad(field, f"{field} has a name that is empty, too long, or has control characters.")


def _texts(submission: wire.Submission, settings: EngineSettings) -> None:
    if submission.key is not None and not (plain(submission.key) and 0 < len(submission.key) <= wire.MAX_NAME):
        raise bad("key", f"The key is empty, longer than {wire.MAX_NAME} or has control characters.")
    _bytes("source", submission.source.replace("\0", ""))
    if not submission.argv or not submission.argv[0]:
        raise bad("argv", "There is no command to run.")
    size = sum(_bytes("argv", word) + 1 for word in submission.argv)
    if size > settings.max_argv_bytes:
        raise bad("argv", f"The command has {size} bytes; at most {settings.max_argv_bytes} are allowed.")
    if not submission.files and any("{code}" in text for text in (*submission.argv, *submission.env.values())):
        raise bad("files", "The command uses {code}, but no files were sent.", "Send the files that it runs.")
    _env(submission.env, settings)
    cwd = submission.cwd
    if cwd is not None and (not _bytes("cwd", cwd) or not cwd.startswith("/")):
        raise bad("cwd", f"The working directory {cwd!r} is not an absolute path.", "Give the whole path, from /.")


def _bytes(field: str, text: str) -> int:
    """The text's size; refuses what no operating system takes."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise bad(field, f"{field} has characters that are not text.") from None
    if "\0" in text:
        raise bad(field, f"{field} has a NUL character.")
    return size


def _env(env: Mapping[str, str], settings: EngineSettings) -> None:
    for name in env:
        if not name or "=" in name or not plain(name):
            raise bad("env", f"{name!r} cannot be the name of an environment variable.")
    size = sum(_bytes("env", name) + _bytes("env", value) + 2 for name, value in env.items())
    if size > settings.max_env_bytes:
        raise bad(
            "env",
            f"The environment has {size} bytes; at most {settings.max_env_bytes} are allowed.",
            "Send large values as files.",
        )


def _files(files: Mapping[str, bytes], settings: EngineSettings) -> None:
    if len(files) > settings.max_files:
        raise bad("files", f"{len(files)} files were sent; at most {settings.max_files} are allowed.")
    total = sum(len(content) for content in files.values())
    if total > settings.max_files_bytes:
        raise Refusal(
            413,
            "too_large",
            f"The files have {total} bytes together; at most {settings.max_files_bytes} are allowed.",
            field="files",
            hint="Put data on a disk that the job can read, and send code only.",
        )
    for name in files:
        _file_name(name)
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    both = folders & files.keys()
    if both:
        raise bad("files", f"{min(both)!r} is sent as a file and as a folder.")


def _file_name(name: str) -> None:
    parts = name.split("/")
    if not name or name.startswith("/") or not plain(name) or "\\" in name:
        raise bad("files", f"{name!r} cannot be a file's name.", "Use relative paths with forward slashes.")
    if any(part in {"", ".", ".."} for part in parts):
        raise bad(
            "files", f"The path {name!r} leaves the job's own folder or is not plain.", "Leave out '.' and '..'."
        )
    if any(len(part.encode()) > 255 for part in parts) or len(name.encode()) > 1024:
        raise bad("files", f"The path {name[:60]!r}… is too long.")


def _tries(submission: wire.Submission, settings: EngineSettings) -> None:
    grace = submission.grace
    if grace is not None and not (math.isfinite(grace) and 0 <= grace <= settings.max_grace):
        raise bad("grace", f"The grace period is {grace!r}; it must be from 0 to {settings.max_grace:g} seconds.")
    if isinstance(submission.retries, bool) or not 0 <= submission.retries <= 100:
        raise bad("retries", f"retries is {submission.retries!r}; it must be from 0 to 100.")


def _name(submission: wire.Submission) -> str:
    words = [PurePosixPath(word).name for word in submission.argv if not word.startswith("-")]
    scripts = [word for word in words if word.endswith((".py", ".sh", ".ipynb"))]
    name = "".join(c for c in (scripts or words or ["job"])[0] if plain(c))
    return name[: wire.MAX_NAME] or "job"


# ---------- does it ever fit?


def check_fits(spec: JobSpec, pool: Pool) -> None:
    """Raises `Refusal` for a job that this pool could never start."""
    nodes = [node for node in pool.nodes if not spec.gpu_types or node.gpu_type in spec.gpu_types]
    _gpu_types(spec, pool, nodes)
    largest = max((node.gpus for node in nodes), default=0)
    if largest == 0:
        raise Refusal(
            422, "no_gpus", "The pool has no train GPUs.", field="gpus", hint="An admin of this hub can tell why."
        )
    if spec.gpus > largest:
        raise bad(
            "gpus",
            f"{spec.gpus} GPUs per worker were asked for; the largest train node has {largest}.",
            f"Ask for at most {largest} per worker, and for more workers.",
        )
    places = sum(node.gpus // spec.gpus for node in nodes)
    if spec.min_workers > places:
        raise bad(
            "workers" if spec.min_workers == spec.workers else "min_workers",
            f"{spec.min_workers} workers with {spec.gpus} GPUs each have to run together; the pool has room for "
            f"{places}.",
            "Ask for fewer workers or fewer GPUs.",
        )
    _domain(spec, nodes)
    _limits(spec, pool)


def _gpu_types(spec: JobSpec, pool: Pool, nodes: Sequence[Node]) -> None:
    if spec.gpu_types and not nodes:
        known = ", ".join(sorted({node.gpu_type for node in pool.nodes if node.gpu_type})) or "not told apart"
        raise bad(
            "gpu_types", f"No train node has GPUs of type {', '.join(spec.gpu_types)}.", f"Types here: {known}."
        )


def _domain(spec: JobSpec, nodes: Sequence[Node]) -> None:
    if spec.require is None:
        return
    room: dict[tuple[str, str], int] = {}
    for node in nodes:
        for domain, gpus in _domains(node, spec.require):
            room[domain] = room.get(domain, 0) + gpus // spec.gpus
    levels = f"Levels here: {', '.join(_levels(nodes))}."
    if not room:
        raise bad("require", f"No train node belongs to a {spec.require!r}.", levels)
    if max(room.values()) < spec.min_workers:
        raise bad(
            "require",
            f"No single {spec.require} has room for {spec.min_workers} workers with {spec.gpus} GPUs each.",
            f"Use prefer instead of require, or ask for fewer workers. {levels}",
        )


def _levels(nodes: Sequence[Node]) -> list[str]:
    within = {level for level in WITHIN_NODES if any(node.groups(level) for node in nodes)}
    return sorted({"node", *within, *(level for node in nodes for level in node.labels)})


def _domains(node: Node, level: str) -> list[tuple[tuple[str, str], int]]:
    if level == "node":
        return [((node.name, ""), node.gpus)]
    if level in WITHIN_NODES:
        groups = node.groups(level) or (range(node.gpus),)
        return [((node.name, str(number)), len(group)) for number, group in enumerate(groups)]
    label = node.labels.get(level)
    return [] if label is None else [((level, label), node.gpus)]


def _limits(spec: JobSpec, pool: Pool) -> None:
    least = spec.min_workers * spec.gpus
    for project in line_up(spec.project, pool.projects):
        if project.limit is not None and least > project.limit:
            raise bad(
                "gpus",
                f"The job needs {least} GPUs; the project {project.name!r} may never hold more than "
                f"{project.limit}.",
                "Ask for fewer GPUs, or ask an admin of this hub for a higher limit.",
            )
        if not spec.preemptible and project.quota is not None and least > project.quota:
            raise bad(
                "preemptible" if spec.priority < PREEMPTIBLE_BELOW else "priority",
                f"A job that cannot be paused has to fit in the quota: it needs {least} GPUs, and the quota of "
                f"{project.name!r} is {project.quota}.",
                "Let it be paused (a priority below 100), or ask for fewer GPUs.",
            )


def line_up(name: str, projects: Mapping[str, Project]) -> list[Project]:
    """The project and its ancestors, nearest first."""
    found: list[Project] = []
    current = projects.get(name)
    while current is not None and current not in found:
        found.append(current)
        current = projects.get(current.parent) if current.parent is not None else None
    return found

"""The saved checkpoints of jobs: where they are, and the program that reads, copies and deletes them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from springtide.scheduler.executors import supervisor
from springtide.scheduler.executors.base import AttemptSpec, CheckpointGoneError, ExecutorError, SavedCheckpoint
from springtide.scheduler.executors.environment import search, working_directory
from springtide.scheduler.executors.files.layout import CHECKPOINTS, OUTPUT, WORK, JobPlaces, opened
from springtide.scheduler.executors.files.plain import make_directory
from springtide.scheduler.executors.supervisor.search import SLACK
from springtide.scheduler.executors.supervisor.tree import SEEDS
from springtide.scheduler.metrics import Value
from springtide.scheduler.model import Checkpoint
from springtide.scheduler.resuming import PLACEHOLDER
from springtide.scheduler.wording import LONG_GIVEN, given, plural, size

LOOK_S: Final = 60.0
"""Maximum time for listing and deleting checkpoints, in seconds."""
COPY_S: Final = 1800.0
"""Maximum time for copying a checkpoint, in seconds."""
LOOKS: Final = 8
"""Maximum number of lists and deletions at a time."""
COPIES: Final = 4
"""Maximum number of copies at a time."""
MOST_OF_FREE: Final = 0.9
"""Share of the free space that a copy may take."""
PREFIXES: Final = {CHECKPOINTS: f"../{CHECKPOINTS}/", OUTPUT: f"../{OUTPUT}/"}
"""Beginnings of the names of checkpoints beside the working directory."""
PROGRAM: Final = Path(supervisor.__file__).parent


class _Kept(msgspec.Struct, frozen=True):
    """A checkpoint in an answer of the program, as `springtide.scheduler.executors.supervisor.saved.Kept`."""

    name: str
    path: str
    own: bool
    step: float | None
    size: int
    written: float
    by: str
    values: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a fork's checkpoint: its file or folder, and the path by which the job finds it."""

    target: Path
    seen: str


def place_of(name: str, fork: AttemptSpec, places: JobPlaces, seen: JobPlaces) -> Place:
    """Return the place in a fork of a checkpoint that was recognised among its parent's files; pure.

    ``seen`` are the fork's places as its processes see them. Raises `ExecutorError` if a copy there would not be
    the fork's alone.
    """
    for folder, prefix in PREFIXES.items():
        if name.startswith(prefix):
            below = name.removeprefix(prefix)
            return Place(places.root / folder / below, str(seen.root / folder / below))
    cwd = PurePosixPath(working_directory(fork, places))
    if cwd == PurePosixPath(places.work):
        return Place(places.work / name, name)
    seeds = places.checkpoints / SEEDS
    if _is_in_copy(fork, places):
        return Place(seeds / name, name)
    if PLACEHOLDER not in (fork.options.resume or ""):
        raise ExecutorError(
            f"The job runs in the folder {given(str(cwd), LONG_GIVEN)} itself, so a fork cannot have its own "
            f"{given(name, LONG_GIVEN)} there. Give it arguments with {PLACEHOLDER}, which is then the path of "
            f"its copy, such as “--resume-from {PLACEHOLDER}”."
        )
    return Place(seeds / name, str(seen.checkpoints / SEEDS / name))


def _is_in_copy(spec: AttemptSpec, places: JobPlaces) -> bool:
    """Return whether a job runs in its copy of the project, which gets the files below `SEEDS` when it is made."""
    cwd = PurePosixPath(working_directory(spec, places))
    return spec.tree is not None and spec.copies_tree and cwd.is_relative_to(places.tree(spec.tree.root))


class CheckpointFiles:
    """Runs the program for the checkpoints of jobs.

    In a request, ``account`` is the record of the job's account, None for the service's own. With ``strict`` no
    links are followed, because the jobs of several people share that account.
    """

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._slots = {"list": asyncio.Semaphore(LOOKS), "copy": asyncio.Semaphore(COPIES)}

    async def listed(
        self, spec: AttemptSpec, places: JobPlaces, account: Mapping[str, Any] | None, also: str
    ) -> tuple[SavedCheckpoint, ...]:
        """Return the result of `Executor.list_checkpoints`."""
        found = await self._kept(spec, places, account, also)
        return tuple(
            SavedCheckpoint(each.name, each.own, each.step, each.size, each.written, each.by, each.values)
            for each in found.values()
        )

    async def delete(
        self,
        spec: AttemptSpec,
        names: Collection[str],
        places: JobPlaces,
        account: Mapping[str, Any] | None,
        also: str,
    ) -> None:
        """Carry out `Executor.delete_checkpoints`."""
        found = await self._kept(spec, places, account, also)
        paths = [_known(found, name).path for name in names]
        await self._run({"do": "delete", "paths": paths}, places, account, LOOK_S)

    async def copy(
        self,
        spec: AttemptSpec,
        name: str,
        fork: AttemptSpec,
        *,
        places: tuple[JobPlaces, JobPlaces],
        seen: JobPlaces,
        account: Mapping[str, Any] | None,
        owner: tuple[int, int] | None,
        also: str,
    ) -> Checkpoint | None:
        """Return the result of `Executor.copy_checkpoint`; ``places`` are those of the job and of its fork."""
        mine, its = places
        kept = _known(await self._kept(spec, mine, account, also), name)
        place = Place(its.checkpoints / name, "") if kept.own else place_of(name, fork, its, seen)
        with opened(its.root) as root:
            for folder in (WORK, CHECKPOINTS, OUTPUT):
                make_directory(folder, 0o700, owner, within=root)
        await asyncio.to_thread(_check_room, its.root, kept)
        request = {"do": "copy", "source": kept.path, "target": str(place.target), "room": str(its.root)}
        await self._run(request, mine, account, COPY_S)
        return None if kept.own else Checkpoint(place.seen, kept.size, kept.written, kept.by)

    async def _kept(
        self, spec: AttemptSpec, places: JobPlaces, account: Mapping[str, Any] | None, also: str
    ) -> dict[str, _Kept]:
        plan = search(spec, places)
        roots = list(zip(plan["roots"], ("", *PREFIXES.values()), strict=True))
        if _is_in_copy(spec, places):
            roots.insert(1, (str(places.checkpoints / SEEDS), ""))
        request = {
            "do": "list",
            "checkpoints": str(places.checkpoints),
            "roots": roots,
            "named": plan["named"],
            "since": (spec.since or 0.0) - SLACK,
            "also": also,
        }
        answer = await self._run(request, places, account, LOOK_S)
        found: dict[str, _Kept] = {}
        for each in msgspec.convert(answer.get("kept", []), list[_Kept]):
            found.setdefault(each.name, each)
        return found

    async def _run(
        self, request: Mapping[str, Any], places: JobPlaces, account: Mapping[str, Any] | None, seconds: float
    ) -> dict[str, Any]:
        """Return the answer of the program. Raises `ExecutorError` for an error in it, or if there is none."""
        async with self._slots["copy" if request["do"] == "copy" else "list"]:
            return await self._run_now(request, places, account, seconds)

    async def _run_now(
        self, request: Mapping[str, Any], places: JobPlaces, account: Mapping[str, Any] | None, seconds: float
    ) -> dict[str, Any]:
        base = str(places.root) if self._strict else None
        body = json.dumps({**request, "account": account, "base": base, "parent": os.getpid()}).encode()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", str(PROGRAM), "checkpoints"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        )
        try:
            async with asyncio.timeout(seconds):
                output, _ = await process.communicate(body)
        except TimeoutError:
            raise ExecutorError(
                f"The files of the job did not answer within {plural(round(seconds), 'second')}."
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        try:
            answer: dict[str, Any] = json.loads(output)
        except ValueError:
            raise ExecutorError("The checkpoints of the job cannot be read.") from None
        if answer.get("gone"):
            raise CheckpointGoneError("The checkpoint was removed at this moment.")
        if error := answer.get("error"):
            raise ExecutorError(f"The checkpoint cannot be {_DONE[request['do']]}: {error}.")
        return answer


_DONE: Final = {"list": "read", "copy": "copied", "delete": "deleted"}


def _check_room(root: Path, kept: _Kept) -> None:
    """Raise `ExecutorError` if a copy would fill the disk."""
    disk = os.statvfs(root)
    free = disk.f_bavail * disk.f_frsize
    if kept.size > free * MOST_OF_FREE:
        raise ExecutorError(
            f"The checkpoint has {size(kept.size)}, and the disk of the pool has {size(free)} left: a copy does "
            "not fit. Delete checkpoints that are no longer needed."
        )


def _known(found: Mapping[str, _Kept], name: str) -> _Kept:
    if name not in found:
        raise CheckpointGoneError(f"The job has no checkpoint {given(name, LONG_GIVEN)}.")
    return found[name]

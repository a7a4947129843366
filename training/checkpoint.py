"""Checkpoints: directories that either exist completely or not at all.

A checkpoint is written to a temporary directory beside its final path, synced to disk, described by a manifest
with the digest of every file, and renamed. If the process is interrupted, `latest` still finds the newest intact
one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import shutil
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from springtide.training.files import FULL

MANIFEST = "manifest.json"
PICKLED = "state.pkl"
PLAIN = "state.bin"
ROOM = 1 << 16
"""Free space below which the failure of a framework's own writer counts as that of a full disk, in bytes."""
_DONE = ".shard-"
_LOST = ".lost-"
_BLOCK = 1 << 20
_PATIENCE = 600.0


class CheckpointError(RuntimeError):
    """A checkpoint could not be completed; earlier checkpoints are unchanged."""


class NoRoomError(CheckpointError):
    """A checkpoint did not fit on the disk; earlier checkpoints are unchanged."""


@dataclass(frozen=True)
class Checkpoint:
    """An intact checkpoint. ``step`` is the step given at its save, ``attempt`` the attempt that saved it.

    ``about`` is all that its manifest says.
    """

    path: Path
    step: Optional[float]
    at: float
    attempt: int
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> Any:
        """The value given to `Job.save`; None if the checkpoint was written as a directory."""
        plain = self.path / PLAIN
        if plain.exists():
            return plain.read_bytes()
        pickled = self.path / PICKLED
        if pickled.exists():
            with pickled.open("rb") as file:
                try:
                    return pickle.load(file)  # noqa: S301 - written by the job itself
                except AttributeError as error:
                    msg = (
                        f"The checkpoint {self.path} has an object of a class or function that is not defined "
                        f"here: {error}. Define it first, as the program did that saved the checkpoint."
                    )
                    raise AttributeError(msg) from error
        return None


@dataclass(frozen=True)
class Keep:
    """Which checkpoints are kept: the ``last`` ones, those at an interval of steps, the one with the best metric.

    ``every`` is None for no others; ``best`` is the name of a reported value, of which the smallest counts, with
    ``maximize`` the largest. The newest one is always kept.
    """

    last: int = 3
    every: Optional[int] = None
    best: str = ""
    maximize: bool = False

    @property
    def reads(self) -> bool:
        """Whether the rule asks for more than the order of checkpoints."""
        return bool(self.every or self.best)


def rule_of(environment: Mapping[str, str], keep: int) -> Keep:
    """Return the rule that a job's options set; without them the newest ``keep`` are kept."""
    best, _, goal = environment.get("SPRINGTIDE_KEEP_BEST", "").partition(":")
    every = environment.get("SPRINGTIDE_KEEP_EVERY")
    return Keep(
        last=int(environment.get("SPRINGTIDE_KEEP_LAST", keep)),
        every=int(every) if every else None,
        best=best,
        maximize=goal == "max",
    )


def kept(numbers: Sequence[int], about: Mapping[int, Mapping[str, Any]], rule: Keep) -> Set[int]:
    """Return which checkpoints the rule keeps; pure.

    ``numbers`` are those of all checkpoints, ascending; ``about`` has what the manifests say of them.
    """
    chosen = set(numbers[-max(1, rule.last) :])
    for number in numbers:
        step = about.get(number, {}).get("step")
        if rule.every and step is not None and _is_number(step) and step % rule.every == 0:
            chosen.add(number)
    values = {number: _value(about.get(number, {}), rule.best) for number in numbers}
    known = {number: value for number, value in values.items() if value is not None}
    if known:
        best = max(known.values()) if rule.maximize else min(known.values())
        chosen.add(max(number for number, value in known.items() if value == best))
    return chosen


def _value(manifest: Mapping[str, Any], name: str) -> Optional[float]:
    values = manifest.get("values")
    value = values.get(name) if isinstance(values, dict) else None
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


class Checkpoints:
    """The checkpoints in one directory, of which those that the rule ``keep`` names are kept.

    Of ``world`` processes, the one with ``rank`` 0 writes. With ``shards`` all of them write into the same
    checkpoint. ``values`` are the numbers that the job reported last, as JSON, which a manifest notes, with what
    ``about`` returns.
    """

    def __init__(
        self,
        root: Path,
        *,
        keep: Keep = Keep(),
        rank: int = 0,
        world: int = 1,
        attempt: int = 1,
        values: Mapping[str, Union[float, str]] = MappingProxyType({}),
        about: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.root = root
        self.keep = keep
        self.values = values
        self.about = about
        self.rank = rank
        self.world = world
        self.attempt = attempt

    @contextmanager
    def writing(self, step: Optional[float], *, shards: bool = False) -> Iterator[Path]:
        """Yield a directory to write the next checkpoint to; leaving the block without an exception completes it.

        With several processes, files of all but the first one are discarded unless ``shards`` is set. Raises
        `NoRoomError` if the disk is full, with ``shards`` in all processes.
        """
        place = self._place(max(self._numbers(), default=0) + 1)
        together = shards and self.world > 1
        mine = f"rank-{self.rank}" if self.rank and not together else f"{place.name}.{self.attempt}"
        beside = self.root / f".{mine}.new"
        lacking = self._prepare(beside, together=together)
        try:
            yield beside  # without a directory too: a context manager cannot leave its block out
            if lacking is None and together:
                self._meet(beside, place)
            if lacking is None and self.rank == 0:
                self._complete(beside, place, step)
        except BaseException as error:
            if lacking is None and not self._is_full(error):
                if self.rank == 0 or not together:
                    shutil.rmtree(beside, ignore_errors=True)
                raise
            lacking = lacking or error
        if lacking is not None:
            if together:
                self._abandon(beside)
            if self.rank == 0 or not together:
                shutil.rmtree(beside, ignore_errors=True)
            raise NoRoomError(f"There is no room for checkpoint {place.name} in {self.root}.") from lacking
        if self.rank == 0:
            self._prune(place)
        elif not together:
            shutil.rmtree(beside, ignore_errors=True)

    def save(self, state: Any, step: Optional[float]) -> None:
        """Write a checkpoint of one value: bytes unchanged, any other value pickled."""
        with self.writing(step) as directory:
            if self.rank == 0:
                write_state(state, directory)

    def latest(self) -> Optional[Checkpoint]:
        """Return the newest intact checkpoint, None if there is none."""
        for number in reversed(self._numbers()):
            found = _read(self._place(number))
            if found is not None:
                return found
        return None

    def after(self, found: Optional[Checkpoint]) -> List[str]:
        """Return the names of the checkpoints after one, ascending; of all for None."""
        return [name for name in map("{:08d}".format, self._numbers()) if found is None or name > found.path.name]

    def _prepare(self, beside: Path, *, together: bool) -> Optional[BaseException]:
        """Create an empty directory for the next checkpoint; return the error of a full disk."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not together:
                shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir(exist_ok=together)
        except OSError as error:
            if error.errno not in FULL:
                raise
            return error
        return None

    def _is_full(self, error: BaseException) -> bool:
        """Return whether an error in the block comes from a full disk; frameworks' own writers do not name it."""
        seen: Optional[BaseException] = error
        while seen is not None:
            if isinstance(seen, NoRoomError) or (isinstance(seen, OSError) and seen.errno in FULL):
                return True
            seen = seen.__cause__ or seen.__context__
        if not isinstance(error, RuntimeError):
            return False
        disk = os.statvfs(str(self.root))
        return disk.f_bavail * disk.f_frsize < ROOM

    def _place(self, number: int) -> Path:
        return self.root / f"{number:08d}"

    def _numbers(self) -> List[int]:
        try:
            names = [path.name for path in self.root.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdigit())

    def _complete(self, beside: Path, place: Path, step: Optional[float]) -> None:
        files: Dict[str, Dict[str, Any]] = {}
        for path in sorted(beside.rglob("*")):
            if path.is_file() and not path.is_symlink():
                files[path.relative_to(beside).as_posix()] = {"size": path.stat().st_size, "sha256": _digest(path)}
                _sync(path)
        about = {"format": 1, "step": step, "at": time.time(), "attempt": self.attempt}
        manifest = {**about, **self.about(), "values": dict(self.values), "files": files}
        (beside / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        _sync(beside / MANIFEST)
        for path in [*beside.rglob("*"), beside]:
            if path.is_dir() and not path.is_symlink():
                _sync(path)
        beside.rename(place)
        _sync(self.root)

    def _meet(self, beside: Path, place: Path) -> None:
        """Wait until all processes have written their part; all but the first then wait for it to finish.

        Raises `NoRoomError` if one of them had no room.
        """
        if self.rank != 0:
            for path in beside.rglob("*"):
                if path.is_file():
                    _sync(path)
            (beside / f"{_DONE}{self.rank}").touch()
            self._wait(lambda: place.exists() or not beside.exists(), place.name)
            if not place.exists():
                raise NoRoomError(f"Another process had no room for its part of checkpoint {place.name}.")
            return
        self._wait(lambda: all(done or lost for done, lost in self._marks(beside)), place.name)
        if not all(done for done, _ in self._marks(beside)):
            raise NoRoomError(f"Another process had no room for its part of checkpoint {place.name}.")
        for mark in beside.glob(f"{_DONE}*"):
            mark.unlink()

    def _abandon(self, beside: Path) -> None:
        """Mark this checkpoint as abandoned for the other processes, and wait until all have seen it."""
        if self.rank == 0:
            self._wait(lambda: all(done or lost for done, lost in self._marks(beside)), beside.name)
        elif beside.exists():
            with suppress(OSError):
                (beside / f"{_LOST}{self.rank}").touch()
            self._wait(lambda: not beside.exists(), beside.name)

    def _marks(self, beside: Path) -> List[Tuple[bool, bool]]:
        """Return for every other process whether it has written its part, and whether it had no room for it."""
        ranks = range(1, self.world) if beside.exists() else ()
        return [((beside / f"{_DONE}{rank}").exists(), (beside / f"{_LOST}{rank}").exists()) for rank in ranks]

    def _wait(self, condition: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise CheckpointError(f"Not all {self.world} processes wrote their part of checkpoint {name}.")
            time.sleep(0.01)

    def _prune(self, newest: Path) -> None:
        numbers = self._numbers()
        about = {number: _manifest(self._place(number)) for number in numbers} if self.keep.reads else {}
        for number in set(numbers) - kept(numbers, about, self.keep):
            shutil.rmtree(self._place(number), ignore_errors=True)
        for path in self.root.glob(".[0-9]*.new"):
            if path.name < f".{newest.name}":
                shutil.rmtree(path, ignore_errors=True)


def write_state(state: Any, directory: Path) -> None:
    """Write one value into the directory of a checkpoint: bytes unchanged, any other value pickled."""
    if isinstance(state, bytes):
        (directory / PLAIN).write_bytes(state)
    else:
        with (directory / PICKLED).open("wb") as file:
            pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)


def _manifest(path: Path) -> Dict[str, Any]:
    """Return what the manifest of a checkpoint says; nothing if it cannot be read."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _read(path: Path) -> Optional[Checkpoint]:
    """Return the checkpoint at ``path`` if every file matches the manifest, else None."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        for name, recorded in manifest["files"].items():
            file = path / name
            if file.stat().st_size != recorded["size"] or _digest(file) != recorded["sha256"]:
                return None
        return Checkpoint(path, manifest["step"], manifest["at"], manifest["attempt"], manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        block = file.read(_BLOCK)
        while block:
            digest.update(block)
            block = file.read(_BLOCK)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(str(path), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

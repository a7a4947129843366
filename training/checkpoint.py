"""Checkpoints: directories that either exist completely or not at all.

A checkpoint is written to a temporary directory beside its final path, synced to disk, described by a manifest
with the digest of every file, and renamed. If the process is interrupted, `latest` still finds the newest intact
one.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

MANIFEST = "manifest.json"
PICKLED = "state.pkl"
PLAIN = "state.bin"
_DONE = ".shard-"
_BLOCK = 1 << 20
_PATIENCE = 600.0


class CheckpointError(RuntimeError):
    """A checkpoint could not be completed; earlier checkpoints are unchanged."""


@dataclass(frozen=True)
class Checkpoint:
    """An intact checkpoint. ``step`` is the step given at its save, ``attempt`` the attempt that saved it."""

    path: Path
    step: Optional[float]
    at: float
    attempt: int

    @property
    def state(self) -> Any:
        """The value given to `Job.save`; None if the checkpoint was written as a directory."""
        plain = self.path / PLAIN
        if plain.exists():
            return plain.read_bytes()
        pickled = self.path / PICKLED
        if pickled.exists():
            with pickled.open("rb") as file:
                return pickle.load(file)  # noqa: S301 - written by the job itself
        return None


class Checkpoints:
    """The checkpoints in one directory, of which the newest ``keep`` are kept.

    Of ``world`` processes, the one with ``rank`` 0 writes. With ``shards`` all of them write into the same
    checkpoint.
    """

    def __init__(self, root: Path, *, keep: int = 3, rank: int = 0, world: int = 1, attempt: int = 1) -> None:
        self.root = root
        self.keep = keep
        self.rank = rank
        self.world = world
        self.attempt = attempt

    @contextmanager
    def writing(self, step: Optional[float], *, shards: bool = False) -> Iterator[Path]:
        """Yield a directory to write the next checkpoint to; leaving the block without an exception completes it.

        With several processes, files of all but the first one are discarded unless ``shards`` is set.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        place = self._place(max(self._numbers(), default=0) + 1)
        together = shards and self.world > 1
        mine = f"rank-{self.rank}" if self.rank and not together else f"{place.name}.{self.attempt}"
        beside = self.root / f".{mine}.new"
        if together:
            beside.mkdir(exist_ok=True)
        else:
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir()
        try:
            yield beside
            if together:
                self._meet(beside, place)
            if self.rank == 0:
                self._complete(beside, place, step)
        except BaseException:
            if self.rank == 0 or not together:
                shutil.rmtree(beside, ignore_errors=True)
            raise
        if self.rank == 0:
            self._prune(place)
        elif not together:
            shutil.rmtree(beside, ignore_errors=True)

    def save(self, state: Any, step: Optional[float]) -> None:
        """Write a checkpoint of one value: bytes unchanged, any other value pickled."""
        with self.writing(step) as directory:
            if self.rank != 0:
                return
            if isinstance(state, bytes):
                (directory / PLAIN).write_bytes(state)
            else:
                with (directory / PICKLED).open("wb") as file:
                    pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)

    def latest(self) -> Optional[Checkpoint]:
        """Return the newest intact checkpoint, None if there is none."""
        for number in reversed(self._numbers()):
            found = _read(self._place(number))
            if found is not None:
                return found
        return None

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
        manifest = {"format": 1, "step": step, "at": time.time(), "attempt": self.attempt, "files": files}
        (beside / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        _sync(beside / MANIFEST)
        for path in [*beside.rglob("*"), beside]:
            if path.is_dir() and not path.is_symlink():
                _sync(path)
        beside.rename(place)
        _sync(self.root)

    def _meet(self, beside: Path, place: Path) -> None:
        """Wait until all processes have written their part; all but the first then wait for it to finish."""
        if self.rank != 0:
            for path in beside.rglob("*"):
                if path.is_file():
                    _sync(path)
            (beside / f"{_DONE}{self.rank}").touch()
        deadline = time.monotonic() + _PATIENCE
        marks = [beside / f"{_DONE}{rank}" for rank in range(1, self.world)]
        while not (all(mark.exists() for mark in marks) if self.rank == 0 else place.exists()):
            if time.monotonic() > deadline:
                raise CheckpointError(
                    f"Not all {self.world} processes wrote their part of checkpoint {place.name}."
                )
            time.sleep(0.01)
        if self.rank == 0:
            for mark in marks:
                mark.unlink()

    def _prune(self, newest: Path) -> None:
        for number in self._numbers()[: -self.keep]:
            shutil.rmtree(self._place(number), ignore_errors=True)
        for path in self.root.glob(".[0-9]*.new"):
            if path.name < f".{newest.name}":
                shutil.rmtree(path, ignore_errors=True)


def _read(path: Path) -> Optional[Checkpoint]:
    """Return the checkpoint at ``path`` if every file matches the manifest, else None."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        for name, told in manifest["files"].items():
            file = path / name
            if file.stat().st_size != told["size"] or _digest(file) != told["sha256"]:
                return None
        return Checkpoint(path, manifest["step"], manifest["at"], manifest["attempt"])
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

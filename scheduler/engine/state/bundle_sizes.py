"""Bytes of files that unfinished jobs keep in the store, by user and by project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from springtide.scheduler.store.records import JobSpec

Owner: TypeAlias = tuple[str, str]
"""``("user", name)`` or ``("project", name)``."""


def owners(spec: JobSpec) -> Iterator[Owner]:
    """Yield on whose account a job's files are."""
    yield "user", spec.user
    yield "project", spec.project


class BundleSizes:
    """Sizes of bundles in use. Jobs of one owner with equal files share a bundle, which counts once."""

    def __init__(self) -> None:
        self._uses: Counter[tuple[Owner, str]] = Counter()
        self._bytes: Counter[Owner] = Counter()

    def copy(self) -> BundleSizes:
        """Return sizes that count on by themselves."""
        copied = BundleSizes()
        copied._uses, copied._bytes = self._uses.copy(), self._bytes.copy()
        return copied

    def of(self, owner: Owner) -> int:
        """Return the bytes on an owner's account."""
        return self._bytes[owner]

    def has(self, owner: Owner, digest: str) -> bool:
        """Return whether a job of the owner uses the bundle."""
        return (owner, digest) in self._uses

    def add(self, spec: JobSpec) -> None:
        """Count the files of an unfinished job."""
        for digest, size in spec.stored.items():
            for owner in owners(spec):
                if not self.has(owner, digest):
                    self._bytes[owner] += size
                self._uses[owner, digest] += 1

    def remove(self, spec: JobSpec) -> None:
        """Stop counting the files of an ended job."""
        for digest, size in spec.stored.items():
            for owner in owners(spec):
                self._uses[owner, digest] -= 1
                if not self._uses[owner, digest]:
                    del self._uses[owner, digest]
                    self._bytes[owner] -= size
                    if not self._bytes[owner]:
                        del self._bytes[owner]

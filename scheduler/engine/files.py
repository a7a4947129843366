"""From a job's record to what the executor launches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping

from springtide.scheduler.executors.base import AttemptKey, AttemptSpec
from springtide.scheduler.store.records import AttemptRecord, JobRecord

CACHE_BYTES = 16 * 1024 * 1024


class JobFiles:
    """Files of bundles, the latest ones kept in memory up to `CACHE_BYTES`."""

    def __init__(self, read: Callable[[str], Awaitable[dict[str, bytes]]]) -> None:
        self._read = read
        self._kept: OrderedDict[str, Mapping[str, bytes]] = OrderedDict()
        self._bytes = 0

    def keep(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Remember files that will be launched soon."""
        size = _size(files)
        if digest in self._kept or size > CACHE_BYTES:
            return
        self._kept[digest] = files
        self._bytes += size
        while self._bytes > CACHE_BYTES:
            self._bytes -= _size(self._kept.popitem(last=False)[1])

    async def get(self, digest: str | None) -> Mapping[str, bytes]:
        """The files of a bundle. Raises `StoreError` if they are gone."""
        if digest is None:
            return {}
        return self._kept.get(digest) or await self._read(digest)


def _size(files: Mapping[str, bytes]) -> int:
    return sum(len(name) + len(content) for name, content in files.items())


def attempt_spec(
    job: JobRecord, attempt: AttemptRecord, files: Mapping[str, bytes], epoch: int, grace: float
) -> AttemptSpec:
    """What to run for an attempt; ``grace`` is the pool's own, in seconds."""
    spec = job.spec
    return AttemptSpec(
        key=AttemptKey(job.id, attempt.number),
        epoch=epoch,
        name=spec.name,
        project=spec.project,
        user=spec.user,
        argv=spec.argv,
        placement=attempt.placement,
        workers=len(attempt.placement),
        grace=grace if spec.grace is None else spec.grace,
        env=spec.env,
        cwd=spec.cwd,
        files=files,
        image=spec.image,
    )

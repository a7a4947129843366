"""Launch specifications of attempts, built from the records of their jobs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from springtide.scheduler import resuming
from springtide.scheduler.datasets import Dataset
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.engine.requests import ranges
from springtide.scheduler.engine.requests.grants import granted
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, FoundProgram
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.model import JobState, Placement
from springtide.scheduler.store.queries import trials
from springtide.scheduler.store.records import EnvironmentRecord, FinishedTrial, JobRecord, JobSpec

CACHE_BYTES = 16 * 1024 * 1024
"""Maximum size of the bundles in memory, in bytes."""


class LaunchSpecs:
    """Builds launch specifications."""

    def __init__(self, state: State, store: StoreThreads, settings: EngineSettings) -> None:
        self._state = state
        self._threads = store
        self._settings = settings
        self._bundles: LruCache[str, Mapping[str, bytes]] = LruCache(CACHE_BYTES, _size)
        self._trees: LruCache[str, bytes] = LruCache(CACHE_BYTES, len)

    def cache_bundle(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Keep the files of a bundle in memory for its launch."""
        if digest not in self._bundles:
            self._bundles.put(digest, files)

    async def make(self, key: AttemptKey) -> AttemptSpec | None:
        """Return what to launch, None if the attempt is no longer wanted.

        Raises `StoreError` if the job's files are gone.
        """
        job = self._state.jobs.get(key.job)
        if job is None or job.live is None or job.live.number != key.attempt or job.live.asked is not None:
            return None
        files = await self._files(job.spec.bundle)
        spec = self._attempt_spec(job, key.attempt, job.live.placement, files)
        return replace(
            spec, history=await self._history(job), datasets=self._datasets(job), packed=await self._packed(spec)
        )

    def preview(self, job: JobRecord, placement: Placement) -> AttemptSpec:
        """Return the next attempt of a job as it would be launched there, without files."""
        number = job.standing.attempt + 1
        spec = self._attempt_spec(job, number, placement, {})
        return replace(spec, datasets=self._datasets(job))

    def _attempt_spec(
        self, job: JobRecord, number: int, placement: Placement, files: Mapping[str, bytes]
    ) -> AttemptSpec:
        spec, trial, standing = job.spec, job.spec.trial, job.standing
        return AttemptSpec(
            key=AttemptKey(job.id, number),
            epoch=self._threads.store.epoch,
            name=spec.name,
            project=spec.project,
            user=spec.user,
            argv=spec.argv,
            placement=placement,
            workers=len(placement),
            grace=spec.options.grace_in(self._settings.policy.grace),
            options=spec.options,
            cwd=spec.cwd,
            files=files,
            tree=spec.tree,
            test_run=spec.tests is not None,
            resume=resuming.arguments(spec.options.resume, standing.checkpoint, saved=standing.saved is not None),
            since=standing.started,
            sweep=None if trial is None else trial.sweep,
            trial=None if trial is None else trial.number,
            member=None if trial is None else trial.member,
            found=_found(self._environment(spec)),
            outer_projects=self._lineage(spec.project)[1:],
            secrets=self._secrets(job),
            continues=_continues(spec),
        )

    def _lineage(self, project: str) -> tuple[str, ...]:
        """Return a project and those that it is in, nearest first."""
        return tuple(name for name, _ in ranges.lineage(project, self._state.projects)) or (project,)

    def _environment(self, spec: JobSpec) -> EnvironmentRecord | None:
        """Return the environment where a job was submitted; for a trial that of its sweep."""
        sweep = None if spec.trial is None else self._state.jobs.get(spec.trial.sweep)
        return spec.environment if sweep is None else sweep.spec.environment

    def borrows(self, key: AttemptKey) -> bool:
        """Return whether an attempt began with GPUs beyond the quota of its project."""
        job = self._state.jobs.get(key.job)
        return job is not None and job.live is not None and job.live.borrowed > 0

    def _datasets(self, job: JobRecord) -> tuple[Dataset, ...]:
        """Return the datasets of a job as they are declared now."""
        if not job.spec.options.datasets:
            return ()
        return granted(
            job.spec.options.datasets, self._lineage(job.spec.project), self._settings.datasets, Dataset
        )

    def _secrets(self, job: JobRecord) -> tuple[NamedSecret, ...]:
        """Return the secrets of a job as they are declared now."""
        if not job.spec.options.secrets:
            return ()
        return granted(
            job.spec.options.secrets, self._lineage(job.spec.project), self._settings.secrets, NamedSecret
        )

    async def _history(self, job: JobRecord) -> bytes | None:
        """Return the trials of the job's sweep so far as JSON, None if they are not asked for."""
        trial = job.spec.trial
        if trial is None or not trial.history:
            return None
        history = await self._threads.read(trials.history, trial.sweep)
        return msgspec.json.encode([_history_entry(each) for each in history])

    async def _packed(self, spec: AttemptSpec) -> bytes:
        """Return the packed tree of a job, empty if it runs without a copy."""
        if not spec.copies_tree or spec.tree is None or spec.tree.digest is None:
            return b""
        cached = self._trees.get(spec.tree.digest)
        if cached is None:
            cached = await self._threads.call(self._threads.store.content, spec.tree.digest)
            self._trees.put(spec.tree.digest, cached)
        return cached

    async def _files(self, digest: str | None) -> Mapping[str, bytes]:
        if digest is None:
            return {}
        cached = self._bundles.get(digest)
        return await self._threads.call(self._threads.store.files, digest) if cached is None else cached


def _continues(spec: JobSpec) -> bool:
    """Return whether a job begins with a checkpoint of another one that `springtide.training` restores."""
    member = None if spec.trial is None else spec.trial.member
    return (member is not None and member.parent is not None) or (spec.fork is not None and spec.fork.own)


def _found(environment: EnvironmentRecord | None) -> FoundProgram:
    if environment is None:
        return FoundProgram()
    python = environment.path if environment.python else ""
    return FoundProgram(environment.program, python, environment.variables, environment.image)


def _size(files: Mapping[str, bytes]) -> int:
    return sum(len(name) + len(content) for name, content in files.items())


def _history_entry(trial: FinishedTrial) -> dict[str, object]:
    """Return a trial's entry in the history that later trials receive."""
    state = {JobState.SUCCEEDED: "complete", JobState.RUNNING: "running"}.get(trial.state, "failed")
    pruned = trial.outcome.pruned and trial.state is JobState.SUCCEEDED
    return {
        "trial": trial.number,
        "state": "pruned" if pruned else state,
        "parameters": trial.parameters,
        "value": trial.outcome.value,
        "curve": trial.outcome.curve,
        "memo": trial.outcome.memo,
    }

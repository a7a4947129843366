"""Running a job again: what was submitted is submitted once more, with some other options."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.environments.record import environment_sent
from springtide.scheduler.engine.reruns import changes, comparison
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import FilesGoneError
from springtide.scheduler.store.records import JobRecord, JobSpec


class RerunCalls:
    """Makes the submissions of runs again from the records and files of earlier jobs, and compares jobs."""

    def __init__(self, store: StoreThreads, jobs: JobLookup, settings: EngineSettings) -> None:
        self._threads = store
        self._jobs = jobs
        self._settings = settings

    async def first(self, job_id: str) -> JobSpec:
        """Return what a job was submitted with. Raises `Refusal` if it cannot be run again by itself."""
        return (await self._first(job_id)).spec

    async def compared(self, jobs: Sequence[wire.Job]) -> wire.Comparison:
        """Return jobs side by side, with what differs among them. Raises `Refusal` for one that is gone."""
        records = [await self._jobs.get(job.id) for job in jobs]
        code = await asyncio.to_thread(comparison.code_changes, [record.spec for record in records])
        return wire.Comparison(jobs=list(jobs), differences=comparison.differences(records), code=code)

    async def _first(self, job_id: str) -> JobRecord:
        job = await self._jobs.get(job_id)
        if job.sweep is not None:
            raise Refusal(
                409,
                "trial",
                f"The job {wording.given(job_id)} is a trial of the sweep {wording.given(job.sweep)}, and is "
                "not run again by itself.",
                hint="Retry the failed trials of the sweep while it is unfinished, or run the whole sweep again.",
            )
        return job

    async def submission(self, job_id: str, options: Mapping[str, Any], key: str | None) -> wire.Submission:
        """Return the submission of a run again: as the first one, except for these options.

        Raises `Refusal` if the files of the job are kept no longer.
        """
        job = await self._first(job_id)
        spec = job.spec
        return wire.Submission(
            **changes.with_changes(spec, options),
            argv=list(spec.argv),
            kind=spec.kind,
            cwd=spec.cwd,
            files=dict(await self._files(spec)),
            source=spec.source,
            key=key,
            environment=environment_sent(spec),
            trials=await self._trials(job),
        )

    async def _files(self, spec: JobSpec) -> Mapping[str, bytes]:
        if spec.bundle is None:
            return {}
        try:
            return await self._threads.read(self._threads.store.files, spec.bundle)
        except FilesGoneError:
            kept = wording.duration(self._settings.keep_files)
            raise Refusal(
                410,
                "files_gone",
                f"The files of job {wording.given(spec.id)} are not in the pool any more, so it cannot be run "
                f"again. Those of an ended job are kept for {kept}, as long as all of one person take less than "
                f"{self._settings.max_ended_bytes_per_user / 2**20:.0f} MiB.",
                hint="Submit it once more from the notebook or directory it came from.",
            ) from None

    async def _trials(self, job: JobRecord) -> wire.Trials | None:
        trials, standing = job.spec.trials, job.standing.sweep
        if trials is None or standing is None:
            return None
        body = await self._threads.read(self._threads.store.sweep_parameters, job.id) if trials.known else None
        return msgspec.convert(
            {
                "number": standing.number,
                "at_most": standing.at_most,
                "at_least": standing.at_least,
                "metric": trials.metric,
                "goal": trials.goal,
                "parameters": None if body is None else msgspec.json.decode(body),
                "history": trials.history,
            },
            wire.Trials,
        )

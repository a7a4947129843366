"""The executor for a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TypeVar

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptSpec,
    AttemptStatus,
    Executor,
    ExecutorError,
    ExitKind,
    LogPiece,
    Observation,
    Report,
)
from springtide.scheduler.executors.files.epoch import EpochGate
from springtide.scheduler.executors.files.reader import Reader
from springtide.scheduler.executors.kubernetes import manifests, names
from springtide.scheduler.executors.kubernetes.attempts import Attempt, Verdict
from springtide.scheduler.executors.kubernetes.backlog import Backlog
from springtide.scheduler.executors.kubernetes.orders import Orders
from springtide.scheduler.executors.kubernetes.pods import Pods
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.kubernetes.surveillance import Surveillance
from springtide.scheduler.executors.supervisor.attempt import KILL_AFTER
from springtide.scheduler.kube import Api, ApiError
from springtide.scheduler.model import Node

log = logging.getLogger(__name__)
T = TypeVar("T")

AT_ONCE = 32
"""Attempts that are being launched at a time; the others wait for their turn."""
THREADS = 4


class KubernetesExecutor(Executor):
    """Runs attempts as pods of a cluster, one for each worker.

    The cluster is the truth of what runs: every pod carries a finalizer until its end is on record, so nothing
    that ended while the service was away is missed. The jobs' files lie on a volume that service and pods share.
    ``now`` is the wall clock.
    """

    name = "kubernetes"

    def __init__(self, settings: KubernetesSettings, api: Api, *, now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._api = api
        self._now = now
        root = os.geteuid() == 0
        self._orders = Orders(settings, (settings.run_as, settings.fs_group) if root else None)
        self._layout = self._orders.layout
        self._reader = Reader(self._layout, now)
        self._epoch = EpochGate(self._layout)
        self._backlog = Backlog()
        self._pods = Pods(api, settings, self._backlog)
        self._locks: dict[AttemptKey, asyncio.Lock] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._begun = AsyncExitStack()

    # ---------- beginning and end

    async def start(self, listener: Callable[[Observation], None]) -> None:
        settings = self._settings
        if os.geteuid() not in (0, settings.run_as):
            raise ExecutorError(
                f"Jobs run as user {settings.run_as} (run_as), and share files with the service: that has to run "
                f"as the same user, not as {os.geteuid()}."
            )
        if bool(settings.jobs_claim) == bool(settings.jobs_host_path):
            raise ExecutorError("One of jobs_claim and jobs_host_path has to say where the files of jobs lie.")
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="orders")
        self._begun.callback(self._threads.shutdown, wait=False)
        try:
            await self._in_thread(self._orders.prepare)
        except OSError as error:
            raise ExecutorError(f"{settings.state_dir} cannot be used: {error.strerror}.") from error
        self._watch = Surveillance(
            settings, self._api, self._pods, self._orders, self._backlog, tell=listener, now=self._now
        )
        self._begun.push_async_callback(self._watch.close)
        try:
            await self._watch.begin()
        except ApiError as error:
            await self.stop()
            raise ExecutorError(f"The cluster cannot be used: {error}") from error

    async def stop(self) -> None:
        await self._begun.aclose()

    # ---------- acts

    async def launch(self, spec: AttemptSpec) -> None:
        key = spec.key
        self._layout.attempt(key)
        names.check_job(key.job)
        self._epoch.check(spec.epoch)
        async with self._turns, self._lock(key):
            attempt = self._watch.attempts.get(key)
            if attempt is None:
                attempt = await self._ordered(spec)
            if not attempt.complete:
                await self._watch.complete(attempt)

    async def _ordered(self, spec: AttemptSpec) -> Attempt:
        """A new attempt that is on the volume; one that can never start has ended at once."""
        if await self._in_thread(self._orders.finished, spec.key):
            raise ExecutorError(f"Attempt {spec.key.attempt} of {spec.key.job} has run already.")
        try:
            self._check_nodes(spec)
            image = manifests.choose_image(spec.image, self._settings)
            order = self._orders.make(spec, image, self._watch.pool.home_of(spec.user))
            await self._in_thread(self._orders.write, order, spec.files)
        except ExecutorError as refused:
            kind = ExitKind.LOST if isinstance(refused, NodeGoneError) else ExitKind.REFUSED
            attempt = Attempt(spec.key, len(spec.placement), spec.grace, verdict=Verdict(kind, str(refused)))
            attempt.ending = True
            attempt.workers = {worker.rank: worker for worker in spec.placement}
            self._watch.attempts[spec.key] = attempt
            await self._watch.conclude(attempt)
            return attempt
        except OSError as error:
            why = error.strerror or str(error)
            raise ExecutorError(f"The job could not be put on disk: {why} ({self._layout.jobs}).") from error
        attempt = Attempt(spec.key, len(spec.placement), spec.grace, order)
        self._watch.attempts[spec.key] = attempt
        return attempt

    def _check_nodes(self, spec: AttemptSpec) -> None:
        inventory = self._watch.pool.inventory
        for worker in spec.placement:
            node = inventory.train_node(worker.node)
            if node is None and inventory.ever_had(worker.node):
                raise NodeGoneError(f"The node {worker.node} has left the pool.")
            if node is None:
                raise ExecutorError(f"There is no train node {worker.node!r} in the cluster.")
            if not all(0 <= index < node.gpus for index in worker.gpus):
                raise ExecutorError(f"Node {node.name!r} has {node.gpus} GPUs, not those numbered {worker.gpus}.")

    async def pause(self, key: AttemptKey) -> None:
        await self._ask(key, "pause")

    async def kill(self, key: AttemptKey) -> None:
        await self._ask(key, "kill")

    async def _ask(self, key: AttemptKey, request: str) -> None:
        """Leave a request for the attempt, and ask the cluster to end its pods."""
        self._epoch.check()
        async with self._lock(key):
            attempt = self._watch.attempts.get(key)
            if attempt is None:
                if await self._in_thread(self._orders.finished, key):
                    return
                raise ExecutorError(f"Attempt {key.attempt} of {key.job} is not known here.")
            if attempt.gone:
                return
            if attempt.asked != "kill":
                attempt.asked = request
            try:
                await self._in_thread(self._orders.ask, key, attempt.asked)
            except OSError as error:
                raise ExecutorError(f"The job cannot be asked to stop: {error.strerror}.") from error
            grace = max(1.0, attempt.grace) if attempt.asked == "pause" else KILL_AFTER
            try:
                await self._watch.end(attempt, grace + manifests.MARGIN)
            except ApiError as error:
                raise ExecutorError(f"The cluster cannot be asked to end the job: {error}") from error

    async def discard(self, key: AttemptKey) -> None:
        async with self._lock(key):
            attempt = self._watch.attempts.get(key)
            if attempt is None:
                return
            if not attempt.gone:
                raise ExecutorError(f"Attempt {key.attempt} of {key.job} has not ended.")
            await self._in_thread(self._orders.finish, key)
            await self._release(attempt)
        self._locks.pop(key, None)

    async def _release(self, attempt: Attempt) -> None:
        """Let everything go that the cluster keeps of an attempt."""
        try:
            await asyncio.gather(*(self._pods.release(pod) for pod in attempt.pods.values()))
            if attempt.size > 1 and attempt.pods:
                await self._pods.remove_service(attempt.key)
        except ApiError as error:
            raise ExecutorError(f"The pods of {attempt.key.job} cannot be released: {error}") from error
        self._watch.forget(attempt.key)

    async def remove(self, job: str) -> None:
        self._layout.job(job)
        mine = [attempt for key, attempt in self._watch.attempts.items() if key.job == job]
        if any(not attempt.gone for attempt in mine):
            raise ExecutorError(f"The job {job} has not ended.")
        for attempt in mine:
            await self._release(attempt)
        await self._in_thread(self._orders.remove, job)

    # ---------- what there is

    async def inventory(self) -> tuple[Node, ...]:
        return self._watch.nodes()

    async def attempts(self) -> tuple[AttemptStatus, ...]:
        known = self._watch.attempts
        return tuple(known[key].status for key in sorted(known) if known[key].exists)

    async def read_log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        self._watch.hurry(job)
        return await self._reader.log(job, rank, offset, limit)

    async def read_reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        self._watch.hurry(job)
        return await self._reader.reports(job, after, limit)

    async def read_output(self, job: str, name: str, limit: int) -> bytes | None:
        return await self._reader.output(job, name, limit)

    # ---------- underneath

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)

    def _lock(self, key: AttemptKey) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


class NodeGoneError(ExecutorError):
    """The planned node was in the pool, and is not any more."""

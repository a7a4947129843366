"""Objects of a cluster that are train jobs, as a front door of the pool."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import msgspec

from springtide.hub_extension.train_jobs.announcer import Announcer
from springtide.hub_extension.train_jobs.cluster import Cluster, touched
from springtide.hub_extension.train_jobs.converter import Converter
from springtide.hub_extension.train_jobs.keeper import Keeper
from springtide.hub_extension.train_jobs.kinds import KINDS, SPRINGTIDE_JOB, TRAIN_JOB, Kind, kind_of
from springtide.hub_extension.train_jobs.ledger import Entry, Ledger
from springtide.hub_extension.train_jobs.work import Work
from springtide.scheduler import wire
from springtide.scheduler.engine import Engine
from springtide.scheduler.kube import NAMESPACES, Api, ApiError, Informer, Object
from springtide.scheduler.model import JobState

log = logging.getLogger(__name__)

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 60.0


class TrainJobs:
    """While entered, every train job is submitted once, its status follows its job, deleting it cancels the job.

    ``pool`` is this pool's name in the cluster. ``namespaces`` are those to look at; none named means all, and
    then the service must be allowed to list train jobs and namespaces of the whole cluster. ``policies`` are the
    names of the admission policies that vouch for the users whom objects of a kind name; without one they name
    none. TrainJobs become SpringtideJobs. The cluster may be unreachable at any time: missed changes are caught up
    on. ``clock`` returns seconds since the epoch, ``ticks`` seconds of a monotonic clock.

    Leave it before the engine stops. Jobs continue.
    """

    def __init__(
        self,
        engine: Engine,
        api: Api,
        pool: str,
        *,
        namespaces: Sequence[str] = (),
        policies: Mapping[Kind, str] = MappingProxyType({}),
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._ledger = Ledger()
        self._work = Work(self._keep, self._name)
        cluster, announcer = Cluster(api), Announcer(api, clock=clock)
        self._converter = Converter(
            engine, cluster, announcer, self._ledger, pool, later=self._work.add_later, ticks=ticks
        )
        self._keeper = Keeper(
            engine,
            cluster,
            announcer,
            self._ledger,
            pool,
            converter=self._converter,
            policies=policies,
            later=self._work.add_later,
            clock=clock,
            ticks=ticks,
        )
        self._informers = {
            (kind.name, namespace): Informer(api, kind.resource, namespace, on_change=self._object_changed)
            for kind in KINDS.values()
            for namespace in namespaces or (None,)
        }
        if not namespaces:
            self._informers["Namespace", None] = Informer(api, NAMESPACES, on_change=self._namespace_changed)
        self._gpus = 0
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        events = self._engine.subscribe()
        first = await anext(events, ())
        self._gpus = int(first[0].data["train_gpus"]) if first else 0
        self._work.start()
        self._stack.push_async_callback(self._work.stop)
        self._background(self._hear(events), "events for train jobs")
        for (kind, namespace), informer in self._informers.items():
            self._stack.push_async_callback(informer.stop)
            self._background(self._started(informer, kind, namespace), f"start of {kind}s")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _background(self, doing: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(doing, name=name)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    async def _keep(self, uid: str) -> None:
        await self._keeper.keep(uid)

    def _name(self, uid: str) -> str:
        entry = self._ledger.entries.get(uid)
        return f"object {uid}" if entry is None else f"{entry.kind.name} {entry.namespace}/{entry.name}"

    # ---------- events of the cluster

    def _object_changed(self, before: Object | None, after: Object | None) -> None:
        self._wake_successor(before or after)
        if before is not None and (after is None or _uid(before) != _uid(after)):
            self._gone(before)
            before = None
        if after is None:
            return
        entry = self._ledger.entries.get(_uid(after))
        if entry is None:
            metadata = after["metadata"]
            entry = Entry(_uid(after), metadata["namespace"], metadata["name"], after)
            self._ledger.entries[entry.uid] = entry
            self._work.add(entry.uid)
            return
        entry.see(after)
        if before is not None and touched(before, after):
            self._ledger.unrefuse(entry)
        self._work.add(entry.uid)

    def _wake_successor(self, changed: Object | None) -> None:
        if changed is not None and kind_of(changed) is TRAIN_JOB:
            metadata = changed["metadata"]
            waits = self._ledger.of_name.get((metadata["namespace"], metadata["name"]))
            if waits is not None:
                self._work.add(waits.uid)

    def _gone(self, before: Object) -> None:
        entry = self._ledger.entries.get(_uid(before))
        if entry is not None:
            entry.gone = True
            self._work.add(entry.uid)
            self._reconsider(self._ledger.refused_for_name(entry.namespace, entry.name))

    def _namespace_changed(self, _: Object | None, after: Object | None) -> None:
        if after is not None:
            self._keeper.namespaces[after["metadata"]["name"]] += 1
            self._reconsider(self._ledger.refused_in(after["metadata"]["name"]))

    # ---------- events of the engine

    async def _hear(self, events: AsyncGenerator[Sequence[wire.Event], None]) -> None:
        async with aclosing(events):
            async for received in events:
                for event in received:
                    self._follow(event)

    def _follow(self, event: wire.Event) -> None:
        try:
            self._happened(event)
        except Exception:
            log.exception("An event of the kind %r could not be followed.", event.kind)
            self._missed()

    def _happened(self, event: wire.Event) -> None:
        match event.kind:
            case "job":
                self._job_changed(event)
            case "admin":
                self._reconsider(self._ledger.refused_by_pool())
            case "pool":
                self._pool_changed(event.data["train_gpus"])
            case "refetch":
                self._missed()
            case _:
                pass

    def _job_changed(self, event: wire.Event) -> None:
        if JobState(event.data["state"]).final:
            self._keeper.ended += 1
            self._reconsider(self._ledger.next_after(event.data["user"]))
        entry = self._ledger.by_job.get(event.data["id"])
        if entry is not None:
            self._ledger.job(entry, msgspec.convert(event.data, wire.Job))
            self._work.add(entry.uid)

    def _pool_changed(self, gpus: int) -> None:
        grown, self._gpus = gpus > self._gpus, gpus
        if grown:
            self._reconsider(self._ledger.refused_by_pool())

    def _missed(self) -> None:
        for entry in self._ledger.by_job.values():
            entry.missed = True
            self._work.add(entry.uid)
        self._keeper.ended += 1
        self._reconsider(self._ledger.refused())

    def _reconsider(self, entries: Iterable[Entry]) -> None:
        for entry in list(entries):
            self._ledger.unrefuse(entry)
            self._work.add(entry.uid)

    async def _started(self, informer: Informer[Object], kind: str, namespace: str | None) -> None:
        """Start an informer as soon as the cluster allows it. It needs no definition of the earlier kind.

        It reports no TrainJob that went before: who waits for one looks again.
        """
        wait = FIRST_WAIT_S
        while True:
            try:
                await informer.start()
            except ApiError as error:
                level = logging.DEBUG if kind == TRAIN_JOB.name and error.status == 404 else logging.WARNING
                log.log(level, "%ss of %s cannot be read yet: %s", kind, namespace or "the cluster", error)
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT_S, 2 * wait)
            else:
                break
            finally:
                if kind == TRAIN_JOB.name:
                    for entry in self._ledger.of_name.values():
                        self._work.add(entry.uid)
        if kind == SPRINGTIDE_JOB.name:
            self._converter.open = True
            for entry in self._ledger.entries.values():
                if entry.kind is TRAIN_JOB:
                    self._work.add(entry.uid)


def _uid(found: Object) -> str:
    return str(found["metadata"]["uid"])

"""Follows the pods of attempts, reports observations, and ends attempts that cannot continue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from springtide.scheduler.backoff import Backoff, no_jitter
from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptStatus,
    ExecutorError,
    ExitKind,
    InventoryChanged,
    Observation,
    WorkspacePlaces,
)
from springtide.scheduler.executors.files.tail import Tail
from springtide.scheduler.executors.kubernetes.api_stalls import ApiStalls
from springtide.scheduler.executors.kubernetes.attempts import Attempt, Verdict
from springtide.scheduler.executors.kubernetes.cluster_resources import ClusterResources
from springtide.scheduler.executors.kubernetes.ends import DELETED, WorkerEnd, lost
from springtide.scheduler.executors.kubernetes.follower import Follower
from springtide.scheduler.executors.kubernetes.inventory import NOWHERE
from springtide.scheduler.executors.kubernetes.launch_records import LaunchRecords
from springtide.scheduler.executors.kubernetes.objects import manifests, names
from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.executors.kubernetes.pods import PodControl
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.kubernetes.slots import PodPlaces
from springtide.scheduler.executors.kubernetes.start_failures import start_failure, verdict_of
from springtide.scheduler.executors.kubernetes.traces import Trace, read_trace, read_traces
from springtide.scheduler.executors.supervisor.attempt import KILL_AFTER
from springtide.scheduler.executors.supervisor.records import KILL_NOW, PAUSE
from springtide.scheduler.gpu_types import machine_of
from springtide.scheduler.kube import PODS, Api, ApiError, Informer
from springtide.scheduler.model import Node, Worker

log = logging.getLogger(__name__)

SCAN_INTERVAL = 5.0
"""Interval of the scan for states without an event, such as pods that do not start, in seconds."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 10.0
INVENTORY_PATIENCE = 1.0
"""Time to read the inventory before the end of an attempt refused by a node is reported, in seconds."""
VANISHED = "Its pod was deleted from outside the pool, and how it ended is unknown."
VANISHED_PATIENCE = 60.0
"""Time beyond its grace period after which a worker without a pod has ended if its node is ready, in seconds.

A kubelet ends the containers of pods that it does not find in the cluster. One that has stopped shows as not ready
before that time.
"""
AT_ONCE = 1.0
"""Grace period of pods that are to end at once, in seconds: with 0 the API forgets a pod that still runs."""
FIRST_LOOK = 0.5
LONGEST_LOOK = 5.0


class AttemptMonitor:
    """The attempts that are not discarded, by key in ``attempts``; ``report`` gets the observations.

    ``now`` is the wall clock. Requests that wait for the cluster are counted in ``stalls``. ``_released`` are the
    uids of released pods whose deletion the cluster has not reported yet, ``_unseen`` the attempts with created
    pods that perhaps no watch has reported.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        api: Api,
        pods: PodControl,
        records: LaunchRecords,
        stalls: ApiStalls,
        *,
        report: Callable[[Observation], None],
        now: Callable[[], float],
    ) -> None:
        self.attempts: dict[AttemptKey, Attempt] = {}
        self._claims_gpus = settings.device_class is not None
        self._pods = pods
        self._records = records
        self._stalls = stalls
        self._report = report
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._follower = Follower(report, now)
        self._newest: dict[str, AttemptKey] = {}
        self._released: set[str] = set()
        self._unseen: set[AttemptKey] = set()
        self._was_fresh = True
        self._early_changes: list[tuple[Pod | None, Pod | None]] | None = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._inventory_read = asyncio.Event()
        self.cluster = ClusterResources(
            settings, api, lambda: report(InventoryChanged()), self._node_lost, self._node_leaving
        )
        self._informer = Informer(
            api,
            PODS,
            settings.namespace,
            labels=f"{names.POOL}={settings.pool},{names.JOB}",
            decode_as=Pod,
            on_change=self._pod_changed,
            on_contact=self.cluster.report_change,
        )

    # ---------- start and stop

    async def start(self) -> None:
        """List the pods, and resume their attempts. Raises `ApiError` if the cluster does not answer."""
        await self.cluster.start()
        await self._pods.find_owner()
        await self._informer.start()
        self._early_changes = []
        existing: dict[AttemptKey, dict[int, Pod]] = {}
        for pod in self._informer.items.values():
            key, rank = _attempt_and_rank(pod)
            if key is not None:
                existing.setdefault(key, {})[rank] = pod
        ended = [key for key, pods in existing.items() if all(pod.ended for pod in pods.values())]
        done = await asyncio.to_thread(lambda: {key for key in ended if self._records.is_done(key)})
        for key, pods in existing.items():
            if key not in done:
                await self._resume(key, pods)
                continue
            for pod in pods.values():
                self._released.add(pod.metadata.uid)
                self.retry_in_background(partial(self._pods.release_pod, pod))
        early, self._early_changes = self._early_changes or [], None
        for before, after in early:
            self._pod_changed(before, after)
        for node in {pod.spec.node_name for pods in existing.values() for pod in pods.values()}:
            self.cluster.check_node(node)
            if (why := self.cluster.why_leaving(node)) is not None:
                self._node_leaving(node, why)
        self.retry_in_background(self._scan_forever)

    async def close(self) -> None:
        """Stop observing; attempts keep running."""
        await self._informer.stop()
        await self.cluster.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._follower.close()

    async def _resume(self, key: AttemptKey, pods: dict[int, Pod]) -> None:
        """Continue with an attempt that has pods."""
        attempt = self._attempt_of(key, next(iter(pods.values())))
        ending = any(pod.ended or pod.metadata.deletion_timestamp is not None for pod in pods.values())
        if ending or len(pods) < attempt.size:
            flags = await asyncio.to_thread(self._records.read_flags, key)
            attempt.requested, attempt.ending, attempt.eviction = flags.requested, flags.ending, flags.eviction
        self._register(attempt)
        for rank, pod in pods.items():
            attempt.observe_pod(rank, pod, _worker(pod))
        attempt.reported = attempt.status if attempt.update_phase() else attempt.reported
        if len(pods) < attempt.size:
            attempt.record = await asyncio.to_thread(self._records.load_record, key)
            await self._recall_workers(attempt)
        if len(pods) < attempt.size and not attempt.requested and not attempt.ending:
            if attempt.record is None:
                self._give_up(
                    attempt, Verdict(ExitKind.LOST, "Some of its pods are gone, and so is its launch record.")
                )
            elif attempt.missing:
                self.retry_in_background(lambda: self.create_pods(attempt))
        if attempt.all_ended:
            await self.conclude(attempt)
        else:
            self._evaluate(attempt)

    async def recall_running(self, key: AttemptKey) -> Attempt | None:
        """Continue with an attempt whose pods are all gone; None if none of its supervisors has begun."""
        record = await asyncio.to_thread(self._records.load_record, key)
        if record is None:
            return None
        attempt = Attempt(
            key, len(record.spec.placement), record.spec.grace, record, launched_at=self._loop.time()
        )
        flags = await asyncio.to_thread(self._records.read_flags, key)
        attempt.requested, attempt.ending, attempt.eviction = flags.requested, flags.ending, flags.eviction
        await self._recall_workers(attempt)
        if not attempt.exists:
            return None
        for rank in [record.spec.placement[index].rank for index in attempt.missing]:
            attempt.record_end(rank, self._vanished_end(attempt))
        self._register(attempt)
        attempt.update_phase()
        if attempt.all_ended:
            await self.conclude(attempt)
        else:
            self._evaluate(attempt)
        return attempt

    async def _recall_workers(self, attempt: Attempt) -> None:
        """Find out what became of the workers whose pods were deleted while the service was away."""
        placed = () if attempt.record is None else attempt.record.spec.placement
        for worker in placed:
            attempt.workers.setdefault(worker.rank, worker)
        ranks = [worker.rank for worker in placed if worker.rank not in attempt.pods]
        directory = self._records.layout.attempt(attempt.key)
        traces = await asyncio.to_thread(read_traces, directory, ranks, self._now())
        for rank, trace in traces.items():
            if trace.began:
                self._apply_trace(attempt, rank, trace)
                self._follow_vanished(attempt, rank)

    def retry_in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do ``work`` in the background, and repeat it with a back-off while it raises `ApiError`."""

        async def run() -> None:
            backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
            with self._stalls.retrying() as record_failure:
                while True:
                    try:
                        await work()
                    except ApiError as error:
                        record_failure(error)
                    except Exception:
                        log.exception("An attempt could not be followed")
                        return
                    else:
                        return
                    await asyncio.sleep(backoff.next_delay())

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---------- requests for attempts

    async def create_pods(self, attempt: Attempt) -> None:
        """Create the missing pods of an attempt; give it up if the cluster refuses one."""
        record = attempt.record
        assert record is not None
        attempt.launched_at = self._loop.time()
        attempt.creating = True
        self._register(attempt)
        missing = attempt.missing

        def created(rank: int, pod: Pod) -> None:
            if rank not in attempt.pods:
                attempt.observe_pod(rank, pod, None)
                self._unseen.add(attempt.key)

        try:
            await self._pods.create_pods(
                record, missing, wanted=lambda: not (attempt.ending or attempt.requested), created=created
            )
        except ApiError as error:
            self._give_up(attempt, verdict_of(error))
        except ExecutorError as error:
            self._give_up(attempt, Verdict(ExitKind.BLOCKED, str(error)))
        finally:
            attempt.creating = False
        if (attempt.ending or attempt.requested) and attempt.live_pods:
            within = attempt.time_to_end + manifests.KILL_MARGIN
            self.retry_in_background(lambda: self.delete_pods(attempt, within))
        self._evaluate(attempt)

    async def delete_pods(self, attempt: Attempt, grace: float) -> None:
        """Ask the cluster to delete the live pods of an attempt, ``grace`` in seconds. Raises `ApiError`."""
        await asyncio.gather(*(self._pods.delete_pod(pod, grace) for _, pod in attempt.live_pods))
        self._evaluate(attempt)

    async def conclude(self, attempt: Attempt) -> None:
        """Report the rest of an ended attempt's files, and then how it ended."""
        attempt.concluding = True
        tail = self._tail(attempt)
        if attempt.started:
            tail = await self._follower.finish(attempt.key, tail, attempt.size)
        for node in attempt.refused_by:
            self.cluster.set_aside(node, attempt.launched_at)
        if attempt.refused_by or attempt.eviction or attempt.is_lost:
            await self._renew_inventory()
        attempt.conclude(self._now(), complete=tail.complete, returned=tail.returned)
        self._register(attempt)
        self._report_status(attempt)
        if any(self.cluster.inventory.is_overfull(worker.node) for worker in attempt.workers.values()):
            self.cluster.report_change()

    async def _renew_inventory(self) -> None:
        """Have the inventory read before the report of an end lets jobs start on what others have now."""
        self._inventory_read.clear()
        self._report(InventoryChanged())
        with suppress(TimeoutError):
            async with asyncio.timeout(INVENTORY_PATIENCE):
                await self._inventory_read.wait()

    def recall(self, status: AttemptStatus) -> Attempt:
        """Follow an ended attempt again, and report it."""
        attempt = self.attempts[status.key] = Attempt.ended(status)
        self._report_status(attempt)
        return attempt

    def discard(self, key: AttemptKey) -> None:
        """Stop following an attempt with released pods; later events of these pods are ignored."""
        attempt = self.attempts.pop(key, None)
        if attempt is not None:
            self._released.update(pod.metadata.uid for _, pod in attempt.ended_pods)
        self._follower.unfollow(key)
        if self._newest.get(key.job) == key:
            del self._newest[key.job]

    # ---------- state

    def nodes(self, workspaces: WorkspacePlaces) -> tuple[Node, ...]:
        """Return the pool's nodes, with the GPUs that pods other than jobs take."""
        self._inventory_read.set()
        held: dict[str, set[int]] = {}
        for attempt in self.attempts.values():
            for worker in attempt.workers.values() if not attempt.gone else ():
                held.setdefault(worker.node, set()).update(worker.gpus)
        places = self.places(workspaces) if self._claims_gpus else NOWHERE
        return self.cluster.inventory.nodes(held, fresh=self._fresh, places=places)

    def places(self, workspaces: WorkspacePlaces) -> PodPlaces:
        """Return node and slots of each live pod of a job or workspace with GPUs, by its namespace and name."""
        return self.cluster.places_of(workspaces) | {
            (pod.metadata.namespace, pod.metadata.name): (worker.node, worker.gpus)
            for attempt in self.attempts.values()
            for rank, pod in attempt.live_pods
            if (worker := attempt.workers.get(rank)) is not None and worker.gpus
        }

    @property
    def _fresh(self) -> bool:
        return self.cluster.fresh and self._informer.fresh

    def hurry(self, job: str) -> None:
        """Poll the files of a job more often, because a user reads them."""
        key = self._newest.get(job)
        if key is not None:
            self._follower.hurry(key)

    # ---------- events

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if self._early_changes is not None:
            self._early_changes.append((before, after))
            return
        pod = after or before
        key, rank = _attempt_and_rank(pod) if pod is not None else (None, 0)
        if pod is None or key is None:
            return
        if after is None or after.acknowledged:
            self._pods.window.acknowledge(pod.metadata.name)
        if pod.metadata.uid in self._released:
            if after is None:
                self._released.remove(pod.metadata.uid)
            return
        attempt = self.attempts.get(key)
        if attempt is None:
            if after is None:
                return
            attempt = self._attempt_of(key, after)
            self._register(attempt)
        previous = attempt.pods.get(rank)
        if previous is not None and previous.metadata.uid != pod.metadata.uid:
            return
        if attempt.gone and after is not None and previous is None and not after.ended:
            self.retry_in_background(partial(self._pods.delete_pod, after, AT_ONCE))
        if after is not None:
            attempt.observe_pod(rank, after, None if rank in attempt.workers else _worker(after))
            self._end_strayed(attempt, rank, after)
        elif previous is not None:
            self._follow_vanished(attempt, rank)
        self._evaluate(attempt)

    def _end_strayed(self, attempt: Attempt, rank: int, pod: Pod) -> None:
        """Give an attempt up whose pod is on another node than the pool's plan: it has GPUs of others there."""
        worker, host = attempt.workers.get(rank), pod.spec.node_name
        planned = machine_of(worker.node) if worker is not None and worker.gpus else host
        if host and host != planned and not (attempt.ending or attempt.requested or attempt.gone):
            self._give_up(
                attempt,
                Verdict(
                    ExitKind.BLOCKED,
                    f"The cluster put the job's pod on the node {host} instead of {planned}: a webhook or policy "
                    "of the namespace has to leave it as it is.",
                ),
            )

    # ---------- workers without a pod

    def _follow_vanished(self, attempt: Attempt, rank: int) -> None:
        """Find out how a worker ended whose pod is gone from the cluster."""
        pod = attempt.pods.get(rank)
        attempt.vanished[rank] = self._loop.time() + attempt.grace + manifests.KILL_MARGIN + VANISHED_PATIENCE
        if rank in attempt.ends:
            return
        unbound = pod is not None and not pod.spec.node_name
        if unbound:  # when it was last seen: a list says nothing of what happened since then
            del attempt.pods[rank]
        self.retry_in_background(partial(self._look_for_end, attempt, rank, unbound=unbound))
        if self.cluster.why_lost(attempt.host_of(rank)) is None:
            self.cluster.check_node(attempt.host_of(rank))

    async def _look_for_end(self, attempt: Attempt, rank: int, *, unbound: bool) -> None:
        """Look at what the supervisor records until the worker has ended for certain.

        A worker that was ``unbound`` when its pod was last seen has ended if its supervisor has not begun.
        """
        backoff = Backoff(FIRST_LOOK, LONGEST_LOOK, jitter=no_jitter)
        directory = self._records.layout.attempt(attempt.key)
        while rank not in attempt.ends:
            trace = await asyncio.to_thread(read_trace, directory, rank, self._now())
            host = attempt.host_of(rank)
            lost_with_node = self.cluster.why_lost(host)
            if trace.end is None and lost_with_node is not None:
                trace = replace(trace, end=lost(self._now(), lost_with_node))
            late = (unbound and not trace.began) or self._loop.time() >= attempt.vanished[rank]
            if trace.end is None and late and self.cluster.responds(host):
                trace = replace(trace, end=self._vanished_end(attempt))
            if rank not in attempt.ends:
                self._apply_trace(attempt, rank, trace)
                self._evaluate(attempt)
            if rank not in attempt.ends:
                await asyncio.sleep(backoff.next_delay())

    def _apply_trace(self, attempt: Attempt, rank: int, trace: Trace) -> None:
        """Record the known facts of a worker without its pod, which the executor or something else has deleted."""
        if trace.started is not None:
            attempt.started.setdefault(rank, trace.started)
        if trace.end is not None:
            attempt.record_end(rank, trace.end)
        by_itself = trace.end is not None and (trace.end.paused is False or trace.end.kind is ExitKind.LOST)
        if not (by_itself or attempt.requested or attempt.ending or attempt.eviction):
            attempt.eviction = DELETED

    def _vanished_end(self, attempt: Attempt) -> WorkerEnd:
        if attempt.requested or attempt.ending:
            return WorkerEnd(ExitKind.EXITED, self._now(), signal=9)
        return WorkerEnd(ExitKind.EVICTED, self._now(), detail=VANISHED)

    def _evaluate(self, attempt: Attempt) -> None:
        """Report, conclude or end an attempt, as its present state requires."""
        if attempt.gone or attempt.concluding:
            return
        attempt.update_phase()
        if attempt.exists:
            self._report_status(attempt)
        if attempt.started and not self._follower.follows(attempt.key):
            self._follower.follow(attempt.key, self._tail(attempt), attempt.size)
            self.cluster.accept_pods({pod.spec.node_name for pod in attempt.pods.values()})
        if attempt.all_ended:
            attempt.concluding = True
            self.retry_in_background(lambda: self.conclude(attempt))
        elif (attempt.failed or attempt.eviction) and not attempt.ending and not attempt.requested:
            attempt.ending = True
            self.retry_in_background(lambda: self._end_remaining_workers(attempt))

    async def _end_remaining_workers(self, attempt: Attempt) -> None:
        """End the other workers of a gang after the failure or eviction of one: they cannot continue."""
        pause = bool(attempt.eviction) or attempt.checkpointed
        grace = attempt.grace if pause else KILL_AFTER
        request = PAUSE if pause else KILL_NOW
        await asyncio.to_thread(self._records.record_ending, attempt.key, attempt.eviction, request)
        await self.delete_pods(attempt, grace + manifests.KILL_MARGIN)

    def _give_up(self, attempt: Attempt, verdict: Verdict) -> None:
        """End an attempt that cannot continue."""
        attempt.verdict = verdict
        attempt.ending = True
        self.retry_in_background(lambda: self._end_given_up(attempt, verdict))

    async def _end_given_up(self, attempt: Attempt, verdict: Verdict) -> None:
        """Delete the pods of an attempt that is given up, after the cluster's own words about it were read."""
        if verdict.unprepared:
            said = [await self._pods.last_warning(pod) for _, pod in attempt.live_pods]
            attempt.verdict = replace(
                verdict, detail=" ".join([verdict.detail, *dict.fromkeys(filter(None, said))])
            )
        await self.delete_pods(attempt, AT_ONCE)

    def _node_lost(self, name: str, why: str) -> None:
        """Record that the workers on a node have ended with it."""
        for attempt in list(self.attempts.values()):
            on_node = attempt.live_workers_on(name)
            for rank in on_node:
                attempt.record_end(rank, lost(self._now(), why))
                if rank in attempt.pods:
                    self.retry_in_background(partial(self._pods.delete_pod, attempt.pods[rank], 0))
            if on_node:
                self._evaluate(attempt)

    def _node_leaving(self, name: str, why: str) -> None:
        """Have the jobs on a node save now: the announced removal may leave them less time later."""
        for attempt in list(self.attempts.values()):
            if attempt.live_workers_on(name) and not (attempt.requested or attempt.ending or attempt.eviction):
                attempt.eviction = why
                self._evaluate(attempt)

    async def _scan_forever(self) -> None:
        while True:
            await asyncio.sleep(SCAN_INTERVAL)
            try:
                self._scan()
                if self._was_fresh:
                    await self._look_for_unseen_pods()
            except ApiError as error:
                log.debug("Pods that no watch has reported could not be looked for: %s", error)
            except Exception:
                log.exception("A scan for attempts that do not start failed; the next follows.")

    async def _look_for_unseen_pods(self) -> None:
        """Ask for the pods that no watch has reported: one that goes before the next list is never reported gone.

        What their creation was answered with is no longer true of them, such as that they have no node.
        """
        for key in list(self._unseen):
            attempt = self.attempts.get(key)
            pods = [] if attempt is None else attempt.live_pods
            unseen = [(rank, pod) for rank, pod in pods if not self._shows(pod, key, rank)]
            if attempt is None or not unseen:
                self._unseen.remove(key)
                continue
            for rank, pod in unseen:
                if (
                    rank not in attempt.vanished
                    and await self._pods.is_gone(pod)
                    and attempt.pods.get(rank) is pod
                ):
                    del attempt.pods[rank]
                    self._follow_vanished(attempt, rank)
                    self._evaluate(attempt)

    def _shows(self, pod: Pod, key: AttemptKey, rank: int) -> bool:
        """Return whether a watch tells of a pod, and by labels that still name its worker."""
        shown = self._informer.items.get((pod.metadata.namespace, pod.metadata.name))
        if shown is None or shown.metadata.uid != pod.metadata.uid:
            return False
        return _attempt_and_rank(shown) == (key, rank)

    def _scan(self) -> None:
        """Give up unreachable nodes, and attempts whose pods do not start; report when the cache became stale."""
        self.cluster.check_unreachable_nodes(self._now())
        was_fresh, self._was_fresh = self._was_fresh, self._fresh
        if was_fresh != self._was_fresh:
            self.cluster.report_change()
        if not self._was_fresh:
            return
        for attempt in list(self.attempts.values()):
            if attempt.creating or attempt.ending or attempt.requested or len(attempt.started) >= attempt.size:
                continue
            verdict = start_failure(attempt, self._loop.time())
            if verdict is not None:
                self._give_up(attempt, verdict)

    # ---------- underneath

    def _attempt_of(self, key: AttemptKey, pod: Pod) -> Attempt:
        """Return a new attempt for a pod that was found in the cluster, launched when the pod was created."""
        created = pod.metadata.creation_timestamp
        age = 0.0 if created is None else max(0.0, self._now() - created.timestamp())
        return _attempt_of(key, pod, self._loop.time() - age)

    def _register(self, attempt: Attempt) -> None:
        self.attempts[attempt.key] = attempt
        newest = self._newest.get(attempt.key.job)
        if newest is None or newest < attempt.key:
            self._newest[attempt.key.job] = attempt.key

    def _report_status(self, attempt: Attempt) -> None:
        if attempt.status != attempt.reported:
            attempt.reported = attempt.status
            if self._early_changes is None:
                self._report(attempt.status)

    def _tail(self, attempt: Attempt) -> Tail:
        layout = self._records.layout
        return Tail(attempt.key, layout.attempt(attempt.key), layout.job(attempt.key.job), list(attempt.workers))


def _attempt_and_rank(pod: Pod) -> tuple[AttemptKey | None, int]:
    """Return the attempt and the rank that the pod's labels name; None and 0 if they name none."""
    labels = pod.metadata.labels
    try:
        return AttemptKey(labels[names.JOB], int(labels[names.ATTEMPT])), int(labels[names.RANK])
    except (KeyError, ValueError):
        return None, 0


def _worker(pod: Pod) -> Worker | None:
    return manifests.read_worker(pod.metadata.annotations.get(names.WORKER, ""))


def _attempt_of(key: AttemptKey, pod: Pod, launched_at: float) -> Attempt:
    """Return a new attempt for a pod that was found in the cluster."""
    annotations = pod.metadata.annotations
    try:
        size, grace = int(annotations[names.SIZE]), float(annotations[names.GRACE])
    except (KeyError, ValueError):
        size, grace = 1, KILL_AFTER
    home = manifests.read_access(annotations.get(names.HOME, ""))
    return Attempt(key, size, grace, launched_at=launched_at, home=home)

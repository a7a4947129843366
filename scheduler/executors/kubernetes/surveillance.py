"""Keeps watch over the pods of attempts, and draws the conclusions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from springtide.scheduler.executors.base import AttemptKey, ExecutorError, ExitKind, InventoryChanged, Observation
from springtide.scheduler.executors.files.growth import Growth
from springtide.scheduler.executors.kubernetes import manifests, names
from springtide.scheduler.executors.kubernetes.attempts import AGAIN, Attempt, Verdict
from springtide.scheduler.executors.kubernetes.backlog import Backlog
from springtide.scheduler.executors.kubernetes.ends import WorkerEnd, lost
from springtide.scheduler.executors.kubernetes.follower import Follower
from springtide.scheduler.executors.kubernetes.orders import Orders
from springtide.scheduler.executors.kubernetes.pods import Pods
from springtide.scheduler.executors.kubernetes.pool import Pool
from springtide.scheduler.executors.kubernetes.seen import Pod
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.kubernetes.troubles import given_up
from springtide.scheduler.executors.supervisor.attempt import KILL_AFTER
from springtide.scheduler.kube import PODS, Api, ApiError, Mirror
from springtide.scheduler.model import Node

log = logging.getLogger(__name__)

ROUND = 5.0
"""Seconds between two looks at what nobody tells: that something does *not* happen."""
FIRST_WAIT = 0.5
LONGEST_WAIT = 10.0
VANISHED = "Its pod was deleted by somebody else, and nothing is known of how it ended."


class Surveillance:
    """The attempts that are not discarded, by key in ``attempts``; ``tell`` gets what is observed.

    What has to wait for the cluster is counted in the ``backlog``.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        api: Api,
        pods: Pods,
        orders: Orders,
        backlog: Backlog,
        *,
        tell: Callable[[Observation], None],
        now: Callable[[], float],
    ) -> None:
        self.attempts: dict[AttemptKey, Attempt] = {}
        self._pods = pods
        self._orders = orders
        self._backlog = backlog
        self._tell = tell
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._follower = Follower(tell, now)
        self._newest: dict[str, AttemptKey] = {}
        self._fresh = True
        self._early: list[tuple[Pod | None, Pod | None]] | None = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.pool = Pool(settings, api, lambda: tell(InventoryChanged()), self._lose_node)
        self._mirror = Mirror(
            api,
            PODS,
            settings.namespace,
            labels=f"{names.POOL}={settings.pool},{names.JOB}",
            shape=Pod,
            changed=self._pod_changed,
            heard=self.pool.changed,
        )

    # ---------- beginning and end

    async def begin(self) -> None:
        """See what there is, and go on from there. Raises `ApiError` if the cluster does not tell it."""
        await self.pool.start()
        await self._mirror.start()
        self._early = []
        found: dict[AttemptKey, dict[int, Pod]] = {}
        for pod in self._mirror.items.values():
            key, rank = _identity(pod)
            if pod.ended and names.RECORDED not in pod.metadata.finalizers:
                self.do(partial(self._pods.stop, pod, 0))
            elif key is not None:
                found.setdefault(key, {})[rank] = pod
        for key, pods in found.items():
            await self._resume(key, pods)
        early, self._early = self._early or [], None
        for before, after in early:
            self._pod_changed(before, after)
        for node in {pod.spec.node_name for pods in found.values() for pod in pods.values()}:
            self.pool.check(node)
        self.do(self._rounds)

    async def close(self) -> None:
        """Let go of everything; what runs goes on."""
        await self._mirror.stop()
        await self.pool.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._follower.close()

    async def _resume(self, key: AttemptKey, pods: dict[int, Pod]) -> None:
        """Take up an attempt of which there are pods."""
        attempt = _found(key, next(iter(pods.values())))
        touched = any(pod.ended or pod.metadata.deletion_timestamp is not None for pod in pods.values())
        if touched or len(pods) < attempt.size:
            notes = await asyncio.to_thread(self._orders.notes, key)
            attempt.asked, attempt.ending, attempt.evicted = notes.asked, notes.ending, notes.evicted
        self._keep(attempt)
        for rank, pod in pods.items():
            attempt.see(rank, pod, _worker(pod))
        attempt.told = attempt.status if attempt.stand() else attempt.told
        if len(pods) < attempt.size and not attempt.asked and not attempt.ending:
            attempt.order = await asyncio.to_thread(self._orders.read, key)
            if attempt.order is None:
                self._give_up(attempt, Verdict(ExitKind.LOST, "Some of its pods are gone, and so is its order."))
            else:
                self.do(lambda: self.complete(attempt))
        if attempt.over:
            await self.conclude(attempt)
        else:
            self._draw(attempt)

    def do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something in the background, again and again until the cluster takes it."""

        async def run() -> None:
            wait = FIRST_WAIT
            with self._backlog.trying() as refused:
                while True:
                    try:
                        await work()
                    except ApiError as error:
                        refused(error)
                    except Exception:
                        log.exception("An attempt could not be followed")
                        return
                    else:
                        return
                    await asyncio.sleep(wait)
                    wait = min(LONGEST_WAIT, wait * 2)

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---------- acts

    async def complete(self, attempt: Attempt) -> None:
        """Make the pods of an attempt that are missing; what the cluster refuses ends it."""
        order = attempt.order
        assert order is not None
        attempt.since = self._loop.time()
        attempt.making = True
        self._keep(attempt)
        places = [place for place, each in enumerate(order.spec.placement) if each.rank not in attempt.pods]
        try:
            made = await self._pods.make(order, places, lambda: not (attempt.ending or attempt.asked))
        except ApiError as error:
            kind = ExitKind.LOST if "exceeded quota" in error.message else ExitKind.REFUSED
            self._give_up(attempt, Verdict(kind, f"The cluster refused the job's pod: {error.message}"))
        except ExecutorError as error:
            self._give_up(attempt, Verdict(ExitKind.REFUSED, str(error)))
        else:
            for rank, pod in made:
                if rank not in attempt.pods:
                    attempt.see(rank, pod, None)
        finally:
            attempt.making = False
        if (attempt.ending or attempt.asked) and attempt.live:
            self.do(lambda: self.end(attempt, KILL_AFTER + manifests.MARGIN))
        self._draw(attempt)

    async def end(self, attempt: Attempt, grace: float) -> None:
        """Ask the cluster to end what still runs of an attempt. Raises `ApiError` if it does not take that."""
        await asyncio.gather(*(self._pods.stop(pod, grace) for _, pod in attempt.live))
        self._draw(attempt)

    async def conclude(self, attempt: Attempt) -> None:
        """It is over: tell the rest of what it left, and then how it ended."""
        attempt.concluding = True
        if attempt.started:
            await self._follower.forget(attempt.key, self._growth(attempt))
        attempt.conclude(self._now())
        self._keep(attempt)
        self._tell_status(attempt)

    def forget(self, key: AttemptKey) -> None:
        """Follow an attempt no more."""
        self.attempts.pop(key, None)
        self._follower.drop(key)
        if self._newest.get(key.job) == key:
            del self._newest[key.job]

    # ---------- what there is

    def nodes(self) -> tuple[Node, ...]:
        """The pool's nodes, with what others take of them."""
        held: dict[str, set[int]] = {}
        for attempt in self.attempts.values():
            for worker in attempt.workers.values() if not attempt.gone else ():
                held.setdefault(worker.node, set()).update(worker.gpus)
        return self.pool.inventory.nodes(held, fresh=self.pool.fresh and self._mirror.fresh)

    def hurry(self, job: str) -> None:
        """Somebody reads what the job prints or reports."""
        key = self._newest.get(job)
        if key is not None:
            self._follower.hurry(key)

    # ---------- what happens

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if self._early is not None:
            self._early.append((before, after))
            return
        pod = after or before
        key, rank = _identity(pod) if pod is not None else (None, 0)
        if pod is None or key is None:
            return
        attempt = self.attempts.get(key)
        if attempt is None:
            if after is None or names.RECORDED not in after.metadata.finalizers:
                return
            attempt = _found(key, after)
            self._keep(attempt)
        known = attempt.pods.get(rank)
        if known is not None and known.metadata.uid != pod.metadata.uid:
            return
        if after is not None:
            attempt.see(rank, after, _worker(after))
        elif known is not None:
            attempt.end(rank, self._vanished(attempt))
        self._draw(attempt)

    def _vanished(self, attempt: Attempt) -> WorkerEnd:
        if attempt.asked or attempt.ending:
            return WorkerEnd(ExitKind.EXITED, self._now(), signal=9)
        return lost(self._now(), VANISHED)

    def _draw(self, attempt: Attempt) -> None:
        """Draw the conclusions from what is known of an attempt."""
        if attempt.gone or attempt.concluding:
            return
        attempt.stand()
        if attempt.exists:
            self._tell_status(attempt)
        if attempt.started:
            self._follower.follow(attempt.key, self._growth(attempt), attempt.size)
        if attempt.over:
            attempt.concluding = True
            self.do(lambda: self.conclude(attempt))
        elif (attempt.failed or attempt.evicted) and not attempt.ending and not attempt.asked:
            attempt.ending = True
            self.do(lambda: self._end_rest(attempt))

    async def _end_rest(self, attempt: Attempt) -> None:
        """One of a gang has failed, or is made to go: the others cannot go on."""
        again = attempt.evicted or (attempt.failed is not None and attempt.failed.code == AGAIN)
        grace = attempt.grace if again else KILL_AFTER
        await asyncio.to_thread(self._orders.end, attempt.key, attempt.evicted, "pause" if again else "kill")
        await self.end(attempt, grace + manifests.MARGIN)

    def _give_up(self, attempt: Attempt, verdict: Verdict) -> None:
        """The attempt cannot go on."""
        attempt.verdict = verdict
        attempt.ending = True
        self.do(lambda: self.end(attempt, 1))

    def _lose_node(self, name: str, why: str) -> None:
        """What ran on the node does not any more."""
        for attempt in list(self.attempts.values()):
            here = [(rank, pod) for rank, pod in attempt.live if pod.spec.node_name == name]
            for rank, pod in here:
                attempt.end(rank, lost(self._now(), why))
                self.do(partial(self._pods.stop, pod, 0))
            if here:
                self._draw(attempt)

    async def _rounds(self) -> None:
        while True:
            await asyncio.sleep(ROUND)
            try:
                self._round()
            except Exception:
                log.exception("A look at what does not happen failed; there will be another.")

    def _round(self) -> None:
        self.pool.look(self._now())
        fresh, self._fresh = self._fresh, self.pool.fresh and self._mirror.fresh
        if fresh != self._fresh:
            self.pool.changed()
        if not self._fresh:
            return
        for attempt in list(self.attempts.values()):
            if attempt.making or attempt.ending or attempt.asked or len(attempt.started) >= attempt.size:
                continue
            verdict = given_up(attempt, self._loop.time())
            if verdict is not None:
                self._give_up(attempt, verdict)

    # ---------- underneath

    def _keep(self, attempt: Attempt) -> None:
        self.attempts[attempt.key] = attempt
        newest = self._newest.get(attempt.key.job)
        if newest is None or newest < attempt.key:
            self._newest[attempt.key.job] = attempt.key

    def _tell_status(self, attempt: Attempt) -> None:
        if attempt.status != attempt.told:
            attempt.told = attempt.status
            if self._early is None:
                self._tell(attempt.status)

    def _growth(self, attempt: Attempt) -> Growth:
        layout = self._orders.layout
        return Growth(attempt.key, layout.attempt(attempt.key), layout.job(attempt.key.job), list(attempt.workers))


def _identity(pod: Pod) -> tuple[AttemptKey | None, int]:
    """Whose pod it is; None if its labels do not say."""
    labels = pod.metadata.labels
    try:
        return AttemptKey(labels[names.JOB], int(labels[names.ATTEMPT])), int(labels[names.RANK])
    except (KeyError, ValueError):
        return None, 0


def _worker(pod: Pod) -> Any:
    return manifests.read_worker(pod.metadata.annotations.get(names.WORKER, ""))


def _found(key: AttemptKey, pod: Pod) -> Attempt:
    """An attempt of which a pod was found."""
    notes = pod.metadata.annotations
    try:
        size, grace = int(notes[names.SIZE]), float(notes[names.GRACE])
    except (KeyError, ValueError):
        size, grace = 1, KILL_AFTER
    return Attempt(key, size, grace)

"""Nothing that runs is ended for a start that the executor would refuse.

A plan ends running attempts so that a job can start, there or elsewhere. Before such decisions are carried out,
the executor is asked about the starts that they make possible; until it has answered they are left out, and the
same plan comes again after its answer. A job that it refuses is not planned again for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from springtide.scheduler.engine.loop.mailbox import EngineObservation, StartChecked
from springtide.scheduler.executors.base import AttemptSpec, Executor, ExecutorError, Exit, ExitKind
from springtide.scheduler.model import Move, Pause, Placement, Plan, Reserve, Start
from springtide.scheduler.store.records import JobRecord

logger = logging.getLogger(__name__)

VALID = 60.0
"""Time for which the executor's word for a start counts, in seconds."""
CONCURRENT = 8
"""Maximum number of questions at a time."""

FindJob = Callable[[str], JobRecord | None]
Preview = Callable[[JobRecord, Placement], AttemptSpec]
Question = tuple[str, int, tuple[str, ...]]
"""A job, the number of its last attempt, and where it would start.

That is the GPU type for a job that waits: while a pool fills, each plan offers it another node, and the executor
would be asked without end. A job that would move could stay where it is: its new nodes have to take it.
"""


class StartChecks:
    """Asks the executor about starts.

    ``type_of`` returns the GPU type of a placement. ``report`` receives `StartChecked`; ``now`` is a monotonic
    clock.
    """

    def __init__(
        self,
        executor: Executor,
        preview: Preview,
        type_of: Callable[[Placement], str],
        report: Callable[[EngineObservation], None],
        now: Callable[[], float],
    ) -> None:
        self._executor = executor
        self._preview = preview
        self._type_of = type_of
        self._report = report
        self._now = now
        self._accepted: dict[Question, float] = {}
        self._asked: dict[Question, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(CONCURRENT)

    async def stop(self) -> None:
        """Forget all questions."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def idle(self) -> bool:
        """Whether no question is open."""
        return not self._asked

    async def finished(self) -> None:
        """Wait until no question is open."""
        while self._asked:
            await asyncio.wait(list(self._asked.values()))

    def confirmed(self, plan: Plan, find: FindJob) -> Plan:
        """Return the plan without the ends of attempts for starts that the executor has not confirmed.

        It is asked about those.
        """
        if not self._executor.checks_starts:
            return plan
        left_out: set[str] = set()
        for jobs, starts in groups(plan, find):
            answers = [self._is_confirmed(job, placement) for job, placement in starts]
            if not all(answers):
                left_out |= jobs
        if not left_out:
            return plan
        return replace(plan, decisions=tuple(each for each in plan.decisions if each.job not in left_out))

    def _is_confirmed(self, job: JobRecord, placement: Placement) -> bool:
        """Return whether the executor would start the job there; ask it if that is not known."""
        moves = job.live is not None
        where = sorted({worker.node for worker in placement}) if moves else [self._type_of(placement)]
        question = job.id, job.standing.attempt, tuple(where)
        now = self._now()
        if self._accepted.get(question, -VALID) > now - VALID:
            return True
        if question not in self._asked:
            self._accepted = {known: at for known, at in self._accepted.items() if at > now - VALID}
            spec = self._preview(job, placement)
            self._asked[question] = asyncio.get_running_loop().create_task(
                self._ask(question, spec, moves=moves), name=f"check of {job.id}"
            )
        return False

    async def _ask(self, question: Question, spec: AttemptSpec, *, moves: bool) -> None:
        job, attempt, _ = question
        refused: Exit | None = None
        try:
            async with self._places:
                refused = await self._executor.check(spec)
        except ExecutorError as error:
            logger.info("Whether %s could start is not known: %s", job, error)
            if moves:
                refused = Exit(ExitKind.BLOCKED, 0.0, detail=str(error))
        except Exception:  # an executor may raise anything, and the engine must keep running
            logger.exception("Whether %s could start is not known.", job)
            if moves:
                refused = Exit(ExitKind.BLOCKED, 0.0, detail="The executor failed.")
        finally:
            self._asked.pop(question, None)
        if refused is None:
            self._accepted[question] = self._now()
        else:
            logger.warning("Nothing is ended for a start of %s, which would be refused: %s", job, refused.detail)
        self._report(StartChecked(job, attempt, refused))


def groups(plan: Plan, find: FindJob) -> Iterator[tuple[set[str], list[tuple[JobRecord, Placement]]]]:
    """Yield the jobs of decisions that belong together because they end attempts, and the starts they are for.

    A job that only gives up workers keeps its place, and what it gives up is another's: nothing is asked for it.
    """
    gains = {each.job: each.placement for each in plan.decisions if isinstance(each, Start | Reserve)}
    ended: dict[str, list[Pause | Move]] = {}
    for decision in plan.decisions:
        if isinstance(decision, Pause | Move):
            ended.setdefault(decision.beneficiary or decision.job, []).append(decision)
    for beneficiary, decisions in ended.items():
        jobs = {beneficiary, *(each.job for each in decisions)}
        starts = [(each.job, each.placement) for each in decisions if isinstance(each, Move)]
        if beneficiary in gains:
            starts.append((beneficiary, gains[beneficiary]))
        found = [(find(job_id), placement) for job_id, placement in starts]
        asked = [(job, placement) for job, placement in found if job is not None and not _keeps(job, placement)]
        yield jobs, asked


def _keeps(job: JobRecord, placement: Placement) -> bool:
    """Return whether a job holds these GPUs already."""
    if job.live is None:
        return False
    held = _slots(job.live.placement)
    return held >= _slots(placement)


def _slots(placement: Placement) -> set[tuple[str, int]]:
    return {(worker.node, index) for worker in placement for index in worker.gpus}

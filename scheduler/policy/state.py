"""All that the policy knows, indexed so that learning something new costs little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from sortedcontainers import SortedList

from springtide.scheduler.model import Job, Node, Order, Phase, Placement, Project, Settings
from springtide.scheduler.policy.denials import Denials
from springtide.scheduler.policy.lines import AGEING, Lines, Shape, Turn, Where, shape_of, step_of, waiting_since
from springtide.scheduler.policy.pool import Place, Pool, bits, mask_of
from springtide.scheduler.policy.quiet import Quiet
from springtide.scheduler.policy.runners import Runners
from springtide.scheduler.policy.tree import Seat, Tree
from springtide.scheduler.policy.turns import KeptTurns


class State:
    """Jobs, the pool they sit in and the projects they belong to.

    ``touched`` are projects whose lines have changed since the last plan that left nothing to do; ``loosened``
    tells that more than lines has changed since, so that any job may fit now. ``limited`` are the jobs in line
    that have a time limit: by the limit, submission and id. ``growing`` are, by project, the running jobs that
    want more workers.
    """

    def __init__(
        self, nodes: Iterable[Node], projects: Iterable[Project], jobs: Iterable[Job], settings: Settings
    ) -> None:
        self.nodes = tuple(nodes)
        self.projects = tuple(projects)
        self.settings = settings
        self.pool = Pool(self.nodes)
        self.tree = Tree(self.projects)
        self.jobs: dict[str, Job] = {job.id: job for job in jobs}
        self.wheres: Counter[Where] = Counter()
        self.lines = {name: Lines(self.wheres) for name in self.tree.leaves}
        self.runners = {name: Runners(self.pool.by_name, settings.min_runtime) for name in self.tree.leaves}
        self.pausing: dict[str, Job] = {}
        self.awaiting: dict[str, Job] = {}
        self.broken: dict[str, Job] = {}
        self.growing: dict[str, dict[str, None]] = {}
        self.steps: dict[str, int] = {}
        self.limited: SortedList = SortedList()
        self.touched: set[str] = set()
        self.loosened = True
        self.turns = KeptTurns(self.tree)
        self.quiet = Quiet(self.tree.leaves)
        self.denials = Denials()
        self._later: list[tuple[float, str]] = []
        self._ageing: list[tuple[float, str]] = []
        self._load()

    # ---------- learning

    def _load(self) -> None:
        """Take in all jobs at once."""
        waiting: dict[str, dict[Shape, list[Turn]]] = {}
        running: dict[str, list[Job]] = {}
        for job in self.jobs.values():
            leaf = self.tree.leaves.get(job.project)
            held = self._occupy_all(job)
            if leaf is None:
                continue
            if job.phase is not Phase.HELD:
                claimed = held if job.phase is Phase.RUNNING else _gpus(job.reserved)
                leaf.held += held
                leaf.claimed += claimed
                leaf.firm += 0 if job.preemptible else claimed
                leaf.request += max(held, job.workers * job.gpus)
            if job.phase is Phase.WAITING:
                if self._special(job):
                    continue
                turns = waiting.setdefault(job.project, {}).setdefault(shape_of(job), [])
                turns.append(self._turn(job))
            elif job.phase is Phase.RUNNING:
                self._note_running(job)
                if job.preemptible:
                    running.setdefault(job.project, []).append(job)
        for name, turns_of in waiting.items():
            self.lines[name].fill(turns_of)
        for name, jobs in running.items():
            self.runners[name].fill(jobs)
        heapify(self._later)
        heapify(self._ageing)
        self.tree.gather()
        self.pool.refill()

    def _occupy_all(self, job: Job) -> int:
        """Put the job on its GPUs without counting what is free; return how many it holds."""
        held = 0
        for worker in job.placement:
            held += len(worker.gpus)
            place = self.pool.by_name.get(worker.node)
            if place is not None:
                mask = mask_of(worker.gpus)
                place.held |= mask
                place.jobs[job.id] = place.jobs.get(job.id, 0) | mask
        for worker in job.reserved:
            place = self.pool.by_name.get(worker.node)
            if place is not None:
                place.reserved |= mask_of(worker.gpus)
        if job.phase is Phase.PAUSING:
            self.pausing[job.id] = job
        return held

    def learn(self, job: Job) -> None:
        """Take in a job, in place of what was known of it."""
        self.forget(job.id)
        self.jobs[job.id] = job
        self._count(job, 1)
        self.pool.hold(job.id, job.placement)
        self.pool.reserve(job.reserved)
        self._stir(job)
        if job.phase is Phase.PAUSING:
            self.pausing[job.id] = job
        elif job.phase is Phase.RUNNING:
            self._note_running(job)
            if job.preemptible and job.project in self.runners:
                self.runners[job.project].add(job)
        elif job.phase is Phase.WAITING and not self._special(job):
            self._line_up(job)
        self._settle()

    def forget(self, job_id: str) -> None:
        """Drop a job, if it is known."""
        job = self.jobs.pop(job_id, None)
        if job is None:
            return
        self._count(job, -1)
        if job.placement or job.reserved:
            self.loosened = True
        self._stir(job)
        self.pool.let_go(job.id, job.placement)
        self.pool.unreserve(job.reserved)
        if job.phase is Phase.RUNNING and job.project in self.runners:
            self._grown(job)
            if job.preemptible:
                self.runners[job.project].remove(job)
        if job_id in self.steps and job.time_limit is not None:
            self.limited.remove((job.time_limit, job.submitted, job.id))
        if job_id in self.steps and job.project in self.lines:
            self.lines[job.project].remove(shape_of(job), self._turn(job))
            self._touch(job.project)
        for index in (self.pausing, self.awaiting, self.broken, self.steps):
            index.pop(job_id, None)
        self._settle()

    def _stir(self, job: Job) -> None:
        """Note for which projects it may make a difference that this job came, went or changed."""
        nodes = self.pool.nodes_of((*job.placement, *job.reserved))
        self.denials.happened(bits(nodes))
        self.quiet.happened(nodes)
        self.quiet.stir(job.project)
        if nodes and not job.preemptible:
            self.quiet.stir_depending()
        for holder in self.pool.holders(job.reserved):
            if holder in self.jobs:
                self.quiet.stir(self.jobs[holder].project)

    def stir_nodes(self, nodes: int) -> None:
        """Projects may make use of what is free on these nodes beside their own jobs there."""
        for rank in bits(nodes):
            place = self.pool.places[rank]
            if place.free:
                self.quiet.stir_depending()
                self.stir_on(place)

    def stir_on(self, place: Place) -> None:
        """The projects on this node may have more to give."""
        for job_id in place.jobs:
            if job_id in self.jobs:
                self.quiet.stir(self.jobs[job_id].project)

    def get_quiet(self, project: str, until: float, *, depends: bool) -> None:
        """Note that nothing can be done within the project before ``until``, unless something happens.

        Where a limit is near, what happens to other projects matters too, and nothing is noted.
        """
        heads = self.lines[project].heads()
        most = max((shape.need for _, shape in heads), default=0)
        if any(seat.claimed + most > seat.limit for seat in self.tree.leaves[project].path):
            return
        depends = depends or any(not shape.preemptible for _, shape in heads)
        self.quiet.note(project, until, depends=depends)

    def _settle(self) -> None:
        self.pool.settle()
        self.tree.settle()

    def _count(self, job: Job, sign: int) -> None:
        leaf = self.tree.leaves.get(job.project)
        if leaf is None or job.phase is Phase.HELD:
            return
        held = _gpus(job.placement)
        claimed = held if job.phase is Phase.RUNNING else _gpus(job.reserved)
        if held or claimed:
            self.turns.note(leaf)
            firm = 0 if job.preemptible else claimed
            self.tree.count(leaf, held=sign * held, claimed=sign * claimed, firm=sign * firm)
        self.tree.ask(leaf, sign * max(held, job.workers * job.gpus))

    def _note_running(self, job: Job) -> None:
        if len(job.placement) < job.min_workers:
            self.broken[job.id] = job
        elif len(job.placement) < job.workers and job.preemptible and job.project in self.runners:
            self.growing.setdefault(job.project, {})[job.id] = None

    def _grown(self, job: Job) -> None:
        """The job does not want more workers any longer, if it did."""
        growing = self.growing.get(job.project, {})
        growing.pop(job.id, None)
        if not growing:
            self.growing.pop(job.project, None)

    # ---------- lines

    def _special(self, job: Job) -> bool:
        """Whether a waiting job stands outside the lines: GPUs are reserved for it, or it has to back off."""
        if job.reserved:
            self.awaiting[job.id] = job
            return True
        if job.not_before > 0:
            heappush(self._later, (job.not_before, job.id))
            return True
        self._note_line(job)
        return False

    def _note_line(self, job: Job) -> None:
        step = step_of(job.served) if self.settings.order is Order.LEAST_SERVED else 0
        self.steps[job.id] = step
        if job.time_limit is not None:
            self.limited.add((job.time_limit, job.submitted, job.id))
        if step:
            heappush(self._ageing, (_ages_at(job, 1), job.id))

    def _turn(self, job: Job) -> Turn:
        return (-job.priority, self.steps[job.id], job.submitted, job.id)

    def _line_up(self, job: Job) -> None:
        if job.id not in self.steps:
            self._note_line(job)
        if job.project in self.lines:
            self.lines[job.project].add(shape_of(job), self._turn(job))
            self._touch(job.project)
            self.quiet.stir(job.project)

    def _touch(self, project: str) -> None:
        """The project's lines have changed."""
        self.touched.add(project)
        self.turns.note(self.tree.leaves[project])

    def pass_time(self, now: float) -> None:
        """Line up the jobs whose back-off is over, and move up those that have waited for long."""
        while self._later and self._later[0][0] <= now:
            at, job_id = heappop(self._later)
            job = self.jobs.get(job_id)
            if job is not None and job_id not in self.steps and _backs_off_until(job, at):
                self._line_up(job)
        while self._ageing and self._ageing[0][0] <= now:
            at, job_id = heappop(self._ageing)
            job = self.jobs.get(job_id)
            if job is not None and self.steps.get(job_id, 0) > 0:
                self._age(job, at, now)
        self.quiet.pass_time(now)

    def _age(self, job: Job, at: float, now: float) -> None:
        aged = round((at - _ages_at(job, 0)) / AGEING)
        if _ages_at(job, aged) != at:
            return
        aged = max(aged, int((now - _ages_at(job, 0)) // AGEING))
        step = max(0, step_of(job.served) - aged)
        if step != self.steps[job.id] and job.project in self.lines:
            self.lines[job.project].remove(shape_of(job), self._turn(job))
            self.steps[job.id] = step
            self.lines[job.project].add(shape_of(job), self._turn(job))
            self._touch(job.project)
            self.quiet.stir(job.project)
        if step:
            heappush(self._ageing, (_ages_at(job, aged + 1), job.id))

    def next_line_up(self) -> float | None:
        """When the next back-off is over."""
        while self._later:
            at, job_id = self._later[0]
            job = self.jobs.get(job_id)
            if job is not None and _backs_off_until(job, at):
                return at
            heappop(self._later)
        return None

    def place_in_line(self, job: Job) -> int:
        """The job's place among the waiting jobs of its project, counted from 1."""
        turn = (-job.priority, self.steps.get(job.id, step_of(job.served)), job.submitted, job.id)
        if job.project not in self.lines:
            return 1
        return self.lines[job.project].before(turn) + 1

    # ---------- looking things up

    def leaf_of(self, job: Job) -> Seat:
        """Where the job counts. Raises `KeyError` if its project is unknown."""
        return self.tree.leaves[job.project]

    def share_out(self) -> None:
        """Bring the fair shares up to date."""
        for seat in self.tree.share_out(self.pool.total):
            self.turns.note(seat)


def _gpus(placement: Placement) -> int:
    return sum(len(worker.gpus) for worker in placement)


def _backs_off_until(job: Job, at: float) -> bool:
    return job.not_before == at and job.phase is Phase.WAITING and not job.reserved


def _ages_at(job: Job, steps: int) -> float:
    """When the job has waited long enough to move up by so many steps."""
    return waiting_since(job) + steps * AGEING

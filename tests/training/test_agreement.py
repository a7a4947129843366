"""The agreement on the step of a pause, with the reads and writes of all processes in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from machines.turns import Turns

from springtide.training.agreement import Board, Member, Record, first_common_step

SEEDS = range(60)
LAST = 60
"""Number of steps of a training, which ends there if no pause comes."""


class SharedBoard(Board):
    """A board in memory; each access takes a turn."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._records: dict[int, Record] = {}

    def read(self, place: int) -> Record | None:
        self._turns.take()
        return self._records.get(place)

    def write(self, place: int, record: Record) -> None:
        self._turns.take()
        self._records[place] = record


@dataclass
class Process:
    """One of a gang: it asks at every ``stride``-th step, and does steps in blocks of ``pace`` turns.

    It is asked to pause after ``asked`` of its turns (None: never), and dies after ``dies`` of them.
    """

    stride: int = 1
    pace: int = 1
    late: int = 0
    asked: int | None = None
    dies: int | None = None
    step: int = 0
    entered: bool = False
    ended: bool = False
    answers: dict[int, bool] = field(default_factory=dict)

    @property
    def paused(self) -> bool:
        return any(self.answers.values())


class Run:
    """A gang in training; in ``lockstep`` no process begins a step before all have done the one before."""

    def __init__(self, gang: Sequence[Process], seed: int, *, lockstep: bool = False, limit: int = 20_000) -> None:
        self.gang = gang
        self.seed = seed
        self.turns = Turns(seed, limit)
        self.lockstep = lockstep
        self.board = SharedBoard(self.turns)
        programs: list[Callable[[], None]] = []
        for rank, process in enumerate(gang):
            member = Member(self.board, rank, len(gang))
            programs.append(lambda p=process, m=member: self.train(p, m))  # type: ignore[misc]
            programs.append(lambda p=process, m=member, r=rank: self.watch(p, m, r))  # type: ignore[misc]
        self.turns.run(programs)

    def train(self, process: Process, member: Member) -> None:
        for _ in range(process.late):
            self.turns.take()
        member.enter()
        process.entered = True
        while process.step < LAST and not process.paused and not process.ended:
            self.do_step(process)
            process.step += 1
            if process.step % process.stride == 0:
                while (answer := member.answer(process.step)) is None and not process.ended:
                    self.turns.take()
                if answer is not None:
                    process.answers[process.step] = answer
        if not process.paused and not process.ended:
            member.leave()
        process.ended = True

    def do_step(self, process: Process) -> None:
        for _ in range(process.pace):
            self.turns.take()
        while self.lockstep and any(other.step < process.step for other in self.gang):
            self.turns.take()

    def watch(self, process: Process, member: Member, rank: int) -> None:
        turn = 0
        while not process.entered:
            self.turns.take()
        while not process.ended:
            turn += 1
            if process.dies is not None and turn >= process.dies:
                process.ended = True
            if self.is_asked(process, turn) or member.is_called():
                break
        if not process.ended:
            member.halt()
        while not process.ended and not member.settle(decide=rank == 0 or self.turns.drawn.random() < 0.3):
            turn += 1
            if process.dies is not None and turn >= process.dies:
                process.ended = True

    def is_asked(self, process: Process, turn: int) -> bool:
        """In lockstep only once all have asked twice: before, it is unknown which steps they leave out."""
        early = self.lockstep and any(len(each.answers) < 2 for each in self.gang)
        return process.asked is not None and turn >= process.asked and not early

    def agrees(self) -> None:
        """All answers are those of one step: before it none pauses, from it on all do."""
        no = [step for process in self.gang for step, pause in process.answers.items() if not pause]
        yes = [step for process in self.gang for step, pause in process.answers.items() if pause]
        assert not yes or max(no, default=0) < min(yes), (self.seed, [process.answers for process in self.gang])

    def ends(self) -> None:
        assert self.turns.left >= 0, f"they wait for each other with seed {self.seed}"
        assert all(process.paused or process.step == LAST for process in self.gang), self.seed


def test_all_pause_at_one_step_however_unevenly_they_run() -> None:
    for seed in SEEDS:
        drawn = Turns(seed).drawn
        world = drawn.choice((2, 3, 5))
        gang = [Process(pace=drawn.choice((1, 1, 2, 9)), late=drawn.choice((0, 0, 40))) for _ in range(world)]
        for process in drawn.sample(gang, drawn.randrange(1, world + 1)):
            process.asked = drawn.randrange(25)
        run = Run(gang, seed)
        run.agrees()
        run.ends()


def test_processes_that_wait_for_each_other_in_every_step_never_hang() -> None:
    for seed in SEEDS:
        drawn = Turns(seed).drawn
        gang = [Process(pace=drawn.choice((1, 3)), stride=drawn.choice((1, 1, 2, 5))) for _ in range(3)]
        drawn.choice(gang).asked = 30 + drawn.randrange(30)
        run = Run(gang, seed, lockstep=True)
        run.ends()
        assert len({max(process.answers) for process in gang if process.paused}) <= 1, seed


def test_when_one_dies_the_others_still_give_no_two_answers() -> None:
    for seed in SEEDS:
        drawn = Turns(seed).drawn
        gang = [Process(asked=drawn.randrange(20)) for _ in range(3)]
        drawn.choice(gang).dies = 1 + drawn.randrange(20)
        Run(gang, seed, limit=1500).agrees()


def test_without_a_pause_all_go_on_to_their_end() -> None:
    gang = [Process(), Process(pace=3), Process(late=30)]
    run = Run(gang, 1)
    run.ends()
    assert not any(process.paused for process in gang)


def test_one_that_ended_counts_with_its_last_step_and_is_not_waited_for() -> None:
    """It ended with the training complete: the others complete theirs as well."""
    gang = [Process(), Process(pace=30, asked=200)]
    run = Run(gang, 3)
    run.ends()
    assert gang[0].step == LAST
    assert not gang[1].paused


def test_the_turns_are_taken_in_many_orders() -> None:
    """Otherwise the tests above would prove nothing."""
    orders = set()
    for seed in range(20):
        turns = Turns(seed)
        order: list[str] = []

        def program(name: str, turns: Turns = turns, order: list[str] = order) -> None:
            for _ in range(3):
                turns.take()
                order.append(name)

        turns.run([lambda p=program, n=name: p(n) for name in "ab"])  # type: ignore[misc]
        orders.add("".join(order))
    assert len(orders) > 8
    assert all(sorted(order) == list("aaabbb") for order in orders)


def test_turns_that_are_used_up_end_everything() -> None:
    turns = Turns(0, limit=10)

    def forever() -> None:
        while True:
            turns.take()

    turns.run([forever, forever])
    assert turns.left < 0


@pytest.mark.parametrize(
    ("marks", "step"),
    [
        ([(7, 1), (9, 1)], 10),
        ([(7, 0), (9, 0)], 10),
        ([(10, 10), (13, 1)], 20),
        ([(10, 10), (12, 4)], 20),
        ([(10, 10), (25, 10)], 26),
        ([(-3, 1), (-7, 1)], -2),
    ],
)
def test_the_step_is_the_first_at_which_all_ask(marks: list[tuple[int, int]], step: int) -> None:
    assert first_common_step(marks) == step


def test_a_process_of_which_nothing_was_asked_yet_pauses_at_its_first_step() -> None:
    turns = Turns(0)
    board = SharedBoard(turns)
    first, second = (Member(board, rank, 2) for rank in range(2))
    answers: list[object] = []

    def program() -> None:
        first.enter()
        first.halt()
        second.enter()
        answers.append(first.answer(1))
        answers.append(first.settle(decide=True))
        answers.append(second.settle(decide=False))
        answers.extend((first.answer(1), second.answer(1)))

    turns.run([program])
    assert answers == [None, True, True, True, True]

"""Agreement of a gang's processes on the step at which all of them pause; independent of any framework.

Training processes wait for each other in every step. If one process stopped a step earlier than the others, the
others would wait for ever. Therefore no process may pause on its own when it is asked to.

The processes share a board of records: one of each process, and one word for all. A process *enters* before its
first answer: it writes that it is present, and *then* reads the word. A process that is asked to pause *halts*:
from now on it answers for no new step; it writes into the word that a decision is due, and *then* its own last
step. Whoever reads that a decision is due halts as well. Once every process that has entered has halted, their
last steps decide the step of the pause: the first one after all of them at which every process asks. So no
process has answered for that step yet, and all of them will. A process that enters later finds the word, and
has no last step to be counted. Therefore all who decide find the same last steps and the same result, and it
does not matter who decides or how often. A process that ends leaves its last step behind.
"""

from __future__ import annotations

import threading
from enum import IntEnum
from math import gcd
from typing import Callable, Dict, Iterable, NamedTuple, Optional, Protocol, Set, Tuple

WORD = -1
"""Place on the board of the word for all; the other places are the ranks of the processes."""
FARTHEST = 100_000
"""Maximum number of steps by which the pause is put off so that every process asks at its step."""
_FIRST = -(1 << 62)


class Kind(IntEnum):
    """The meaning of a record: the first three are of a process, the others are words for all."""

    PRESENT = 1
    HALTED = 2
    HALTED_BEFORE_ITS_FIRST_STEP = 3
    DUE = 4
    AGREED = 5


class Record(NamedTuple):
    """A record on the board: ``step`` is the last one of a process, or the agreed one.

    ``stride`` is the number of steps between the last two for which the process asked, 0 before its second one.
    """

    kind: Kind
    step: int = 0
    stride: int = 0


class Board(Protocol):
    """Places for records, which all processes of an attempt can read and write; empty at first."""

    def read(self, place: int) -> Optional[Record]:
        """Return the newest record at this place, None if there was never one."""

    def write(self, place: int, record: Record) -> None:
        """Replace the record at this place; every `read` that starts afterwards returns it."""


class Alone:
    """A single process: it pauses as soon as it is asked to."""

    def reached(self, step: int, asked: Callable[[], bool]) -> bool:
        """Return whether to pause at ``step``."""
        del step
        return asked()


class Member:
    """One process of a gang of ``world``. `answer` is for the training, the others are for a second thread."""

    def __init__(self, board: Board, rank: int, world: int) -> None:
        self._board = board
        self._rank = rank
        self._others: Dict[int, Optional[Record]] = dict.fromkeys(range(world))
        self._lock = threading.Lock()
        self._last: Optional[int] = None
        self._stride = 0
        self._halted = False
        self._agreed: Optional[int] = None

    def answer(self, step: int) -> Optional[bool]:
        """Return whether to pause at ``step``, None while that is being decided."""
        with self._lock:
            if self._agreed is not None:
                return step >= self._agreed
            if self._last is not None and step <= self._last:
                return False
            if self._halted:
                return None
            self._stride = 0 if self._last is None else step - self._last
            self._last = step
            return False

    def enter(self) -> None:
        """Announce this process, before its first `answer`."""
        self._board.write(self._rank, Record(Kind.PRESENT))
        if self.is_called():
            self.halt()

    def is_called(self) -> bool:
        """Return whether another process has been asked to pause."""
        return self._board.read(WORD) is not None

    def halt(self) -> None:
        """Answer for no new step until the step of the pause is agreed, and have it decided."""
        mark = self._halt()
        if not self.is_called():
            self._board.write(WORD, Record(Kind.DUE))
        self._board.write(self._rank, mark)

    def leave(self) -> None:
        """Leave the last step behind for the others, when this process ends without a pause."""
        if self._agreed is None:
            self._board.write(self._rank, self._halt())

    def settle(self, *, decide: bool) -> bool:
        """Return whether the step of the pause is agreed; with ``decide``, decide it once all have halted."""
        word = self._board.read(WORD)
        if word is not None and word.kind is Kind.AGREED:
            self._agree(word.step)
        elif decide and self._all_have_halted():
            marks = (each for each in self._others.values() if each is not None and each.kind is Kind.HALTED)
            agreed = first_common_step((each.step, each.stride) for each in marks)
            self._board.write(WORD, Record(Kind.AGREED, agreed))
            self._agree(agreed)
        return self._agreed is not None

    def _halt(self) -> Record:
        with self._lock:
            self._halted = True
            if self._last is None:
                return Record(Kind.HALTED_BEFORE_ITS_FIRST_STEP)
            return Record(Kind.HALTED, self._last, self._stride)

    def _all_have_halted(self) -> bool:
        for rank, known in self._others.items():
            if known is None or known.kind is Kind.PRESENT:
                self._others[rank] = self._board.read(rank)
        return all(each is None or each.kind is not Kind.PRESENT for each in self._others.values())

    def _agree(self, step: int) -> None:
        with self._lock:
            self._agreed = step


def first_common_step(marks: Iterable[Tuple[int, int]]) -> int:
    """Return the first step after all last ones at which every process asks; ``marks`` are last steps and strides.

    A process that asks at every tenth step only would otherwise wait for the others, which paused before. It is
    known as such from its second question on. If there is no such step within `FARTHEST` steps, return the first
    one after all last ones.
    """
    known = list(marks)
    if not known:
        return _FIRST
    next_ = max(step for step, _ in known) + 1
    asking: Set[Tuple[int, int]] = {(stride, step % stride) for step, stride in known if stride > 1}
    period = 1
    for stride, _ in asking:
        period *= stride // gcd(period, stride)
    for step in range(next_, next_ + min(period, FARTHEST)):
        if all(step % stride == rest for stride, rest in asking):
            return step
    return next_

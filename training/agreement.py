"""How the processes of a job come to pause at one and the same step.

Training processes wait for each other in every step, so if one stops a step earlier than the others, they wait for
ever. Nobody may therefore act on seeing the pause file by himself.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from pathlib import Path
from typing import Callable

_NUMBER = struct.Struct("<q")
_OPEN = 0
_DECIDING = -1


class Alone:
    """One process: it pauses when it is asked."""

    def reached(self, step: int, asked: Callable[[], bool]) -> bool:
        """Whether to pause at ``step``."""
        del step
        return asked()


class OnOneMachine:
    """Processes that share a file: a number for the step that was agreed, then how far each one is.

    At every step a process writes how far it is and *then* looks whether the first one decides. The first one,
    when asked, says that it decides and *then* reads how far all are; the step after the furthest is agreed.
    Whoever has not seen that it decides is counted with the step he is at and will see the decision at his next;
    whoever has, waits the moment until it is there. So all pause at the agreed step, none before and none after.
    """

    def __init__(self, path: Path, rank: int, world: int) -> None:
        self._rank = rank
        self._world = world
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._agreed = _OPEN

    def reached(self, step: int, asked: Callable[[], bool]) -> bool:
        """Whether to pause at ``step``."""
        if self._agreed == _OPEN:
            os.pwrite(self._file, _NUMBER.pack(step), _NUMBER.size * (1 + self._rank))
            if self._rank == 0:
                if asked():
                    self._agreed = self._decide()
            else:
                self._agreed = self._await_decision()
        return self._agreed != _OPEN and step >= self._agreed

    def _decide(self) -> int:
        os.pwrite(self._file, _NUMBER.pack(_DECIDING), 0)
        agreed = max(self._read(1 + rank) for rank in range(self._world)) + 1
        os.pwrite(self._file, _NUMBER.pack(agreed), 0)
        return agreed

    def _await_decision(self) -> int:
        while True:
            agreed = self._read(0)
            if agreed != _DECIDING:
                return agreed
            time.sleep(0.0005)

    def _read(self, place: int) -> int:
        data = os.pread(self._file, _NUMBER.size, _NUMBER.size * place)
        return _NUMBER.unpack(data)[0] if len(data) == _NUMBER.size else _OPEN


class OnSeveralMachines:
    """Processes that talk through ``torch.distributed``: every one takes part in every question.

    Until that is initialised nobody pauses.
    """

    def reached(self, step: int, asked: Callable[[], bool]) -> bool:
        """Whether to pause at ``step``."""
        del step
        torch = sys.modules.get("torch")
        if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return False
        on_gpu = torch.distributed.get_backend() == "nccl"
        said = torch.tensor([1 if asked() else 0], device="cuda" if on_gpu else "cpu")
        torch.distributed.all_reduce(said, op=torch.distributed.ReduceOp.MAX)
        return bool(said.item())

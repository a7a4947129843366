"""Agreement of a job's processes on the step at which all of them pause.

Training processes wait for each other in every step. If one process stopped a step earlier than the others, the
others would wait for ever. Therefore no process may pause on its own when it sees the pause file.
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
    """A single process: it pauses as soon as it is asked to."""

    def reached(self, step: int, asked: Callable[[], bool]) -> bool:
        """Return whether to pause at ``step``."""
        del step
        return asked()


class OnOneMachine:
    """Processes that share a file: the number of the agreed step, then the current step of each process.

    At every step a process writes its current step and *then* checks whether the first process (rank 0) is
    deciding. The first process, when asked to pause, writes that it is deciding and *then* reads the current steps
    of all; the agreed step is the one after the largest of them. A process that has not seen that the first one is
    deciding is counted with its current step and will see the decision at its next step; a process that has seen
    it waits until the decision is written. So all processes pause at the agreed step, none before and none after.
    """

    def __init__(self, path: Path, rank: int, world: int) -> None:
        self._rank = rank
        self._world = world
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._agreed = _OPEN

    def reached(self, step: int, asked: Callable[[], bool]) -> bool:
        """Return whether to pause at ``step``."""
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
    """Processes that communicate through ``torch.distributed``: all of them take part in each query.

    Until ``torch.distributed`` is initialised, no process pauses.
    """

    def reached(self, step: int, asked: Callable[[], bool]) -> bool:
        """Return whether to pause at ``step``."""
        del step
        torch = sys.modules.get("torch")
        if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return False
        on_gpu = torch.distributed.get_backend() == "nccl"
        said = torch.tensor([1 if asked() else 0], device="cuda" if on_gpu else "cpu")
        torch.distributed.all_reduce(said, op=torch.distributed.ReduceOp.MAX)
        return bool(said.item())

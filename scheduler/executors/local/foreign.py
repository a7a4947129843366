"""GPUs that something outside the pool computes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from dataclasses import replace

from springtide.scheduler.model import Environment, Node
from springtide.scheduler.telemetry import Machine

SOONEST = 1.0
LATEST = 30.0


class Foreign:
    """Knows which train GPUs are taken, and waits for those who took them to leave.

    It looks when asked to, and when a process it saw has ended. Only for processes that cannot be watched (of
    another container) does it look again by the clock, ever more rarely. Build GPUs are not looked at: what runs
    there are notebooks.
    """

    def __init__(self, machine: Machine, held: Callable[[], Collection[str]], changed: Callable[[], None]) -> None:
        self._machine = machine
        self._held = held
        self._changed = changed
        self._real = [
            gpu.uuid
            for node in machine.nodes
            if node.environment is Environment.TRAIN
            for gpu in node.devices
            if not gpu.simulated
        ]
        self._lock = asyncio.Lock()
        self._handles: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._delay = SOONEST
        self._tasks: set[asyncio.Task[None]] = set()
        self.taken: dict[str, frozenset[int]] = {}

    def nodes(self) -> tuple[Node, ...]:
        """The machine's nodes with what is taken."""
        return tuple(
            replace(node, taken=frozenset(gpu.index for gpu in node.devices if gpu.uuid in self.taken))
            for node in self._machine.nodes
        )

    async def look(self) -> None:
        """Look at the GPUs that no attempt holds, and tell if it changed who is on them."""
        if not self._real:
            return
        async with self._lock:
            held = set(self._held())
            users = await asyncio.to_thread(self._machine.users, [uuid for uuid in self._real if uuid not in held])
            taken = {uuid: pids for uuid, pids in users.items() if pids}
            before, self.taken = self.taken, taken
            self._follow({pid for pids in taken.values() for pid in pids})
            if before.keys() != taken.keys():
                self._changed()

    def close(self) -> None:
        """Wait for nobody any more."""
        self._follow(set())
        for task in self._tasks:
            task.cancel()

    def _follow(self, pids: set[int]) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pid in self._handles.keys() - pids:
            self._drop(pid)
        unseen = False
        for pid in pids - self._handles.keys():
            try:
                handle = os.pidfd_open(pid)
            except OSError:
                unseen = True
            else:
                self._handles[pid] = handle
                loop.add_reader(handle, self._left, pid)
        if unseen:
            self._timer = loop.call_later(self._delay, self._look_soon)
            self._delay = min(LATEST, self._delay * 2)
        else:
            self._delay = SOONEST

    def _drop(self, pid: int) -> None:
        handle = self._handles.pop(pid)
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)

    def _left(self, pid: int) -> None:
        self._drop(pid)
        self._look_soon()

    def _look_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self.look())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

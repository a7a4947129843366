"""GPUs on which processes outside the pool compute."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection

from msgspec.structs import replace

from springtide.scheduler.backoff import Backoff
from springtide.scheduler.model import Environment, Node
from springtide.scheduler.telemetry import Machine

FIRST_DELAY = 1.0
LONGEST_DELAY = 30.0


class Foreign:
    """The train GPUs that processes outside the pool use, in ``taken``.

    The GPUs are checked on request, and when a process that used one has ended. Processes that cannot be watched,
    because they are in another container, are polled with a back-off. Build GPUs are not checked: notebooks use
    them.
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
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        self._tasks: set[asyncio.Task[None]] = set()
        self.taken: dict[str, frozenset[int]] = {}

    def nodes(self) -> tuple[Node, ...]:
        """Return the machine's nodes with their taken GPUs."""
        return tuple(
            replace(node, taken=frozenset(gpu.index for gpu in node.devices if gpu.uuid in self.taken))
            for node in self._machine.nodes
        )

    async def check(self) -> None:
        """Check the GPUs without an attempt, and report a change of the taken ones."""
        if not self._real:
            return
        async with self._lock:
            held = set(self._held())
            users = await asyncio.to_thread(self._machine.users, [uuid for uuid in self._real if uuid not in held])
            taken = {uuid: pids for uuid, pids in users.items() if pids}
            before, self.taken = self.taken, taken
            self._watch_processes({pid for pids in taken.values() for pid in pids})
            if before.keys() != taken.keys():
                self._changed()

    def close(self) -> None:
        """Stop watching processes."""
        self._watch_processes(set())
        for task in self._tasks:
            task.cancel()

    def _watch_processes(self, pids: set[int]) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pid in self._handles.keys() - pids:
            self._unwatch(pid)
        unwatchable = False
        for pid in pids - self._handles.keys():
            try:
                handle = os.pidfd_open(pid)
            except OSError:
                unwatchable = True
            else:
                self._handles[pid] = handle
                loop.add_reader(handle, self._process_ended, pid)
        if unwatchable:
            self._timer = loop.call_later(self._backoff.next_delay(), self._check_soon)
        else:
            self._backoff.reset()

    def _unwatch(self, pid: int) -> None:
        handle = self._handles.pop(pid)
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)

    def _process_ended(self, pid: int) -> None:
        self._unwatch(pid)
        self._check_soon()

    def _check_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self.check())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

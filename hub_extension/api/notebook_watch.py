"""Reservations of notebooks that the hub no longer has: released once the notebooks' processes have ended."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from springtide.hub_extension.web.hub import Groups
from springtide.scheduler.backoff import Backoff
from springtide.scheduler.engine import Engine
from springtide.scheduler.executors.base import RunningNotebook
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wording import given

log = logging.getLogger("springtide")

Notebook: TypeAlias = tuple[str, str]
"""A user's name and the name of the user's server, which is empty for the default server."""

FIRST_LOOK_S = 0.5
LONGEST_LOOK_S = 5.0
"""Interval of looking whether a notebook that the hub does not have has ended, in seconds."""
FIRST_TRY_S = 0.2
LONGEST_TRY_S = 60.0


class NotebookWatch:
    """Decides when the GPUs of a notebook are free.

    The hub says which notebooks there should be, the executor which there are. GPUs are released only when neither
    has the notebook.
    """

    def __init__(self) -> None:
        self._unknown: dict[Notebook, RunningNotebook] = {}
        self._stopped = set[Notebook]()
        self._requests = Counter[Notebook]()
        self._look = asyncio.Event()

    @property
    def unknown(self) -> Mapping[Notebook, RunningNotebook]:
        """Notebooks that run, have GPUs, and are not known to the hub."""
        return MappingProxyType(self._unknown)

    def reserving(self, notebook: Notebook) -> None:
        """Note a request for a notebook: findings about an earlier one no longer hold."""
        self._requests[notebook] += 1
        self._unknown.pop(notebook, None)
        self._stopped.discard(notebook)

    async def release(self, engine: Engine, notebook: Notebook) -> None:
        """Release the GPUs of a stopped notebook, now or when its processes have ended.

        Raises `Refusal` 503 while the running notebooks are unknown.
        """
        if any((each.user, each.server) == notebook for each in engine.workspaces()):
            running = await _running(engine)
            if notebook in running:
                log.warning("%s's notebook %r has stopped, and %s still runs", *notebook, running[notebook].place)
                self._stopped.add(notebook)
                self._look.set()
                return
        await engine.release_workspace(*notebook)

    async def release_gone(self, engine: Engine, groups: Groups, starting: Notebook | None = None) -> int:
        """Release the GPUs of notebooks that have gone, and return the number of these notebooks.

        The notebook ``starting`` is left out. Raises `Refusal` if it is not known what the hub has or what runs.
        """
        requests = self._requests.copy()
        reserved = {(each.user, each.server): each for each in engine.workspaces()}
        there = {
            (user, server.name)
            for user in sorted({user for user, _ in reserved})
            for server in await groups.servers(user)
        }
        missing = [notebook for notebook in reserved if notebook not in there | {starting}]
        running = await _running(engine) if missing else {}
        for notebook in self._unknown.keys() - set(missing):
            self._unknown.pop(notebook)
        self._stopped &= reserved.keys()
        gone = 0
        for notebook in missing:
            (user, server), gpus = notebook, reserved[notebook].gpus
            if requests[notebook] != self._requests[notebook]:
                continue
            self._stopped.discard(notebook)
            if notebook in running:
                self._keep(notebook, running[notebook])
                continue
            self._unknown.pop(notebook, None)
            log.warning("%s's notebook %r is gone; its %d build GPUs are free", user, server, gpus)
            await engine.release_workspace(user, server, since=reserved[notebook].since)
            gone += 1
        return gone

    def _keep(self, notebook: Notebook, running: RunningNotebook) -> None:
        if notebook not in self._unknown:
            user, server = notebook
            log.error(
                "%s's notebook %s still runs (%s) and is not known to the hub: its GPUs stay reserved",
                user,
                given(server),
                running.place,
            )
        self._unknown[notebook] = running

    async def run(self, engine: Engine, groups: Groups) -> None:
        """Release notebooks that ended without the service, then watch those that the hub does not have."""
        trying, looking = Backoff(FIRST_TRY_S, LONGEST_TRY_S), Backoff(FIRST_LOOK_S, LONGEST_LOOK_S)
        while True:
            try:
                await self.release_gone(engine, groups)
            except Refusal as refusal:
                log.info("Which notebooks there are is not known yet: %s", refusal.message)
                await asyncio.sleep(trying.next_delay())
                continue
            trying.reset()
            if self._unknown or self._stopped:
                await self._wait(looking.next_delay())
            else:
                looking.reset()
                await self._wait(None)

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._look.wait()
        except TimeoutError:
            return
        self._look.clear()


async def _running(engine: Engine) -> dict[Notebook, RunningNotebook]:
    return {(each.user, each.server): each for each in await engine.running_notebooks()}

"""A node that its cluster has closed, on the pages of the pool and of a job that runs there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect
from pools.pages_service import PERSON, Service, Windows

from springtide.hub_extension.service.metrics import PoolCollector
from springtide.scheduler.executors.base import NO_WORKSPACES, InventoryChanged, Observation, WorkspacePlaces
from springtide.scheduler.executors.local.executor import LocalExecutor
from springtide.scheduler.model import Closure, Environment, Node

NOON = 1_795_694_580.0


class Closable(LocalExecutor):
    """An executor whose train node can be closed, as a cluster closes nodes."""

    closure: tuple[Closure, float | None] | None = None
    listener: Callable[[Observation], None]
    made: list[Closable] = []  # noqa: RUF012 - the tests find the one of their service here

    async def start(self, listener: Callable[[Observation], None]) -> None:
        self.made.append(self)
        self.listener = listener
        await super().start(listener)

    async def inventory(self, workspaces: WorkspacePlaces = NO_WORKSPACES) -> tuple[Node, ...]:
        nodes = await super().inventory(workspaces)
        if self.closure is None:
            return nodes
        closed = {"available": False, "closure": self.closure[0], "closed_since": self.closure[1]}
        return tuple(replace(node, **closed) if node.environment is Environment.TRAIN else node for node in nodes)

    async def close(self, closure: Closure, since: float | None) -> None:
        """Close the train node."""
        self.closure = closure, since
        self.listener(InventoryChanged())


@pytest.fixture
def closable(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, executor=Closable)
    service.start()
    yield service
    service.stop()
    Closable.made.clear()


def not_ready(service: Service) -> dict[str, float]:
    """Return the metric of nodes that are not ready, by environment."""
    found = [each for each in PoolCollector(service.engine).collect() if each.name == "springtide_nodes_not_ready"]
    return {sample.labels["environment"]: sample.value for each in found for sample in each.samples}


def visited(windows: Windows, service: Service, path: str, scheme: Literal["light", "dark"]) -> Page:
    page = windows.open(color_scheme=scheme, apart=True)
    page.context.add_cookies([{"name": PERSON, "value": "admin", "url": service.url}])
    page.goto(service.url + path)
    return page


def test_a_node_that_is_not_ready_shows_on_the_pool_and_on_its_job(closable: Service, windows: Windows) -> None:
    job = closable.submit("susan", name="training", gpus=2)
    closable.until(job.id, lambda each: each.state == "running")
    pool = visited(windows, closable, "pool", "dark")
    row = pool.get_by_test_id("node-row").filter(has_text="train")
    expect(row).to_contain_text("jobs")
    (executor,) = Closable.made
    closable.run(executor.close(Closure.NOT_READY, NOON))
    expect(row).to_contain_text("no jobs: not ready")
    expect(row).to_contain_text("began ")
    assert not_ready(closable) == {"train": 1, "build": 0}
    expect(pool.get_by_test_id("section-gpus")).to_contain_text("not ready: nothing new starts here")
    card = visited(windows, closable, f"jobs/{job.id}", "light")
    words = "The node train has not been ready since 2026-11-26 12:03 UTC: what the job does there is unknown."
    expect(card.locator("main")).to_contain_text(words)
    closable.run(executor.close(Closure.CORDONED, None))
    expect(row).to_contain_text("no jobs: cordoned")
    expect(row).not_to_contain_text("began ")
    assert not_ready(closable) == {"train": 0, "build": 0}
    expect(card.locator("main")).to_contain_text("The node train is cordoned and may be drained.")

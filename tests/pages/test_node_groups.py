"""Nodes that a cluster may add, on the page of the pool."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import expect
from pools.pages_service import PERSON, Service, Windows

from springtide.scheduler.executors.base import NodeGroup, NodeRequest
from springtide.scheduler.executors.local.executor import LocalExecutor
from springtide.scheduler.model import Node

REFUSED = "exceeded quota: pods <b>2</b>"


class Growing(LocalExecutor):
    """An executor whose cluster adds nodes when asked; here none ever comes, and the third is refused."""

    async def node_groups(self) -> tuple[NodeGroup, ...]:
        return (NodeGroup("big", Node("~big", 8, "simulated", group="big"), most=4),)

    async def request_nodes(self, numbers: Mapping[str, int] | None) -> Mapping[str, NodeRequest]:
        asked = min(2, (numbers or {}).get("big", 0))
        return {"big": NodeRequest((time.time() - 120,) * asked, REFUSED if asked == 2 else "")}


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, executor=Growing)
    service.start()
    yield service
    service.stop()


def test_a_page_tells_live_which_nodes_were_asked_for(growing: Service, windows: Windows) -> None:
    page = windows.open(color_scheme="dark", apart=True)
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": growing.url}])
    page.goto(f"{growing.url}pool")
    group = page.get_by_test_id("node-group")
    expect(group.locator("td")).to_have_text(["simulated", "8", "0", "4", "none"])
    job = growing.submit("susan", gpus=8, workers=2)
    expect(group.locator("[data-label='asked for']")).to_contain_text("12 min ago")
    told = growing.until(job.id, lambda found: "was requested" in found.reason.text).reason.text
    assert "A node of the group big was requested 2 min ago; the group has none of at most 4." in told
    growing.submit("joe", gpus=8)
    expect(page.get_by_test_id("node-group-error")).to_have_text(f"No more can be asked for: {REFUSED}")

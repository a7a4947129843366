"""GPUs that pods outside the pool hold, on the page of the pool: by name for administrators alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect
from pools.pages_service import PERSON, Service, Windows

from springtide.scheduler.executors.base import NO_WORKSPACES, WorkspacePlaces
from springtide.scheduler.executors.local.executor import LocalExecutor
from springtide.scheduler.model import Environment, Node

NAME = "team-b/bert-<b>0</b>"


class Shared(LocalExecutor):
    """An executor on whose nodes something outside the pool has GPUs, as pods of others have them on a cluster."""

    async def inventory(self, workspaces: WorkspacePlaces = NO_WORKSPACES) -> tuple[Node, ...]:
        return tuple(
            replace(node, taken=frozenset(takers), takers=takers)
            for node in await super().inventory(workspaces)
            for takers in ({7: NAME, 6: NAME} if node.environment is Environment.TRAIN else {2: NAME, 1: ""},)
        )


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, executor=Shared)
    service.start()
    yield service
    service.stop()


def test_administrators_see_whose_gpus_outside_the_pool_are_and_others_that_they_are(
    shared: Service, windows: Windows
) -> None:
    def visited(who: str, scheme: Literal["light", "dark"]) -> Page:
        page = windows.open(color_scheme=scheme, apart=True)
        page.context.add_cookies([{"name": PERSON, "value": who, "url": shared.url}])
        page.goto(f"{shared.url}pool")
        expect(page.locator("[data-testid=pool-cell][data-held=foreign]")).to_have_count(4)
        return page

    admin = visited("admin", "dark")
    rows = admin.get_by_test_id("holder-row")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text=NAME)).to_contain_text(f"{NAME} outside the pool")
    expect(rows.filter(has_text="something outside the pool")).to_have_count(1)
    cell = admin.locator("[data-testid=pool-cell][data-held=foreign]").first
    expect(cell).to_have_attribute("aria-label", f"GPU 6 of train (simulated). Used by {NAME} outside the pool")

    joe = visited("joe", "light")
    expect(joe.get_by_test_id("holder-row")).to_contain_text("something outside the pool")
    expect(joe.locator("body")).not_to_contain_text("team-b")

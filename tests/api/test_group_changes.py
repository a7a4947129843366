"""A look at the hub that overlaps changes of its groups by the pool takes them for nobody else's."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from patience import PATIENCE_S

from springtide.hub_extension.service.hub_users import HubUserWatch


class Gated:
    """The hub as the watch reads it: its groups, then, once ``open`` is set, its users."""

    def __init__(self, people) -> None:
        self.people = people
        self.open = asyncio.Event()
        self.open.set()
        self.waits = asyncio.Event()
        self.looks = 0

    async def members(self, *, fresh: bool = False):
        self.looks += 1
        return await self.people.members(fresh=fresh)

    async def users(self):
        self.waits.set()
        await self.open.wait()
        return {name: name for name in self.people.callers}

    async def identity(self, user: str):
        return await self.people.identity(user)


@pytest.fixture
async def watched(running):
    """The service, with a watch that has looked at its hub once."""
    hub = Gated(running.people)
    watch = HubUserWatch(running.pool.engine, hub, lambda: None, changes=running.pool.group_changes)
    task = asyncio.create_task(watch.run())
    await look(hub, watch)
    yield running, hub, watch
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def look(hub: Gated, watch: HubUserWatch) -> None:
    """Wait for a whole look that begins from now on, and the end of one that has begun."""
    before = hub.looks
    async with asyncio.timeout(PATIENCE_S):
        while hub.looks < before + 2:
            watch.look_soon()
            await asyncio.sleep(0.01)


async def begin_look(hub: Gated, watch: HubUserWatch) -> None:
    """Let a look begin, that has read the groups and waits for ``hub.open``."""
    hub.open.clear()
    hub.waits.clear()
    watch.look_soon()
    await asyncio.wait_for(hub.waits.wait(), PATIENCE_S)


async def members(running) -> list[tuple[str, str, str]]:
    """The entries of the trail about members, by whom, the oldest first."""
    answer = await running.as_("admin").get("/audit", params={"limit": 100})
    entries = [each for each in reversed(answer.json()["items"]) if each["what"].startswith("member.")]
    return [(each["who"], each["what"], "+".join(each["after"]["members"])) for each in entries]


async def test_a_look_that_began_before_a_change_does_not_take_it_back(watched):
    running, hub, watch = watched
    await begin_look(hub, watch)
    assert (await running.as_("admin").put("/projects/vision/members/jemma")).status_code == 204
    assert (await running.as_("admin").delete("/projects/vision/members/joe")).status_code == 204
    running.people.leave("jemma", "speech")
    hub.open.set()
    await look(hub, watch)

    assert await members(running) == [
        ("admin", "member.add", "jemma+joe+susan"),
        ("admin", "member.remove", "jemma+susan"),
        ("(in JupyterHub)", "member.remove", ""),
    ]


async def test_nor_does_one_between_the_change_in_the_hub_and_its_record(watched, monkeypatch):
    running, hub, watch = watched
    add = running.people.add

    async def then_looked_at(name: str, user: str, token: str) -> None:
        await add(name, user, token)
        await look(hub, watch)

    monkeypatch.setattr(running.people, "add", then_looked_at)
    assert (await running.as_("admin").put("/projects/vision/members/jemma")).status_code == 204
    await look(hub, watch)
    assert await members(running) == [("admin", "member.add", "jemma+joe+susan")]


async def test_nor_while_a_file_adds_and_removes_people(watched):
    running, hub, watch = watched
    file = {"projects": {"vision": {"members": ["joe", "jemma"]}, "speech": {"members": ["susan", "joe"]}}}
    await begin_look(hub, watch)
    answer = await running.as_("admin").put("/pool-file", json={"file": file})
    assert answer.status_code == 200, answer.text
    hub.open.set()
    await look(hub, watch)

    found = await members(running)
    assert {who for who, *_ in found} == {"admin"}
    assert len(found) == 5


async def test_the_pool_knows_at_once_whom_two_changes_at_a_time_have_added(watched):
    running, hub, watch = watched
    client = running.as_("admin")
    answers = await asyncio.gather(*(client.put(f"/projects/vision/members/{name}") for name in ("jemma", "kim")))
    assert {each.status_code for each in answers} == {204}
    await look(hub, watch)
    assert {who for who, *_ in await members(running)} == {"admin"}

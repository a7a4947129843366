from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from patience import PATIENCE_S

from springtide.hub_extension.service.relay import READERS_AT_ONCE, Frames, Reader
from springtide.scheduler import wire


@contextlib.asynccontextmanager
async def stream(
    running: Any, name: str, query: str = "", **headers: str
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The events that a person sees; heartbeats are left out."""
    async with running.as_(name).stream("GET", f"/events{query}", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield _events(answer.aiter_lines())


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(":")
            event[name] = value.removeprefix(" ")
            continue
        if "data" in event:
            yield {"id": event.get("id"), "kind": event["event"], "data": msgspec.json.decode(event["data"])}
        event = {}


async def first(events: AsyncIterator[dict[str, Any]], kind: str, **wanted: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        async for event in events:
            if event["kind"] == kind and all(event["data"].get(name) == value for name, value in wanted.items()):
                return event
    raise AssertionError("the stream ended")


async def test_the_stream_tells_a_jobs_whole_life(running):
    async with stream(running, "susan") as events:
        await first(events, "pool")
        job = await running.submit("susan", "true")
        states = []
        while "succeeded" not in states:
            states.append((await first(events, "job", id=job["id"]))["data"]["state"])
        assert states[0] in {"queued", "starting"}


async def test_a_reader_goes_on_where_it_was(running):
    async with stream(running, "susan") as events:
        one = await running.submit("susan", "true")
        seen = await first(events, "job", id=one["id"], state="succeeded")
    two = await running.submit("susan", "true")
    await running.until("susan", two["id"], lambda job: job["state"] == "succeeded")
    for query, headers in [("", {"Last-Event-ID": seen["id"]}), (f"?last_event_id={seen['id']}", {})]:
        async with stream(running, "susan", query, **headers) as events:
            event = await first(events, "job")
            assert int(event["id"]) > int(seen["id"])
            assert event["data"]["id"] == two["id"]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9" * 30])
async def test_a_wrong_place_to_go_on_from_is_told(running, value):
    answer = await running.as_("susan").get("/events", headers={"Last-Event-ID": value})
    assert (answer.status_code, answer.json()["field"]) == (422, "Last-Event-ID")


async def test_jobs_of_other_projects_are_withheld(running):
    async with stream(running, "jemma") as events:
        await first(events, "pool")
        hidden = await running.submit("susan", "sh", "-c", "echo withheld-log", name="withheld-name")
        await running.until("susan", hidden["id"], lambda job: job["state"] == "succeeded")
        mine = await running.submit("jemma", "true")
        seen = []
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                seen.append(event)
                if event["kind"] == "job" and event["data"]["state"] == "succeeded":
                    break
    assert all(event["data"]["id"] == mine["id"] for event in seen if event["kind"] == "job")
    assert hidden["id"] not in repr(seen)
    assert "withheld" not in repr(seen)


async def test_members_follow_each_others_jobs(running):
    async with stream(running, "joe") as events:
        job = await running.submit("susan", "true")
        await first(events, "job", id=job["id"], state="succeeded")


async def test_one_jobs_stream_tells_of_that_job_only(running):
    job = await running.submit("susan", gpus=4)
    async with stream(running, "susan", f"?job={job['id']}") as events:
        await running.submit("susan", "true")
        await running.as_("susan").post(f"/jobs/{job['id']}/cancel")
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                assert event["kind"] in {"job", "progress", "log", "usage", "refetch"}
                assert job["id"] in (event["data"].get("id"), event["data"].get("job"))
                if event["kind"] == "job" and event["data"]["state"] == "cancelled":
                    break


async def test_a_jobs_stream_begins_with_how_the_job_is(running):
    job = await running.submit("susan", "true", name="digits")
    await running.until("susan", job["id"], lambda found: found["state"] == "succeeded")
    async with stream(running, "susan", f"?job={job['id']}") as events:
        told = await first(events, "job")
        assert (told["data"]["name"], told["data"]["state"], told["id"]) == ("digits", "succeeded", None)


async def test_a_stream_of_a_job_one_may_not_see_is_refused(running):
    job = await running.submit("susan")
    assert (await running.as_("jemma").get(f"/events?job={job['id']}")).status_code == 404
    assert (await running.as_("jemma").get("/events?job=nothing")).status_code == 404


async def test_changes_of_projects_are_told_to_administrators_and_leads_only(running):
    running.people.callers["joe"] = replace(running.people.callers["joe"], administers=frozenset({"vision"}))
    async with (
        stream(running, "admin") as admins,
        stream(running, "joe") as leads,
        stream(running, "susan") as susans,
    ):
        for events in (susans, leads, admins):
            await first(events, "pool")
        await running.as_("admin").patch("/projects/vision", json={"weight": 3})
        for events in (admins, leads):
            assert (await first(events, "admin"))["data"] == {}
        job = await running.submit("susan", "true")
        seen = []
        async with asyncio.timeout(PATIENCE_S):
            async for event in susans:
                seen.append(event["kind"])
                if event["kind"] == "job" and event["data"]["id"] == job["id"]:
                    break
    assert "admin" not in seen


async def test_a_stream_ends_when_its_token_is_revoked(running):
    async with stream(running, "susan") as events:
        await first(events, "pool")
        running.people.revoke("susan")
        async with asyncio.timeout(PATIENCE_S):
            async for _ in events:
                pass
    assert (await running.as_("susan").get("/events")).status_code == 401


async def test_a_stream_no_longer_tells_of_a_project_one_has_left(running):
    async with stream(running, "joe") as events:
        await first(events, "pool")
        running.people.leave("joe", "vision")
        asked = running.people.asked["joe"]
        async with asyncio.timeout(PATIENCE_S):
            while running.people.asked["joe"] < asked + 2:  # the first answer is in force before the second
                await asyncio.sleep(0.02)
        job = await running.submit("susan", "true")
        await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
        running.people.revoke("joe")
        async with asyncio.timeout(PATIENCE_S):
            seen = [event async for event in events]
    assert job["id"] not in repr([event for event in seen if event["kind"] == "job"])


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_page_of_another_site_may_not_listen(running, origin):
    answer = await running.as_("susan").get("/events", headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "origin")


async def test_a_reader_that_leaves_is_forgotten(running):
    for _ in range(5):
        async with stream(running, "susan") as events:
            await first(events, "pool")
    await until(lambda: readers(running) == 0)


async def test_one_person_follows_so_many_streams_and_no_more(start):
    running = await start(streams=3)
    async with stream(running, "susan") as one, stream(running, "susan"):
        await first(one, "pool")
        async with stream(running, "susan"):
            answer = await running.as_("susan").get("/events")
            assert (answer.status_code, answer.json()["code"]) == (429, "too_many_streams")
            assert int(answer.headers["Retry-After"]) > 0
            assert "3 event streams" in answer.json()["message"]
            assert (await running.as_("susan").get("/events?job=nothing")).status_code == 404
            async with stream(running, "joe") as other:
                await first(other, "pool")

        async def again():
            answer = running.as_("susan").stream("GET", "/events")
            async with answer as got:
                return got.status_code == 200

        async with asyncio.timeout(PATIENCE_S):
            while not await again():
                await asyncio.sleep(0.02)


async def test_an_event_is_encoded_once_for_all_who_see_the_same_of_it(running, monkeypatch):
    encoded = []
    frame = Frames.frame

    def counted(self, event, caller):
        before = self.encoded
        try:
            return frame(self, event, caller)
        finally:
            encoded.extend([event.kind] * (self.encoded - before))

    monkeypatch.setattr(Frames, "frame", counted)
    async with contextlib.AsyncExitStack() as stack:
        names = ["susan"] * 4 + ["joe"] * 4 + ["admin"] * 2
        followed = [await stack.enter_async_context(stream(running, name)) for name in names]
        for events in followed:
            await first(events, "pool")
        encoded.clear()
        data = wire.Event(kind="pool", data={"nodes": [], "unmatched": [], "text": "last"})
        running.pool.engine.events.hub.publish([data])
        for events in followed:
            await first(events, "pool", text="last")
    assert encoded.count("pool") == 2, "that of vision, of which susan and joe are, and the administrators'"


async def test_other_work_has_its_turn_while_many_readers_are_sent_to(start, monkeypatch):
    running = await start(streams=50)
    turn = 0
    turns_of_writes: Counter[int] = Counter()
    write = Reader.write

    async def count_turns():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def count_write(self, piece):
        turns_of_writes[turn] += 1
        write(self, piece)

    async with contextlib.AsyncExitStack() as stack:
        followed = [await stack.enter_async_context(stream(running, "susan")) for _ in range(40)]
        for events in followed:
            await first(events, "pool")
        monkeypatch.setattr(Reader, "write", count_write)
        counting = asyncio.create_task(count_turns())
        running.pool.engine.events.hub.publish(
            [wire.Event(kind="pool", data={"nodes": [], "unmatched": [], "text": "last"})]
        )
        for events in followed:
            await first(events, "pool", text="last")
        counting.cancel()
    assert turns_of_writes.total() >= 40
    assert max(turns_of_writes.values()) <= READERS_AT_ONCE


async def test_readers_with_the_same_rights_are_each_told_of_their_own(running):
    def job(number, user, project):
        return wire.Event(
            kind="job", data={"id": f"job{number}", "user": user, "project": project}, id=10**6 + number
        )

    events = [
        job(1, "susan", "vision"),
        job(2, "joe", "speech"),
        job(3, "jemma", "speech"),
        job(4, "joe", "vision"),
    ]
    wanted = {
        "susan": ["job1", "job4"],
        "joe": ["job1", "job2", "job4"],
        "admin": ["job1", "job2", "job3", "job4"],
    }
    async with contextlib.AsyncExitStack() as stack:
        followed = [(name, await stack.enter_async_context(stream(running, name))) for name in wanted]
        for _, received in followed:
            await first(received, "pool")
        running.pool.engine.events.hub.publish(
            [*events, wire.Event(kind="job", data=job(4, "joe", "vision").data)]
        )
        for name, received in followed:
            told: list[str] = []
            while not told or told[-1] != "job4":
                told.append((await first(received, "job"))["data"]["id"])
            assert told == wanted[name]


async def test_who_comes_while_much_happens_hears_each_change_once_and_in_order(running):
    names = {f"number{number}" for number in range(12)}

    async def follow() -> list[dict[str, Any]]:
        seen, cancelled = [], set()
        async with stream(running, "susan", "?last_event_id=0") as events, asyncio.timeout(PATIENCE_S):
            async for event in events:
                seen.append(event)
                if event["kind"] == "job" and event["data"]["state"] == "cancelled":
                    cancelled.add(event["data"]["name"])
                if cancelled == names:
                    break
        return seen

    following = []
    for name in sorted(names):
        job = await running.submit("susan", gpus=4, name=name)
        following.append(asyncio.create_task(follow()))
        await running.as_("susan").post(f"/jobs/{job['id']}/cancel")
    for seen in await asyncio.gather(*following):
        recorded = [int(event["id"]) for event in seen if event["id"] is not None]
        assert recorded == sorted(set(recorded))
        versions = [event["data"]["seq"] for event in seen if event["kind"] == "pool"]
        assert versions == sorted(versions)
        ends = {event["data"]["name"]: event["data"]["state"] for event in seen if event["kind"] == "job"}
        assert ends == dict.fromkeys(names, "cancelled")


async def test_a_reader_that_pauses_gets_what_it_missed_before_what_comes_later(running):
    address = urlsplit(running.url)
    reader = socket.create_connection((address.hostname, address.port))
    with reader:
        head = f"GET {address.path}api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: token susan\r\n\r\n"
        reader.sendall(head.encode())
        await until(lambda: readers(running) == 1)
        mine = {"user": "susan", "project": "vision"}
        for number in range(200):
            data = {"id": f"job{number}", "text": "x" * 50_000, **mine}
            running.pool.engine.events.hub.publish([wire.Event(kind="job", data=data)])
            await asyncio.sleep(0)
        last = wire.Event(kind="job", data={"id": "last", **mine})
        running.pool.engine.events.hub.publish([last])
        reader.setblocking(False)
        received = b""
        async with asyncio.timeout(PATIENCE_S):
            while b'"last"' not in received:
                received += await asyncio.get_running_loop().sock_recv(reader, 1 << 20)
        told = [received.find(b'"id":"job%d"' % number) for number in range(200)]
        assert -1 not in told
        assert told == sorted(told)


async def test_a_quiet_jobs_stream_is_kept_alive_while_others_are_busy(running, monkeypatch):
    monkeypatch.setattr("springtide.hub_extension.service.events.HEARTBEAT_S", 0.3)
    job = await running.submit("susan", gpus=4)
    await running.until("susan", job["id"], lambda found: found["state"] == "running")
    async with (
        running.as_("susan").stream("GET", f"/events?job={job['id']}") as answer,
        asyncio.timeout(PATIENCE_S),
    ):
        other = wire.Event(kind="progress", data={"job": "other", "user": "susan", "project": "vision"})

        async def keep_busy():
            while True:
                running.pool.engine.events.hub.publish([other])
                await asyncio.sleep(0.05)

        busy = asyncio.create_task(keep_busy())
        heartbeats = 0
        async for line in answer.aiter_lines():
            heartbeats += line == ":"
            if heartbeats == 2:
                break
        busy.cancel()


def readers(running):
    return running.pool.engine.stats.subscribers


async def until(wanted):
    deadline = time.monotonic() + PATIENCE_S
    while not wanted():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_reader_that_takes_nothing_is_let_go_while_the_pool_goes_on(running, monkeypatch):
    monkeypatch.setattr("springtide.hub_extension.service.events.STALLED_S", 0.3)
    address = urlsplit(running.url)
    reader = socket.create_connection((address.hostname, address.port))
    with reader:
        head = f"GET {address.path}api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: token susan\r\n\r\n"
        reader.sendall(head.encode())
        await until(lambda: readers(running) == 1)
        mine = {"user": "susan", "project": "vision", "text": "x" * 100_000}
        flood = [wire.Event(kind="job", data={"id": f"job{number}", **mine}) for number in range(200)]
        running.pool.engine.events.hub.publish(flood)
        await until(lambda: readers(running) == 0)
        job = await running.submit("susan", "true")
        await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")


async def test_the_client_reads_the_stream(running):
    from springtide.scheduler.client import Client  # noqa: PLC0415

    job = await running.submit("susan", "true")

    def follow() -> list[wire.Event]:
        seen: list[wire.Event] = []
        with Client(running.url, "susan") as client:
            for event in client.events(job=job["id"], last_event_id=0):
                seen.append(event)
                if event.kind == "job" and event.data["state"] == "succeeded":
                    return seen
        return seen

    async with asyncio.timeout(PATIENCE_S):
        seen = await asyncio.to_thread(follow)
    assert [event.id for event in seen if event.id] == sorted({event.id for event in seen if event.id})

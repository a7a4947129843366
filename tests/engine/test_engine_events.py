"""The event stream: recorded events, transient ones, and slow readers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from patience import PATIENCE_S

from springtide.scheduler import wire
from springtide.scheduler.engine.views import events as stream
from springtide.scheduler.executors.base import LogGrew
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import pruning


class Reader:
    """Reads the stream in the background."""

    def __init__(self, pool, last=None) -> None:
        self.events: list[Any] = []
        self._pool = pool
        self._stream = pool.engine.subscribe(last)
        self._task = asyncio.ensure_future(self._read())

    async def _read(self):
        async for received in self._stream:
            self.events += received

    def of(self, kind):
        return [event for event in self.events if event.kind == kind]

    async def until(self, condition):
        await self._pool.until(lambda: condition(self))
        return self

    async def close(self):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._stream.aclose()


@pytest.fixture
async def read(pool):
    readers = []

    async def start(last=None):
        reader = Reader(pool, last)
        readers.append(reader)
        await reader.until(lambda r: r.of("pool"))
        return reader

    yield start
    for reader in readers:
        await reader.close()


async def test_a_reader_first_hears_how_the_pool_is(read):
    reader = await read()
    first = reader.events[0]
    assert (first.kind, first.id) == ("pool", None)
    assert first.data["train_gpus"] == 8


async def test_a_jobs_life_is_told_in_order_with_ids(pool, read):
    reader = await read()
    job = await pool.submit(gpus=1, source="secret " * 100)
    await pool.state(job.id, "running")
    pool.executor.end(pool.key(job.id), code=0)
    await reader.until(lambda r: any(event.data["state"] == "succeeded" for event in r.of("job")))
    kept = [event for event in reader.of("job") if event.id is not None]
    assert [event.id for event in kept] == sorted({event.id for event in kept})
    states = list(dict.fromkeys(event.data["state"] for event in kept))
    assert states[-2:] == ["running", "succeeded"]
    assert all(event.data["source"] == "" for event in kept)
    assert [attempt["state"] for attempt in kept[-1].data["attempts"]] == ["succeeded"]
    assert all(event.data["reason"]["text"] for event in kept)


async def test_the_event_of_an_end_says_when_the_attempt_borrowed(pool, read):
    reader = await read()
    job = await pool.submit(gpus=4)
    await pool.state(job.id, "running")
    began = pool.clock.now
    await pool.later(30.0)
    pool.executor.end(pool.key(job.id), code=0)
    await reader.until(lambda r: any(event.data["state"] == "succeeded" for event in r.of("job")))
    [attempt] = reader.of("job")[-1].data["attempts"]
    assert attempt["borrowed"] == [{"start": began, "end": attempt["ended"], "gpus": 2}]


async def test_reading_goes_on_after_the_last_event_also_after_a_restart(pool, read):
    reader = await read()
    jobs = [(await pool.submit(gpus=8)).id for _ in range(3)]
    await reader.until(lambda r: {e.data["id"] for e in r.of("job") if e.id} == set(jobs))
    last = next(event.id for event in reader.of("job") if event.id)
    everything = [event.id for event in reader.of("job") if event.id and event.id > last]
    await reader.close()
    await pool.idle()
    again = await read(last)
    replayed = [event.id for event in again.of("job") if event.id]
    assert replayed[: len(everything)] == everything
    await again.close()
    await pool.restart()
    once_more = await read(last)
    assert [event.id for event in once_more.of("job") if event.id][: len(everything)] == everything
    newest = max(event.id for event in once_more.of("job") if event.id)
    await pool.engine.cancel(jobs[1], "susan")
    await once_more.until(lambda r: any(e.id and e.id > newest for e in r.of("job")))


@pytest.mark.parametrize("last", [99_999, 0])
async def test_a_reader_that_missed_something_is_told_to_ask_again(pool, read, last):
    for _ in range(5):
        await pool.submit(gpus=8)
    await pool.idle()
    pool.store.write(pruning.prune_journals, events=2, decisions=10, audit_before=0.0)
    reader = await read(last)
    assert reader.events[0].kind == "refetch"


async def test_progress_passes_by_without_a_commit(pool, read):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    await pool.idle()
    reader = await read()
    commits = pool.engine.stats.commits
    pool.executor.report(pool.key(job.id), step=3, of=10, loss=0.5)
    await reader.until(lambda r: r.of("progress"))
    event = reader.of("progress")[0]
    assert event.id is None
    assert (event.data["job"], event.data["user"]) == (job.id, "susan")
    assert event.data["progress"]["values"] == {"loss": 0.5}
    assert pool.engine.stats.commits == commits
    assert (await pool.job(job.id)).progress.step == 3


async def test_logs_that_grow_are_told(pool, read):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    reader = await read()
    pool.executor.tell(LogGrew(job.id, 0, 42))
    await reader.until(lambda r: r.of("log"))
    told = {"job": job.id, "rank": 0, "size": 42, "user": "susan", "project": "susan"}
    assert reader.of("log")[0].data == told


async def test_a_changed_place_in_line_shows_without_being_asked(pool, read):
    await pool.submit(gpus=8)
    first = await pool.submit(gpus=8)
    second = await pool.submit(gpus=8)
    await pool.idle()
    reader = await read()
    await pool.engine.cancel(first.id, "susan")
    await reader.until(
        lambda r: any(event.data["id"] == second.id and event.data["place"] == 1 for event in r.of("job"))
    )


async def test_changes_of_projects_are_told(pool, read, members):
    reader = await read()
    await pool.engine.edit_project("joe", wire.ProjectEdit(weight=2.0), "admin", members=members)
    await reader.until(lambda r: r.of("admin"))


async def test_a_slow_reader_slows_nobody_and_is_told_to_ask_again(pool, monkeypatch):
    monkeypatch.setattr(stream, "MAX_QUEUED", 3)
    slow = pool.engine.subscribe()
    await anext(slow)
    for _ in range(8):
        await pool.submit(gpus=8)
    await pool.idle()
    seen = await anext(slow)
    assert seen[0] is stream.REFETCH
    assert pool.engine.stats.subscribers == 1
    await slow.aclose()
    assert pool.engine.stats.subscribers == 0


async def test_a_slow_reader_gets_the_newest_of_each_job_in_order_and_misses_nothing_else(pool):
    slow = pool.engine.subscribe()
    await anext(slow)
    first, second = [(await pool.submit(gpus=4)).id for _ in range(2)]
    await pool.state(second, "running")
    for step in range(stream.MAX_QUEUED):
        pool.executor.report(pool.key(first), step=step)
    await pool.idle()
    await pool.engine.cancel(first, "susan")
    await pool.state(first, "cancelled")
    await pool.idle()
    seen: list[wire.Event] = []
    while not any(event.kind == "job" and event.data["state"] == "cancelled" for event in seen):
        seen += await anext(slow)
    assert "refetch" not in {event.kind for event in seen}
    recorded = [event.id for event in seen if event.id is not None]
    assert recorded == sorted(recorded)
    jobs = [event.data["id"] for event in seen if event.kind == "job"]
    assert sorted(set(jobs)) == sorted(jobs) == sorted([first, second])
    progress = [event.data["progress"]["step"] for event in seen if event.kind == "progress"]
    assert progress == [stream.MAX_QUEUED - 1]
    await slow.aclose()


async def test_what_happened_while_a_reader_was_busy_comes_at_once(pool):
    stream_of_all = pool.engine.subscribe()
    await anext(stream_of_all)
    jobs = [(await pool.submit(gpus=8)).id for _ in range(3)]
    await pool.idle()
    received = await anext(stream_of_all)
    assert {event.data["id"] for event in received if event.kind == "job"} == set(jobs)
    await stream_of_all.aclose()


async def test_readers_who_come_together_share_one_event_of_the_pool(pool):
    streams = [pool.engine.subscribe() for _ in range(3)]
    await anext(streams[0])
    await pool.submit(gpus=8)
    [second], [third] = [await anext(each) for each in streams[1:]]
    assert second is third, "a newer one is about to be sent to all"
    told: list[wire.Event] = []
    while not any(event.kind == "pool" and event.data["train_held"] == 8 for event in told):
        told += await anext(streams[2])
    for each in streams:
        await each.aclose()


async def test_a_stream_ends_with_the_engine(pool):
    reader = Reader(pool)
    await reader.until(lambda r: r.of("pool"))
    await pool.engine.stop()
    await asyncio.wait_for(reader._task, PATIENCE_S)
    pool.engine = None


# ---------- logs, reports and outputs


async def test_a_log_is_read_by_pieces_and_waited_for(pool):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    pool.executor.logs[job.id] = "ab🌊".encode()
    piece = await pool.engine.log(job.id, 0, 0, 4, 0)
    assert (piece.text, piece.offset, piece.next, piece.ended) == ("ab", 0, 2, False)
    piece = await pool.engine.log(job.id, 0, piece.next, 100, 0)
    assert (piece.text, piece.next) == ("🌊", 6)
    waiting = asyncio.ensure_future(pool.engine.log(job.id, 0, 6, 100, 30))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    pool.executor.logs[job.id] += b"more"
    pool.executor.tell(LogGrew(job.id, 0, 10))
    assert (await asyncio.wait_for(waiting, PATIENCE_S)).text == "more"
    waiting = asyncio.ensure_future(pool.engine.log(job.id, 0, 10, 100, 30))
    await asyncio.sleep(0.01)
    pool.executor.end(pool.key(job.id), code=0)
    last = await asyncio.wait_for(waiting, PATIENCE_S)
    assert (last.text, last.ended) == ("", True)


async def test_a_log_of_a_job_that_never_ran_is_empty(pool):
    await pool.submit(gpus=8)
    job = await pool.submit(gpus=8)
    piece = await pool.engine.log(job.id, 0, 0, 100, 0)
    assert (piece.text, piece.ended) == ("", False)


async def test_reports_and_outputs_are_passed_on(pool):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    for step in range(3):
        pool.executor.report(pool.key(job.id), step=step, loss=1.0 / (step + 1))
    points = await pool.engine.points(job.id, 1, 10)
    assert [point.step for point in points.items] == [1, 2]
    assert (await pool.engine.points(job.id, points.next, 10)).items == []
    pool.executor.outputs[job.id, "result.json"] = b"{}"
    assert (await pool.engine.output(job.id, "result.json")).read() == b"{}"
    with pytest.raises(Refusal, match="no output"):
        await pool.engine.output(job.id, "nothing")

"""What a restarted engine finds, and what it makes of it."""

from __future__ import annotations

import asyncio

import engine_worlds as worlds
import pytest
from patience import PATIENCE_S

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    ExitKind,
    Report,
    Reported,
)
from springtide.scheduler.metrics import NotFinite
from springtide.scheduler.model import Worker
from springtide.scheduler.store import StoreError
from springtide.scheduler.store.queries import reading


async def test_running_jobs_are_adopted(pool):
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    pool.executor.report(pool.key(job.id), step=3, saved=True)
    await pool.idle()
    await pool.restart()
    adopted = await pool.job(job.id)
    assert (adopted.state, adopted.attempt, adopted.saved_step) == ("running", 1, 3)
    await pool.idle()
    assert pool.executor.ran == {AttemptKey(job.id, 1): 1}
    pool.executor.end(pool.key(job.id), code=0)
    await pool.state(job.id, "succeeded")


async def test_a_checkpoint_that_found_no_room_is_said_until_one_is_saved(pool):
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    last = Report(1, pool.clock(), 1, 3.0, unsaved=True)
    pool.executor.tell(Reported(pool.key(job.id), last, unsaved_at=last.at))
    await pool.idle()
    said = (await pool.job(job.id)).reason.text
    assert "Its newest checkpoint could not be saved: the disk is full. The one before it is kept." in said
    pool.executor.report(pool.key(job.id), step=4, saved=True)
    await pool.idle()
    assert "checkpoint" not in (await pool.job(job.id)).reason.text


async def test_a_result_that_waits_for_room_is_said_until_it_is_written_to_those_who_look_too(pool):
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    stream = pool.engine.subscribe()
    await anext(stream)

    async def heard(words):
        async with asyncio.timeout(PATIENCE_S):
            async for events in stream:
                shown = [each.data["reason"] for each in events if each.kind == "job" and each.data["reason"]]
                if any(words in each["headline"] for each in shown):
                    return

    last = Report(1, pool.clock(), 1, waits_for_room=600.0)
    pool.executor.tell(Reported(pool.key(job.id), last, room_until=last.at + 600.0))
    await heard("The disk is full: its result waits for room.")
    await pool.later(60)
    why = (await pool.job(job.id)).reason
    assert why.headline == "Running on 2 GPUs. The disk is full: its result waits for room."
    assert "Without room it fails in 9 min. Delete outputs of ended jobs, or have an administrator" in why.text
    pool.executor.tell(Reported(pool.key(job.id), Report(2, pool.clock(), 1, waits_for_room=0.0)))
    await heard("Running on 2 GPUs. No checkpoint seen yet.")
    assert "room" not in (await pool.job(job.id)).reason.text
    await stream.aclose()


async def test_metrics_that_are_not_finite_survive_and_are_said(pool):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    pool.executor.report(pool.key(job.id), step=1, loss=0.5, accuracy=0.1)
    pool.executor.report(pool.key(job.id), step=2, loss=NotFinite.NAN, accuracy=NotFinite.INFINITY)
    pool.executor.report(pool.key(job.id), step=3, loss=NotFinite.NAN, accuracy=0.2)
    await pool.idle()
    await pool.restart()
    await pool.idle()
    found = await pool.job(job.id)
    assert (str(found.progress.values["loss"]), found.progress.values["accuracy"]) == ("nan", 0.2)
    assert found.progress.not_finite == {"loss": 2.0}
    assert (found.progress.best["loss"].value, found.progress.best["accuracy"].value) == (0.5, 0.2)
    assert found.reason.headline.endswith("“loss” not finite since step 2.")
    assert "The metric “loss” has not been a finite number since step 2." in found.reason.text
    pool.executor.end(pool.key(job.id), code=0)
    ended = await pool.state(job.id, "succeeded")
    assert ended.reason.headline == "Finished. “loss” not finite since step 2."


async def test_what_ended_while_nobody_looked_is_settled(pool):
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    await pool.stop()
    pool.executor.end(AttemptKey(job.id, 1), code=0)
    await pool.start()
    await pool.state(job.id, "succeeded")
    await pool.until(lambda: not pool.executor.world)


async def test_what_projects_borrowed_lately_survives(pool):
    borrows = await pool.submit(gpus=6)
    await pool.state(borrows.id, "running")
    pool.clock.now += 600.0
    await pool.restart()
    pool.clock.now += 600.0
    pool.executor.end(pool.key(borrows.id), code=0)
    await pool.state(borrows.id, "succeeded")
    await pool.stop()
    (kept,) = [
        use
        for use in pool.store_class.open(pool.url, pool.path).read(reading.load).recent_use.values()
        if use.project == "susan"
    ]
    assert (kept.borrowed, kept.gpu_seconds) == (0, pytest.approx(4 * 1200.0, rel=0.02))


async def test_a_queue_survives_in_order(pool):
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    waiting = [(await pool.submit(gpus=8)).id for _ in range(3)]
    held = waiting[1]
    await pool.engine.pause(held, "susan")
    await pool.restart()
    await pool.idle()
    assert [(await pool.job(job_id)).place for job_id in waiting] == [1, None, 2]
    assert (await pool.job(held)).held_by_user


async def test_a_seen_attempt_that_nobody_knows_any_more_was_lost(pool):
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    await pool.stop()
    pool.executor.world.clear()
    await pool.start()
    again = await pool.state(job.id, "running", attempt=2)
    assert (again.attempts[0].state, again.failures) == ("lost", 0)


async def test_a_pause_that_was_asked_for_is_asked_for_again(pool):
    pool.executor.ignores_pause = True
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    await pool.engine.pause(job.id, "susan")
    await pool.idle()
    await pool.stop()
    pool.executor.ignores_pause = False
    await pool.start()
    assert (await pool.state(job.id, "paused")).held_by_user


async def test_a_cancelled_job_is_killed_again(pool):
    pool.executor.ignores_kill = True
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    await pool.engine.cancel(job.id, "susan")
    await pool.idle()
    await pool.stop()
    pool.executor.ignores_kill = False
    await pool.start()
    await pool.state(job.id, "cancelled")


async def test_an_attempt_whose_end_is_on_record_is_ended_when_it_turns_up_again(pool):
    job = await pool.submit(gpus=2)
    await pool.state(job.id, "running")
    placement = pool.executor.specs[AttemptKey(job.id, 1)].placement
    pool.executor.end(pool.key(job.id), kind=ExitKind.LOST)
    await pool.state(job.id, "running", attempt=2)
    await pool.stop()
    zombie = AttemptKey(job.id, 1)
    pool.executor.world[zombie] = AttemptStatus(zombie, AttemptPhase.RUNNING, 1.0, placement=placement)
    await pool.start()
    await pool.until(lambda: ("now", zombie) in pool.executor.asked)
    await pool.until(lambda: zombie not in pool.executor.world)
    assert (await pool.job(job.id)).state == "running"


async def test_a_store_that_knows_nothing_needs_an_admins_word_and_leaves_what_runs_alone(tmp_path, make_pool):
    first = await make_pool(path=tmp_path / "one")
    job = await first.submit(gpus=4)
    await first.state(job.id, "running")
    await first.stop()
    with pytest.raises(StoreError, match="is empty, but this state directory is that of a pool"):
        await make_pool(path=tmp_path / "lost", executor=first.executor)
    first.executor.epoch = 0  # as without the file jobs/.epoch
    second = await make_pool(path=tmp_path / "two", executor=first.executor)
    second.ids = iter(["other"])
    await second.idle()
    assert second.engine.stats.quarantined == 1
    other = await second.submit(gpus=4)
    running = await second.state(other.id, "running")
    assert [gpu.index for gpu in running.held] == [4, 5, 6, 7]
    assert ("kill", AttemptKey(job.id, 1)) not in first.executor.asked


async def test_projects_are_seeded_once(pool, members):
    assert {project.name for project in pool.engine.pool().projects} == {"susan", "joe", "jemma"}
    await pool.engine.delete_project("jemma", "admin")
    await pool.restart()
    assert {project.name for project in pool.engine.pool().projects} == {"susan", "joe"}


async def test_files_of_a_job_reach_every_attempt_also_after_a_restart(pool):
    small, large = b"print(1)", bytes(range(256)) * 1024
    job = await pool.submit(argv=["python", "{code}/a.py"], files={"a.py": small, "data/b.bin": large})
    await pool.state(job.id, "running")
    await pool.restart()
    pool.executor.end(pool.key(job.id), kind=ExitKind.LOST)
    await pool.state(job.id, "running", attempt=2)
    for attempt in (1, 2):
        assert pool.executor.specs[AttemptKey(job.id, attempt)].files == {"a.py": small, "data/b.bin": large}


async def test_files_that_are_gone_are_told_in_words_and_the_job_starts_when_they_are_back(pool):
    pool.executor.change_nodes(worlds.node("train", 8, taken=frozenset(range(8))))
    await pool.idle()
    job = await pool.submit(argv=["x"], files={"b.bin": bytes(200_000)})
    await pool.stop()
    (pool.path / "bundles").rename(pool.path / "away")
    await pool.start()
    pool.executor.change_nodes(*worlds.EIGHT)

    async def is_told():
        reason = (await pool.job(job.id)).reason
        return reason is not None and "files are missing" in reason.text

    await pool.until(is_told)
    (pool.path / "away").rename(pool.path / "bundles")
    await pool.later(60.0)
    await pool.state(job.id, "running")


async def test_epochs_rise_and_reach_the_executor(pool):
    first = pool.store.epoch
    await pool.restart()
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    assert pool.executor.specs[AttemptKey(job.id, 1)].epoch == pool.store.epoch == first + 1


async def test_a_gang_of_several_workers_is_placed_and_told_apart(pool):
    job = await pool.submit(gpus=2, workers=3)
    running = await pool.state(job.id, "running")
    assert len(running.held) == 6
    spec = pool.executor.specs[AttemptKey(job.id, 1)]
    assert (spec.workers, [worker.rank for worker in spec.placement]) == (3, [0, 1, 2])
    assert all(isinstance(worker, Worker) for worker in spec.placement)


async def test_a_restored_copy_of_the_store_goes_on(pool):
    database = pool.path / "springtide.sqlite"
    ended = await pool.submit(gpus=1)
    await pool.state(ended.id, "running")
    pool.executor.end(pool.key(ended.id), code=0)
    await pool.state(ended.id, "succeeded")
    await pool.stop()
    copy = database.read_bytes()
    for _ in range(4):
        await pool.start()
        job = await pool.submit(gpus=1)
        await pool.state(job.id, "running")
        await pool.engine.cancel(job.id, "susan")
        await pool.state(job.id, "cancelled")
        await pool.stop()
    database.write_bytes(copy)
    newest = pool.executor.epoch
    await pool.start()
    assert pool.store.epoch > newest
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    assert pool.executor.specs[AttemptKey(job.id, 1)].epoch == pool.store.epoch

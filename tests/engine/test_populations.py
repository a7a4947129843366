"""Generations of populations in the engine: decided by values alone, copied before they begin, never half."""

from __future__ import annotations

import asyncio
import csv
import io
import random
from typing import Any

import pytest
from jobs.engine_sweeps import counts, jobs_of, live, rows, sweep

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings, JobFilter
from springtide.scheduler.executors.base import CheckpointGoneError, ExecutorError, TrialReport
from springtide.scheduler.model import Settings
from springtide.scheduler.population import Population, Range
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.runs import parse
from springtide.scheduler.wire.run_table import csv_of

SPACE = {"rate": Range(low=0.001, high=0.1, log=True), "layers": (1, 2, 3)}
SMALL: dict[str, Any] = {"members": 4, "generations": 3, "every": 10.0, "space": SPACE, "seed": 3}
FILES = {"payload.pkl": b"pickled"}


async def evolve(pool, user="susan", **more: Any):
    fields = {name: more.pop(name) for name in list(more) if name in Population.__struct_fields__}
    shape = Population(**{**SMALL, **fields})
    trials = {"number": shape.trials, "metric": "loss", "population": shape, **more.pop("trials", {})}
    argv = ["python", "-m", "springtide.training.run", "function", "{code}/payload.pkl"]
    return await sweep(pool, user=user, **{"argv": argv, "kind": "function", "files": FILES, **trials, **more})


def value_of(trial):
    """A value that follows from the trial alone."""
    return float((trial.trial * 37) % 11 + trial.member.generation)


def finish(pool, key, value=None):
    """End an attempt at the end of its generation, with a checkpoint there."""
    spec = pool.executor.specs[key]
    pool.executor.save(key, spec.member.until)
    found = value_of(spec) if value is None else value
    pool.executor.report(key, spec.member.until, trial=TrialReport(value=found), loss=found)
    pool.executor.end(key, code=0)


async def finish_all(pool, order=sorted):
    """End all trials of the generations that follow, in an order."""
    await pool.idle()
    while live(pool):
        finish(pool, order(live(pool))[0])
        await pool.idle()


async def outcome(pool, sweep_id):
    page = await rows(pool, sweep_id)
    return [
        (row.trial, row.state, row.member, row.generation, row.parent, row.copied_from, row.parameters, row.value)
        for row in page.items
    ]


async def test_a_generation_begins_when_the_one_before_has_ended_with_copies_of_its_checkpoints(pool):
    one = await evolve(pool)
    assert (await counts(pool, one.id)).running == 4
    first, *others = live(pool)
    for key in others:
        finish(pool, key)
    assert (await counts(pool, one.id)).running == 1
    assert (await pool.job(one.id)).reason.headline.startswith("Generation 1 of 3 · 1 of 4 members runs on 1 GPU")
    finish(pool, first)
    found = await counts(pool, one.id)
    assert (found.running, found.succeeded, found.population.generation) == (4, 4, 2)
    for job in await jobs_of(pool, one.id):
        if job.outcome.generation == 2:
            spec = pool.executor.specs[pool.key(job.id)]
            assert [saved.step for saved in pool.executor.checkpoints[job.id]] == [10.0]
            assert spec.argv[5:] == tuple(f"{name}={value!r}" for name, value in job.outcome.parameters.items())
            assert (spec.member.until, spec.member.generation, spec.member.generations) == (20.0, 2, 3)
            assert job.saved is not None, "the first attempt resumes from the copy"
    await finish_all(pool)
    ended = await pool.job(one.id)
    assert (ended.state, ended.reason.text) == ("succeeded", "All 12 trials succeeded.")
    assert ended.trials.best.value == min(row[7] for row in await outcome(pool, one.id))


async def test_a_population_is_found_by_its_generation_and_exported_with_it_and_its_best_value(pool):
    one = await evolve(pool)
    await pool.idle()
    for key in live(pool):
        finish(pool, key)
    await pool.idle()
    for number, found in ((2, [one.id]), (3, [])):
        ask = JobFilter(where=parse(f"generation = {number}"))
        assert [job.id for job in (await pool.engine.jobs(ask, None, 10)).items] == found
    await finish_all(pool)
    ended = await pool.job(one.id)
    (row,) = csv.DictReader(io.StringIO(csv_of([ended], 0.0)))
    assert (row["generation"], row["member"]) == ("3", "")
    assert float(row["best.loss"]) == ended.trials.best.value


@pytest.mark.parametrize("seed", range(6))
async def test_order_of_ends_pauses_and_restarts_change_nothing(make_pool, tmp_path, seed):
    calm = await make_pool(path=tmp_path / "calm")
    one = await evolve(calm, generations=4)
    await finish_all(calm)
    wanted = await outcome(calm, one.id)
    await calm.stop()

    chance = random.Random(seed)
    settings = EngineSettings(policy=Settings(grace=5.0, min_runtime=0.0))
    rough = await make_pool(
        path=tmp_path / "rough", settings=settings, projects={"susan": {}, "joe": {"quota": 7}}
    )
    two = await evolve(rough, generations=4)
    for _ in range(400):
        await rough.idle()
        if (await rough.job(two.id)).ended is not None:
            break
        act = chance.choice(["end", "end", "end", "owner", "restart", "pause", "node"])
        mine = [key for key in live(rough) if key.job != two.id and rough.executor.specs[key].trial is not None]
        if act == "end" and mine:
            finish(rough, chance.choice(mine))
        elif act == "owner":
            hers = await rough.submit("joe", gpus=chance.randint(1, 7))
            await rough.idle()
            await rough.engine.cancel(hers.id, "joe")
        elif act == "restart":
            await rough.restart()
        elif act == "pause":
            await rough.engine.pause(two.id, "susan")
            await rough.idle()
            await rough.engine.resume(two.id, "susan")
        await rough.later(30)
    assert await outcome(rough, two.id) == wanted


async def test_a_service_that_stops_while_checkpoints_are_copied_copies_them_again(pool):
    one = await evolve(pool)
    copies, reached = [], asyncio.Event()

    async def hang_in_the_third(source, target):
        copies.append((source, target))
        if len(copies) == 3:
            reached.set()
            await asyncio.Event().wait()

    pool.executor.before_copy = hang_in_the_third
    for key in (await pool.idle(), live(pool))[1]:
        finish(pool, key)
    await reached.wait()
    shown = await pool.job(one.id)
    assert shown.state == "running", "nothing has paused"
    assert shown.reason.headline == "Generation 2 of 3 · copying checkpoints."
    assert shown.trials.population.generation == 2
    await pool.restart()
    found = await counts(pool, one.id)
    assert (found.running, found.population.generation) == (4, 2)
    assert {target for _, target in copies} == {job.id for job in await jobs_of(pool, one.id) if job.trial > 3}
    for source, target in copies[:3]:
        assert (source, target) in copies[3:], "decided equally"


async def test_old_checkpoints_are_deleted_once_their_copies_are_whole_also_by_the_next_service(pool):
    one = await evolve(pool)
    await pool.idle()
    first = live(pool)
    for key in first:
        finish(pool, key)
    await pool.idle()
    best = (await pool.job(one.id)).trials.best.job
    assert [key.job for key in first if pool.executor.checkpoints[key.job]] == [best]
    pool.executor.save(first[0], 10)  # as if the service had been killed before it deleted this one
    pool.executor.save(first[1], 10)
    await pool.restart()
    await pool.idle()
    assert [key.job for key in first if pool.executor.checkpoints[key.job]] == [best]
    assert all(pool.executor.checkpoints[key.job] for key in live(pool))


async def test_checkpoints_that_cannot_be_copied_pause_the_sweep_and_are_copied_once_it_is_resumed(pool):
    one = await evolve(pool)

    async def no_room(source, target):
        raise ExecutorError("The checkpoint cannot be copied: No space left on device.")

    pool.executor.before_copy = no_room
    await pool.idle()
    for key in live(pool):
        finish(pool, key)
    await pool.idle()
    stuck = await pool.job(one.id)
    assert stuck.state == "paused"
    assert stuck.reason.text == (
        "The sweep paused itself: the checkpoints for generation 2 could not be copied. The checkpoint cannot be "
        "copied: No space left on device. Resume it to copy them again, or cancel it."
    )
    pool.executor.before_copy = None
    await pool.engine.resume(one.id, "susan")
    assert (await counts(pool, one.id)).running == 4


async def test_a_sweep_that_is_cancelled_while_checkpoints_are_copied_leaves_no_copies(pool):
    one = await evolve(pool)
    reached, go = asyncio.Event(), asyncio.Event()

    async def wait(source, target):
        reached.set()
        await go.wait()

    pool.executor.before_copy = wait
    await pool.idle()
    ended = live(pool)
    for key in ended:
        finish(pool, key)
    await reached.wait()
    await pool.engine.cancel(one.id, "susan")
    go.set()
    await pool.idle()
    assert (await pool.job(one.id)).state == "cancelled"
    assert set(pool.executor.checkpoints) == {key.job for key in ended}


async def test_copies_are_left_alone_while_they_are_made_and_while_their_trials_are_still_to_begin(pool):
    one = await evolve(pool, at_most=1)
    settle = pool.engine._parts.copies.settle
    reached, go = asyncio.Event(), asyncio.Event()

    async def wait(source, target):
        reached.set()
        await go.wait()

    pool.executor.before_copy = wait
    for _ in range(4):
        await pool.idle()
        finish(pool, live(pool)[0])
    await reached.wait()
    await settle()
    go.set()
    assert (await counts(pool, one.id)).running == 1
    await settle()
    second = {f"{one.id}t{number}" for number in range(4, 8)}
    assert second <= {job for job, saved in pool.executor.checkpoints.items() if saved}
    await pool.engine.cancel(one.id, "susan")
    await pool.idle()
    await settle()
    assert second & set(pool.executor.checkpoints) == {f"{one.id}t4"}, "the others never begin"


async def test_a_member_whose_checkpoint_is_gone_counts_as_one_without_a_value(pool):
    one = await evolve(pool)
    await pool.idle()
    keys = live(pool)
    for number, key in enumerate(keys[:-1]):
        finish(pool, key, value=float(number))
    pool.executor.checkpoints[keys[0].job].clear()
    finish(pool, keys[-1], value=9.0)
    await pool.idle()
    second = await outcome(pool, one.id)
    assert [row[4] for row in second[4:8]] == [1, 1, 2, 3], "the parents: the gone best one continues as a copy"
    await finish_all(pool)
    assert (await pool.job(one.id)).state == "succeeded"


async def test_members_know_from_the_second_generation_on_that_they_continue_a_checkpoint(pool):
    await evolve(pool)
    await pool.idle()
    first = live(pool)
    for number, key in enumerate(first):
        finish(pool, key, value=float(number))
    await pool.idle()
    assert [pool.executor.specs[key].continues for key in (*first, *live(pool))] == [False] * 4 + [True] * 4


async def test_a_checkpoint_that_goes_while_it_is_copied_is_one_that_is_gone(pool):
    one = await evolve(pool)

    async def gone(source, target):
        if source == f"{one.id}t0":
            pool.executor.checkpoints[source].clear()
            raise CheckpointGoneError("The checkpoint was removed at this moment.")

    pool.executor.before_copy = gone
    await pool.idle()
    for number, key in enumerate(live(pool)):
        finish(pool, key, value=float(number))
    await pool.idle()
    assert [row[4] for row in (await outcome(pool, one.id))[4:8]] == [1, 1, 2, 3]


async def test_a_population_without_any_checkpoint_to_continue_from_fails_and_says_so(pool):
    one = await evolve(pool)
    await pool.idle()
    for key in live(pool):
        pool.executor.report(key, 10, trial=TrialReport(value=1.0))
        pool.executor.end(key, code=0)
    await pool.idle()
    lost = await pool.job(one.id)
    assert lost.state == "failed"
    assert lost.reason.text.startswith(
        "The population ended in generation 1: the checkpoints of all 4 members are not there any more, so there"
    )


async def test_the_checkpoint_of_a_finished_member_is_deleted_by_force_only_while_it_is_needed(pool):
    one = await evolve(pool, generations=2)
    await pool.idle()
    done, *others = live(pool)
    finish(pool, done)
    await pool.idle()
    (listed,) = (await pool.engine.forks.checkpoints(done.job)).items
    assert (listed.needed, listed.for_population) == (True, True)
    with pytest.raises(Refusal, match=r"may continue from .* goes on without this member's value\."):
        await pool.engine.forks.delete(done.job, {listed.name}, force=False)
    assert (await pool.engine.forks.delete(done.job, {listed.name}, force=True)).items == []
    for key in others:
        finish(pool, key)
    await pool.idle()
    assert (await counts(pool, one.id)).population.generation == 2
    last = live(pool)[0]
    finish(pool, last)
    await pool.idle()
    listed = (await pool.engine.forks.checkpoints(last.job)).items
    assert not any(each.needed for each in listed), "no generation follows"
    await pool.engine.forks.delete(last.job, {listed[0].name}, force=False)


async def test_failed_members_are_copies_of_better_ones_and_without_a_value_the_sweep_ends(pool):
    one = await evolve(pool)
    await pool.idle()
    bad, *good = live(pool)
    pool.executor.end(bad, code=1)
    for key in good:
        finish(pool, key)
    await pool.idle()
    second = await outcome(pool, one.id)
    assert second[0][1] == "failed"
    assert second[4][5] in {1, 2, 3}
    for key in live(pool):
        pool.executor.save(key, 20)
        pool.executor.report(key, 20, trial=TrialReport(), loss=0.5)
        pool.executor.end(key, code=0)
    await pool.idle()
    lost = await pool.job(one.id)
    assert lost.state == "failed"
    assert lost.reason.text.startswith(
        "The population ended in generation 2: none of its 4 members reached a value, so there is none to"
    )
    assert [row[7] for row in (await outcome(pool, one.id))[4:8]] == [None] * 4, "not the last finite one"
    assert {row[1] for row in (await outcome(pool, one.id))[8:]} == {"cancelled"}


async def test_a_trial_that_is_tried_again_keeps_its_checkpoint_and_parameters(pool):
    one = await evolve(pool, retries=1)
    await pool.idle()
    for key in live(pool):
        finish(pool, key)
    await pool.idle()
    key = live(pool)[0]
    before = pool.executor.specs[key]
    pool.executor.end(key, code=1)
    await pool.later(60)
    again = pool.executor.specs[pool.key(key.job)]
    assert (again.key.attempt, again.argv, again.member) == (2, before.argv, before.member)
    assert [saved.step for saved in pool.executor.checkpoints[key.job]] == [10.0]
    await finish_all(pool)
    assert (await pool.job(one.id)).state == "succeeded"


async def test_a_population_runs_again_with_the_same_rule(pool):
    one = await evolve(pool)
    await finish_all(pool)
    submission = await pool.engine.reruns.submission(one.id, {}, None)
    assert submission.trials.population == Population(**SMALL)
    assert submission.argv == ["python", "-m", "springtide.training.run", "function", "{code}/payload.pkl"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kind": "command"}, "A population trains a function; this is a command."),
        ({"workers": 2}, "Each member of a population trains in one process; 2 workers were asked for."),
        ({"trials": {"metric": ""}}, "A population has no metric, by which its members are compared."),
        ({"trials": {"goal": ""}}, "A population has no goal, by which its members are compared."),
        ({"trials": {"number": 5}}, "There are 5 trials, and 4 members train for 3 generations."),
        ({"trials": {"history": True}}, "A population comes with the parameters or the history of its trials."),
        (
            {"space": {"rate": Range(low=2, high=1)}},
            "The range of rate goes from 2 to 1, which has nothing in it.",
        ),
    ],
)
async def test_what_is_no_population_is_refused_in_words(pool, more, words):
    with pytest.raises(Refusal) as refused:
        await evolve(pool, **more)
    assert refused.value.message == words
    assert refused.value.hint


async def test_only_the_bounds_of_a_population_can_be_changed(pool):
    one = await evolve(pool)
    with pytest.raises(Refusal, match="members times generations"):
        await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(number=20))
    with pytest.raises(Refusal, match="failed members continue as copies"):
        await pool.engine.sweeps.retry(one.id)
    await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(at_most=2))
    assert (await counts(pool, one.id)).at_most == 2

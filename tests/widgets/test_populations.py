"""Population-based training in a real pool: the same to the bit whatever is paused, killed or fails meanwhile."""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pools.pool_process import ServiceProcess
from programs.terminal import called

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.population import Population, first_generation
from springtide.training import current_job
from springtide.widgets import loguniform, uniform
from springtide.widgets.connection import Connection
from springtide.widgets.errors import NoResultError, OptionError
from springtide.widgets.shared_pool import Pool
from springtide.widgets.sweep import Sweep

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("populations")]
PROJECTS = {"vision": (2, ["susan"]), "speech": (6, ["jemma"])}
LIMIT_S = 240
SPACE = {"rate": loguniform(0.01, 0.3), "momentum": uniform(0.0, 0.9), "shift": [0.0, 0.05, 0.1]}
KINDS = ("good", "nan", "fails")
UNFINISHED = "queued,starting,running,pausing,cancelling,ending,paused"


def training() -> Callable[..., float]:
    def train(rate: float, momentum: float, shift: float, steps: int = 9, pace: float = 0.0) -> float:
        job = current_job()
        found = job.restore()
        noise = random.Random(5)
        done, weight, speed, seed = found.state if found else (0, 3.0, 0.0, noise.getstate())
        noise.setstate(seed)
        for step in range(done, steps):
            time.sleep(pace)
            speed = momentum * speed + 2 * (weight - shift) + noise.gauss(0, 0.2)
            weight -= rate * speed
            job.report(step=step + 1, of=steps, loss=weight * weight)
            if job.should_pause():
                job.save((step + 1, weight, speed, noise.getstate()), step=step + 1)
                job.exit_for_pause()
        return weight

    return train


class Machine:
    """A pool of 8 GPUs, of which 2 are susan's and 6 jemma's."""

    def __init__(self, state: Path) -> None:
        self.service = ServiceProcess(state, projects=PROJECTS)
        self.client = functools.cache(functools.partial(Client, self.service.start()))

    @property
    def pool(self) -> Pool:
        return Pool(Connection(self.client("susan")))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("machine"))
    yield found
    found.service.stop()


@pytest.fixture(autouse=True)
def nothing_is_left(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    for user in ("susan", "jemma"):
        client = machine.client(user)
        for job in client.all_jobs(state=UNFINISHED, mine=True):
            client.cancel(job.id)
        until_ended(client)


def until_ended(client: Client) -> None:
    until(lambda: not client.jobs(state=UNFINISHED, mine=True).items)


def until(true: Callable[[], object], seconds: float = LIMIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def evolve(machine: Machine, function: Callable[..., Any] | None = None, space: Any = SPACE, **more: Any) -> Sweep:
    chosen = {"population": 8, "generations": 3, "every": 3, "metric": "loss", "seed": 11, **more}
    return machine.pool.evolve(function or training(), space, **chosen)


def outcome(sweep: Sweep) -> list[Any]:
    """What a population comes to, to the bit: each trial with its lineage, parameters and value."""
    return [
        (row.trial, row.state, row.generation, row.member, row.parent, row.copied_from, row.parameters, row.value)
        for row in sweep.trials()
    ]


@pytest.fixture(scope="module")
def undisturbed(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The outcome of a population with all GPUs of the machine to itself, its best trial, and its results."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("work"))
        sweep = evolve(machine)
        assert sweep.wait(LIMIT_S, quiet=True).state == "succeeded"
    rows = sweep.trials()
    assert [row.attempt for row in rows] == [1] * 24
    return outcome(sweep), (sweep.best.trial, sweep.best.value, sweep.best.parameters), sweep.results()


def test_a_terminal_shows_generations_members_and_copies(machine: Machine, undisturbed: Any) -> None:
    susan = machine.client("susan")
    sweep = next(job for job in susan.all_jobs(mine=True, state="succeeded") if job.trials is not None)

    def column(head: str, *words: str) -> list[str]:
        done = called("jobs", *words, env={"SPRINGTIDE_URL": susan.url, "JUPYTERHUB_API_TOKEN": "susan"})
        assert done.code == 0, done.err
        heads, *rows = done.out.splitlines()
        place = heads.index(head)
        return [row[place : place + len(head)].strip() for row in rows]

    chosen = ("--sweep", sweep.id, "--where", "generation = 2", "--order", "member")
    rows = [row for row in susan.trials(sweep.id).items if row.generation == 2]
    assert column("MEMBER", *chosen) == [str(row.member) for row in rows]
    assert column("GENERATION", *chosen) == ["2"] * 8
    copies = ["" if row.copied_from is None else str(row.copied_from) for row in rows]
    assert column("COPY OF", *chosen) == copies
    assert any(copies)
    assert "3 of 3" in column("GENERATION", "--mine", "--where", f"id = {sweep.id}")


def is_equal(sweep: Sweep, undisturbed: Any) -> bool:
    best = sweep.best
    found = outcome(sweep), (best.trial, best.value, best.parameters), sweep.results()
    assert found == undisturbed
    return True


def test_each_generation_continues_from_the_last_one_and_the_worst_members_from_the_best(machine, undisturbed):
    trials, best, results = undisturbed
    assert [(trial, generation, member) for trial, _, generation, member, *_ in trials] == [
        (number, number // 8 + 1, number % 8) for number in range(24)
    ]
    for trial, _, generation, member, parent, copied_from, parameters, _ in trials[8:]:
        before = trials[(generation - 2) * 8 : (generation - 1) * 8]
        ranked = [each[3] for each in sorted(before, key=lambda each: each[7])]
        source = member if copied_from is None else copied_from
        assert parent == trial - 8 - member + source
        if member in ranked[6:]:
            assert copied_from in ranked[:2]
        else:
            assert copied_from is None
            assert parameters == trials[parent][6]
    assert best[1] == min(trial[7] for trial in trials)
    assert [round(weight * weight, 12) for weight in results] == [round(trial[7], 12) for trial in trials[16:]]


def test_members_continue_where_their_sources_were(undisturbed):
    """The value of each trial is that of a run outside the pool with the schedule of its line."""
    trials = undisturbed[0]
    for trial in trials:
        line = [trial]
        while line[0][4] is not None:
            line.insert(0, trials[line[0][4]])
        weight, speed, noise = 3.0, 0.0, random.Random(5)
        for each in line:
            rate, momentum, shift = (each[6][name] for name in ("rate", "momentum", "shift"))
            for _ in range(3):
                speed = momentum * speed + 2 * (weight - shift) + noise.gauss(0, 0.2)
                weight -= rate * speed
        assert weight * weight == trial[7]


def test_an_owner_who_comes_and_goes_changes_nothing_to_the_bit(machine, undisturbed):
    sweep = evolve(machine, pace=0.3)
    jemma = Pool(Connection(machine.client("jemma")))
    visits = 0
    deadline = time.monotonic() + LIMIT_S
    while sweep.state not in {"succeeded", "failed"} and time.monotonic() < deadline:
        if sweep.info.trials.borrowed:
            jemma.submit("sleep 0.5", gpus=6, name="hers").wait(LIMIT_S, quiet=True)
            visits += 1
        time.sleep(0.3)
    assert sweep.state == "succeeded", sweep.info.reason.text
    assert visits > 2
    assert sum(row.attempt > 1 for row in sweep.trials()) > 2, "members were paused"
    assert is_equal(sweep, undisturbed)


def test_a_population_trains_on_one_gpu_and_waiting_members_hold_none(machine, undisturbed):
    sweep = evolve(machine, at_most=1)
    most = 0
    while sweep.state not in {"succeeded", "failed"}:
        most = max(most, sweep.info.trials.gpus)
        time.sleep(0.1)
    assert most == 1
    assert is_equal(sweep, undisturbed)


def test_a_service_that_is_killed_between_decision_and_copies_changes_nothing(machine, undisturbed):
    sweep = evolve(machine)
    kills = 0
    for generation in (2, 3):
        until_copying(sweep, generation)
        kills += sweep.info.ended is None
        time.sleep(0.4 * (generation - 2))
        machine.service.kill()
        machine.service.start()
        sweep = found_again(machine, sweep)
        until_begun(sweep, generation)
    until(lambda: sweep.info.ended is not None)
    assert kills == 2
    assert is_equal(sweep, undisturbed)


def found_again(machine: Machine, sweep: Sweep) -> Sweep:
    again = Pool(Connection(machine.client("susan"))).job(sweep.id)
    assert isinstance(again, Sweep)
    return again


def until_copying(sweep: Sweep, generation: int) -> None:
    words = f"Generation {generation} of 3 · copying checkpoints"
    until(lambda: words in sweep.info.reason.headline or sweep.info.ended)


def until_begun(sweep: Sweep, generation: int) -> None:
    def has_begun() -> bool:
        info = sweep.info
        return info.trials.population.generation >= generation and "copying" not in info.reason.headline

    until(has_begun)


def test_a_kill_while_members_train_changes_nothing_and_a_paused_population_begins_nothing(machine, undisturbed):
    sweep = evolve(machine, pace=0.2)
    until(lambda: sweep.info.trials.running > 2)
    machine.service.kill()
    machine.service.start()
    sweep = found_again(machine, sweep)
    until(lambda: sweep.info.trials.running > 1)
    sweep.pause()
    until(lambda: sweep.info.trials.running == 0)
    standing = sweep.info.trials
    time.sleep(1.0)
    assert sweep.info.trials == standing
    assert sweep.state == "paused"
    sweep.resume()
    until(lambda: sweep.info.ended is not None)
    assert is_equal(sweep, undisturbed)


def test_a_cancelled_population_keeps_what_has_ended(machine):
    sweep = evolve(machine)
    until(lambda: sweep.info.trials.population.generation == 2)
    sweep.cancel()
    until(lambda: sweep.info.ended is not None)
    assert sweep.state == "cancelled"
    assert sweep.best.trial < 16
    states = [row.state for row in sweep.trials()]
    assert states[:8] == ["succeeded"] * 8
    assert set(states[16:]) == {"cancelled"}


def test_members_that_fail_continue_as_copies_and_values_that_are_not_finite_are_the_worst(machine):
    def fragile(kind: str) -> None:
        job = current_job()
        found = job.restore()
        done, seen = found.state if found else (0, [])
        for step in range(done, 4):
            seen = [*seen, kind]
            if kind == "fails" and step < 2:
                raise RuntimeError("no data")
            job.report(step=step + 1, loss=math.nan if kind == "nan" and step < 2 else 1.0 + job.trial % 4)
            if job.should_pause():
                job.save((step + 1, seen), step=step + 1)
                job.exit_for_pause()

    kinds = {"good", "nan", "fails"}
    seed = next(seed for seed in range(100) if set(first_kinds(seed)) == kinds)
    first = first_kinds(seed)
    shape = {"population": 4, "generations": 2, "every": 2, "quantile": 0.0, "resample": 0.0, "seed": seed}
    sweep = evolve(machine, fragile, {"kind": KINDS}, **shape)
    sweep.wait(LIMIT_S, quiet=True)
    rows = sweep.trials()
    bad = [member for member in range(4) if first[member] != "good"]
    best = min(member for member in range(4) if first[member] == "good")
    assert [row.state for row in rows[:4]] == ["failed" if kind == "fails" else "succeeded" for kind in first]
    assert [row.value is None for row in rows[:4]] == [kind != "good" for kind in first]
    assert [row.copied_from for row in rows[4:]] == [best if member in bad else None for member in range(4)]
    assert [row.state for row in rows[4:]] == ["succeeded"] * 4
    assert sweep.state == "succeeded"
    assert "1 failed" in sweep.reason or "2 failed" in sweep.reason


def first_kinds(seed: int) -> list[Any]:
    shape = Population(members=4, generations=2, every=2.0, space={"kind": KINDS}, seed=seed)
    return [member.parameters["kind"] for member in first_generation(shape)]


def test_a_training_without_checkpoints_ends_in_the_first_generation_with_a_plain_sentence(machine):
    def forgetful(x: float) -> float:
        job = current_job()
        for step in range(6):
            job.report(step=step + 1, loss=x)
            if job.should_pause():
                job.exit_for_pause()
        return x

    def deaf(x: float) -> float:
        for step in range(6):
            current_job().report(step=step + 1, loss=x)
        return x

    def short(x: float) -> float:
        current_job().report(step=1, loss=x)
        return x

    said = {}
    for function in (forgetful, deaf, short):
        sweep = evolve(machine, function, {"x": [1, 2]}, population=2, generations=2, every=3)
        sweep.wait(LIMIT_S, quiet=True)
        assert sweep.state == "failed"
        assert sweep.reason.startswith(
            "The population ended in generation 1: none of its 2 members reached a value"
        )
        said[function.__name__] = sweep.trials()[0].error
        with pytest.raises(NoResultError, match="No trial of the sweep has a value yet"):
            sweep.schedule()
    assert said["forgetful"].startswith("GenerationError: The training saved no checkpoint at step 3, where")
    assert said["deaf"].startswith("GenerationError: The training went past step 3, where generation 1 of 2 ends.")
    assert said["short"].startswith(
        "GenerationError: The training returned in generation 1 of 2, which ends at step 3"
    )
    assert "Train for 6 steps or more" in said["short"]


def test_old_checkpoints_are_deleted_except_those_of_the_best_trial(machine):
    def train_best_early(x: float) -> None:
        job = current_job()
        found = job.restore()
        for step in range(found.state if found else 0, 3):
            job.report(step=step + 1, of=3, loss=step + x)
            job.save(step + 1, step=step + 1)
            if job.should_pause():
                job.exit_for_pause()

    sweep = evolve(machine, train_best_early, {"x": [0.5, 1]}, population=2, generations=3, every=1, quantile=0)
    sweep.wait(LIMIT_S, quiet=True)
    assert sweep.state == "succeeded", sweep.trials()
    best = sweep.best.trial
    assert best < 2
    kept = [len(sweep[number].checkpoints()) for number in range(6)]
    assert [number for number in range(4) if kept[number]] == [best]
    assert kept[4] > 0
    assert kept[5] > 0


def test_a_population_shows_lineage_schedule_and_generation(machine, undisturbed, capsys):
    sweep = next(job for job in machine.pool.jobs(state="succeeded") if isinstance(job, Sweep) and len(job) == 24)
    rows = sweep.trials()
    assert repr(rows).splitlines()[0].split()[:6] == ["trial", "generation", "member", "copy", "of", "member"]
    frame = sweep.to_frame()
    assert list(frame["generation"]) == [1] * 8 + [2] * 8 + [3] * 8
    assert list(frame["parent"])[:8] != list(frame["parent"])[8:16]
    line = sweep.schedule()
    assert (line[0]["generation"], line[0]["begin"], line[0]["end"]) == (1, 0, 3)
    assert line[-1]["value"] == sweep.best.value
    assert {name: line[-1][name] for name in SPACE} == sweep.best.parameters
    assert repr(line).splitlines()[0].split()[:4] == ["generation", "member", "begin", "end"]
    assert [row["generation"] for row in sweep.schedule(20)] == [1, 2, 3]
    assert "generation 3 of 3 of 8 members" in sweep._repr_mimebundle_()["text/plain"]
    with pytest.raises(IndexError, match="there is no trial 24"):
        sweep.schedule(24)
    shown = machine.client("susan").job(sweep.id).trials.population
    assert (shown.members, shown.generation, shown.generations, shown.every) == (8, 3, 3, 3.0)


def test_what_cannot_be_trained_as_a_population_is_refused_in_words(machine):
    with pytest.raises(OptionError, match="population is 1"):
        evolve(machine, population=1)
    with pytest.raises(OptionError, match=r"factors is .*; expected two numbers above 0 and up to 1000, such as"):
        evolve(machine, factors=(0.8,))
    with pytest.raises(OptionError, match=r"at_most is 0; expected the number of trials"):
        evolve(machine, at_most=0)
    with pytest.raises(OptionError, match=r"quantile is 0\.9; expected a number from 0 up to 0\.5\."):
        evolve(machine, quantile=0.9)
    with pytest.raises(OptionError, match="workers is 2, and each member of a population trains in one process"):
        evolve(machine, workers=2)
    with pytest.raises(OptionError, match="`rate` is an int, 3; a population has a range or a list"):
        evolve(machine, space={"rate": 3})
    with pytest.raises(OptionError, match="needs a metric"):
        evolve(machine, metric="")
    with pytest.raises(OptionError, match=r"loguniform\(0, 1\) begins at 0"):
        loguniform(0, 1)
    sweep = evolve(machine)
    with pytest.raises(PoolError, match="whose failed members continue as copies of better ones"):
        sweep.retry()
    with pytest.raises(PoolError, match="its number of trials is that of members times generations"):
        sweep.set(number=30)
    sweep.set(at_most=3)
    assert sweep.info.trials.at_most == 3
    sweep.cancel()

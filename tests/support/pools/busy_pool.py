"""A pool with jobs in all states: long names and reasons, a sweep, a population, a fork and a run again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from patience import PATIENCE_S

from springtide.scheduler import wire
from springtide.scheduler.arguments import Parameter
from springtide.scheduler.client import Client
from springtide.scheduler.population import Population, Range

EVERYTHING = """
import json, os, sys, time
for step in range(1, 9):
    values = {"loss": 1 / step, "accuracy": 1 - 1 / step, "learning_rate": 1e-3 / step}
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps({"at": time.time(), "step": step, "of": 60, "values": values}) + "\\n")
    print("epoch", step, "of 60", flush=True)
outputs = os.environ["SPRINGTIDE_OUTPUT_DIR"]
with open(outputs + "/notes.txt", "w") as notes:
    notes.write("best at step 3")
with open(outputs + "/runs.csv", "w") as runs:
    runs.write("step,loss,note\\n" + "".join(f"{step},{1 / step},fine\\n" for step in range(1, 300)))
time.sleep(600)
"""
TRAIN = """
import sys
from springtide.training import current_job
job = current_job()
found = job.restore()
for step in range(int(found.step) if found else 0, 3):
    job.report(step=step + 1, of=3, loss=1 / (step + 1))
    job.save(step, step=step + 1)
"""
WAITS = """
import time
from springtide.training import current_job
job = current_job()
found = job.restore()
for step in range(int(found.step) if found else 0, 6000):
    job.report(step=step + 1, of=6000, loss=1 / (step + 1))
    if job.should_pause():
        job.save(step, step=step + 1)
        job.exit_for_pause()
    time.sleep(0.1)
"""
FAILS = """
import torchvision_of_another_planet_with_a_name_that_is_longer_than_any_column
"""
TRIAL = """
import json, os, sys, time
trial = int(os.environ["SPRINGTIDE_TRIAL"])
curve = []
for step in range(1, 4):
    loss = (trial + 1) / 10 / step
    curve.append([step, loss])
    line = {"at": time.time(), "step": step, "of": 3, "values": {"loss": loss}}
    line["trial"] = {"value": loss, "curve": curve}
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps(line) + "\\n")
if trial == 2:
    sys.exit("no such layer")
if trial > 4:
    time.sleep(600)
"""
MEMBER = """
import json, os, time
from springtide.training import current_job
trial = int(os.environ["SPRINGTIDE_TRIAL"])
job = current_job()
found = job.restore()
generation = trial // 4
for step in range(2 * generation, 2 * generation + 2):
    loss = (trial % 4 + 1) / (step + 1)
    line = {"at": time.time(), "step": step + 1, "of": 6, "values": {"loss": loss}}
    line["trial"] = {"value": loss, "curve": [[step + 1, loss]]}
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps(line) + "\\n")
job.save(step, step=step + 1)
if generation == 2:
    time.sleep(600)
"""
LONG_NAME = "an-experiment-whose-name-nobody-has-shortened-since-the-first-draft-of-the-paper-2026-11-26"
WORDS = "learning rates for the second revision of the paper, without the layers that did not help"


@dataclass(frozen=True)
class BusyPool:
    """The jobs of `fill` that tests and people look at, by id."""

    running: str
    waiting: str
    wide: str
    paused: str
    trained: str
    fork: str
    again: str
    failed: str
    cancelled: str
    without_gpus: str
    sweep: str
    population: str

    def of_each_kind(self) -> dict[str, str]:
        """Return the ids of the jobs by the names of these fields."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def fill(url: str) -> BusyPool:
    """Submit the jobs of susan, joe and jemma to the pool at an address, and wait until each is as it is named."""
    with ExitStack() as stack:
        susan, joe, jemma = (stack.enter_context(Client(url, name)) for name in ("susan", "joe", "jemma"))
        trained = send(susan, TRAIN, "--rate", "0.1", name="train", tags=["paper", "baseline"])
        failed = send(susan, FAILS, name=f"{LONG_NAME}-fails", tags=["a-tag-that-is-as-long-as-tags-may-be"[:32]])
        cancelled = send(susan, WAITS, name="cancelled", gpus=1)
        susan.cancel(cancelled.id)
        until(susan, trained.id, lambda job: job.state == "succeeded")
        until(susan, failed.id, lambda job: job.state == "failed")
        fork = susan.fork(trained.id, step=2, arguments={"rate": "0.5"})
        again = susan.rerun(trained.id, {"gpus": 2})
        for job in (fork, again):
            until(susan, job.id, lambda job: job.state == "succeeded")
        paused = send(susan, WAITS, name="paused", gpus=1)
        until(susan, paused.id, lambda job: (job.progress.step or 0) > 1)
        susan.pause(paused.id)
        until(susan, paused.id, lambda job: job.state == "paused")
        running = send(
            susan, EVERYTHING, name="digits", gpus=2, source="def train(): ...", tags=["paper"], kind="function"
        )
        until(susan, running.id, lambda job: job.progress.step == 8)
        sweep = trials_of(susan, WORDS, TRIAL, wire.Trials(number=8, at_least=2, metric="loss", parameters=RATES))
        population = trials_of(
            joe, "population", MEMBER, wire.Trials(number=12, metric="loss", population=MEMBERS)
        )
        jemmas = send(jemma, WAITS, name="speech to text, large", gpus=2)
        until(jemma, jemmas.id, lambda job: job.state == "running")
        waiting = send(susan, WAITS, name=LONG_NAME, gpus=4)
        wide = send(susan, WAITS, name="W" * 100, gpus=8)
        without_gpus = send(susan, "import time; time.sleep(600)", name="prepare", gpus=0)
        for number in range(4):
            send(joe, WAITS, name=f"faces {number} {WORDS}", gpus=4 if number % 2 else 1)
            send(jemma, WAITS, name=f"voices-{number}", workers=2, gpus=2, priority="high" if number else "train")
        until(susan, sweep.id, lambda job: job.trials is not None and job.trials.succeeded > 1)
        until(joe, population.id, in_last_generation)
    return BusyPool(
        running.id,
        waiting.id,
        wide.id,
        paused.id,
        trained.id,
        fork.id,
        again.id,
        failed.id,
        cancelled.id,
        without_gpus.id,
        sweep.id,
        population.id,
    )


RATES: list[dict[str, Parameter]] = [
    {"lr": 10.0**-number, "depth": number, "kind": "a" if number % 2 else "b"} for number in range(8)
]
MEMBERS = Population(members=4, generations=3, every=2.0, space={"rate": Range(low=0.01, high=0.3, log=True)})


def send(client: Client, program: str, *arguments: str, **fields: object) -> wire.Job:
    """Submit a Python program."""
    argv = [sys.executable, "-c", program, *arguments]
    return client.submit(wire.Submission(argv=argv, **fields))  # type: ignore[arg-type]


def trials_of(client: Client, name: str, program: str, trials: wire.Trials) -> wire.Job:
    """Submit a sweep of a Python program."""
    kind = "command" if trials.population is None else "function"
    return send(client, program, name=name, trials=trials, kind=kind)


def in_last_generation(job: wire.Job) -> bool:
    """Whether the last generation of a population trains."""
    return job.trials is not None and job.trials.population is not None and job.trials.population.generation == 3


def until(client: Client, job_id: str, wanted: Callable[[wire.Job], bool]) -> wire.Job:
    """Return the job as soon as the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(found := client.job(job_id)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found

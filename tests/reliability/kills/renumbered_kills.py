"""SIGKILLs of hub, service and proxy while a notebook starts, and in a restart that finds the GPUs otherwise.

Who holds a GPU is judged by the environments of the processes alone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import httpx
from hubs.hub_people import RARELY_S, Hub, Person, environment, until
from hubs.hub_process import WITHOUT_PAGES
from hubs.hub_steps import HUB_RESTARTS, HUB_STARTS, SERVICE_RESTARTS, SERVICE_STARTS, Plan, configuration
from patience import PATIENCE_S

from springtide.scheduler import wire
from springtide.scheduler.client import Client
from springtide.scheduler.executors.notebooks import VARIABLE as NOTEBOOK
from springtide.scheduler.telemetry.machine import SIMULATED

Holder: TypeAlias = tuple[str, ...]
PEOPLE = ("susan", "joe", "jemma")
"""People with a build quota of one GPU each."""
VICTIMS = ("service", "hub", "proxy")
STARTS = (*SERVICE_STARTS, *HUB_STARTS)
RESTARTS = (*SERVICE_RESTARTS, *HUB_RESTARTS)
DIVISIONS: tuple[dict[str, Any], ...] = (
    {"simulated_gpus": 10, "build_gpus": 4, "gpu_types": {}},
    {"simulated_gpus": 10, "build_gpus": 2, "gpu_types": {}},
    {"simulated_gpus": 10, "build_gpus": 6, "gpu_types": {}},
    {"simulated_gpus": 9, "build_gpus": 3, "gpu_types": {}},
    {"simulated_gpus": {SIMULATED: 6, "T4": 4}, "build_gpus": 5, "gpu_types": {}},
    {"simulated_gpus": {SIMULATED: 3, "T4": 7}, "build_gpus": 3, "gpu_types": {SIMULATED: [SIMULATED, "T4"]}},
)
"""Settings with which the pool finds its GPUs otherwise: more or fewer build GPUs, a lost GPU, other types."""
WATCH_S = 0.25
SETTINGS = """
import json, pathlib
c.Springtide.accounts = "shared"
c.Springtide.update(json.loads(pathlib.Path({division!r}).read_text()))
c.BuildQuota.patience = 100
c.Spawner.poll_interval = 1
"""


@dataclass(frozen=True, slots=True)
class Round:
    """A notebook starts while one victim is killed; then a restart finds other GPUs, and another one is killed.

    ``jobs`` jobs run over both.
    """

    start: Plan
    restart: Plan
    division: dict[str, Any]
    jobs: int


@dataclass(slots=True)
class RenumberedFigures:
    """How many were killed at which of their steps, and which GPUs were held twice."""

    rounds: int = 0
    kills: int = 0
    looks: int = 0
    problems: list[str] = field(default_factory=list)


def rounds(first: int = 0) -> Iterator[Round]:
    """Yield rounds without end: all steps with all victims come in turn, and each division."""
    starts = itertools.cycle([Plan(step, victim) for victim in VICTIMS for step in STARTS])
    restarts = itertools.cycle([Plan(step, victim) for step in RESTARTS for victim in VICTIMS])
    divisions = itertools.cycle([*DIVISIONS[1:], DIVISIONS[0]])
    every = map(Round, starts, restarts, divisions, itertools.cycle([3, 4, 5, 6]))
    return itertools.islice(every, first, None)


ALL = max(len(VICTIMS) * len(STARTS), len(VICTIMS) * len(RESTARTS))
"""Number of rounds in which each victim is killed at each step."""


def kill_while_gpus_change(path: Path, chosen: Sequence[Round]) -> RenumberedFigures:
    """Live through the rounds, on one state directory."""
    figures = RenumberedFigures()
    division, plan, state = path / "division.json", path / "plan", path / "state"
    division.write_text(json.dumps(DIVISIONS[0]))
    config = configuration(plan, state) + SETTINGS.format(division=str(division)) + WITHOUT_PAGES
    hub = Hub(state, config)
    watch = Watch(state, figures)
    with contextlib.ExitStack() as stack:
        stack.callback(hub.stop)
        hub.start()
        everybody = [stack.enter_context(contextlib.closing(Person(hub, name))) for name in PEOPLE]
        stack.callback(watch.stop)
        watch.start()
        for each in chosen:
            _live_through(hub, each, everybody, plan, division, figures)
            figures.rounds += 1
    return figures


def _live_through(
    hub: Hub, each: Round, everybody: Sequence[Person], plan: Path, division: Path, figures: RenumberedFigures
) -> None:
    susan = everybody[0]
    submit(hub, susan, each.jobs)
    each.start.write(plan)
    with contextlib.suppress(httpx.HTTPError):
        susan.start({"gpus": 1})
    survive(hub, each.start, plan, figures)
    until("a decision on Susan's notebook", lambda: settled(susan), every=RARELY_S)
    if susan.server() is None:
        susan.start({"gpus": 1}).raise_for_status()
    susan.wait_until_ready()
    hub.interrupt()
    division.write_text(json.dumps(each.division))
    each.restart.write(plan)
    hub.begin()
    survive(hub, each.restart, plan, figures)
    fill(hub, everybody)
    figures.problems += held_twice(hub.state_dir)
    clear(hub, everybody)


def survive(hub: Hub, plan: Plan, file: Path, figures: RenumberedFigures) -> None:
    """Wait until the plan was carried out and all answers again; a hub that has ended is started once more.

    A hub ends when it was killed, and when its service is killed before it has answered for the first time.
    """
    until(f"the step {plan.step}", lambda: not file.exists() or hub.ended, every=RARELY_S)
    figures.kills += 1
    if plan.victim == "hub":
        hub.wait()
    until("the hub", lambda: hub.ended or hub.answers(), seconds=2 * PATIENCE_S, every=RARELY_S)
    if hub.ended:
        hub.start()


def pool_of(hub: Hub, person: Person) -> Client:
    return Client(f"{hub.url}/services/springtide", person.token)


def submit(hub: Hub, person: Person, number: int) -> None:
    """Submit jobs that run until they are asked to stop."""
    waits = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
    with pool_of(hub, person) as pool:
        for _ in range(number):
            pool.submit(wire.Submission(argv=waits, gpus=1))


def settled(person: Person) -> bool:
    """Return whether the hub has found the notebook again, or given it up."""
    server = person.server()
    return server is None or bool(server["ready"])


def fill(hub: Hub, everybody: Sequence[Person]) -> None:
    """Have notebooks and jobs take every GPU that is free, and wait until no more start."""
    for person in everybody:
        submit(hub, person, 3)
        if person.server() is None:
            person.start({"gpus": 1})  # is refused if all build GPUs are held
    for person in everybody:
        until(f"{person.name}'s notebook", lambda: settled(person), every=RARELY_S)  # noqa: B023 - asked at once
    with hub.pool() as pool:
        until("the jobs", lambda: not idle_train_gpus(pool.pool()), every=RARELY_S)


def idle_train_gpus(pool: wire.PoolView) -> int:
    """Return the number of train GPUs of which the pool's page says that a job could start there."""
    return pool.train_free.get(wire.IDLE, 0)


def clear(hub: Hub, everybody: Sequence[Person]) -> None:
    """End all notebooks and jobs."""
    for person in everybody:
        with pool_of(hub, person) as pool:
            for job in pool.jobs(
                mine=True, state="queued,starting,running,pausing,cancelling,ending,paused"
            ).items:
                pool.cancel(job.id)
        if person.server() is not None:
            person.stop()
    until("the end of everything", lambda: not holders(hub.state_dir), every=RARELY_S)


# ---------- who holds what, by the environments


def holders(state: Path) -> dict[int, tuple[Holder, frozenset[str]]]:
    """Return each process with GPUs: its attempt or its notebook's start, and its GPUs."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                if str(state).encode() not in (entry / "environ").read_bytes():
                    continue
                env = environment(int(entry.name))
                holder, gpus = holder_of(env, state), env.get("CUDA_VISIBLE_DEVICES", "")
                if holder is not None and gpus:
                    found[int(entry.name)] = holder, frozenset(gpus.split(","))
    return found


def holder_of(env: dict[str, str], state: Path) -> Holder | None:
    """Return the attempt or notebook that a process belongs to by its environment."""
    if env.get("SPRINGTIDE_PAUSE_FILE", "").startswith(f"{state}/jobs/"):
        return "job", env["SPRINGTIDE_JOB_ID"], env["SPRINGTIDE_ATTEMPT"]
    mark = json.loads(env[NOTEBOOK]) if NOTEBOOK in env else {}
    if mark.get("pool") == str(state):
        return "notebook", mark["user"], mark["server"], mark["start"]
    return None


def held_twice(state: Path) -> list[str]:
    """Return which GPUs are held by two that live at the same time."""
    found = holders(state)
    problems = []
    for (one, (first, gpus)), (other, (second, others)) in itertools.combinations(found.items(), 2):
        if first != second and gpus & others:
            again = holders_of(state, one, other)
            if again == [first, second]:
                problems.append(f"{sorted(gpus & others)}: {first} and {second}")
    return problems


def holders_of(state: Path, *pids: int) -> list[Holder | None]:
    """Return the holders that processes belong to now, None for one that has ended."""
    found = []
    for pid in pids:
        try:
            found.append(holder_of(environment(pid), state))
        except (OSError, ValueError):
            found.append(None)
    return found


class Watch:
    """Looks again and again who holds what, until it is stopped."""

    def __init__(self, state: Path, figures: RenumberedFigures) -> None:
        self._state, self._figures = state, figures
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(WATCH_S):
            self._figures.problems += held_twice(self._state)
            self._figures.looks += 1

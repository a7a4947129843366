"""Real SIGKILLs of the pool's service, of supervisors, and of everything at once as a reboot does."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from hubs.hub_process import processes_of
from pools.pool_process import ServiceProcess
from servers.ports import free_port

JOB = Path(__file__).with_name("job.py")
PATIENCE_S = 240.0


@dataclass(slots=True)
class KillFigures:
    """What was killed how often, and what went wrong."""

    jobs: int
    kills: int = 0
    kills_at_start: int = 0
    supervisors: int = 0
    reboots: int = 0
    problems: list[str] = field(default_factory=list)


class KilledPool:
    """A pool of 4 simulated GPUs with real processes, whose service is killed and started again.

    ``rng`` draws the victims and times.
    """

    def __init__(self, path: Path, jobs: int, *, steps: int, pause: float, rng: random.Random) -> None:
        self.path = path
        self.state = path / "state"
        self.watched = path / "watched"
        self.boot_id = path / "boot_id"
        self.state.mkdir()
        self.watched.mkdir()
        self.steps, self.pause, self.rng = steps, pause, rng
        self.names = [f"job-{number}" for number in range(jobs)]
        self.accepted: dict[str, str] = {}
        self.figures = KillFigures(jobs)
        self._set_boot_id()
        port = free_port()
        self._service = ServiceProcess(self.state, port=port, boot_id=self.boot_id)
        url = f"http://127.0.0.1:{port}/services/springtide/api/v1"
        self._asking = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False, verify=False)

    # ---------- the service

    def start(self) -> None:
        """Start the service, and do not wait for it."""
        self._service.begin()

    def kill(self) -> None:
        """Kill the service."""
        self._service.kill()

    def kill_and_recover(self) -> None:
        """Kill the service while it is up, and half the time once more while it recovers."""
        self.kill()
        self.figures.kills += 1
        self.start()
        if self.rng.random() < 0.5:
            time.sleep(self.rng.random() * 0.3)
            self.kill()
            self.figures.kills_at_start += 1
            self.start()

    def kill_supervisor(self) -> None:
        """Kill the supervisor of a running attempt, once there is one."""
        self._wait(lambda: bool(self._supervisors()))
        with suppress(ProcessLookupError):
            os.kill(self.rng.choice(self._supervisors()), signal.SIGKILL)
            self.figures.supervisors += 1

    def _supervisors(self) -> list[int]:
        """Return the supervisors that live: numbers of processes in records may be others' by now."""
        recorded = {json.loads(path.read_bytes())["pid"] for path in self._records() if not _ended(path)}
        return sorted(recorded & set(processes_of(self.state)))

    def reboot(self) -> None:
        """Kill everything at once, and start the service on another boot."""
        self.kill()
        for pid in list(processes_of(self.state)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._wait(lambda: not list(processes_of(self.state)))
        self._set_boot_id()
        self.figures.reboots += 1
        self.start()

    def _set_boot_id(self) -> None:
        number = f"{self.rng.getrandbits(128):032x}"
        parts = (number[:8], number[8:12], number[12:16], number[16:20], number[20:])
        self.boot_id.write_text("-".join(parts) + "\n")

    def _records(self) -> list[Path]:
        return list(self.state.glob("jobs/*/attempts/*/supervisor.json"))

    # ---------- its users

    def submit_some(self, count: int) -> None:
        """Submit the next jobs; one whose answer is lost is submitted again later, with the same key."""
        for name in [name for name in self.names if name not in self.accepted][:count]:
            argv = [sys.executable, str(JOB), str(self.watched), str(self.steps), str(self.pause)]
            answer = self._ask("POST", "/jobs", {"argv": argv, "name": name, "key": name, "project": "vision"})
            if answer is not None:
                self.accepted[name] = answer["id"]

    def accept(self, count: int) -> None:
        """Submit jobs until ``count`` have been accepted in all."""

        def accepted() -> bool:
            self.submit_some(max(0, count - len(self.accepted)))
            return len(self.accepted) >= count

        self._wait(accepted)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the answer, None while the service is away."""
        headers = {"Authorization": "token susan"}
        try:
            answer = self._asking.request(method, path, json=body, headers=headers)
        except httpx.HTTPError:
            return None
        if answer.status_code == 503:
            return None
        answer.raise_for_status()
        return dict(answer.json())

    def finish(self) -> KillFigures:
        """Submit the rest, wait for all ends, and check them."""
        self.accept(len(self.names))
        for name, job_id in self.accepted.items():
            self._wait(partial(self._has_ended, job_id))
            job = self._ask("GET", f"/jobs/{job_id}") or {}
            self.figures.problems += self._problems(name, job)
        listed = (self._ask("GET", "/jobs?limit=100") or {"items": []})["items"]
        if len(listed) != len(self.names):
            self.figures.problems.append(f"{len(self.names)} jobs were accepted, {len(listed)} are there")
        violations = self.watched / "violations"
        if violations.exists():
            self.figures.problems += violations.read_text().splitlines()
        return self.figures

    def _has_ended(self, job_id: str) -> bool:
        return (self._ask("GET", f"/jobs/{job_id}") or {}).get("ended") is not None

    def _problems(self, name: str, job: dict[str, Any]) -> list[str]:
        link, found = chain(name, self.steps), results_of(self.watched, name)
        problems = []
        if job.get("state") != "succeeded":
            problems.append(f"{name} is {job.get('state')}: {job.get('error')}")
        if set(found) != {link}:
            problems.append(f"{name} has the results {found}, not {link}")
        numbers = [attempt["number"] for attempt in job.get("attempts", ())]
        if numbers != list(range(1, len(numbers) + 1)):
            problems.append(f"{name} has the attempts {numbers}")
        if not (self.figures.supervisors or self.figures.reboots) and (numbers != [1] or len(found) != 1):
            problems.append(f"{name} ran {len(numbers)} times although only the service was killed")
        return problems

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError((self.state / "service.log").read_text()[-4000:])
            time.sleep(0.1)

    def close(self) -> None:
        """End everything."""
        self._asking.close()
        if self._service.runs:
            self.kill()
        for pid in list(processes_of(self.state)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def chain(name: str, steps: int) -> str:
    """Return the result of an undisturbed job."""
    link = name
    for _ in range(steps):
        link = hashlib.sha256(link.encode()).hexdigest()
    return link


def results_of(watched: Path, name: str) -> list[str]:
    """Return the results that the attempts of a job have written."""
    results = watched / f"{name}.results"
    return results.read_text().split() if results.exists() else []


def _ended(record: Path) -> bool:
    return (record.parent / "exit.json").exists()


def kill_the_service(path: Path, *, jobs: int, kills: int, seed: int) -> KillFigures:
    """Kill the service again and again while its jobs run and are submitted."""
    pool = KilledPool(path, jobs, steps=20, pause=0.15, rng=random.Random(seed))
    try:
        pool.start()
        for _ in range(kills):
            pool.submit_some(max(1, jobs // kills))
            time.sleep(0.3 + pool.rng.random() * 2)
            pool.kill_and_recover()
        return pool.finish()
    finally:
        pool.close()


def kill_supervisors_and_reboot(path: Path, *, jobs: int, rounds: int, seed: int) -> KillFigures:
    """Kill supervisors, the service, and everything at once as a reboot does, in each round."""
    pool = KilledPool(path, jobs, steps=30, pause=0.15, rng=random.Random(seed))
    try:
        pool.start()
        for turn in range(rounds):
            pool.accept(jobs * (turn + 1) // rounds)
            pool.kill_supervisor()
            time.sleep(0.5 + pool.rng.random())
            pool.kill_and_recover()
            pool._wait(lambda: pool._ask("GET", "/jobs?limit=1") is not None)
            time.sleep(pool.rng.random())
            pool.reboot()
        return pool.finish()
    finally:
        pool.close()

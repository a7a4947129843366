"""Real SIGKILLs of a `springtide up` and of its proxy, while jobs run."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hubs.hub_people import Hub, until
from kills.service_kills import JOB, chain, results_of

from springtide.scheduler import wire
from springtide.scheduler.client import Client

STEPS, PAUSE_S = 40, 0.1
ACCOUNTS = "c.Springtide.accounts = 'shared'"


@dataclass(slots=True)
class HubFigures:
    """What was killed, and what went wrong."""

    jobs: int
    hubs: int = 0
    proxies: int = 0
    problems: list[str] = field(default_factory=list)


def kill_hub_and_proxy(path: Path, *, jobs: int, rounds: int) -> HubFigures:
    """Kill the hub and then its proxy, in each round, and check every job."""
    figures, watched = HubFigures(jobs), path / "watched"
    watched.mkdir()
    hub = Hub(path / "state", ACCOUNTS)
    ids = {}
    try:
        hub.start()
        url, token = f"{hub.url}/services/springtide", hub.token("susan")
        for turn in range(rounds):
            with Client(url, token) as pool:
                for name in [f"job-{number}" for number in range(turn, jobs, rounds)]:
                    argv = [sys.executable, str(JOB), str(watched), str(STEPS), str(PAUSE_S)]
                    ids[name] = pool.submit(wire.Submission(argv=argv, name=name)).id
            time.sleep(1.0)
            hub.kill()
            figures.hubs += 1
            hub.start()
            os.kill(int((hub.state_dir / "hub" / "proxy.pid").read_text()), signal.SIGKILL)
            figures.proxies += 1
            until("the proxy to end", lambda: not hub.answers())
            until("another proxy", hub.answers)
        with Client(url, token) as pool:
            for name, job_id in ids.items():
                until(f"the end of {name}", partial(_has_ended, pool, job_id))
                job = pool.job(job_id)
                found = results_of(watched, name)
                if (job.state, job.attempt, found) != ("succeeded", 1, [chain(name, STEPS)]):
                    figures.problems.append(f"{name} is {job.state} at attempt {job.attempt}, with {found}")
        if (watched / "violations").exists():
            figures.problems += (watched / "violations").read_text().splitlines()
        return figures
    finally:
        hub.stop()


def _has_ended(pool: Client, job_id: str) -> bool:
    return pool.job(job_id).ended is not None

"""The cost of the pool on one machine, compared with manual work: ``python benchmarks/bench_pool.py``.

Everything is real: a hub, its service, a database on disk, processes. GPUs are simulated if there are none.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from machine import describe, percentile

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from hubs.hub_process import HubProcess

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, Submission
from springtide.widgets.connection import Connection
from springtide.widgets.shared_pool import Pool

ROUNDS = 15
SUBMISSIONS = 1_600
SUBMITTERS = 16
SENDERS = 2
"""Number of processes that run the threads of the submitters, so that the pool is the limit and not its load."""
TRIALS = 2_000
IDLE_S = 20.0
WAIT_S = 30.0

SAY_NOW = "import time; print(time.time(), flush=True)"
VICTIM = """
import signal, sys, time
def leave(*_):
    print("asked", time.time(), flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while True:
    signal.pause()
"""


def wait_for(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {WAIT_S:.0f} s for {what}")
        threading.Event().wait(0.02)


def log_of(client: Client, job: Job) -> str:
    return client.log(job.id, offset=0).text


def first_line_by_hand() -> float:
    began = time.time()
    said = subprocess.run([sys.executable, "-c", SAY_NOW], capture_output=True, check=True).stdout
    return float(said) - began


def first_line_in_the_pool(client: Client) -> float:
    began = time.time()
    job = client.submit(Submission(argv=[sys.executable, "-c", SAY_NOW]))
    wait_for(lambda: client.job(job.id).state == "succeeded", "a job that prints one line")
    return float(log_of(client, job)) - began


def owner_by_hand() -> tuple[float, float]:
    """Return the seconds from a decision to SIGTERM at the victim, and to the owner's first line."""
    with subprocess.Popen([sys.executable, "-c", VICTIM], stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        victim.stdout.readline()
        began = time.time()
        victim.terminate()
        asked = float(victim.stdout.readline().split()[1])
        victim.wait()
    said = subprocess.run([sys.executable, "-c", SAY_NOW], capture_output=True, check=True).stdout
    return asked - began, float(said) - began


def owner_in_the_pool(borrower: Client, owner: Client) -> tuple[float, float]:
    victim = borrower.submit(Submission(argv=[sys.executable, "-c", VICTIM], gpus=8))
    wait_for(lambda: "ready" in log_of(borrower, victim), "the victim's start")
    began = time.time()
    job = owner.submit(Submission(argv=[sys.executable, "-c", SAY_NOW], gpus=2))
    wait_for(lambda: owner.job(job.id).state == "succeeded", "the owner's job")
    asked = float(log_of(borrower, victim).split("asked")[1].split()[0])
    borrower.cancel(victim.id)
    wait_for(lambda: borrower.job(victim.id).state == "cancelled", "the victim's end")
    return asked - began, float(log_of(owner, job)) - began


def submissions_by_hand(path: Path) -> float:
    """Return the rows per second that one program writes durably into SQLite, one transaction each."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, spec TEXT)")
    began = time.perf_counter()
    for number in range(SUBMISSIONS):
        database.execute("INSERT INTO jobs (spec) VALUES (?)", (f"job {number}",))
    took = time.perf_counter() - began
    database.close()
    return SUBMISSIONS / took


def submissions_to_the_pool(client: Client, token: str) -> tuple[float, list[float]]:
    """Return the submissions per second that the pool accepts (each on disk before its answer), and durations."""
    blocker = client.submit(Submission(argv=[sys.executable, "-c", VICTIM], gpus=8))
    wait_for(lambda: "ready" in log_of(client, blocker), "the blocker's start")
    with ProcessPoolExecutor(SENDERS) as senders:
        whole = [client.url] * SENDERS, [token] * SENDERS
        list(senders.map(submit_many, *whole, [SUBMITTERS] * SENDERS))
        began = time.perf_counter()
        sent = list(senders.map(submit_many, *whole, [SUBMISSIONS // SENDERS] * SENDERS))
        rate = SUBMISSIONS / (time.perf_counter() - began)
    accepted = {job for each in sent for job in each}
    assert len(accepted) == SUBMISSIONS
    return rate, [took for each in sent for took in each.values()]


def submit_many(url: str, token: str, number: int) -> dict[str, float]:
    """Submit ``number`` jobs, some at once, in this process; return the duration of each, by the job's id.

    It uses plain connections, because a client would take as much processor time as the service that is measured.
    """
    address = urlsplit(url)
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}

    def submit(jobs: range) -> dict[str, float]:
        took: dict[str, float] = {}
        connection = http.client.HTTPConnection(address.netloc)
        for at in jobs:
            began = time.perf_counter()
            body = msgspec.json.encode(Submission(argv=["true"], name=f"job {at}", gpus=8))
            connection.request("POST", f"{address.path}/api/v1/jobs", body, headers)
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 201, content
            took[msgspec.json.decode(content, type=Job).id] = time.perf_counter() - began
        connection.close()
        return took

    at_once = SUBMITTERS // SENDERS
    with ThreadPoolExecutor(at_once) as submitters:
        parts = submitters.map(submit, [range(first, number, at_once) for first in range(at_once)])
        return {job: seconds for part in parts for job, seconds in part.items()}


def product(rate: float, layers: int) -> float:
    return rate * layers


def sweep_to_the_pool(client: Client, other: Client) -> tuple[float, float]:
    """Return the seconds until a sweep of `TRIALS` trials is accepted, and one job; both as from a notebook.

    Raises `AssertionError` if it changes the places of jobs that wait in another project.
    """
    waiting = [other.submit(Submission(argv=["true"], gpus=8)).id for _ in range(3)]
    before = [other.job(job).place for job in waiting]
    assert None not in before
    pool = Pool(Connection(client))
    space = {"rate": [step / TRIALS for step in range(TRIALS // 2)], "layers": [1, 2]}
    sweeps, jobs = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        sweep = pool.sweep(product, space, gpus=8)
        sweeps.append(time.perf_counter() - began)
        assert len(sweep) == TRIALS
        began = time.perf_counter()
        pool.submit(product, 1.0, 2, gpus=8)
        jobs.append(time.perf_counter() - began)
    assert [other.job(job).place for job in waiting] == before
    return statistics.median(sweeps), statistics.median(jobs)


def idle_cost(pid: int) -> tuple[float, float]:
    """Return the share of one core (0 to 1) and the resident memory (MB) of an idle process."""

    def cpu_s() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, began = cpu_s(), time.monotonic()
    threading.Event().wait(IDLE_S)
    share = (cpu_s() - before) / (time.monotonic() - began)
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return share, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def line(what: str, pool: float, hand: float, unit: str, goal: str) -> None:
    print(f"{what:<52} {pool:9.3f} {unit:<5} by hand {hand:9.3f}  ratio {pool / hand:7.1f}   goal {goal}")


def main() -> None:
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, object] = {
            "min_runtime": 0.0,
            "submit_rate": 1e6,
            "submit_burst": 1_000_000,
            "queue_cap_per_user": 10_000,
        }
        hub = HubProcess(Path(folder) / "state", settings=settings)
        hub.start()
        try:
            measure(hub, Path(folder))
        finally:
            hub.stop()


def address_for_notebooks(hub: HubProcess) -> str:
    """Return the address of the service for notebooks on this machine, without the proxy for browsers."""
    port = json.loads((hub.state_dir / "ports.json").read_text())["springtide"]
    return f"http://127.0.0.1:{port}/services/springtide"


def measure(hub: HubProcess, folder: Path) -> None:
    service = address_for_notebooks(hub)
    token = hub.token("susan")
    with Client(service, token) as susan, Client(service, hub.token("joe")) as joe:
        share, memory = idle_cost(hub.service_pid())
        print(f"idle service: {share:.2%} of a core (goal: under 1 %), {memory:.0f} MB (goal: under 150 MB)")

        hand = statistics.median(first_line_by_hand() for _ in range(ROUNDS))
        pool = statistics.median(first_line_in_the_pool(susan) for _ in range(ROUNDS))
        line("submit to first line", pool, hand, "s", f"{hand + 0.5:.3f}")

        by_hand = [owner_by_hand() for _ in range(ROUNDS)]
        in_pool = [owner_in_the_pool(susan, joe) for _ in range(ROUNDS)]
        for at, (what, goal) in enumerate((("owner's submit to SIGTERM at the victim", "0.200"),
                                           ("owner's submit to the owner's first line", "1.000"))):  # fmt: skip
            measured = statistics.median(each[at] for each in in_pool)
            line(what, measured, statistics.median(each[at] for each in by_hand), "s", goal)

        by_hand_rate = submissions_by_hand(folder / "by_hand.sqlite")
        rate, took = submissions_to_the_pool(susan, token)
        line("submissions accepted durably", rate, by_hand_rate, "/s", "500")
        print(f"  of which the slowest in a hundred took {percentile(took, 0.99):.3f} s with {SUBMITTERS} at once")

        sweep, job = sweep_to_the_pool(susan, joe)
        print(f"sweep of {TRIALS:,} trials accepted in {sweep:.3f} s (goal 1.000), one job in {job:.3f} s,")
        print("  and the jobs of another project have the same places in line")


if __name__ == "__main__":
    main()

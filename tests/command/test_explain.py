"""`springtide explain` against a real service: why a job waits, runs or has ended, and what would change it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hubs.hub_people import until
from pools.pool_process import running_service
from programs.terminal import Done, called

from springtide.scheduler import wire
from springtide.scheduler.client import Client

UNFINISHED = "queued,starting,running,pausing,cancelling,ending,paused"


def _rests(client: Client) -> bool:
    return not client.jobs(state=UNFINISHED, mine=True).items


@dataclass(frozen=True)
class Pool:
    """A real service and the command of a user; nothing that is asked needs a process of its own."""

    url: str
    directory: Path

    def run(self, *words: str, user: str = "susan") -> Done:
        env = {"SPRINGTIDE_URL": self.url, "JUPYTERHUB_API_TOKEN": user}
        return called(*words, env=env, cwd=self.directory)

    def explain(self, job: str) -> str:
        done = self.run("explain", job)
        assert done.code == 0, done.err
        return done.out

    def explained(self, job: str, words: str) -> str:
        """Wait until the explanation has the words, such as those of an estimate; return it."""
        return until(words, lambda: said if words in (said := self.explain(job)) else "")

    def send(
        self, *argv: str, user: str = "susan", name: str = "", gpus: int = 1, time_limit: float | None = None
    ) -> str:
        with Client(self.url, user) as client:
            wish = wire.Submission(argv=list(argv), name=name, gpus=gpus, time_limit=time_limit)
            return client.submit(wish).id

    def until(self, job: str, state: str) -> None:
        with Client(self.url, "susan") as client:
            until(f"{job} is {state}", lambda: client.job(job).state == state)

    def end_jobs(self) -> None:
        for user in ("susan", "jemma"):
            with Client(self.url, user) as client:
                for job in client.all_jobs(state=UNFINISHED, mine=True):
                    client.cancel(job.id)
                until("the end of all jobs", partial(_rests, client))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_service(tmp_path_factory.mktemp("pool")) as url:
        yield url


@pytest.fixture
def pool(service: str, tmp_path: Path) -> Iterator[Pool]:
    """The pool without jobs."""
    pool = Pool(service, tmp_path)
    yield pool
    pool.end_jobs()


def test_a_job_that_waits(pool: Pool) -> None:
    pool.until(pool.send("sleep", "600", gpus=4, name="first", time_limit=600.0), "running")
    waiting = pool.send("sleep", "600", gpus=4, name="second")
    said = pool.explained(waiting, "Likely starts")
    assert said.splitlines()[0] == f"second ({waiting}) of susan in vision, GPUs 4: queued"
    assert "  Reason: Waiting for 4 GPUs on one node: none is free." in said
    assert "  What would change it: It could start if the job “first” of “vision” ended." in said
    assert "  When: Next in line of “vision”. Likely starts in about" in said
    held = "and holds 4 GPUs (2 borrowed). Its fair share is 4 GPUs now. Its waiting jobs ask for "
    assert f"  Project: vision has a quota of 2 GPUs, {held}" in said
    high = said.partition("Submitted again with other options:\n  --priority high: ")[2]
    assert high.startswith(
        "It would start on 4 GPUs: 2 within the quota, 2 borrowed, as soon as other jobs have made"
    )
    assert "For it, 1 job with 4 GPUs would be paused and resumed later: “first” of “susan” in “vision”." in high
    told = pool.run("explain", waiting, "--json").json
    assert told["job"]["id"] == waiting
    first = next(each for each in told["starts_if"] if "remove_jobs" in each)
    assert len(first["remove_jobs"]) == 1
    assert first["text"] == "It could start if the job “first” of “vision” ended."
    assert told["starts"]["likely"] > told["starts"]["at"]
    assert [each["options"] for each in told["alternatives"]] == ["--priority high"]  # no sooner with fewer GPUs


def test_a_job_that_runs_on_borrowed_gpus(pool: Pool) -> None:
    job = pool.send("sleep", "600", gpus=4)
    pool.until(job, "running")
    said = pool.explain(job)
    why = "Running on 4 GPUs: 2 within the quota, 2 borrowed. No checkpoint of it has been seen yet"
    assert f"  Reason: {why}" in said
    assert "\n  Attempt: 1, for " in said
    assert "Submitted again" not in said


def test_a_job_that_gave_its_gpus_back(pool: Pool) -> None:
    borrower = pool.send("sleep", "600", gpus=4)
    pool.until(borrower, "running")
    pool.send("sleep", "600", gpus=2, user="jemma", time_limit=600.0)
    pool.until(borrower, "paused")
    said = pool.explained(borrower, "Likely starts again from the beginning")
    assert said.splitlines()[0].endswith(": paused")
    assert "  Reason: The project “speech” asked for its 2 GPUs back, for a job of “jemma”." in said
    assert "No checkpoint was known" in said
    assert re.search(r"  Attempt: 1, paused (just now|\d+ s ago)\n", said)


SLOW_TO_STOP = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
)


def test_all_surfaces_say_the_same_start_and_count_the_time_of_a_pause(pool: Pool) -> None:
    with Client(pool.url, "susan") as susan, Client(pool.url, "jemma") as jemma:
        wish = wire.Submission(argv=["python3", "-c", SLOW_TO_STOP], gpus=4, grace=60)
        borrower = susan.submit(wish).id
        until("the program runs", lambda: susan.log(borrower).text)
        owner = jemma.submit(wire.Submission(argv=["sleep", "600"], gpus=2)).id
        pool.until(borrower, "pausing")

        said = pool.run("explain", owner, user="jemma").out
        listed = pool.run("jobs", "--mine", user="jemma").out
        told = [
            pool.run("explain", owner, "--json", user="jemma").json["starts"]["likely"],
            pool.run("jobs", "--mine", "--json", user="jemma").json["items"][0]["starts"]["likely"],
            jemma.job(owner).starts.likely,
        ]
        susan.end(borrower)
    assert told == [told[0]] * 3
    assert "any moment" not in said + listed
    assert re.search(r"Likely starts in about (\d+ s|1 min) \(within \d+ s\)\.", said) or "(within 1 min)" in said
    assert "  in about " in listed


def test_a_job_that_its_user_paused(pool: Pool) -> None:
    job = pool.send("sleep", "600")
    with Client(pool.url, "susan") as client:
        client.pause(job)
    pool.until(job, "paused")
    said = pool.explain(job)
    assert f"  What would change it: springtide resume {job}\n" in said
    assert "Likely" not in said


def test_nothing_would_change_a_paused_job_that_is_being_cancelled(pool: Pool) -> None:
    with Client(pool.url, "susan") as client:
        job = client.submit(wire.Submission(argv=["python3", "-c", SLOW_TO_STOP], gpus=1, grace=60)).id
        until("the program runs", lambda: client.log(job).text)
        client.pause(job)
        pool.until(job, "pausing")
        assert f"  What would change it: springtide resume {job}\n" in pool.explain(job)
        client.cancel(job)
        said = pool.explain(job)
        client.end(job)
    assert ": cancelling\n" in said
    assert "What would change it" not in said


def test_a_job_that_is_run_again_after_failures(pool: Pool) -> None:
    with Client(pool.url, "susan") as client:
        job = client.submit(wire.Submission(argv=["sh", "-c", "exit 3"], retries=5)).id

        def waits_again() -> bool:
            found = client.job(job)
            return len(found.attempts) > 1 and found.attempts[-1].ended is not None and not found.ended

        until("the second failure", waits_again)
    said = pool.explain(job)
    assert "Submitted again" not in said
    assert "--priority" not in said
    told = said.partition("What happened:\n")[2]
    assert re.search(r"^  .*: Attempt 1 failed\. It ended with exit code 3\.$", told, re.MULTILINE)
    assert re.search(r"^  .*: Attempt 2 failed\. It ended with exit code 3\.$", told, re.MULTILINE)


def test_a_job_that_failed(pool: Pool) -> None:
    job = pool.send("sh", "-c", "exit 3")
    pool.until(job, "failed")
    told = pool.run("explain", job, "--json").json
    assert told["job"]["exit_code"] == 3
    assert told["starts"] is None
    said = pool.explain(job)
    assert told["job"]["error"] in said
    assert "Project:" not in said


@pytest.mark.parametrize("name", ["no-such-job", "../me"])
def test_a_job_that_is_not_there(pool: Pool, name: str) -> None:
    done = pool.run("explain", name)
    assert done.code == 1
    assert done.err.startswith("Error: ")
    assert done.out == ""


def test_another_projects_job_is_not_explained(pool: Pool) -> None:
    job = pool.send("sleep", "600")
    done = pool.run("explain", job, user="jemma")
    assert done.code == 1
    assert job in done.err


def test_advice_on_the_next_run_is_given_in_a_terminal(pool: Pool) -> None:
    done = pool.run("advise", "--name", "never-ran", "--gpus", "1")
    assert (done.code, done.out.splitlines()[0][:27]) == (0, "Nothing is known of it yet:")
    assert json.loads(pool.run("advise", "--name", "never-ran", "--json").out)["placements"] == []
    assert "--gpus is" in (wrong := pool.run("advise", "--gpus", "many")).err
    assert wrong.code == 2

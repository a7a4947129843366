"""SpringtideJobs in a real cluster: taken in, run and shown, alone and many at once."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import msgspec
import yaml
from clusters.train_job_objects import ended_and_released, told

from springtide.scheduler import wire

YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENT = Path(__file__).parents[3] / "docs/trainjob.md"


async def test_a_manifest_becomes_a_job_that_runs_and_ends(pool, team):
    made = await team.apply(gpus=2)
    running = await team.until("running")
    assert running["status"]["gpus"] == 2
    assert {kind: (true, why) for kind, (true, why, _) in told(running).items()} == {
        "Accepted": ("True", "Accepted"),
        "Running": ("True", "Running"),
        "NodesReady": ("True", "NodesReady"),
        "Finished": ("False", "Running"),
        "Succeeded": ("Unknown", "Running"),
    }
    team.let()
    ended = await team.until_true(lambda found: not found["metadata"].get("finalizers"))
    status = ended["status"]
    assert (status["state"], status["gpus"], status["exitCode"]) == ("succeeded", 0, 0)
    assert (status["project"], status["user"], status["attempt"]) == ("vision", "kubernetes:vision", 1)
    assert told(ended)["Finished"][:2] == told(ended)["Succeeded"][:2] == ("True", "Succeeded")
    assert made["metadata"]["creationTimestamp"] <= status["startedAt"] <= status["finishedAt"]
    job = await pool.job(made["metadata"]["uid"])
    assert (job.id, job.name, job.project) == (status["jobId"], "digits", "vision")


async def test_kubectl_get_shows_state_gpus_reason_and_age(pool, team):
    await team.apply(gpus=3)
    await team.until("running")
    row = await team.row()
    assert list(row) == ["Name", "State", "Project", "GPUs", "Reason", "Age"]
    assert (row["Name"], row["State"], row["Project"], row["GPUs"]) == ("digits", "running", "vision", 3)
    await team.apply("second", gpus=2)
    await team.until("queued", "second")
    row = await team.row("second")
    assert (row["State"], row["GPUs"]) == ("queued", 0)
    assert row["Reason"] == (await pool.jobs())[0].reason.headline


async def test_a_failure_says_how_it_ended(pool, team):
    program = "import sys; print(*range(100), sep='\\n'); print('\\033[31mno data'); sys.exit(3)"
    await team.apply(command=[sys.executable, "-c", program])
    ended = await team.until("failed")
    assert ended["status"]["exitCode"] == 3
    assert ended["status"]["log"].splitlines()[-2:] == ["99", " [31mno data"]
    assert len(ended["status"]["log"].splitlines()) == 20
    assert told(ended)["Succeeded"][:2] == ("False", "Failed")
    assert told(ended)["Finished"][:2] == ("True", "Failed")
    assert "exit code 3" in told(ended)["Finished"][2]


async def test_a_pause_shows_and_so_does_going_on(pool, team):
    made = await team.apply()
    await team.until("running")
    job = await pool.job(made["metadata"]["uid"])
    await pool.engine.pause(job.id, "susan")
    paused = await team.until("paused")
    assert told(paused)["Running"][:2] == ("False", "Paused")
    assert "susan" in paused["status"]["reason"]
    await pool.engine.resume(job.id, "susan")
    again = await team.until_true(lambda found: found["status"]["state"] == "running")
    assert again["status"]["attempt"] == 2


async def test_what_the_web_page_cancels_shows_in_the_cluster(pool, team):
    made = await team.apply()
    await team.until("running")
    await pool.engine.cancel((await pool.job(made["metadata"]["uid"])).id, "jemma")
    ended = await team.until("cancelled")
    assert told(ended)["Finished"][:2] == ("True", "Cancelled")
    assert "jemma" in told(ended)["Finished"][2]


async def test_the_documents_example_runs(pool, team):
    namespace, manifest = (yaml.safe_load(text) for text in YAML.findall(DOCUMENT.read_text()))
    assert namespace["metadata"]["labels"] == {"springtide.io/project": "vision"}
    manifest["spec"]["command"][0] = sys.executable
    made = await team.ask("POST", team.path, manifest)
    await team.until("succeeded")
    log = await pool.engine.log((await pool.job(made["metadata"]["uid"])).id, 0, 0, 65536, 0)
    assert "total 190" in log.text


async def test_other_words_alone_are_not_written_all_the_time(pool, team):
    pool.seconds = 0.0
    await pool.restart()
    await team.apply()
    before = await team.until("running")
    entry = next(iter(pool.front._ledger.by_job.values()))
    words = [wire.Reason(code="x", text=f"Words {number}.") for number in range(50)]
    for reason in words:
        pool.hear(msgspec.structs.replace(entry.job, reason=reason))
        await asyncio.sleep(0.001)
    held = (await team.get())["metadata"]["resourceVersion"]
    assert held == before["metadata"]["resourceVersion"]
    pool.seconds = 10.0
    last = msgspec.structs.replace(entry.job, reason=words[-1])

    def written(found):
        pool.hear(last)  # once more, should the engine have said something meanwhile
        return found["metadata"]["resourceVersion"] != held

    after = await team.until_true(written)
    assert after["status"]["reason"] == "Words 49."


async def test_many_at_once_each_run_once_and_later_events_cost_nothing_for_them(pool, team):
    names = [f"many-{number}" for number in range(16)]
    for name in names:
        team.let(name)
    await asyncio.gather(*(team.apply(name) for name in names))
    await pool.restart()
    settled = {}
    for name in names:
        found = await team.until_true(ended_and_released, name)
        settled[name] = found["metadata"]["resourceVersion"]
    assert sorted(job.name for job in await pool.jobs()) == sorted(names)
    team.let()
    before = pool.requests
    await team.apply()
    await team.until_true(ended_and_released)
    assert pool.requests - before < 12
    assert {name: (await team.get(name))["metadata"]["resourceVersion"] for name in names} == settled

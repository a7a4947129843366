"""The engine with real processes on this machine."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

import pytest
from patience import PATIENCE_S
from stores.new_store import open_store

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings, open_engine
from springtide.scheduler.executors import environment
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.model import Settings
from springtide.scheduler.project_tree import TreeFile, digest_of, pack
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.queries import reading
from springtide.scheduler.telemetry.machine import SimulatedMachine

SAVES = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
place = os.path.join(os.environ["SPRINGTIDE_CHECKPOINT_DIR"], "step")
step = int(open(place).read()) if os.path.exists(place) else 0
print("began at", step, flush=True)
while not os.path.exists(sys.argv[1]):
    step += 1
    if os.path.exists(os.environ["SPRINGTIDE_PAUSE_FILE"]):
        with open(place, "w") as file:
            file.write(str(step))
        sys.exit(75)
    time.sleep(0.01)
with open(os.path.join(os.environ["SPRINGTIDE_OUTPUT_DIR"], "result.json"), "w") as file:
    json.dump({"gpus": os.environ["CUDA_VISIBLE_DEVICES"], "attempt": os.environ["SPRINGTIDE_ATTEMPT"]}, file)
print("done", flush=True)
"""


LOG_CAP = 1024 * 1024


class Machine:
    """A pool on this machine, with simulated GPUs and real processes."""

    def __init__(self, path) -> None:
        self.path = path
        self.engine: Any = None

    async def start(self):
        self.store = open_store(self.path)
        self.executor = LocalExecutor(self.path, SimulatedMachine(11, 3), log_cap=LOG_CAP)
        settings = EngineSettings(policy=Settings(grace=10.0))
        projects = {"susan": {"quota": 2}, "joe": {"quota": 2}}
        self.engine = await open_engine(self.store, self.executor, settings, projects=projects)

    async def stop(self):
        await self.engine.stop()
        self.store.close()

    async def submit(self, user, gpus, flag, **more: Any):
        argv = [sys.executable, "{code}/train.py", str(self.path / flag)]
        return await self.engine.submit(
            wire.Submission(argv=argv, files={"train.py": SAVES.encode()}, gpus=gpus, **more), user, user
        )

    def let(self, flag):
        (self.path / flag).touch()

    async def until(self, job_id, *states: str, attempt=None):
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            job = await self.engine.job(job_id)
            if job.state in states and attempt in {None, job.attempt}:
                return job
            assert asyncio.get_running_loop().time() < deadline, f"not {states}: {job}"
            await asyncio.sleep(0.01)

    async def log_has(self, job_id, words):
        text, offset = "", 0
        async with asyncio.timeout(PATIENCE_S):
            while words not in text:
                piece = await self.engine.log(job_id, 0, offset, 65536, 5)
                text, offset = text + piece.text, piece.next
        return text


@pytest.fixture
async def machine(tmp_path):
    one = Machine(tmp_path)
    await one.start()
    yield one
    for job in one.store.read(reading.load).jobs:
        with suppress(Refusal):
            await one.engine.cancel(job.id, "test")
    for job in one.store.read(reading.load).jobs:
        await one.until(job.id, "cancelled", "succeeded", "failed")
    await one.stop()


async def test_a_real_job_runs_and_leaves_its_log_and_output(machine):
    job = await machine.submit("susan", 2, "go")
    await machine.until(job.id, "running")
    machine.let("go")
    ended = await machine.until(job.id, "succeeded")
    assert "began at 0" in await machine.log_has(job.id, "done")
    result = json.load(await machine.engine.output(job.id, "result.json"))
    assert result["gpus"].split(",") == [gpu.uuid for gpu in ended.attempts[0].gpus]


async def test_a_real_owner_reclaims_and_the_victim_resumes_where_it_saved(machine):
    older = await machine.submit("susan", 4, "go")
    await machine.until(older.id, "running")
    newer = await machine.submit("susan", 4, "go")
    await machine.log_has(newer.id, "began at 0")
    owners = await machine.submit("joe", 2, "owner")
    await machine.until(owners.id, "running")
    paused = await machine.until(newer.id, "paused")
    assert "joe" in paused.reason.text
    assert paused.failures == 0
    assert (await machine.engine.job(older.id)).state == "running"
    machine.let("owner")
    await machine.until(owners.id, "succeeded")
    await machine.until(newer.id, "running", attempt=2)
    machine.let("go")
    await machine.until(newer.id, "succeeded")
    await machine.until(older.id, "succeeded")
    text = await machine.log_has(newer.id, "done")
    first, second = (int(line.removeprefix("began at ")) for line in text.splitlines() if "began at" in line)
    assert first == 0 < second
    assert json.load(await machine.engine.output(newer.id, "result.json"))["attempt"] == "2"


async def test_a_real_job_without_gpus_runs_beside_full_ones_over_a_restart_and_sees_none(machine):
    full = await machine.submit("joe", 8, "other")
    await machine.until(full.id, "running")
    job = await machine.submit("susan", 0, "go")
    await machine.log_has(job.id, "began at 0")
    await machine.stop()
    machine.let("go")
    await machine.start()
    ended = await machine.until(job.id, "succeeded")
    assert (ended.attempt, ended.attempts[0].gpus) == (1, [])
    assert json.load(await machine.engine.output(job.id, "result.json"))["gpus"] == ""
    assert (await machine.engine.job(full.id)).state == "running"


async def test_a_real_job_goes_on_while_the_service_is_away(machine):
    job = await machine.submit("susan", 1, "go")
    await machine.log_has(job.id, "began at 0")
    await machine.stop()
    machine.let("go")
    await machine.start()
    ended = await machine.until(job.id, "succeeded")
    assert ended.attempt == 1


async def test_a_program_that_is_not_there_is_told_in_words(machine):
    job = await machine.engine.submit(wire.Submission(argv=["no-such-program-here"]), "susan", "susan")
    failed = await machine.until(job.id, "failed")
    assert "no-such-program-here" in failed.error


async def test_a_job_that_fills_its_log_keeps_the_end_of_it_and_a_bounded_disk(machine):
    argv = [sys.executable, "-c", "for i in range(60_000): print('line', i, 'x' * 80)"]
    job = await machine.engine.submit(wire.Submission(argv=argv), "susan", "susan")
    await machine.until(job.id, "succeeded")
    last = await machine.engine.log(job.id, 0, -200, 65536, 0)
    assert "line 59999" in last.text
    assert last.ended
    logs = sum(file.stat().st_size for file in (machine.path / "jobs" / job.id).rglob("log.*"))
    assert 0 < logs < 2 * LOG_CAP


async def test_an_idle_engine_does_nothing(machine):
    running = await machine.submit("susan", 8, "go")
    waiting = await machine.submit("susan", 8, "go")
    await machine.log_has(running.id, "began at 0\n")
    await machine.until(running.id, "running")
    await machine.until(waiting.id, "queued")
    ticks = -1
    async with asyncio.timeout(PATIENCE_S):  # an engine that does something each second is never so quiet
        while machine.engine.stats.ticks != ticks:
            ticks = machine.engine.stats.ticks
            await asyncio.sleep(3.0)


REPORTS = """
import json, os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
with open(os.environ["SPRINGTIDE_REPORT"], "a") as file:
    line = {"at": time.time(), "step": 7, "of": 10, "values": {"loss": 0.5}, "saved": True}
    file.write(json.dumps(line) + "\\n")
open(sys.argv[1] + ".told", "w").close()
time.sleep(600)
"""


async def test_what_a_job_reported_while_the_service_was_away_is_known_afterwards(machine):
    argv = [sys.executable, "-c", REPORTS, str(machine.path / "say")]
    job = await machine.engine.submit(wire.Submission(argv=argv), "susan", "susan")
    await machine.until(job.id, "running")
    await machine.stop()
    machine.let("say")
    async with asyncio.timeout(PATIENCE_S):
        while not (machine.path / "say.told").exists():
            await asyncio.sleep(0.01)
    await machine.start()
    async with asyncio.timeout(PATIENCE_S):
        while (await machine.engine.job(job.id)).saved_step != 7:
            await asyncio.sleep(0.01)
    assert (await machine.engine.job(job.id)).progress.values == {"loss": 0.5}
    assert (await machine.engine.job(job.id)).attempt == 1


ENDS_WITH_0 = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
place = os.path.join(os.environ["SPRINGTIDE_CHECKPOINT_DIR"], "began")
print("began again" if os.path.exists(place) else "began", flush=True)
open(place, "a").close()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


async def test_a_training_that_ends_with_0_when_asked_to_pause_runs_again(machine):
    argv = [sys.executable, "{code}/train.py", str(machine.path / "end")]
    sent = wire.Submission(argv=argv, files={"train.py": ENDS_WITH_0.encode()}, gpus=8)
    job = await machine.engine.submit(sent, "susan", "susan")
    await machine.log_has(job.id, "began")
    owner = await machine.submit("joe", 2, "go")
    paused = await machine.until(job.id, "paused")
    assert paused.ended_cleanly
    assert "joe" in paused.reason.text
    assert "It ended with 0 when asked to pause; it runs again." in paused.reason.text
    machine.let("go")
    await machine.until(owner.id, "succeeded")
    await machine.log_has(job.id, "began again")
    assert not (await machine.until(job.id, "running", attempt=2)).ended_cleanly
    machine.let("end")
    ended = await machine.until(job.id, "succeeded")
    assert [attempt.state for attempt in ended.attempts] == ["paused", "succeeded"]


async def test_a_training_that_was_complete_is_marked_as_finished(machine):
    argv = [sys.executable, "{code}/train.py", str(machine.path / "end")]
    sent = wire.Submission(argv=argv, files={"train.py": ENDS_WITH_0.encode()}, gpus=8)
    job = await machine.engine.submit(sent, "susan", "susan")
    await machine.log_has(job.id, "began")
    with pytest.raises(Refusal, match="only a job that waits"):
        await machine.engine.finish(job.id, "susan")
    await machine.engine.pause(job.id, "susan")
    await machine.until(job.id, "paused")
    finished = await machine.engine.finish(job.id, "susan")
    assert (finished.state, finished.ended_cleanly) == ("succeeded", False)
    assert finished.reason.text == "It was marked as finished by “susan”."


FINISHES_ITS_EPOCH = """
import os, signal, sys, time
from pathlib import Path
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
place = Path(os.environ["SPRINGTIDE_CHECKPOINT_DIR"], "epoch")
epoch = int(place.read_text()) if place.exists() else 0
print("began", epoch, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
    epoch += 1
    place.write_text(str(epoch))
    if stopped:
        sys.exit(0)
"""
"""As Megatron and NeMo end: the handler leaves a mark, and the loop saves and ends at the end of an epoch."""
RAISES_IN_ITS_LOOP = """
import os, signal, sys, time

class SIGTERMException(SystemExit):
    pass

class Trainer:
    received = False

    def fit(self):
        signal.signal(signal.SIGTERM, self.notice)
        try:
            while not os.path.exists(sys.argv[1]):
                time.sleep(0.01)
                if self.received:
                    raise SIGTERMException
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def notice(self, *_):
        self.received = True

print("began", flush=True)
Trainer().fit()
"""
"""As Lightning ends: its handler leaves a mark, and the loop raises an exception that is an exit with 0."""


@pytest.mark.parametrize("program", [FINISHES_ITS_EPOCH, RAISES_IN_ITS_LOOP], ids=["epoch", "exception"])
async def test_trainers_that_end_by_themselves_when_asked_are_not_lost(machine, program):
    argv = [sys.executable, "{code}/train.py", str(machine.path / "end")]
    sent = wire.Submission(argv=argv, files={"train.py": program.encode()}, gpus=8)
    job = await machine.engine.submit(sent, "susan", "susan")
    await machine.log_has(job.id, "began")
    owner = await machine.submit("joe", 2, "go")
    paused = await machine.until(job.id, "paused")
    assert (paused.ended_cleanly, paused.failures, paused.exit_code) == (True, 0, 0)
    machine.let("go")
    await machine.until(owner.id, "succeeded")
    await machine.until(job.id, "running", attempt=2)
    machine.let("end")
    ended = await machine.until(job.id, "succeeded")
    assert [attempt.state for attempt in ended.attempts] == ["paused", "succeeded"]
    assert "“joe” asked for its 2 GPUs back" in ended.attempts[0].ended_why.text
    assert "It ended with 0 when asked to pause" in ended.attempts[0].ended_why.text


async def test_a_program_that_somebody_else_ends_has_not_been_asked_to_pause(machine):
    argv = [sys.executable, "{code}/train.py", str(machine.path / "end")]
    own = "import os\nos.kill(os.getpid(), 15)\n"
    text = ENDS_WITH_0.replace('print("began again"', own + 'print("began again"')
    job = await machine.engine.submit(
        wire.Submission(argv=argv, files={"train.py": text.encode()}, gpus=8), "susan", "susan"
    )
    assert (await machine.until(job.id, "succeeded")).attempt == 1


async def test_a_job_that_never_saved_says_so_while_it_can_be_paused_and_when_it_is(machine):
    argv = [sys.executable, "{code}/train.py", str(machine.path / "end")]
    text = (
        "import os, sys, time\nprint('began', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    )
    job = await machine.engine.submit(
        wire.Submission(argv=argv, files={"train.py": text.encode()}, gpus=8), "susan", "susan"
    )
    await machine.log_has(job.id, "began")
    running = await machine.engine.job(job.id)
    assert "No checkpoint of it has been seen yet" in running.reason.text
    await machine.engine.pause(job.id, "susan")
    paused = await machine.until(job.id, "paused")
    assert "No checkpoint was known" in paused.reason.text
    assert "It starts again from the beginning." in paused.reason.text
    assert "Saving its work" not in paused.reason.text


async def test_a_job_that_has_saved_does_not_say_that_it_has_not(machine):
    job = await machine.submit("susan", 8, "end")
    report = {"attempt": 1, "saved": True, "step": 3}
    await machine.log_has(job.id, "began")
    with (machine.path / "jobs" / job.id / "reports.jsonl").open("a") as file:
        print(json.dumps(report), file=file, flush=True)
    async with asyncio.timeout(PATIENCE_S):
        while (await machine.engine.job(job.id)).saved is None:
            await asyncio.sleep(0.01)
    assert (await machine.engine.job(job.id)).reason.text == "Running on 8 GPUs: 2 within the quota, 6 borrowed."
    await machine.engine.pause(job.id, "susan")
    paused = await machine.until(job.id, "paused")
    assert paused.reason.text == "It was paused by “susan”. It runs again when it is resumed."


OWN_CHECKPOINTS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
place = "checkpoints/last.ckpt"
os.makedirs("checkpoints", exist_ok=True)
print("arguments:", sys.argv[2:], flush=True)
with open(place, "ab") as file:
    file.write(b"weights")
print("wrote", os.path.getsize(place), flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
"""


async def submit_own(machine, resume=None, text=OWN_CHECKPOINTS):
    argv = [sys.executable, "{code}/train.py", str(machine.path / "end")]
    submission = wire.Submission(argv=argv, files={"train.py": text.encode()}, gpus=8, resume=resume)
    return await machine.engine.submit(submission, "susan", "susan")


async def pause_and_resume(machine, job):
    await machine.log_has(job.id, "wrote")
    await machine.engine.pause(job.id, "susan")
    paused = await machine.until(job.id, "paused")
    await machine.engine.resume(job.id, "susan")
    await machine.until(job.id, "running", attempt=2)
    return paused


@pytest.mark.parametrize(
    ("resume", "arguments"),
    [
        ("--resume {checkpoint}", "['--resume', 'checkpoints/last.ckpt']"),
        ("--ckpt=checkpoints/last.ckpt", "['--ckpt=checkpoints/last.ckpt']"),
        (None, "[]"),
    ],
)
async def test_a_frameworks_checkpoint_is_recognised_and_the_next_attempt_gets_the_arguments(
    machine, resume, arguments
):
    job = await submit_own(machine, resume)
    paused = await pause_and_resume(machine, job)
    again = await machine.engine.job(job.id)
    assert [each.had_checkpoint for each in again.attempts] == [False, True]
    assert paused.checkpoint is not None
    assert (paused.checkpoint.path, paused.checkpoint.size) == ("checkpoints/last.ckpt", 7)
    assert "No checkpoint was known" not in paused.reason.text
    log = await machine.log_has(job.id, "wrote 14")
    assert log.splitlines()[0] == "arguments: []"
    assert f"arguments: {arguments}" in log


async def test_a_job_that_has_saved_nothing_does_not_get_the_arguments(machine):
    text = OWN_CHECKPOINTS.replace('open(place, "ab")', 'open("other", "ab")').replace(
        "getsize(place)", "getsize('other')"
    )
    job = await submit_own(machine, "--resume {checkpoint}", text)
    paused = await pause_and_resume(machine, job)
    assert paused.checkpoint is None
    assert paused.saved is None
    log = await machine.log_has(job.id, "wrote 14")
    assert log.count("arguments: []") == 2


async def test_a_checkpoint_is_recognised_while_the_job_runs(machine, monkeypatch):
    monkeypatch.setattr(environment, "SEARCH_INTERVAL", 0.2)
    job = await submit_own(machine)
    async with asyncio.timeout(PATIENCE_S):
        while (running := await machine.engine.job(job.id)).checkpoint is None:
            await asyncio.sleep(0.05)
    assert running.state == "running"
    assert running.checkpoint.by == "Lightning"
    assert "No checkpoint of it has been seen yet" not in running.reason.text


async def test_a_job_without_its_checkpoints_says_that_it_starts_from_the_beginning(machine, monkeypatch):
    monkeypatch.setattr(environment, "SEARCH_INTERVAL", 0.2)
    removes = (
        'if os.path.exists(os.environ["SPRINGTIDE_PAUSE_FILE"]):\n'
        "        os.unlink(place)\n"
        "        sys.exit(75)\n"
        "    time.sleep(0.01)"
    )
    text = OWN_CHECKPOINTS.replace("time.sleep(0.01)", f"\n    {removes}")
    job = await submit_own(machine, text=text.replace("lambda *_: sys.exit(75)", "signal.SIG_IGN"))
    async with asyncio.timeout(PATIENCE_S):
        while (await machine.engine.job(job.id)).checkpoint is None:
            await asyncio.sleep(0.05)
    paused = await pause_and_resume(machine, job)
    assert paused.attempts[0].exit_code == 75
    assert "It starts again from the beginning." in paused.reason.text
    again = await machine.engine.job(job.id)
    assert [each.had_checkpoint for each in again.attempts] == [False, False]


DAMAGES = """
import os, signal, sys, time
from springtide.training import current_job
job = current_job()
found = job.restore()
print("from", found and found.step, flush=True)
if found is None:
    job.save({"n": 1}, step=3)
print("wrote", flush=True)
while not job.should_pause():
    time.sleep(0.01)
if job.attempt == 1:
    os.truncate(job.checkpoint_directory / "00000001/state.pkl", 1)
sys.exit(75)
"""


async def test_a_job_whose_checkpoints_are_all_damaged_says_that_it_starts_from_the_beginning(machine):
    job = await submit_own(machine, text=DAMAGES)
    async with asyncio.timeout(PATIENCE_S):
        while (await machine.engine.job(job.id)).saved_step is None:
            await asyncio.sleep(0.05)
    paused = await pause_and_resume(machine, job)
    assert (paused.attempts[0].saved is None, paused.saved, paused.saved_step) == (False, None, None)
    assert "It starts again from the beginning." in paused.reason.text
    await machine.log_has(job.id, "Checkpoint 00000001 is damaged")
    again = await machine.engine.job(job.id)
    assert [each.had_checkpoint for each in again.attempts] == [False, False]
    async with asyncio.timeout(PATIENCE_S):
        while (await machine.engine.job(job.id)).saved_step is None:
            await asyncio.sleep(0.05)
    await machine.engine.pause(job.id, "susan")
    paused = await machine.until(job.id, "paused", attempt=2)
    assert (paused.saved_step, "No checkpoint was known" in paused.reason.text) == (3, False)


async def test_a_checkpoint_that_the_job_reports_counts_more_than_files(machine):
    text = OWN_CHECKPOINTS.replace(
        'print("wrote"',
        "import json\n"
        'with open(os.environ["SPRINGTIDE_REPORT"], "a") as reports:\n'
        '    print(json.dumps({"attempt": 1, "saved": True, "step": 3}), file=reports)\n'
        'print("wrote"',
    )
    job = await submit_own(machine, "--resume {checkpoint}", text)
    paused = await pause_and_resume(machine, job)
    assert paused.checkpoint is None
    assert paused.saved_step == 3
    assert (await machine.log_has(job.id, "wrote 14")).count("arguments: []") == 2


async def test_the_step_of_a_job_that_starts_again_is_that_of_its_checkpoint(machine):
    text = OWN_CHECKPOINTS.replace(
        'print("wrote"',
        "import json\n"
        'if os.environ["SPRINGTIDE_ATTEMPT"] == "1":\n'
        '    with open(os.environ["SPRINGTIDE_REPORT"], "a") as reports:\n'
        '        print(json.dumps({"attempt": 1, "step": 7, "of": 9}), file=reports)\n'
        'print("wrote"',
    ).replace("last.ckpt", "other")
    job = await submit_own(machine, None, text)
    await pause_and_resume(machine, job)
    started = await machine.engine.job(job.id)
    assert (started.progress.step, started.progress.of) == (None, 9)


@pytest.mark.parametrize(
    ("argv", "resume", "words"),
    [
        (["bash", "-c", "python train.py"], "--resume x", "“bash” runs a text here"),
        (["bash", "-o", "pipefail", "-c", "python train.py"], "--resume x", "“bash” runs a text here"),
        (["/bin/sh", "-lc", "python train.py"], "--resume x", "runs a text here"),
        (["python", "train.py"], "--resume 'x", "cannot be read"),
        (["python", "train.py"], " ", "No arguments are given"),
    ],
)
async def test_arguments_that_a_command_cannot_get_are_refused(machine, argv, resume, words):
    with pytest.raises(Refusal, match=words) as refused:
        await machine.engine.submit(wire.Submission(argv=argv, gpus=1, resume=resume), "susan", "susan")
    assert refused.value.field == "resume"
    assert refused.value.hint


async def test_a_notebook_takes_no_arguments(machine):
    submission = wire.Submission(argv=["python", "x.ipynb"], kind="notebook", gpus=1, resume="--resume x")
    with pytest.raises(Refusal, match="A notebook has no command line"):
        await machine.engine.submit(submission, "susan", "susan")


WRITES = """
import os, sys
for path in ("model.pt", "runs/a/events.out.tfevents.1", "tables/a.csv", "tables/a.txt", "lib/made.py", ".env"):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write("x")
with open(os.path.join(os.environ["SPRINGTIDE_OUTPUT_DIR"], "result.txt"), "w") as file:
    file.write("y")
print("wrote", flush=True)
"""


async def test_what_a_job_writes_into_its_working_directory_is_among_its_outputs(machine, tmp_path):
    root = tmp_path / "study"
    root.mkdir()
    packed = pack({"app/train.py": TreeFile(WRITES.encode()), "app/lib/b.py": TreeFile(b"")}, {})
    tree = wire.ProjectTree(root=str(root), digest=digest_of(packed))
    await machine.engine.send_tree("susan", tree.digest, packed)
    argv = [sys.executable, "{project_tree}/app/train.py"]
    submission = wire.Submission(argv=argv, cwd=str(root / "app"), tree=tree, outputs=("tables/*.csv",), gpus=1)
    job = await machine.engine.submit(submission, "susan", "susan")
    await machine.until(job.id, "succeeded")
    listed = await machine.engine.outputs(job.id)
    assert [file.name for file in listed.items] == [
        "result.txt",
        "work/model.pt",
        "work/runs/a/events.out.tfevents.1",
        "work/tables/a.csv",
    ]
    assert [(each.tool, each.command) for each in listed.openers] == [
        ("TensorBoard", "tensorboard --logdir work/runs")
    ]
    with await machine.engine.output(job.id, "work/tables/a.csv") as file:
        assert file.read() == b"x"
    for name in ("work/train.py", "work/lib/b.py", "work/lib/made.py", "work/.env", "work/tables/a.txt", "work/x"):
        with pytest.raises(Refusal, match="has no output"):
            await machine.engine.output(job.id, name)


async def test_files_of_a_folder_that_is_not_the_jobs_own_are_no_outputs(machine, tmp_path):
    root = tmp_path / "home"
    root.mkdir()
    argv = [sys.executable, "{code}/train.py"]
    submission = wire.Submission(argv=argv, files={"train.py": WRITES.encode()}, cwd=str(root), gpus=1)
    job = await machine.engine.submit(submission, "susan", "susan")
    await machine.until(job.id, "succeeded")
    assert [file.name for file in (await machine.engine.outputs(job.id)).items] == ["result.txt"]
    with pytest.raises(Refusal, match="has no output"):
        await machine.engine.output(job.id, "work/model.pt")


@pytest.mark.parametrize("pattern", ["/etc/*", "../*"])
async def test_patterns_that_leave_the_working_directory_are_refused(machine, pattern):
    with pytest.raises(Refusal, match="The pattern") as refused:
        await machine.engine.submit(wire.Submission(argv=["true"], outputs=(pattern,), gpus=1), "susan", "susan")
    assert refused.value.field == "outputs"

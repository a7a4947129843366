"""The contract of executors, as tests that run against each of them.

A test module of an executor derives a class from `ExecutorContract` and provides a fixture ``bench``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
from pathlib import Path

import pytest
from benches.executor_bench import (
    ENDS_WHEN_ASKED,
    LOCKSTEP,
    READY,
    RESUMES,
    SAVES,
    SAVES_SLOWLY,
    SLEEPS,
    STUBBORN,
    Bench,
    read_output,
)
from benches.session_steps import SIZE, ended, opened, output, shell, until

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    CheckpointGoneError,
    ExecutorError,
    ExitKind,
    LogGrew,
    ProgramError,
    Reported,
    StaleEpochError,
)
from springtide.scheduler.executors.session import STACK, SessionSpec
from springtide.scheduler.model import Environment, Worker
from springtide.scheduler.project_tree import TreeFile, digest_of, pack
from springtide.scheduler.wire import ProjectTree
from springtide.scheduler.wire.sessions import SessionEnd, TerminalSize

COUNTS = """
import os, sys
with open("state", "a") as state:
    state.write("x")
print(os.path.getsize("state"), os.access(sys.argv[1], os.X_OK))
"""


CHECKPOINTS = """
import json, os
for step in (1, 2):
    place = os.path.join(os.environ["SPRINGTIDE_CHECKPOINT_DIR"], f"0000000{step}")
    os.mkdir(place)
    with open(f"{place}/state.bin", "w") as file:
        file.write(f"state {step}")
    with open(f"{place}/manifest.json", "w") as file:
        json.dump({"step": step, "at": 5.0, "attempt": 1, "files": {"state.bin": {"size": 7}}}, file)
with open("ckpt_step_9.pt", "w") as file:
    file.write("recognised")
"""
RESTORES = """
import os
with open(os.path.join(os.environ["SPRINGTIDE_CHECKPOINT_DIR"], "00000001", "state.bin"), "r+") as file:
    print(file.read())
print(open("ckpt_step_9.pt").read(), sorted(os.listdir(".")))
"""


class ExecutorContract:
    """Tests of the contract in `springtide.scheduler.executors.base`."""

    async def test_the_inventory_names_build_and_train_nodes_with_their_gpus(self, bench: Bench) -> None:
        nodes = await bench.executor.inventory()
        assert {node.environment for node in nodes} == {Environment.BUILD, Environment.TRAIN}
        for node in nodes:
            assert [gpu.index for gpu in node.devices] == list(range(node.gpus))
        uuids = [gpu.uuid for node in nodes for gpu in node.devices]
        assert len(set(uuids)) == len(uuids)

    async def test_an_attempt_is_told_running_and_then_gone(self, bench: Bench) -> None:
        spec = bench.code("print('hello')")
        ended = await bench.run(spec)
        assert ended.exit is not None
        assert ended.started is not None
        assert (ended.exit.kind, ended.exit.code, ended.exit.signal) == (ExitKind.EXITED, 0, None)
        assert ended.started <= ended.exit.at
        assert ended.placement == spec.placement
        assert await bench.log("job") == "hello\n"
        phases = [each.phase for each in bench.of_kind(AttemptStatus)]
        assert phases == sorted(phases, key=list(AttemptPhase).index)

    async def test_the_exit_code_or_the_signal_is_that_of_the_job(self, bench: Bench) -> None:
        async def end(job: str, text: str) -> tuple[int | None, int | None, bool]:
            ended = await bench.run(bench.code(text, job=job))
            assert ended.exit is not None
            return ended.exit.code, ended.exit.signal, ended.exit.paused

        ends = await asyncio.gather(
            end("paused", "raise SystemExit(75)"),
            end("highest", "raise SystemExit(255)"),
            end("killed", "import os; os.kill(os.getpid(), 11)"),
        )
        assert list(ends) == [(75, None, False), (255, None, False), (None, 11, False)]

    async def test_checkpoints_are_listed_copied_to_another_job_and_deleted(self, bench: Bench) -> None:
        first, fork = bench.code(CHECKPOINTS), bench.code(RESTORES, job="fork")
        await bench.run(first)
        found = await bench.executor.list_checkpoints(first)
        assert [(each.name, each.step, each.own) for each in found] == [
            ("00000002", 2, True),
            ("00000001", 1, True),
            ("ckpt_step_9.pt", 9, False),
        ]
        assert await bench.executor.copy_checkpoint(first, "00000001", fork) is None
        copied = await bench.executor.copy_checkpoint(first, "ckpt_step_9.pt", fork)
        assert copied is not None
        assert (copied.path, copied.size) == ("ckpt_step_9.pt", 10)
        await bench.executor.delete_checkpoints(first, {"00000001", "ckpt_step_9.pt"})
        assert [each.name for each in await bench.executor.list_checkpoints(first)] == ["00000002"]
        with pytest.raises(CheckpointGoneError, match="no checkpoint “00000001”"):
            await bench.executor.delete_checkpoints(first, {"00000001"})
        ended = await bench.run(fork)
        assert ended.exit is not None
        assert (await bench.log("fork"), ended.exit.code) == ("state 1\nrecognised ['ckpt_step_9.pt']\n", 0)

    async def test_a_launch_that_is_repeated_runs_once(self, bench: Bench) -> None:
        spec = bench.code(SLEEPS)
        await asyncio.gather(*(bench.executor.launch(spec) for _ in range(5)))
        await bench.running(spec.key)
        await bench.executor.launch(spec)
        await bench.restart()
        await bench.executor.launch(spec)
        await bench.executor.kill(spec.key)
        await bench.gone(spec.key)
        await bench.executor.launch(spec)
        assert await bench.log("job") == "ready\n"
        assert [status.phase for status in await bench.executor.attempts()] == [AttemptPhase.GONE]

    async def test_a_pause_lets_the_job_save(self, bench: Bench) -> None:
        spec = bench.code(SAVES.format(code=75))
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.pause(spec.key)
        await bench.executor.pause(spec.key)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.paused, ended.exit.killed) == (75, True, False)

    @pytest.mark.parametrize(
        ("lines", "complete"),
        [
            ([], False),
            ([{"step": 4, "of": 9}], False),
            ([{"step": 9, "of": 9}], True),
            ([{"step": 9, "of": 9}, {"step": 9, "saved": True}], True),
            ([{"step": 9, "of": 9}, {"step": 1, "of": 9}], False),
            ([{"milestone": "done"}], True),
            ([{"milestone": "returned"}], True),
            ([{"milestone": "pause-seen"}, {"milestone": "returned"}], False),
            ([{"milestone": "pause-seen"}, {"milestone": "done"}], True),
            ([{"milestone": ["done"]}, {"milestone": "finished"}], False),
        ],
    )
    async def test_a_job_that_ends_with_0_when_asked_tells_whether_it_is_complete(
        self, bench: Bench, lines: list[dict[str, object]], *, complete: bool
    ) -> None:
        spec = bench.code(ENDS_WHEN_ASKED.format(lines=lines))
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.pause(spec.key)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.paused, ended.exit.complete) == (0, True, complete)
        await bench.restart()
        found = await bench.executor.recall(spec.key)
        assert found is not None
        assert found.exit is not None
        assert found.exit.complete is complete

    @pytest.mark.parametrize(
        ("milestones", "returned"),
        [((), None), (("called",), False), (("called", "returned"), True), (("called", "pause-seen"), False)],
    )
    async def test_a_function_that_ends_its_process_with_0_is_known_not_to_have_returned(
        self, bench: Bench, milestones: tuple[str, ...], returned: bool | None
    ) -> None:
        lines = [{"milestone": milestone} for milestone in milestones]
        ended = (await bench.run(bench.code(ENDS_WHEN_ASKED.format(lines=lines).replace(SLEEPS, "")))).exit
        assert ended is not None
        assert (ended.code, ended.returned) == (0, returned)

    async def test_what_an_earlier_attempt_has_reported_completes_no_later_one(self, bench: Bench) -> None:
        told = [
            {"attempt": None, "step": 9, "of": 9},
            {"attempt": None, "milestone": "done"},
            {"milestone": "done"},
        ]
        await bench.run(bench.code(ENDS_WHEN_ASKED.format(lines=told).replace(SLEEPS, "")))
        spec = bench.code(SAVES.format(code=0), attempt=2)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.pause(spec.key)
        ended = (await bench.gone(spec.key)).exit
        assert ended is not None
        assert (ended.code, ended.paused, ended.complete) == (0, True, False)

    async def test_a_gang_has_ended_with_0_only_if_all_of_it_has(self, bench: Bench) -> None:
        by_rank = "import os, signal, sys\ncode = {0: 0, 1: 75}[int(os.environ['RANK'])]\n"
        spec = bench.code(by_rank + SAVES.format(code="code"), size=2)
        await bench.executor.launch(spec)
        for rank in (0, 1):
            await bench.running(spec.key, rank=rank)
        await bench.executor.pause(spec.key)
        ended = (await bench.gone(spec.key)).exit
        assert ended is not None
        assert (ended.code, ended.paused) == (75, True)

    async def test_a_job_that_does_not_pause_is_killed_after_its_grace(self, bench: Bench) -> None:
        spec = bench.code(STUBBORN, grace=0.3)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.pause(spec.key)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.signal, ended.exit.paused, ended.exit.killed) == (9, True, True)

    async def test_a_kill_ends_a_job_that_ignores_being_asked(self, bench: Bench) -> None:
        spec = bench.code(STUBBORN, grace=0.3)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.kill(spec.key)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.signal, ended.exit.killed) == (9, True)

    async def test_a_job_that_is_ended_for_good_has_its_grace_to_save(self, bench: Bench) -> None:
        spec = bench.code(SAVES_SLOWLY, grace=600.0)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.kill(spec.key)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.paused, ended.exit.killed) == (75, False, False)

    async def test_an_end_for_good_during_a_pause_leaves_the_job_the_rest_of_its_grace(self, bench: Bench) -> None:
        spec = bench.code(SAVES_SLOWLY, grace=600.0)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.pause(spec.key)
        await bench.executor.kill(spec.key)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.killed) == (75, False)

    async def test_an_end_for_good_does_not_prolong_a_pause(self, bench: Bench) -> None:
        spec = bench.code(STUBBORN, grace=0.3)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        await bench.executor.pause(spec.key)
        await bench.executor.kill(spec.key)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.signal, ended.exit.killed) == (9, True)

    @pytest.mark.parametrize("before", ["nothing", "a pause", "a kill"])
    async def test_what_is_to_end_now_waits_for_no_grace(self, bench: Bench, before: str) -> None:
        spec = bench.code(STUBBORN, grace=600.0)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        if before == "a pause":
            await bench.executor.pause(spec.key)
        elif before == "a kill":
            await bench.executor.kill(spec.key)
        await bench.executor.kill(spec.key, now=True)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.signal, ended.exit.killed) == (9, True)

    async def test_stopping_what_has_ended_does_nothing(self, bench: Bench) -> None:
        spec = bench.code("raise SystemExit(3)")
        ended = await bench.run(spec)
        await bench.executor.pause(spec.key)
        await bench.executor.kill(spec.key)
        assert await bench.status(spec.key) == ended

    async def test_an_attempt_nobody_knows_cannot_be_stopped(self, bench: Bench) -> None:
        with pytest.raises(ExecutorError, match="not known"):
            await bench.executor.kill(AttemptKey("nothing", 1))

    async def test_attempts_outlive_the_service(self, bench: Bench) -> None:
        spec = bench.code(SAVES.format(code=75))
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        before = await bench.status(spec.key)
        await bench.restart()
        assert await bench.status(spec.key) == before
        await bench.executor.pause(spec.key)
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.paused) == (75, True)

    async def test_an_end_that_nobody_saw_is_told_until_it_is_discarded(self, bench: Bench) -> None:
        spec = bench.code("raise SystemExit(3)")
        ended = await bench.run(spec)
        await bench.restart()
        assert await bench.executor.attempts() == (ended,)
        await bench.executor.discard(spec.key)
        await bench.executor.discard(spec.key)
        assert await bench.executor.attempts() == ()
        await bench.restart()
        assert await bench.executor.attempts() == ()

    async def test_the_end_of_a_discarded_attempt_is_recalled_for_a_store_that_does_not_know_it(
        self, bench: Bench
    ) -> None:
        spec = bench.code("print('ran')")
        ended = await bench.run(spec)
        await bench.executor.discard(spec.key)
        await bench.restart()
        assert await bench.executor.recall(AttemptKey("nothing", 1)) is None
        assert await bench.executor.recall(spec.key) == ended
        assert await bench.executor.attempts() == (ended,)
        await bench.executor.discard(spec.key)
        assert await bench.executor.attempts() == ()
        assert await bench.run(spec) == ended
        assert await bench.log("job") == "ran\n"

    async def test_a_running_attempt_cannot_be_discarded(self, bench: Bench) -> None:
        spec = bench.code(SLEEPS)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        with pytest.raises(ExecutorError, match="not ended"):
            await bench.executor.discard(spec.key)
        with pytest.raises(ExecutorError, match="not ended"):
            await bench.executor.remove("job")

    async def test_an_act_of_a_former_owner_is_refused(self, bench: Bench) -> None:
        first = bench.code("pass", job="first", epoch=3)
        await bench.run(first)
        with pytest.raises(StaleEpochError):
            await bench.executor.launch(bench.code("pass", job="second", epoch=2))
        await bench.restart()
        with pytest.raises(StaleEpochError):
            await bench.executor.launch(bench.code("pass", job="second", epoch=2))
        assert [status.key for status in await bench.executor.attempts()] == [first.key]

    async def test_the_job_finds_its_contract_in_the_environment(self, bench: Bench) -> None:
        text = "import json, os; print(json.dumps(dict(os.environ)))"
        spec = bench.code(text, env={"LR": "0.1", "DATA": "{code}/data", "SPRINGTIDE_JOB_ID": "other"})
        await bench.run(spec)
        env = json.loads(await bench.log("job"))
        assert env["SPRINGTIDE_JOB_ID"] == "job"
        assert env["SPRINGTIDE_JOB_NAME"] == "a job"
        assert env["SPRINGTIDE_PROJECT"] == "vision"
        assert env["SPRINGTIDE_ATTEMPT"] == "1"
        assert env["SPRINGTIDE_GRACE_SECONDS"] == "20"
        assert {"SPRINGTIDE_CHECKPOINT_DIR", "SPRINGTIDE_OUTPUT_DIR", "SPRINGTIDE_PAUSE_FILE"} < env.keys()
        assert env["LR"] == "0.1"
        assert env["DATA"].endswith("/data")
        assert "{code}" not in env["DATA"]
        node = next(node for node in await bench.executor.inventory() if node.name == bench.train_node)
        if bench.names_gpus:
            assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"] == node.devices[0].uuid
        assert "RANK" not in env

    async def test_a_worker_without_gpus_runs_on_no_planned_node_and_sees_none(self, bench: Bench) -> None:
        names = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
        text = f"import os; print([os.environ[name] for name in {names}])"
        ended = await bench.run(bench.code(text, placement=(Worker(0, "", ()),)))
        assert ended.exit is not None
        assert ended.exit.code == 0
        assert ended.placement == (Worker(0, "", ()),)
        assert await bench.log("job") == "['', 'void']\n"

    async def test_every_attempt_finds_the_same_files(self, bench: Bench) -> None:
        files = {"main.py": b"import more.part; print(more.part.WORD)", "more/part.py": b"WORD = 'same'"}
        argv = (bench.python, "{code}/main.py")
        await bench.run(bench.spec(argv, files=files))
        await bench.run(bench.spec(argv, attempt=2, files={"main.py": b"print('other')"}))
        assert await bench.log("job") == "same\nsame\n"

    async def test_files_that_would_leave_their_directory_are_refused(self, bench: Bench) -> None:
        for number, name in enumerate(("/etc/passwd", "../escape", "a/../../escape", "a\0b", "")):
            job = f"job{number}"
            ended = await bench.run(bench.code("print('ran')", job=job, files={name: b"x"}))
            assert ended.exit is not None
            assert ended.exit.kind is ExitKind.REFUSED, name
            assert await bench.log(job) == "", name

    async def test_a_job_that_can_never_start_is_told_so_in_words(self, bench: Bench) -> None:
        ended = await bench.run(bench.spec(("no-such-program", "--help")))
        assert ended.exit is not None
        assert ended.exit.kind is ExitKind.REFUSED
        assert "no-such-program" in ended.exit.detail
        ended = await bench.run(bench.code("pass", job="other", cwd="/no/such/place"))
        assert ended.exit is not None
        assert ended.exit.kind is ExitKind.REFUSED
        assert "/no/such/place" in ended.exit.detail

    async def test_a_gang_knows_its_ranks_and_where_to_meet(self, bench: Bench) -> None:
        last = "CUDA_VISIBLE_DEVICES" if bench.names_gpus else "HOSTNAME"
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG", last)
        text = f"import json, os; print(json.dumps([os.environ[name] for name in {names}]))"
        ended = await bench.run(bench.code(text, size=3))
        assert ended.exit is not None
        assert ended.exit.code == 0
        said = [json.loads(await bench.log("job", rank)) for rank in range(3)]
        assert [each[0] for each in said] == ["0", "1", "2"]
        assert len({(each[1], each[4], each[5]) for each in said}) == 1
        assert said[0][1] == "3"
        tasks = [json.loads(each[6]) for each in said]
        assert [each["task"]["index"] for each in tasks] == [0, 1, 2]
        assert len(set(tasks[0]["cluster"]["worker"])) == len({each[7] for each in said}) == 3

    async def test_when_one_of_a_gang_fails_the_others_are_ended(self, bench: Bench) -> None:
        text = f"{READY}\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(600)"
        ended = await bench.run(bench.code(text, size=3))
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.signal, ended.exit.killed) == (7, None, False)

    async def test_a_gang_of_which_one_cannot_start_leaves_nobody_behind(self, bench: Bench) -> None:
        spec = bench.code("print('ran')", size=2)
        placement = (spec.placement[0], Worker(1, "nowhere", (0,)))
        ended = await bench.run(bench.code(SLEEPS, size=2, placement=placement))
        assert ended.exit is not None
        assert ended.exit.kind is ExitKind.BLOCKED

    async def test_logs_are_one_stream_over_all_attempts(self, bench: Bench) -> None:
        await bench.run(bench.code("print('first')"))
        await bench.run(bench.code("print('second')", attempt=2))
        read = bench.executor.read_log
        piece = await read("job", 0, 0, 1000)
        assert (piece.data, piece.offset, piece.size, piece.attempt) == (b"first\n", 0, 13, 1)
        piece = await read("job", 0, 6, 3)
        assert (piece.data, piece.offset, piece.size, piece.attempt) == (b"sec", 6, 13, 2)
        piece = await read("job", 0, -4, 1000)
        assert (piece.data, piece.offset, piece.attempt) == (b"ond\n", 9, 2)
        piece = await read("job", 0, 99, 1000)
        assert (piece.data, piece.offset, piece.size) == (b"", 13, 13)
        assert (await read("job", 5, 0, 1000)).size == 0
        assert bench.of_kind(LogGrew)[-1] == LogGrew("job", 0, 13)

    async def test_a_log_is_followed_while_it_grows(self, bench: Bench) -> None:
        text = "import sys\nfor n in range(2000): print(n, flush=True)\nsys.stdout.buffer.write(b'\\xff\\0end')"
        await bench.run(bench.code(text))
        grown = [each.size for each in bench.of_kind(LogGrew)]
        piece = await bench.executor.read_log("job", 0, 0, 1 << 20)
        assert piece.data.endswith(b"1999\n\xff\0end")
        assert grown == sorted(grown)
        assert grown[-1] == piece.size == len(piece.data)
        assert len(grown) < 200

    async def test_reports_are_read_and_told(self, bench: Bench) -> None:
        text = """
import json, os
with open(os.environ["SPRINGTIDE_REPORT"], "ab") as file:
    for step in range(1, 6):
        line = {"at": 10.0 + step, "attempt": 1, "step": step, "of": 5, "saved": step == 3}
        line["values"] = {"loss": 1 / step}
        file.write(json.dumps(line).encode() + b"\\n")
"""
        await bench.run(bench.code(text))
        told = bench.of_kind(Reported)[-1]
        assert (told.last.step, told.last.of, told.last.values) == (5, 5, {"loss": 0.2})
        assert (told.saved_at, told.saved_step) == (13.0, 3)
        first = await bench.executor.read_reports("job", 0, 2)
        rest = await bench.executor.read_reports("job", first[-1].seq, 100)
        assert [each.step for each in (*first, *rest)] == [1, 2, 3, 4, 5]
        assert sorted({each.seq for each in (*first, *rest)}) == [each.seq for each in (*first, *rest)]
        assert [each.saved for each in (*first, *rest)] == [False, False, True, False, False]
        assert await bench.executor.read_reports("job", rest[-1].seq, 100) == ()

    async def test_reports_without_a_number_are_those_of_the_attempt_that_wrote_them(self, bench: Bench) -> None:
        text = """
import os
with open(os.environ["SPRINGTIDE_REPORT"], "ab") as file:
    file.write(b'{"step": %s, "of": 9}\\n' % os.environ["SPRINGTIDE_ATTEMPT"].encode())
"""
        for number in (1, 2, 3):
            await bench.run(bench.code(text, attempt=number))
        late = await bench.executor.read_reports("job", 0, 100)
        its_own = [each for each in late if not each.began_without]
        assert [(each.attempt, each.step) for each in its_own] == [(1, 1), (2, 2), (3, 3)]
        told = [(each.key.attempt, each.last.step) for each in bench.of_kind(Reported) if each.last.step]
        assert set(told) == {(1, 1), (2, 2), (3, 3)}

    async def test_hostile_reports_are_not_believed(self, bench: Bench) -> None:
        text = """
import os
lines = [b"not json", b"[1]", b"{" * 5000, b'{"step": 1e999, "values": {"a": NaN, "b": true, "c": "x", "d": 4}}',
         b'{"step": "x", "attempt": 99, "at": 1e300, "values": [1]}', b"x" * 3000000,
         b'{"values": {%s}}' % b", ".join(b'"v%d": 1' % n for n in range(500)), b'{"step": 7}']
with open(os.environ["SPRINGTIDE_REPORT"], "ab") as file:
    file.write(b"\\n".join(lines) + b"\\n")
"""
        ended = await bench.run(bench.code(text))
        reports = await bench.executor.read_reports("job", 0, 100)
        assert reports[-1].step == 7
        assert reports[0].step is None
        assert set(reports[0].values) == {"a", "d"}
        assert math.isnan(reports[0].values["a"])
        assert reports[0].values["d"] == 4.0
        assert reports[1].attempt == 1
        assert ended.exit is not None
        assert reports[1].at < 1e12
        assert max(len(each.values) for each in reports) == 500

    async def test_a_command_has_the_place_and_the_variables_of_its_worker(self, bench: Bench) -> None:
        prints = "import os; print(os.getcwd(), os.environ['MINE'], os.environ['RANK'], flush=True)"
        spec = bench.code(f"{prints}\n{SLEEPS}", size=2, env={"MINE": "yes"})
        await bench.executor.launch(spec)
        for rank in (0, 1):
            await bench.running(spec.key, rank=rank)
            wanted = (await bench.log("job", rank)).splitlines()[0]
            assert (await shell(bench, spec, "echo $PWD $MINE $RANK", rank=rank)).strip() == wanted

    async def test_a_command_has_input_output_errors_and_an_exit_code(self, bench: Bench) -> None:
        spec = bench.code(SLEEPS)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        session = await opened(bench, spec, "sh", "-c", "echo one; echo two >&2; exit 3")
        assert await output(session, bench.patience) == ("one\n", "two\n", SessionEnd(code=3))
        killed = await opened(bench, spec, "sh", "-c", "kill -9 $$")
        assert (await output(killed, bench.patience))[2] == SessionEnd(code=137)

        session, much = await opened(bench, spec, "sh", "-c", "sha256sum; seq 200000"), os.urandom(1 << 20)

        async def send() -> None:
            for start in range(0, len(much), 1 << 16):
                await session.write(much[start : start + (1 << 16)])
            await session.write(b"")

        (said, _, _), _ = await asyncio.gather(output(session, bench.patience), send())
        digest, *numbers = said.splitlines()
        assert digest.split()[0] == hashlib.sha256(much).hexdigest()
        assert numbers == [str(number) for number in range(1, 200_001)]

        unread = await opened(bench, spec, "sh", "-c", "cat /dev/zero | head -c 50000000")
        await unread.read()
        assert await shell(bench, spec, "echo beside") == "beside\n"
        await unread.close()
        tool = await bench.executor.open_session(spec.key, SessionSpec(0, tool=STACK))
        assert (await output(tool, bench.patience))[0].startswith("Process ")

    async def test_a_program_that_cannot_be_run_inside_is_refused_in_words(self, bench: Bench) -> None:
        spec = bench.code(SLEEPS)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        with pytest.raises(ProgramError, match="no program “no-such-program” on the PATH") as raised:
            await opened(bench, spec, "no-such-program")
        assert raised.value.exit_code == 127
        for key, rank in ((spec.key, 7), (AttemptKey("other", 1), 0)):
            with pytest.raises(ExecutorError, match="does not run"):
                await bench.executor.open_session(key, SessionSpec(rank, ("true",)))
        await bench.executor.kill(spec.key)
        await bench.gone(spec.key)
        with pytest.raises(ExecutorError, match="does not run"):
            await opened(bench, spec, "true")

    async def test_a_terminal_inside_has_a_size_and_control_keys(self, bench: Bench) -> None:
        spec = bench.code(SLEEPS)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        session = await opened(bench, spec, size=SIZE)
        await session.write(b"stty size; tty; echo $TERM\n")
        assert "xterm-256color" in (said := await until(session, "xterm-256color\r\n", bench.patience))
        assert "24 80" in said
        assert "/dev/pts/" in said
        for columns in range(1000):
            await session.resize(TerminalSize(columns=columns % 200 + 1, rows=30))
        await session.resize(TerminalSize(columns=132, rows=40))
        await session.write(b"stty size; echo be''gins; sleep 600\n")
        assert "40 132" in await until(session, "begins\r\n", bench.patience)
        await asyncio.sleep(0.3)
        await session.write(b"\x03")
        await session.write(b"echo af''ter; exit 4\n")
        await until(session, "after\r\n", bench.patience)
        assert (await output(session, bench.patience))[2] == SessionEnd(code=4)
        status = await bench.status(spec.key)
        assert status is not None
        assert status.phase is AttemptPhase.RUNNING

    async def test_a_closed_session_ends_what_it_started_also_when_the_service_ends(self, bench: Bench) -> None:
        spec = bench.code(SLEEPS)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        text = "trap '' HUP TERM; sleep 600 & echo $$ $!; wait; wait"
        for size in (None, SIZE):
            session = await opened(bench, spec, "sh", "-c", text, size=size)
            pids = (await until(session, "\n", bench.patience)).split()
            await session.close()
            await ended(bench, spec, pids)
        session = await opened(bench, spec, "sh", "-c", text)
        pids = (await until(session, "\n", bench.patience)).split()
        await bench.restart()
        await session.close()
        await ended(bench, spec, pids)

    async def test_a_session_ends_with_the_attempt_and_does_not_delay_it(self, bench: Bench) -> None:
        spec = bench.code(SAVES.format(code=75))
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        session = await opened(bench, spec, "sh", size=SIZE)
        await session.write(b"trap '' HUP TERM; (sleep 600 &) ; echo re''ady\n")
        await until(session, "ready\r\n", bench.patience)
        await bench.executor.pause(spec.key)
        gone = await bench.gone(spec.key)
        assert gone.exit is not None
        assert (gone.exit.code, gone.exit.paused, gone.exit.killed) == (75, True, False)
        assert (await output(session, bench.patience))[2] is not None

    async def test_outputs_are_read_only_from_inside_their_directory(self, bench: Bench) -> None:
        text = """
import os
os.chdir(os.environ["SPRINGTIDE_OUTPUT_DIR"])
os.makedirs("models")
for name in ("result.txt", "models/best"):
    with open(name, "w") as file: file.write("good")
os.symlink("/etc/passwd", "passwd")
os.symlink("/etc", "etc")
os.symlink("result.txt", "inside")
os.mkfifo("pipe")
"""
        await bench.run(bench.code(text))

        async def read(job: str, name: str, limit: int) -> bytes | None:
            return await read_output(bench.executor, job, name, limit)

        assert await read("job", "result.txt", 4) == b"good"
        assert await read("job", "models/best", 4) == b"good"
        assert await read("job", "missing", 4) is None
        assert await read("job", "missing/too", 4) is None
        with pytest.raises(ExecutorError, match="has 4 bytes; at most 3"):
            await read("job", "result.txt", 3)
        for name in ("passwd", "etc/passwd", "inside", "pipe", "models", "../reports.jsonl", "/etc/passwd", ""):
            with pytest.raises(ExecutorError):
                await read("job", name, 1 << 20)

    async def test_a_removed_job_leaves_nothing(self, bench: Bench) -> None:
        await bench.run(bench.code("print('x')"))
        await bench.executor.remove("job")
        await bench.executor.remove("job")
        assert await bench.executor.attempts() == ()
        assert (await bench.executor.read_log("job", 0, 0, 10)).size == 0
        await bench.restart()
        assert await bench.executor.attempts() == ()

    async def test_what_cannot_be_a_jobs_id_is_refused(self, bench: Bench) -> None:
        for job in ("", ".", "..", "a/b", "../x", ".hidden", "a\0b", "x" * 200):
            with pytest.raises(ExecutorError, match="not the id of a job"):
                await bench.executor.launch(bench.code("pass", job=job))
            with pytest.raises(ExecutorError, match="not the id of a job"):
                await bench.executor.open_output(job, "x", 10)

    async def test_a_paused_job_resumes_from_its_checkpoint(self, bench: Bench) -> None:
        argv = (bench.python, "-c", RESUMES)
        first = bench.spec(argv)
        await bench.executor.launch(first)
        await bench.until(lambda: bench.of_kind(Reported), "a report")
        await bench.executor.pause(first.key)
        ended = await bench.gone(first.key)
        assert ended.exit is not None
        assert (ended.exit.code, ended.exit.paused, ended.exit.killed) == (75, True, False)
        saved = bench.of_kind(Reported)[-1].saved_step
        assert saved is not None
        assert saved >= 1
        ended = await bench.run(bench.spec(argv, attempt=2))
        assert ended.exit is not None
        assert ended.exit.code == 0
        assert await bench.log("job") == f"from 0\nfrom {saved:.0f}\n"
        assert bench.of_kind(Reported)[-1].saved_step == saved
        assert bench.of_kind(Reported)[-1].last.step == saved + 3

    async def test_a_gang_without_a_framework_pauses_at_one_step(self, bench: Bench) -> None:
        spec = bench.spec((bench.python, "-c", LOCKSTEP), size=3)
        await bench.executor.launch(spec)
        await bench.until(lambda: bench.of_kind(Reported), "a report")
        await bench.executor.pause(spec.key)
        end = (await bench.gone(spec.key)).exit
        assert end is not None
        assert (end.code, end.paused, end.killed) == (75, True, False)
        saved = bench.of_kind(Reported)[-1].saved_step
        assert {await bench.log("job", rank) for rank in range(3)} == {f"{saved:.0f}\n"}

    async def test_a_job_runs_in_a_copy_of_its_project_that_it_keeps(self, bench: Bench) -> None:
        root = Path("/nowhere/study")  # its files are sent; what lies there, pods cannot see in any case
        packed = pack(
            {"scripts/train.py": TreeFile(COUNTS.encode()), "tool": TreeFile(b"#!/bin/sh\n", executable=True)}, {}
        )
        tree = ProjectTree(root=str(root), digest=digest_of(packed))
        argv = (bench.python, "-S", "train.py", "{project_tree}/tool")
        for attempt in (1, 2):
            spec = bench.spec(argv, attempt=attempt, cwd=str(root / "scripts"), tree=tree, packed=packed)
            ended = await bench.run(spec)
            assert ended.exit is not None
            assert ended.exit.code == 0, await bench.log("job")
        said = (await bench.log("job")).splitlines()
        assert [line for line in said if line[0].isdigit()] == ["1 True", "2 True"]

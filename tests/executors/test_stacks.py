"""Where the processes of a job are: stacks of programs that answer, of others, and of hostile ones."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from benches.executor_bench import SLEEPS
from benches.local_bench import LocalBench, account_bench
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptSpec
from springtide.scheduler.executors.session import STACK, SessionSpec, Stream
from springtide.scheduler.executors.supervisor.stack import MOST_FRAMES, folded, shortened
from springtide.scheduler.wire import SessionEnd

pytestmark = pytest.mark.process
HANGS = """
import ctypes, os, sys, threading, time
from springtide.training import current_job
current_job()
def in_a_thread():
    time.sleep(600)
def hangs_in_a_library():
    print("ready", flush=True)
    ctypes.CDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)
threading.Thread(target=in_a_thread, daemon=True).start()
"""
FORKS = """
def in_the_child():
    time.sleep(600)
if os.fork() == 0:
    in_the_child()
"""
FAKES = """
import os, signal, time
for number in (9, 15, 10, 999, 57):
    os.memfd_create(f"springtide-stack-{number}")
handled = os.memfd_create("springtide-stack-40")
signal.signal(40, lambda *_: os.write(handled, b"\\x1b[31m" + b"x" * (1 << 22)))
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[LocalBench]:
    bench = LocalBench(tmp_path / "state")
    await bench.open()
    yield bench
    await bench.close()


async def stack(bench: LocalBench, spec: AttemptSpec, rank: int = 0) -> str:
    session = await bench.executor.open_session(spec.key, SessionSpec(rank, tool=STACK))
    said = b""
    while (piece := await session.read()) is not None:
        assert piece[0] is Stream.OUTPUT, piece
        said += piece[1]
    await session.close()
    assert session.end == SessionEnd(code=0)
    return said.decode()


async def run(bench: LocalBench, text: str, *options: str, **more: Any) -> AttemptSpec:
    spec = bench.spec((bench.python, *options, "-c", text), **more)
    await bench.executor.launch(spec)
    for rank in range(spec.workers):
        await bench.running(spec.key, rank=rank)
    return spec


async def test_a_program_that_hangs_in_a_library_shows_the_stacks_of_its_threads(bench: LocalBench) -> None:
    spec = await run(bench, f"{HANGS}\nhangs_in_a_library()", size=2)
    for rank in (0, 1):
        for _ in range(3):
            said = await stack(bench, spec, rank)
            assert said.count("in hangs_in_a_library") == 1, said
            assert said.count("in in_a_thread") == 1
            assert said.count("\nProcess") + said.startswith("Process") == 1
    status = await bench.status(spec.key)
    assert status is not None
    assert status.phase == "running"


async def test_notebook_code_is_called_as_in_the_errors_of_failed_jobs(bench: LocalBench) -> None:
    sent = """
from springtide.widgets.submission.sent import Call, Source
file = "/tmp/ipykernel_7/405.py"
text = "def train():\\n    hangs_in_a_library()\\n"
exec(compile(text, file, "exec"), globals())
Call(train, {file: Source(text, "In [13]")})()
"""
    said = await stack(bench, await run(bench, f"{HANGS}{sent}"))
    assert 'File "In [13]", line 2 in train' in said
    assert 'File "/tmp/ipykernel' not in said


async def test_a_process_runs_while_one_of_its_threads_does(bench: LocalBench) -> None:
    spins = "def spin():\n    while True:\n        pass\nthreading.Thread(target=spin, daemon=True).start()"
    said = await stack(bench, await run(bench, f"{HANGS}\n{spins}\nprint('ready', flush=True)\ntime.sleep(600)"))
    assert "(running)" in said.splitlines()[0], said


async def test_a_deep_recursion_says_that_its_outer_frames_are_not_shown(bench: LocalBench) -> None:
    deep = "def deep(n):\n    deep(n - 1) if n else hangs_in_a_library()\ndeep(300)"
    said = await stack(bench, await run(bench, f"{HANGS}\n{deep}"))
    assert said.count("in deep") == 1, said
    assert re.search(r"… 9\d more of deep \(.*:\d+\)", said), said
    assert 0 < said.index("in hangs_in_a_library") < said.index("in deep"), "the innermost frames are those shown"
    assert said.count("… and the frames that called these: Python writes the 100 innermost ones of a thread.") == 1


def test_each_thread_has_its_innermost_frames_and_the_number_of_the_others() -> None:
    deep = [f"    deep (train.py:{number})" for number in range(250)]
    other = ["    waits (loader.py:3)", "    run (threading.py:917)"]
    text = "\n".join(['Thread 7 (idle): "MainThread"', *deep, 'Thread 8 (idle): "loader"', *other])
    assert folded(text, MOST_FRAMES).splitlines() == [
        'Thread 7 (idle): "MainThread"',
        *deep[:100],
        "  … and the 150 frames that called these.",
        'Thread 8 (idle): "loader"',
        *other,
    ]
    assert folded("\n".join(deep), MOST_FRAMES).splitlines()[-1] == "  … and the 150 frames that called these."


def test_the_frames_of_a_recursion_are_one_line_with_their_number() -> None:
    inner, outer = '  File "/code/train.py", line 9 in g', '  File "/code/train.py", line 20 in main'
    frame = '  File "/code/train.py", line 3 in f'
    assert folded(
        "\n".join(["Thread 7:", inner, *[frame] * 995, outer, "Thread 8:", frame, frame])
    ).splitlines() == [
        "Thread 7:",
        inner,
        frame,
        "  … 994 more of f (train.py:3)",
        outer,
        "Thread 8:",
        frame,
        frame,
    ]
    spied = ["    even (train.py:3)", "    odd (train.py:7)"]
    assert folded("\n".join([*spied * 200, "    main (train.py:9)"]), MOST_FRAMES).splitlines() == [
        *spied,
        "  … 398 more of these 2 frames in turn",
        "    main (train.py:9)",
    ]
    different = [f"    deep (train.py:{number})" for number in range(2 * MOST_FRAMES)]
    assert folded("\n".join([*different, *spied * 50]), MOST_FRAMES).endswith(
        f"… and the {MOST_FRAMES + 100} frames that called these."
    )


def test_stacks_that_are_too_long_keep_their_first_and_last_lines() -> None:
    lines = [f'  File "train.py", line {number} in deep' for number in range(5000)]
    kept = shortened("\n".join(lines)).splitlines()
    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    (at,) = [place for place, line in enumerate(kept) if line not in lines]
    assert kept[at] == f"  … {5000 - len(kept) + 1} lines are left out here."
    assert shortened("\n".join(lines[:10])) == "\n".join(lines[:10])


async def test_forked_children_have_stacks_of_their_own(bench: LocalBench) -> None:
    spec = await run(bench, f"{HANGS}{FORKS}\nhangs_in_a_library()")
    said = await stack(bench, spec)
    parent, child = said.split("\n\nProcess") if "\n\nProcess" in said else said.split("\nProcess")
    assert ("in hangs_in_a_library" in parent, "in in_the_child" in parent) == (True, False)
    assert ("in hangs_in_a_library" in child, "in in_the_child" in child) == (False, True)


async def test_a_function_that_is_submitted_answers_without_any_import_of_its_own(bench: LocalBench) -> None:
    text = "import sys; sys.argv = ['run', 'function', 'x']; from springtide.training import run\n"
    text += "import time\ndef waits(*_):\n    print('ready', flush=True); time.sleep(600)\n"
    spec = await run(bench, f"{text}run.run_function = waits\nrun.main()")
    assert "in waits" in await stack(bench, spec)


async def test_of_other_programs_the_state_and_a_hint_are_shown(bench: LocalBench) -> None:
    spec = await run(bench, SLEEPS, "-S", env={"PATH": "/usr/bin:/bin"})
    said = await stack(bench, spec)
    assert "(waiting)" in said
    if shutil.which("py-spy", path=f"/usr/bin:/bin:{Path(sys.executable).parent}") is None:
        assert "pip install py-spy" in said
    other = bench.spec(("sh", "-c", "echo ready; sleep 600"), job="other")
    await bench.executor.launch(other)
    await bench.running(other.key)
    assert "sleep 600" in await stack(bench, other)


async def test_py_spy_reads_a_python_program_that_does_not_answer(bench: LocalBench, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "py-spy"
    fake.write_text(
        '#!/bin/sh\necho "Process $3: python -c\n1"\necho "Python v3"\necho "Thread 1 (idle): $1 $2"\n'
    )
    fake.chmod(0o755)
    spec = await run(bench, SLEEPS, "-S", env={"PATH": f"{tools}:/usr/bin:/bin"})
    assert "Thread 1 (idle): dump --pid" in await stack(bench, spec)
    fake.write_text('#!/bin/sh\necho "Error: Operation not permitted" >&2\nexit 1\n')
    assert "py-spy may not read it here: Error: Operation not permitted" in await stack(bench, spec)


async def test_no_signal_comes_unexpected_and_no_stack_is_endless(
    bench: LocalBench,
) -> None:
    spec = await run(bench, FAKES, "-S", env={"PATH": "/usr/bin:/bin"})
    said = await stack(bench, spec)
    assert len(said) < 70_000
    status = await bench.status(spec.key)
    assert status is not None
    assert status.phase == "running"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())", "All its threads block signal 57,"),
        ("signal.signal(57, signal.SIG_IGN)", "It ignores signal 57,"),
        (
            "os.kill(os.getpid(), signal.SIGSTOP)",
            "It is stopped. Its stack is shown once it continues (kill -CONT",
        ),
    ],
)
async def test_a_program_that_does_not_answer_says_what_would_have_it_answer(
    bench: LocalBench, text: str, hint: str
) -> None:
    code = "import os, signal, time\nfrom springtide.training import current_job\ncurrent_job()\n"
    code += f"print('ready', flush=True)\n{text}\ntime.sleep(600)"
    spec = await run(bench, code, env={"PATH": "/usr/bin:/bin"})
    async with asyncio.timeout(PATIENCE_S):
        while hint not in (said := await stack(bench, spec)):
            await asyncio.sleep(0.1)
    assert "if the job imports springtide.training" not in said


@pytest.mark.root
async def test_stacks_are_read_with_the_rights_of_the_job() -> None:
    async with account_bench() as bench:
        spec = bench.spec(("sh", "-c", "echo ready; exec sleep 600"), user="no-such-account-susan", cwd="/")
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        assert "sleep 600 (waiting)" in await stack(bench, spec)

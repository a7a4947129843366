"""What jobs write: logs without end, disks that are full, and links that lead elsewhere."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

import pytest
from benches.executor_bench import READY, read_output
from benches.local_bench import LocalBench, appears
from machines.processes import alive

from springtide.scheduler.executors.base import AttemptKey, ExecutorError, LogGrew, Reported
from springtide.scheduler.executors.local.launch import PROGRAM


async def test_a_log_keeps_its_end_and_says_what_it_dropped(bench: LocalBench) -> None:
    spec = bench.code("for n in range(60000): print(f'{n:09d}')")
    await bench.run(spec)
    kept = sum(path.stat().st_size for path in bench.directory(spec.key).glob("log.*"))
    assert kept <= 64 * 1024
    piece = await bench.executor.read_log("job", 0, 0, 1 << 20)
    assert piece.size == 600000
    assert piece.data.decode().startswith(f"… {piece.offset} bytes dropped …\n")
    text = await bench.log("job")
    assert len(text.encode()) == 600000 - piece.offset
    assert text.endswith("000059999\n")
    assert bench.of_kind(LogGrew)[-1].size == 600000
    tail = await bench.executor.read_log("job", 0, -20, 100)
    assert tail.data == b"000059998\n000059999\n"


async def test_a_worker_that_prints_without_end_stays_killable(bench: LocalBench) -> None:
    spec = bench.code(f"{READY}\nwhile True: print('x' * 1000)", grace=0.2)
    await bench.executor.launch(spec)
    await bench.until(lambda: [each for each in bench.of_kind(LogGrew) if each.size > 1 << 18], "a long log")
    await bench.executor.pause(spec.key)
    await bench.gone(spec.key)
    assert sum(path.stat().st_size for path in bench.directory(spec.key).glob("log.*")) <= 64 * 1024


async def test_a_checkpoint_that_found_no_room_is_reported_until_one_is_saved(bench: LocalBench) -> None:
    spec = bench.code(
        "import json, os, pathlib, time\n"
        "for line in ({'step': 1, 'saved': True}, {'step': 2, 'unsaved': True}, {'step': 3}, {'saved': True}):\n"
        "    while 'saved' in line and 'step' not in line and not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "    print(json.dumps(line), file=open(os.environ['SPRINGTIDE_REPORT'], 'a'))\n"
    )

    def told(step: float | None, *, unsaved: bool) -> bool:
        *_, last = [None, *bench.of_kind(Reported)]
        return last is not None and (last.last.step, last.unsaved_at is not None) == (step, unsaved)

    await bench.executor.launch(spec)
    await bench.until(lambda: told(3.0, unsaved=True), "the third report")
    (bench.state / "jobs" / "job" / "work" / "go").touch()
    await bench.until(lambda: told(None, unsaved=False), "the last report")
    await bench.gone(spec.key)


async def test_a_result_that_waits_for_room_is_reported_until_it_is_written(bench: LocalBench) -> None:
    spec = bench.code(
        "import json, os, pathlib, time\n"
        "first, last = {'at': 5, 'waits_for_room': 600}, {'waits_for_room': 0}\n"
        "waits = (first, {'waits_for_room': 'long'}, {'step': 3}, last)\n"
        "for line in waits:\n"
        "    while line.get('waits_for_room') == 0 and not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "    print(json.dumps(line), file=open(os.environ['SPRINGTIDE_REPORT'], 'a'))\n"
    )

    def until() -> list[float | None]:
        return [each.room_until for each in bench.of_kind(Reported) if each.last.step == 3.0 or not each.last.step]

    await bench.executor.launch(spec)
    await bench.until(lambda: until()[-1:] == [605.0], "the wait")
    (bench.state / "jobs" / "job" / "work" / "go").touch()
    await bench.until(lambda: until()[-1:] == [None], "its end")
    await bench.gone(spec.key)


async def test_a_job_outlives_a_full_disk_and_its_end_is_recorded_when_there_is_room(bench: LocalBench) -> None:
    spec = bench.code(f"{READY}\nimport pathlib\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)")
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    supervisor = bench.supervisor(spec.key)
    _, hard = resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    (bench.state / "jobs" / "job" / "work" / "go").touch()
    record = bench.directory(spec.key) / "exit.json"
    await appears(record.with_name("exit.json.new"))
    assert alive(supervisor)
    assert not record.exists()
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (hard, hard))
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.code == 0


async def test_a_launch_onto_a_full_disk_is_an_error_and_can_be_repeated(bench: LocalBench) -> None:
    spec = bench.code("print('ran')", files={"data": b"x" * 100_000})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(ExecutorError, match="files cannot be written"):
            await bench.executor.launch(spec)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert await bench.executor.attempts() == ()
    ended = await bench.run(spec)
    assert ended.exit is not None
    assert ended.exit.code == 0


async def test_bytes_that_a_full_disk_did_not_take_are_counted_in_the_log(tmp_path: Path) -> None:
    text = f"""
import os, resource, signal, sys
sys.path.append({str(PROGRAM.parent)!r})
from supervisor.log import Log
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
log = Log(os.open({str(tmp_path)!r}, os.O_RDONLY), 0, 1 << 20)
log.write(b"a" * 150)
log.write(b"b" * 50)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.write(b"c")
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", text)
    assert await process.wait() == 0
    assert (tmp_path / "log.0").read_text() == "a" * 100 + "\n… 100 bytes dropped: the disk was full …\nc"


async def test_links_in_the_place_of_the_jobs_files_lead_nowhere(bench: LocalBench, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"step": 1}\n' * 3)
    await bench.run(bench.code("pass"))
    job = bench.state / "jobs" / "job"
    for name in ("reports.jsonl", "attempts/1/log.0"):
        (job / name).unlink()
        (job / name).symlink_to(secret)
    (job / "output").rmdir()
    (job / "output").symlink_to(tmp_path)
    assert await bench.executor.read_reports("job", 0, 10) == ()
    with pytest.raises(ExecutorError, match="not a plain file"):
        await bench.executor.read_log("job", 0, 0, 10)
    with pytest.raises(ExecutorError):
        await read_output(bench.executor, "job", "secret", 1000)
    assert AttemptKey("job", 1) in {status.key for status in await bench.executor.attempts()}

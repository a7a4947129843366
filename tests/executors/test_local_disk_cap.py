"""What a job may keep on the disk of one machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from benches.local_bench import LocalBench

from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.local.limits import Limits
from springtide.scheduler.executors.supervisor.disk import measured

MIB = 1 << 20
FILL = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(75))
pathlib.Path(os.environ[{where!r}]{below}).write_bytes(os.urandom({size}))
time.sleep(60)
"""


def capped(tmp_path: Path) -> LocalBench:
    return LocalBench(tmp_path / "state", limits=Limits(disk=4 * MIB, disk_interval=0.2))


async def end_of(bench: LocalBench, where: str, below: str) -> tuple[ExitKind, str]:
    await bench.open()
    try:
        spec = bench.code(FILL.format(where=where, below=below, size=6 * MIB))
        await bench.executor.launch(spec)
        ended = (await bench.gone(spec.key)).exit
        assert ended is not None
        return ended.kind, ended.detail
    finally:
        await bench.close()


def first_named(detail: str) -> tuple[str, float]:
    """Return the largest file, and its size in MiB: a part if it is still being written."""
    found = re.search(r"MiB on the disk \((\w+) ([\d.]+) MiB", detail)
    assert found is not None, detail
    return found[1], float(found[2])


async def test_a_job_that_keeps_too_many_outputs_is_ended_and_told_what_to_delete(tmp_path: Path) -> None:
    kind, detail = await end_of(capped(tmp_path), "SPRINGTIDE_OUTPUT_DIR", ", 'result.bin'")
    assert kind is ExitKind.OVER_DISK
    kept, mib = first_named(detail)
    assert kept == "outputs"
    assert 4.0 <= mib <= 6.0
    assert detail.endswith(
        "of 4.0 MiB that a job of this pool may keep. Have the program delete outputs that are no longer needed."
    )


async def test_the_reports_of_a_job_count_as_what_it_keeps(tmp_path: Path) -> None:
    kind, detail = await end_of(capped(tmp_path), "SPRINGTIDE_REPORT", "")
    assert kind is ExitKind.OVER_DISK
    kept, mib = first_named(detail)
    assert kept == "reports"
    assert 4.0 <= mib <= 6.0


EVASIONS = {
    "submitted files": """
import os, pathlib
pathlib.Path(os.environ["SPRINGTIDE_OUTPUT_DIR"], "../code/weights.bin").write_bytes(os.urandom(SIZE))
""",
    "deleted files that it has open": """
import os, pathlib
path = pathlib.Path(os.environ["SPRINGTIDE_OUTPUT_DIR"], "unseen")
kept = path.open("wb")
path.unlink()
kept.write(os.urandom(SIZE))
kept.flush()
""",
    "outputs": """
import os
os.chdir(os.environ["SPRINGTIDE_OUTPUT_DIR"])
for _ in range(40):
    os.mkdir("x" * 200)
    os.chdir("x" * 200)
with open("file", "wb") as file:
    file.write(os.urandom(SIZE))
""",
}
"""Programs that keep 6 MiB where a measurement by path and name does not see them."""
MAPPED = """
import mmap, os, pathlib
path = pathlib.Path(os.environ["SPRINGTIDE_OUTPUT_DIR"], "unseen")
path.write_bytes(os.urandom(SIZE))
with path.open("r+b") as file:
    kept = mmap.mmap(file.fileno(), 0)
path.unlink()
"""


async def end_of_program(bench: LocalBench, text: str) -> tuple[ExitKind, str]:
    await bench.open()
    try:
        spec = bench.code(f"SIZE = {6 * MIB}\n{text}\nimport time\ntime.sleep(60)\n")
        await bench.executor.launch(spec)
        ended = (await bench.gone(spec.key)).exit
        assert ended is not None
        return ended.kind, ended.detail
    finally:
        await bench.close()


@pytest.mark.parametrize("kept", EVASIONS)
async def test_whatever_a_job_keeps_counts(tmp_path: Path, kept: str) -> None:
    kind, detail = await end_of_program(capped(tmp_path), EVASIONS[kept])
    assert kind is ExitKind.OVER_DISK
    assert f"MiB on the disk ({kept} " in detail


@pytest.mark.root
async def test_a_deleted_file_counts_that_is_only_mapped(tmp_path: Path) -> None:
    kind, detail = await end_of_program(capped(tmp_path), MAPPED)
    assert kind is ExitKind.OVER_DISK
    assert "MiB on the disk (deleted files that it has open " in detail


async def test_folders_without_end_are_too_much(tmp_path: Path) -> None:
    text = """
import os
os.chdir(os.environ["SPRINGTIDE_OUTPUT_DIR"])
for _ in range(400):
    os.mkdir("d")
    os.chdir("d")
"""
    kind, detail = await end_of_program(capped(tmp_path), text)
    assert kind is ExitKind.OVER_DISK
    assert "its folders are nested more than 256 deep" in detail


def test_a_folder_that_goes_while_it_is_measured_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(os.urandom(MIB))
    opened = os.open

    def late(name: str, *args: int, **more: int) -> int:
        if name == "folder":
            (tmp_path / "folder").rmdir()
        return opened(name, *args, **more)

    monkeypatch.setattr(os, "open", late)
    assert measured(str(tmp_path), set()) >= MIB


async def test_a_job_below_the_cap_runs_to_its_end(tmp_path: Path) -> None:
    bench = capped(tmp_path)
    await bench.open()
    try:
        text = "import os, time; open(os.environ['SPRINGTIDE_OUTPUT_DIR'] + '/x', 'wb').write(b'x' * 1000)"
        ended = (await bench.run(bench.code(f"{text}; time.sleep(1)"))).exit
        assert ended is not None
        assert (ended.kind, ended.code) == (ExitKind.EXITED, 0)
    finally:
        await bench.close()


def test_links_are_not_followed_and_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    kept, elsewhere = tmp_path / "kept", tmp_path / "elsewhere"
    kept.mkdir()
    elsewhere.write_bytes(os.urandom(8 * MIB))
    (kept / "link").symlink_to(elsewhere)
    (kept / "deep").mkdir()
    (kept / "deep" / "file").write_bytes(os.urandom(MIB))
    (kept / "again").hardlink_to(kept / "deep" / "file")
    assert MIB <= measured(str(kept), set()) < 2 * MIB
    assert measured(str(tmp_path / "nothing"), set()) == 0


def test_the_cap_is_shown_with_the_limits_of_a_node(tmp_path: Path) -> None:
    assert Limits(disk=10 << 30).described(as_root=False) == "10 GiB on the disk per job"
    both = Limits(memory=1 << 30, disk=10 << 30, cgroup=tmp_path).described(as_root=False)
    assert both == "1 GiB of memory per worker (cgroup), 10 GiB on the disk per job"

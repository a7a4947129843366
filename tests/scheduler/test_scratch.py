"""Folders for work in progress, of processes that end well, that are killed, and that go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from springtide.scheduler.scratch import ScratchFolder

PROGRAM = """
import sys
from pathlib import Path
from springtide.scheduler.scratch import ScratchFolder
folder = ScratchFolder(Path(sys.argv[1]), ".making-")
(folder.path / "part").write_text("part")
print(folder.path, flush=True)
sys.stdin.read()
folder.remove()
"""


def working(there: Path) -> tuple[subprocess.Popen[str], Path]:
    """Return a process with a folder, and the folder."""
    command = [sys.executable, "-c", PROGRAM, str(there)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_for_its_owner_alone_and_goes(tmp_path: Path) -> None:
    folder = ScratchFolder(tmp_path, ".making-")
    assert folder.path.parent == tmp_path
    assert folder.path.stat().st_mode & 0o077 == 0
    folder.remove()
    assert not list(tmp_path.iterdir())


def test_the_folder_of_a_killed_process_goes_with_the_next_one_and_that_of_another_stays(tmp_path: Path) -> None:
    (tmp_path / ".making-file").write_text("no folder")
    (tmp_path / "kept").mkdir()
    (tmp_path / ".making-link").symlink_to(tmp_path / "kept", target_is_directory=True)
    going, at_work = working(tmp_path)
    killed, left = working(tmp_path)
    killed.kill()
    killed.communicate()
    assert (left / "part").exists()
    folder = ScratchFolder(tmp_path, ".making-")
    assert not left.exists()
    assert (at_work / "part").exists()
    assert folder.path.exists()
    folder.remove()
    going.communicate("")
    assert going.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".making-file", ".making-link", "kept"]

"""The training library in the state directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from springtide.scheduler.executors.files.programs import write_programs
from springtide.scheduler.executors.library import LIBRARY

IMPORTS = """
import sys
sys.path.insert(0, sys.argv[1])
from springtide.training import checkpoint
print(checkpoint.__file__, checkpoint.Checkpoints.__init__.__code__.co_filename)
"""


def test_jobs_of_the_same_python_compile_nothing_and_their_errors_name_the_library(tmp_path: Path) -> None:
    library = tmp_path / write_programs(tmp_path, {}, None, readable=True) / LIBRARY
    source = library / "springtide/training/checkpoint.py"
    source.write_text("raise RuntimeError('compiled anew')")
    words = [sys.executable, "-S", "-c", IMPORTS, str(library)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert printed.split() == [str(source)] * 2


def test_all_accounts_can_read_the_library_and_none_can_change_it(tmp_path: Path) -> None:
    programs = tmp_path / write_programs(tmp_path, {}, None, readable=True)
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (programs, *programs.rglob("*"))}
    assert modes == {(True, 0o755), (False, 0o644)}


def test_a_pool_that_starts_again_writes_none_of_it_again(tmp_path: Path) -> None:
    programs = tmp_path / write_programs(tmp_path, {}, None, readable=True)
    before = {path: path.stat().st_mtime_ns for path in (programs, *programs.rglob("*"))}
    assert tmp_path / write_programs(tmp_path, {}, None, readable=True) == programs
    assert {path: path.stat().st_mtime_ns for path in (programs, *programs.rglob("*"))} == before

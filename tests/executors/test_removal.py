"""Removal of a job's directory while the last supervisor still writes into it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.removal import remove_files, size_of_files


def test_a_record_that_arrives_during_the_removal_is_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "job"
    (root / "attempts").mkdir(parents=True)
    remove_directory, late = os.rmdir, [root / "attempts" / "exit.json"]

    def rmdir(path: Any, *arguments: Any, **options: Any) -> None:
        if late:
            late.pop().write_text("{}")
        remove_directory(path, *arguments, **options)

    monkeypatch.setattr(os, "rmdir", rmdir)
    remove_files(JobPlaces(root))
    assert not root.exists()


def test_a_tree_of_any_depth_is_measured_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "job"
    root.mkdir()
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(root)
        for _ in range(3000):
            Path("deep").mkdir()
            os.chdir("deep")
        Path("file").write_bytes(bytes(100))
    finally:
        os.fchdir(here)
        os.close(here)
    (root / "near").write_bytes(bytes(10))
    (root / "link").symlink_to("/usr/bin/python3")
    assert 10 <= size_of_files(JobPlaces(root)) < 1000
    remove_files(JobPlaces(root))
    assert not root.exists()


def test_a_directory_that_cannot_be_removed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(PermissionError):
        remove_files(JobPlaces(tmp_path))

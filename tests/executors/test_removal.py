"""Removal of a job's directory while the last supervisor still writes into it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.unrecorded import remove_files


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


def test_a_directory_that_cannot_be_removed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(PermissionError):
        remove_files(JobPlaces(tmp_path))

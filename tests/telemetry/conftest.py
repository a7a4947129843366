"""A driver whose GPUs answer as a test says."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pynvml
import pytest
from machines.nvml_library import Driver, build

from springtide.scheduler.telemetry import nvml as nvml_driver


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library in NVML's place."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver without GPUs, which this process finds in place of the machine's."""
    driver = Driver(tmp_path / "nvml", library)
    monkeypatch.setenv("NVML_STATE", driver.environment["NVML_STATE"])
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(nvml_driver, "_started", False)
    return driver

"""A pool of the machine's real GPUs, and two people in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hubs.gpu_desk import HINT, Desk, asked
from pools.pool_process import ServiceProcess


@pytest.fixture(scope="session")
def python() -> Path:
    """An interpreter with PyTorch that finds a GPU."""
    found = os.environ.get("CUDA_PYTHON") or shutil.which("python3")
    look = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    assert found, HINT
    assert subprocess.run([found, "-c", look], check=False).returncode == 0, HINT
    return Path(found)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Iterator[ServiceProcess]:
    """A pool of the machine's GPUs: susan's project has a quota of all, joe's of none."""
    del python  # what is missing is said before a service starts
    projects = {"vision": (len(asked("uuid")), ["susan"]), "speech": (0, ["joe"])}
    service = ServiceProcess(tmp_path_factory.mktemp("pool"), projects=projects, real=True)
    service.start()
    yield service
    service.stop()


@pytest.fixture
def susan(service: ServiceProcess, tmp_path: Path, python: Path) -> Desk:
    return Desk(service.url, "susan", tmp_path, python)


@pytest.fixture
def joe(service: ServiceProcess, tmp_path: Path, python: Path) -> Desk:
    return Desk(service.url, "joe", tmp_path, python)

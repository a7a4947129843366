from __future__ import annotations

from pathlib import Path

import pytest
from chart import Helm


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path / "helm")

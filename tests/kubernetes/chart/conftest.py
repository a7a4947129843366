"""Helm, and what the chart makes of values, which all tests in this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.chart import Helm, Template


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path / "helm")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template(Helm(tmp_path_factory.mktemp("helm")))

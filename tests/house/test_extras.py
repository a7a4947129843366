"""What runs on one machine needs nothing of the extras for clusters."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules.update(dict.fromkeys(['kubernetes_asyncio', 'kubespawner', 'psycopg']))"


@pytest.mark.parametrize(
    "module",
    ["hub_extension.service", "hub_extension.command", "spawner.local", "widgets"],
)
def test_it_is_there_without_the_packages_for_clusters(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{WITHOUT}; import springtide.{module}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

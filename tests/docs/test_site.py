"""The documentation site builds without a warning: no broken link, no page that nothing leads to."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from springtide import training, widgets
from springtide.hub_extension.command import COMMANDS

ROOT = Path(__file__).parents[2]


def exported(package: str) -> list[str]:
    """Return what a package exports by its text, as its own imports are not installed here."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    (names,) = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    found: list[str] = ast.literal_eval(names)
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    build = ["-W", "--keep-going", "-q", "-b", "html", str(ROOT / "docs"), str(target)]
    words = [sys.executable, "-m", "sphinx", *build]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page).exists()] == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = (site / "reference/python.html").read_text()
    names = [f"springtide.widgets.{name}" for name in widgets.__all__ if name != "pool"]
    names += [f"springtide.training.{name}" for name in training.__all__]
    names += [f"springtide.widgets.airflow.{name}" for name in exported("widgets/airflow")]
    assert [name for name in names if f'id="{name}"' not in text] == []


def test_every_command_is_in_the_reference(site: Path) -> None:
    text = (site / "reference/commands.html").read_text()
    assert [name for name in COMMANDS if f'id="springtide-{name}"' not in text] == []


def test_the_site_asks_no_other_host_for_anything(site: Path) -> None:
    loaded = ('src="http', 'rel="stylesheet" type="text/css" href="http', "@import url(http")
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert [file.name for file in files for how in loaded if how in file.read_text()] == []

"""The wheel installs as one namespace that nobody's own files can shadow."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with nothing but our package, as `make install` put the wheel into this environment."""
    site = tmp_path_factory.mktemp("site")
    (site / "springtide").symlink_to(Path(sysconfig.get_path("purelib")) / "springtide")
    return site


def run(code: str, cwd: Path, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env={"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_users_own_scheduler_and_widgets_shadow_nothing(installed: Path, tmp_path: Path) -> None:
    for name in ("scheduler.py", "widgets.py", "training.py"):
        (tmp_path / name).write_text("mine = True\n")
    code = (
        "import springtide.widgets, springtide.scheduler, scheduler, widgets;"
        "assert scheduler.mine and widgets.mine; print(springtide.widgets.__file__)"
    )
    assert run(code, tmp_path, installed).startswith(str(installed))


def test_pages_and_pictures_are_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    package = installed / "springtide"
    for folder, pattern in (
        ("widgets/visuals", "*.js"),
        ("widgets/visuals", "*.css"),
        ("hub_extension/pages/static", "*.js"),
        ("hub_extension/pages/templates", "*.html"),
    ):
        committed = {path.name for path in (ROOT / folder).rglob(pattern)}
        shipped = {path.name for path in (package / folder).rglob(pattern)}
        assert committed, folder
        assert committed == shipped


def test_importing_the_widgets_is_light(installed: Path, tmp_path: Path) -> None:
    code = (
        "import sys, springtide.widgets;"
        "heavy = {'ipywidgets', 'anywidget', 'httpx', 'jupyterhub', 'sqlalchemy'} & set(sys.modules);"
        "print(sorted(heavy))"
    )
    assert run(code, tmp_path, installed) == "[]"


def test_training_runs_on_the_standard_library_alone(installed: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p];"
        "from springtide.training import current_job; print(current_job().should_pause())"
    )
    assert run(code, tmp_path, installed) == "False"


def test_the_package_runs_as_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "springtide", "jobs", "--nonsense"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: springtide jobs"), done.stderr

"""Training code as others write it runs unchanged, and is the same after a pause as without one."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import framework_tools
import pytest
from pools.pool_process import ServiceProcess

from tests.real_code.corpus import Environment, Place, Program
from tests.real_code.desk import Desk, cases, check_it_ends_the_same_with_a_pause, lay_out, write_entry_point

pytestmark = pytest.mark.xdist_group("real-code")  # one pool, and each program takes a core


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a pool with four simulated GPUs."""
    service = ServiceProcess(tmp_path_factory.mktemp("pool"), projects={"lab": (4, ["susan"])})
    yield service.start()
    service.stop()


@pytest.fixture(scope="module")
def own_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs of an environment of the user's own."""
    made = tmp_path_factory.mktemp("own") / "environment"
    venv.create(made, symlinks=True)
    write_entry_point(made / "bin", str(made / "bin" / "python"))
    return made / "bin"


@pytest.fixture
def desk(pool: str, own_environment: Path, tmp_path: Path) -> Callable[[Program], Desk]:
    """Lay out the project of a program, and return the user's desk there."""

    def made(program: Program) -> Desk:
        programs = {
            Environment.OWN: lambda: own_environment,
            Environment.NOTEBOOKS: lambda: Path(sys.executable).parent,
            Environment.FRAMEWORKS: lambda: framework_tools.interpreter().parent,
        }[program.environment]()
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        user = {"SPRINGTIDE_URL": pool, "JUPYTERHUB_API_TOKEN": "susan"}
        activated = {"PATH": path, "VIRTUAL_ENV": str(programs.parent)}
        return Desk(lay_out(program, tmp_path, path), user | activated)

    return made


@pytest.mark.parametrize("program", cases(Place.MACHINE))
def test_a_program_ends_the_same_with_a_pause_and_edits_after_its_submission(
    program: Program, desk: Callable[[Program], Desk]
) -> None:
    check_it_ends_the_same_with_a_pause(desk(program), program)

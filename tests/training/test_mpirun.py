"""The start of Open MPI's daemons in the workers of a gang; real gangs of MPI are in `tests/frameworks`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S

from springtide.training.mpirun import without_jax
from tests.training.conftest import Place

MPIRUN = ("-m", "springtide.training.mpirun")
STARTS_DAEMONS = """#!/bin/sh
while read -r host slots; do
    [ "$slots" = slots=3 ] || exit 9
    case $host in
    198.18.*) $OMPI_MCA_plm_rsh_agent "$host" "$DAEMON" ;;
    esac
done < "$3"
echo "$5 processes"
exit 75
"""
"""What `mpirun` does to start its daemons, with its arguments ``--quiet --hostfile FILE -np N``."""
RANK = """trap 'echo saved; exit 75' TERM; echo "rank of worker $MINE"; while :; do sleep 0.05; done"""
DAEMON = f"""PATH=$PATH; export OMPI_COMM_WORLD_RANK=4; sh -c '{RANK.replace("'", '"')}'; exit $?"""

ENDING = """
trap 'echo asked to end; exit 1' TERM
: > {there}/.mpirun-of-attempt-1/started-1
echo its processes have ended
until [ -e {there}/end ]; do sleep 0.05; done
exit 75
"""
"""What a daemon of Open MPI is like whose processes have ended, in the directory ``there``."""


@pytest.fixture
def path(place: Place) -> str:
    """A search path on which a program stands for `mpirun`."""
    program = place.root / "programs/mpirun"
    program.parent.mkdir()
    program.write_text(STARTS_DAEMONS)
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def worker(place: Place, index: int, path: str, daemon: str = DAEMON) -> subprocess.Popen[str]:
    return place.start(
        *(*MPIRUN, "train.py"),
        PATH=path,
        DAEMON=daemon,
        MINE=str(index),
        PET_NNODES="2",
        PET_NODE_RANK=str(index),
        PET_NPROC_PER_NODE="3",
    )


def test_a_daemon_runs_in_its_worker_and_sigterm_reaches_the_processes_of_mpi(place: Place, path: str) -> None:
    second, first = worker(place, 1, path), worker(place, 0, path)
    assert first.communicate(timeout=PATIENCE_S) == ("6 processes\n", "")
    assert first.returncode == 75
    assert second.stdout is not None
    assert second.stdout.readline() == "rank of worker 1\n"
    second.send_signal(signal.SIGTERM)
    assert second.communicate(timeout=PATIENCE_S) == ("saved\n", "")
    assert second.returncode == 75


def test_a_daemon_whose_processes_have_ended_is_not_asked_to_end(place: Place, path: str) -> None:
    daemon = f"PATH={os.environ['PATH']}" + ENDING.format(there=place.checkpoints)
    second, first = worker(place, 1, path), worker(place, 0, path, daemon)
    assert first.wait(PATIENCE_S) == 75
    assert second.stdout is not None
    assert second.stdout.readline() == "its processes have ended\n"
    second.send_signal(signal.SIGTERM)
    (place.checkpoints / "end").touch()
    assert second.communicate(timeout=PATIENCE_S) == ("", "")
    assert second.returncode == 75


def test_a_worker_that_waits_for_its_daemon_ends_when_asked_to(place: Place, path: str) -> None:
    waiting = worker(place, 1, path)
    command = place.checkpoints / ".mpirun-of-attempt-1/198.18.0.1"
    place.until(command.exists, "the file of the worker")
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_the_command_of_an_attempt_before_is_not_run_again(place: Place, path: str) -> None:
    old = place.checkpoints / ".mpirun-of-attempt-0"
    old.mkdir(parents=True)
    first = worker(place, 0, path)
    first.communicate(timeout=PATIENCE_S)
    assert not old.exists()


def test_without_open_mpi_it_says_what_to_install(place: Place) -> None:
    code, _, told = place.run(*MPIRUN, "train.py", PATH=str(Path(sys.executable).parent))
    assert (code, told) == (127, "springtide: there is no mpirun here: install Open MPI, in Debian openmpi-bin.\n")


def test_without_a_program_it_says_what_to_give(place: Place) -> None:
    code, _, told = place.run(*MPIRUN)
    assert (code, told) == (
        2,
        "springtide: give the program that MPI is to run, such as train.py with its arguments.\n",
    )


def test_mpi_numbers_its_processes_by_itself() -> None:
    """The pool describes the gang to JAX by variables of Open MPI: no daemon may seem to be a process of MPI."""
    for_jax = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_MCA_orte_hnp_uri": "", "JAX_LOCAL_DEVICE_IDS": "0,1"}
    assert without_jax({"OMPI_MCA_btl": "tcp", **for_jax}) == {"OMPI_MCA_btl": "tcp"}

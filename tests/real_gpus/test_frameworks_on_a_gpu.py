"""Trainings of real frameworks borrow a GPU, are paused for its owner, and end to the bit as if alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hubs.gpu_desk import GIB, Desk, asked, computing, copy_program
from hubs.hub_people import until

import springtide.training

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("real-gpus"), pytest.mark.timeout(600)]

SAME_KERNELS = {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true"}
"""XLA chooses kernels by their speed, and two processes may choose otherwise."""


WITHOUT_MPI = {"OMPI_MCA_ess_singleton_isolated": "1"}
"""Lightning starts MPI where mpi4py is installed, and Open MPI may end the program if there is no ssh."""


@dataclass(frozen=True)
class Training:
    """The words behind the interpreter, and the environment variables that it needs on a GPU."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


TRAININGS = {
    "pytorch": Training(("pytorch.py",)),
    "lightning": Training(("lightning_.py",), WITHOUT_MPI),
    "transformers": Training(("transformers_.py",)),
    "jax": Training(("orbax_.py",), SAME_KERNELS),
    "cupy": Training(("cupy_.py",)),
    "compiled": Training(("scaled.py",)),
    "graph": Training(("graphs.py",)),
    "torchrun": Training(("-m", "torch.distributed.run", "--nproc-per-node", "2", "two_processes.py")),
}
HELD_AFTER = 13
"""Batches after which the borrower waits for the owner."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Mapping[str, str]:
    """What each training ends with outside the pool, where nothing pauses it; they share a GPU."""
    running = {}
    for name, training in TRAININGS.items():
        place = tmp_path_factory.mktemp(name)
        copy_program(training.words[-1], place)
        library = place / "library/springtide"
        library.mkdir(parents=True)
        (library / "training").symlink_to(Path(springtide.training.__file__).parent)
        ours = {
            "PYTHONPATH": str(library.parent),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "OMP_NUM_THREADS": "1",
        }
        port = {"PET_RDZV_ENDPOINT": "localhost:0", "PET_RDZV_BACKEND": "c10d"}
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0", **ours, **port, **training.environment}
        words = [str(python), *training.words]
        with (place / "log").open("wb") as log:
            running[name] = (
                place,
                subprocess.Popen(words, cwd=place, env=environment, stdout=log, stderr=subprocess.STDOUT),
            )
    found = {}
    for name, (place, process) in running.items():
        process.wait()
        last = [line for line in (place / "log").read_text().splitlines() if line.startswith("weights ")]
        found[name] = last[-1].removeprefix("weights ") if last else (place / "log").read_text()
    return found


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_pauses_for_an_owner_and_ends_as_if_alone(
    name: str, alone: Mapping[str, str], susan: Desk, joe: Desk
) -> None:
    training = TRAININGS[name]
    variables = {"HOLD_AFTER": str(HELD_AFTER), "OMP_NUM_THREADS": "1", **training.environment}
    options = tuple(word for pair in variables.items() for word in ("-e", "=".join(pair)))
    borrower = joe.submit(*training.words, options=options)
    joe.says(borrower, "waits for a pause")
    assert computing()
    owner = susan.sees(susan.submit("look.py", gpus=len(asked("uuid"))))
    assert owner["free"] > owner["total"] - 2 * GIB
    assert joe.result(borrower, "weights") == alone[name]
    shown = joe("show", borrower)
    assert len(shown["attempts"]) == 2, shown
    until("an idle GPU", lambda: not computing())

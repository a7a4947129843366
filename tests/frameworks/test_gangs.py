"""Gangs of real frameworks start by their own one line, pause at one step, and end as without a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.frameworks.conftest import program

if TYPE_CHECKING:
    from tests.frameworks.conftest import Gangs

pytestmark = pytest.mark.xdist_group("frameworks")  # one at a time: each has up to six processes

TORCHRUN = ("-m", "torch.distributed.run")
MPIRUN = ("-m", "springtide.training.mpirun")
PLAIN_JAX = """
import jax

jax.distributed.initialize()
from jax import numpy as jnp
from jax.experimental.multihost_utils import process_allgather

ranks = process_allgather(jnp.float32(jax.process_index()))
print(jax.process_count(), ranks.sum(), jax.config.read("jax_cuda_visible_devices"))
"""
"""A program as its author wrote it; each worker has both its GPUs."""
SLOW_TO_SAVE = """
import time

from springtide.training.job import Job

save = Job.save


def slow_save(self, state, step=None):
    if self.rank == 0 and self.pause_asked():
        time.sleep(1.5)
    save(self, state, step)


Job.save = slow_save
"""
"""Beginning of a program in which the last checkpoint before a pause takes rank 0 a while."""


@pytest.mark.parametrize(
    ("workers", "gpus", "launcher", "processes"),
    [
        pytest.param(2, 1, (), 2, id="a process for each worker"),
        pytest.param(2, 2, TORCHRUN, 4, id="torchrun in a gang", marks=pytest.mark.full),
    ],
)
async def test_pytorch(gangs: Gangs, workers: int, gpus: int, launcher: tuple[str, ...], processes: int) -> None:
    last = await gangs.train("PyTorch", workers=workers, gpus=gpus, launcher=launcher)
    assert last.startswith(f"{processes} [")


async def test_jax_goes_on_after_a_pause(gangs: Gangs) -> None:
    """Rank 0 saves for longer than JAX takes to notice a SIGTERM, while the others end at once."""
    slow = SLOW_TO_SAVE + program("JAX")
    assert (await gangs.train_with_pause("JAX", workers=2, gpus=2, to_pause=slow)).startswith("2 [")


@pytest.mark.full
@pytest.mark.parametrize("workers", [2, 4])
async def test_jax(gangs: Gangs, workers: int) -> None:
    slow = SLOW_TO_SAVE + program("JAX")
    assert (await gangs.train("JAX", workers=workers, gpus=2, to_pause=slow)).startswith(f"{workers} [")


async def test_jax_starts_by_its_own_line_in_a_program_that_imports_nothing_of_the_pool(gangs: Gangs) -> None:
    spec = gangs.spec(PLAIN_JAX, "plain", workers=3, gpus=2, command=(str(gangs.python("JAX")),))
    await gangs.completes(spec)
    assert await gangs.last_line("plain") == "3 3.0 0,1"


@pytest.mark.full
async def test_a_program_of_mpi_is_alone_in_a_gang_unless_mpirun_starts_it(gangs: Gangs) -> None:
    text = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
    spec = gangs.spec(text, "alone", workers=2, gpus=1, command=(str(gangs.python("MPI")),))
    await gangs.completes(spec)
    assert await gangs.last_line("alone") == "1"


@pytest.mark.full
async def test_jax_with_its_own_question_whether_to_pause(gangs: Gangs) -> None:
    text = program("JAX").replace("job.should_pause(", "reached_preemption_sync_point(")
    text = "from jax.experimental.multihost_utils import reached_preemption_sync_point\n" + SLOW_TO_SAVE + text
    assert (await gangs.train("JAX", workers=2, to_pause=text)).startswith("2 [")


@pytest.mark.full
@pytest.mark.parametrize("workers", [2, 4])
async def test_tensorflow(gangs: Gangs, workers: int) -> None:
    """Rank 0 saves while the others, whose heartbeats it would miss, end."""
    slow = SLOW_TO_SAVE + program("TensorFlow")
    assert (await gangs.train("TensorFlow", workers=workers, gpus=2, to_pause=slow)).startswith(f"{workers} [")


@pytest.mark.full
@pytest.mark.parametrize(("workers", "gpus"), [(2, 1), (2, 2), (4, 2)])
async def test_mpi(gangs: Gangs, workers: int, gpus: int) -> None:
    slow = SLOW_TO_SAVE + program("MPI")
    last = await gangs.train("MPI", workers=workers, gpus=gpus, launcher=MPIRUN, to_pause=slow)
    assert last.startswith(f"{workers * gpus} [")


@pytest.mark.full
@pytest.mark.parametrize(("workers", "gpus", "launcher"), [(2, 1, ()), (2, 2, TORCHRUN), (4, 2, ())])
async def test_accelerate(gangs: Gangs, workers: int, gpus: int, launcher: tuple[str, ...]) -> None:
    last = await gangs.train("Accelerate", workers=workers, gpus=gpus, launcher=launcher)
    assert last.startswith(f"{workers * gpus if launcher else workers} [")


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("workers", "gpus", "launcher"), [(2, 1, ()), (2, 2, TORCHRUN), (4, 2, ())])
async def test_deepspeed_with_zero(gangs: Gangs, workers: int, gpus: int, launcher: tuple[str, ...]) -> None:
    """Every process saves its part of the optimizer's state, and gets it back."""
    last = await gangs.train("DeepSpeed", workers=workers, gpus=gpus, launcher=launcher)
    assert last.startswith(f"{workers * gpus if launcher else workers} [")


@pytest.mark.full
@pytest.mark.parametrize(
    ("section", "workers"),
    [
        ("Lightning", 2),
        ("Hugging Face", 2),
        ("Keras", 1),
        ("Orbax", 1),
        ("scikit-learn", 1),
        ("XGBoost", 1),
        ("LightGBM", 1),
    ],
)
async def test_trainers_of_frameworks(gangs: Gangs, section: str, workers: int) -> None:
    assert (await gangs.train(section, workers=workers)).startswith(f"{workers} [")

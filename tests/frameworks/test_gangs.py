"""Gangs of real frameworks start by their own one line, pause at one step, and end as without a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.frameworks.conftest import Gangs

pytestmark = pytest.mark.xdist_group("frameworks")  # one at a time: each has up to six processes

TORCHRUN = ("-m", "torch.distributed.run")


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


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.full)])
async def test_jax(gangs: Gangs, workers: int) -> None:
    assert (await gangs.train("JAX", workers=workers, gpus=2)).startswith(f"{workers} [")


@pytest.mark.full
@pytest.mark.parametrize(("section", "workers"), [("Lightning", 2), ("Hugging Face", 2), ("Keras", 1)])
async def test_trainers_with_callbacks(gangs: Gangs, section: str, workers: int) -> None:
    assert (await gangs.train(section, workers=workers)).startswith(f"{workers} [")

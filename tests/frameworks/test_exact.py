"""Programs with dropout, shuffled and augmented data, and mixed precision end as if they had never been paused.

A pause is asked for by the program itself after some batches. With a short time of grace it comes between two
batches of an epoch, with a long one at the end of an epoch after the first one.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import framework_tools
import pytest

import springtide.training
from springtide.training import AGAIN

PROGRAMS = Path(__file__).with_name("exact")
BETWEEN_BATCHES, BETWEEN_EPOCHS = "0.01", "60"
PATIENCE_S = 240.0

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("frameworks"), pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Training:
    """Attempts of one job in a directory of its own."""

    place: Path
    python: Path
    program: str
    grace: str
    environment: dict[str, str]

    def attempt(self, number: int, pause_after: int = 0) -> subprocess.CompletedProcess[str]:
        pause_file = self.place / "pause"
        self.place.mkdir(exist_ok=True)
        pause_file.unlink(missing_ok=True)
        library = self.place / "library/springtide"
        library.mkdir(parents=True, exist_ok=True)
        if number == 1:
            (library / "training").symlink_to(Path(springtide.training.__file__).parent)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place),
            "PYTHONPATH": str(library.parent),
            "OMP_NUM_THREADS": "1",
            "PAUSE_AFTER": str(pause_after),
            "SPRINGTIDE_JOB_ID": "job",
            "SPRINGTIDE_ATTEMPT": str(number),
            "SPRINGTIDE_CHECKPOINT_DIR": str(self.place / "checkpoints"),
            "SPRINGTIDE_OUTPUT_DIR": str(self.place),
            "SPRINGTIDE_GRACE_SECONDS": self.grace,
            "SPRINGTIDE_PAUSE_FILE": str(pause_file),
            **self.environment,
        }
        command = [str(self.python), str(PROGRAMS / f"{self.program}.py")]
        return subprocess.run(
            command,
            cwd=self.place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def ends(self, number: int) -> str:
        """Run the last attempt, and return the line with the digest of what was trained."""
        ended = self.attempt(number)
        assert ended.returncode == 0, ended.stderr
        return next(line for line in ended.stdout.splitlines() if line.startswith("weights "))

    def pauses(self, number: int, after: int) -> None:
        ended = self.attempt(number, after)
        assert ended.returncode == AGAIN, ended.stderr


def trained(
    tmp_path: Path, program: str, *, grace: str, pauses: tuple[int, ...], further: bool = False, **more: str
) -> tuple[str, str]:
    """Return what the program has trained without a pause, and with pauses after these numbers of batches."""
    python = framework_tools.further_interpreter() if further else framework_tools.interpreter()
    whole = Training(tmp_path / "whole", python, program, grace, more)
    paused = Training(tmp_path / "paused", python, program, grace, more)
    undisturbed = whole.ends(1)
    for number, after in enumerate(pauses, 1):
        paused.pauses(number, after)
    return undisturbed, paused.ends(len(pauses) + 1)


@pytest.mark.parametrize("grace", [BETWEEN_BATCHES, BETWEEN_EPOCHS])
@pytest.mark.parametrize("program", ["pytorch", "lightning_", "transformers_"])
def test_a_training_with_pytorch_is_the_same_to_the_bit(tmp_path: Path, program: str, grace: str) -> None:
    undisturbed, paused = trained(tmp_path, program, grace=grace, pauses=(17, 9))
    assert paused == undisturbed


@pytest.mark.parametrize("grace", [BETWEEN_BATCHES, BETWEEN_EPOCHS])
@pytest.mark.parametrize("backend", ["jax", "torch", "tensorflow"])
def test_a_training_with_keras_is_the_same_to_the_bit(tmp_path: Path, backend: str, grace: str) -> None:
    undisturbed, paused = trained(
        tmp_path, "keras_", grace=grace, pauses=(13, 8), further=backend == "tensorflow", KERAS_BACKEND=backend
    )
    assert paused == undisturbed


@pytest.mark.parametrize("grace", [BETWEEN_BATCHES, BETWEEN_EPOCHS])
def test_a_second_fit_with_keras_is_the_same_to_the_bit(tmp_path: Path, grace: str) -> None:
    undisturbed, paused = trained(tmp_path, "keras_fits", grace=grace, pauses=(20, 18), KERAS_BACKEND="torch")
    assert paused == undisturbed


@pytest.mark.parametrize("program", ["orbax_", "sklearn_", "xgboost_", "lightgbm_"])
def test_a_training_in_steps_is_the_same_to_the_bit(tmp_path: Path, program: str) -> None:
    undisturbed, paused = trained(tmp_path, program, grace=BETWEEN_EPOCHS, pauses=(13, 3))
    assert paused == undisturbed


@pytest.mark.parametrize("program", ["xgboost_", "lightgbm_"])
def test_boosting_on_samples_draws_other_samples_after_a_pause(tmp_path: Path, program: str) -> None:
    """The limit that the docs name: these frameworks do not give the state of their random numbers away."""
    undisturbed, paused = trained(tmp_path, program, grace=BETWEEN_EPOCHS, pauses=(5,), SAMPLES="yes")
    assert paused != undisturbed

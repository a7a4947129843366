"""The programs of the corpus: how each is started, and what it needs.

Each folder below ``programs`` is the project of one of them. They follow the shapes that training code takes in
public: its layouts, launchers, settings and habits of saving. A program prints ``step N/M`` while it trains, and
``RESULT …`` at its end, which is the same with and without a pause.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent / "programs"
EDITED: Final = frozenset({".py", ".sh", ".ini", ".html", ".md", ".toml", ".ipynb"})
"""Suffixes of the files that are spoilt after the submission: the job keeps what was sent."""


class Place(Enum):
    """Where the pool of a test runs its jobs."""

    MACHINE = "processes of this machine"
    PODS = "pods of a cluster, sent from a notebook in a pod"


class Environment(Enum):
    """The environment that is activated at the submission."""

    OWN = "the user's own, without packages"
    NOTEBOOKS = "that of the hub's notebooks"
    FRAMEWORKS = "one with the frameworks"


@dataclass(frozen=True, slots=True)
class Program:
    """A project and its command; ``steps`` are what it prints.

    ``options`` are those of `springtide submit`, ``prepare`` is the command that makes what a repository does not
    have, such as data. ``usual`` are the places in which `make test` runs it as well; all others run it by
    `make real-code` only. ``not_in_pods`` is the reason why it makes no sense there, and empty if it does.
    """

    folder: str
    command: str
    steps: int = 40
    options: tuple[str, ...] = ()
    prepare: str = ""
    environment: Environment = Environment.OWN
    usual: frozenset[Place] = frozenset()
    not_in_pods: str = ""


HERE: Final = frozenset({Place.MACHINE})
EVERYWHERE: Final = frozenset(Place)
CORPUS: Final = (
    Program("state_file", "python train.py"),
    Program("src_layout", "PYTHONPATH=src python -m tidal_trainer.cli --lr 0.02", usual=HERE),
    Program("scripts_folder", "python scripts/train.py"),
    Program(
        "resume_argument",
        "python train.py --save-dir weights",
        options=("--resume", "--resume weights/checkpoint_last.json"),
        usual=HERE,
    ),
    Program("shell_stages", "bash run.sh", usual=EVERYWHERE),
    Program("handler_exits_0", "python train.py", usual=EVERYWHERE),
    Program("handler_exits_75", "python -u train.py"),
    Program("dotted_overrides", "python main.py config=large train.rate=0.25"),
    Program("templates", "python train.py"),
    Program("compiled", "python train.py", prepare="sh build.sh"),
    Program("process_pool", "python train.py"),
    Program("console_script", "neap-train"),
    Program("makefile", "make train", not_in_pods="the image of notebooks has no make"),
    Program("trial_database", "python search.py"),
    Program("tracked_offline", "RUN_NAME=neap python train.py"),
    Program("linked_package", "python train.py"),
    Program(
        "commit_beside_results",
        "python train.py",
        prepare="git init -q && git add . && git commit -qm first",
        not_in_pods="the image of notebooks has no git",
    ),
    Program(
        "notebook_study",
        "study.ipynb -p rate 0.2",
        30,
        prepare="python make.py",
        environment=Environment.NOTEBOOKS,
    ),
    Program("annotations", "python train.py", prepare="python make_data.py"),
    Program("torch_loader", "python train.py --epochs 16", 16, environment=Environment.FRAMEWORKS),
    Program(
        "torchrun_snapshot",
        "torchrun --standalone --nproc_per_node=2 multi.py",
        16,
        environment=Environment.FRAMEWORKS,
    ),
    Program("lightning_last", "python fit.py", 16, environment=Environment.FRAMEWORKS),
    Program("transformers_last", "python finetune.py", 48, environment=Environment.FRAMEWORKS),
    Program("keras_backup", "python train.py", 16, environment=Environment.FRAMEWORKS),
    Program("accelerate_state", "accelerate launch --cpu run.py", 16, environment=Environment.FRAMEWORKS),
    Program("sharded_checkpoint", "python train.py", 16, environment=Environment.FRAMEWORKS),
    Program("jax_pytree", "python train.py", 30, environment=Environment.FRAMEWORKS),
)

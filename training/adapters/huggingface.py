"""For Hugging Face: ``Trainer(callbacks=[callback()])`` and ``trainer.train(resume_from_checkpoint=latest())``."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any, Optional

from springtide.training.job import Job, current_job
from springtide.training.values import plain


def latest(job: Optional[Job] = None) -> Optional[str]:
    """Return the newest checkpoint for ``resume_from_checkpoint``, None if there is none."""
    checkpoint = (current_job() if job is None else job).restore()
    return None if checkpoint is None else str(checkpoint.path)


def callback(job: Optional[Job] = None) -> Any:
    """Return a callback that reports logged values, keeps each saved checkpoint, and pauses between two steps."""
    framework: Any = import_module("transformers")
    mine = current_job() if job is None else job

    class Springtide(framework.TrainerCallback):  # type: ignore[misc]
        pausing = False

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
            mine.report(step=state.global_step, of=state.max_steps, **plain(logs or {}))

        def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> Any:
            if state.global_step < state.max_steps and mine.should_pause(state.global_step):
                self.pausing = True
                control.should_save = True
                control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
            saved = Path(args.output_dir, f"checkpoint-{state.global_step}")
            if mine.rank == 0:
                with mine.checkpoint(state.global_step) as directory:
                    shutil.copytree(str(saved), str(directory), copy_function=_link, dirs_exist_ok=True)

        def on_train_end(self, *_: Any, **__: Any) -> None:
            if self.pausing:
                mine.exit_for_pause()

    return Springtide()


def _link(source: str, target: str) -> str:
    """Hard-link the file to a second name, which takes no time and no disk space; copy it if that fails."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target

"""The library that a train job imports: checkpoints, pauses and reports. Standard library only.

A training loop::

    from springtide.training import current_job

    job = current_job()
    found = job.restore()
    model, done = found.state if found else (new_model(), 0)
    for epoch in range(done, 200):
        loss = train(model)
        job.report(step=epoch + 1, of=200, loss=loss)
        job.save((model, epoch + 1), step=epoch + 1)
        if job.should_pause():
            job.exit_for_pause()

The same lines run outside a pool: reports are discarded, no pause is requested, and checkpoints are written to
``./checkpoints/<script>``.
"""

from springtide.training.checkpoint import Checkpoint, CheckpointError
from springtide.training.datasets import DatasetError
from springtide.training.job import AGAIN, Job, current_job

__all__ = ["AGAIN", "Checkpoint", "CheckpointError", "DatasetError", "Job", "current_job"]

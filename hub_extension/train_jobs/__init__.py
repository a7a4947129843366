"""Objects of a cluster that are train jobs, as a front door of the pool."""

from springtide.hub_extension.train_jobs.kinds import SPRINGTIDE_JOB, TRAIN_JOB
from springtide.hub_extension.train_jobs.train_jobs import TrainJobs

__all__ = ["SPRINGTIDE_JOB", "TRAIN_JOB", "TrainJobs"]

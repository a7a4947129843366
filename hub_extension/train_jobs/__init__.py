"""TrainJob objects of a cluster as a front door of the pool."""

from springtide.hub_extension.train_jobs.train_jobs import TrainJobs

__all__ = ["TrainJobs"]

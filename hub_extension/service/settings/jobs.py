"""Settings of the service for what is kept of jobs, their test runs and placements, and jobs without GPUs."""

from __future__ import annotations

from traitlets import Bool, Float, HasTraits, Integer

MIB = 1024 * 1024


class JobTraits(HasTraits):
    """The settings, as a part of those of the service."""

    kept_bytes_per_user = Integer(
        1024 * MIB, min=MIB, help="The most that files sent with one person's unfinished jobs may take, in bytes."
    ).tag(config=True)
    kept_bytes_per_project = Integer(
        4096 * MIB, min=MIB, help="The most that files sent with one project's unfinished jobs may take, in bytes."
    ).tag(config=True)
    keep_files_days = Float(
        7.0,
        min=0,
        help="Files sent with a job are kept for so many days after its end, so that it can be run again.",
    ).tag(config=True)
    ended_bytes_per_user = Integer(
        256 * MIB,
        min=0,
        help="The most that files of one person's ended jobs may take, in bytes; the oldest go first.",
    ).tag(config=True)
    keep_days = Float(
        90.0, min=0.01, help="Ended jobs are forgotten after so many days, with logs and outputs."
    ).tag(config=True)
    test_run_time = Float(
        120.0, min=1.0, help="A test run that has run for so many seconds without a failure has passed."
    ).tag(config=True)
    jobs_without_gpus = Integer(
        4,
        min=0,
        help="So many jobs without GPUs run at a time in a project that has no number of its own; 0: none.",
    ).tag(config=True)
    explore_placements = Bool(
        False,
        help="Whether a job prefers, among free GPUs, a placement that its earlier runs had once or twice, "
        "until three runs tell how fast it is.",
    ).tag(config=True)

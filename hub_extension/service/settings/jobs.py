"""Settings of the service for what jobs leave, and for their test runs."""

from __future__ import annotations

from traitlets import Float, HasTraits, Integer

MIB = 1024 * 1024


class JobTraits(HasTraits):
    """The settings, as a part of those of the service."""

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
    test_run_time = Float(
        120.0, min=1.0, help="A test run that has run for so many seconds without a failure has passed."
    ).tag(config=True)

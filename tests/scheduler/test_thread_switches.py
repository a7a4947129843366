"""Threads of the service take short turns, and only while it runs."""

from __future__ import annotations

import sys

from springtide.scheduler.process_tuning import INTERVAL, short_interval


def test_threads_take_short_turns_in_the_context_and_as_before_after_it() -> None:
    before = sys.getswitchinterval()
    with short_interval():
        assert sys.getswitchinterval() == INTERVAL < before
    assert sys.getswitchinterval() == before

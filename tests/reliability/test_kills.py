"""Real SIGKILLs: nothing accepted is lost, nothing runs twice, no GPU is given twice, and the results are equal.

`make reliability` kills 30 times under 30 jobs.
"""

from __future__ import annotations

from kills.service_kills import kill_supervisors_and_reboot, kill_the_service


def test_a_service_that_is_killed_loses_nothing_and_runs_nothing_twice(tmp_path):
    figures = kill_the_service(tmp_path, jobs=6, kills=4, seed=1)
    assert figures.problems == []
    assert figures.kills == 4


def test_jobs_outlast_killed_supervisors_and_a_reboot_with_equal_results(tmp_path):
    figures = kill_supervisors_and_reboot(tmp_path, jobs=4, rounds=1, seed=1)
    assert figures.problems == []
    assert (figures.supervisors, figures.reboots) == (1, 1)

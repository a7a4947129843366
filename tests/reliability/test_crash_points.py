"""Wherever the service crashes, every job ends as it does without the crash.

The script of twelve jobs and a sweep is in `simulation.script`. The suite crashes at every seventeenth point,
`--soak` at all.
"""

from __future__ import annotations

from simulation.crash_points import differences, points_of
from simulation.faults import CrashPoints
from simulation.script import TRIALS, play

EVERY = 17
ENDS = {
    "steady": "succeeded",
    "borrower": "succeeded",
    "deaf": "succeeded",
    "gang": "succeeded",
    "mended": "succeeded",
    "broken": "failed",
    "pieces": "succeeded",
    "doomed": "cancelled",
    "never": "cancelled",
    "late": "failed",
    "elastic": "succeeded",
    "last": "succeeded",
    "sweep": "succeeded",
}


def test_the_script_meets_what_it_is_meant_to_meet(bed):
    outcome = play(bed, CrashPoints())
    assert {name: state for name, (state, _) in outcome.ends.items()} == ENDS
    assert outcome.problems == ()
    assert outcome.ends["sweep"][1] == (4.0,) * TRIALS
    events = {line.split()[1] for line in outcome.log}
    assert {"launch", "pause", "kill", "end", "discard"} <= events
    assert len(points_of(outcome)) > 200


def test_a_crash_at_any_point_changes_no_end_and_no_result(bed, soak):
    expected = play(bed, CrashPoints())
    points = points_of(expected)
    assert list(differences(bed, expected, points if soak else points[::EVERY])) == []

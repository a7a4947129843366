"""The study of a team: a machine for each against build GPUs and a shared pool (`benchmarks/bench_study.py`)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DAYS, SEED = 3.0, 1


@pytest.fixture(scope="module")
def study() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("bench_study", BENCHMARKS / "bench_study.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_the_same_people_use_a_shared_pool_more_than_machines_of_their_own(study: ModuleType) -> None:
    team = study.Team(people=8, experiments=12)
    static, shared = (study.live_through(team, DAYS, SEED, shared=each) for each in (False, True))
    assert shared.used > static.used
    assert shared.finished > static.finished
    assert shared.broken == 0
    assert static.pauses == 0 < shared.pauses
    assert max(shared.first_waits, default=0.0) == 0, "a guaranteed GPU was not there at once"


def test_the_study_repeats_itself_and_the_people_do_the_same_under_both(study: ModuleType) -> None:
    team = study.Team(people=4, experiments=4)
    once, again = (study.live_through(team, 1.0, SEED, shared=True) for _ in range(2))
    assert once == again
    people, others = (list(study.people_of(team, SEED)) for _ in range(2))
    assert [one.draws.random() for one in people] == [one.draws.random() for one in others]

"""Who may have to give way to an equal job, however the running jobs came and went."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from springtide.scheduler.model import Job, Phase, Worker
from springtide.scheduler.policy.state.running_jobs import RunningJobs
from springtide.scheduler.policy.state.service import AGEING_PER_LEVEL, service_until

MIN_RUNTIME = 300.0
NOW = 10_000.0

jobs = st.builds(
    lambda number, gpus, served, started, waited, rotate: Job(
        id=f"job-{number}",
        project="vision",
        gpus=gpus,
        phase=Phase.RUNNING,
        placement=(Worker(0, "dgx", tuple(range(gpus))),),
        served=served,
        started=started,
        submitted=started - waited,
        rotate=rotate,
    ),
    st.integers(0, 8),
    st.integers(1, 4),
    st.floats(0, 40_000),
    st.floats(0, NOW),
    st.floats(0, 400_000),
    st.booleans(),
)
events = st.lists(st.tuples(jobs, st.booleans(), st.integers(0, 3)), max_size=40)


def ripe_time(job: Job, step: int) -> float:
    assert job.started is not None
    waited = job.started - job.submitted - job.served / job.gpus
    beyond = service_until(step + max(0, int(waited // AGEING_PER_LEVEL)))
    served = job.started + max(0.0, beyond - job.served) / job.gpus
    return max(served, job.started + MIN_RUNTIME)


@given(events)
def test_the_ripe_jobs_are_those_whose_service_and_run_time_say_so(
    history: list[tuple[Job, bool, int]],
) -> None:
    index, running = RunningJobs({}, MIN_RUNTIME), dict[str, Job]()
    for job, comes, step in history:
        if job.id in running:
            index.remove(running.pop(job.id))
        if comes:
            index.add(job)
            running[job.id] = job
        times = {each.id: ripe_time(each, step) for each in running.values() if each.rotate}
        ripe = index.ripe_times(step)
        assert ripe.first() == min(times.values(), default=inf)
        assert set(ripe.up_to(NOW)) == {each for each, at in times.items() if at <= NOW}
        assert ripe.first(above=NOW) == min((at for at in times.values() if at > NOW), default=inf)

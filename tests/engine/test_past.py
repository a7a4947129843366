"""The past of a pool as a scenario, from records alone: jobs, nodes, quotas, drains, holds, and made-up names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from jobs.store_records import attempt, job
from msgspec import structs

from springtide.scheduler.engine import messages
from springtide.scheduler.engine.past.anonymous import anonymous
from springtide.scheduler.engine.past.headline import deviation, headline
from springtide.scheduler.engine.past.recorded import recorded_jobs
from springtide.scheduler.engine.past.scenario import Present, period_of, scenario_of
from springtide.scheduler.model import JobState, Node, Order, Project, Reason, Settings, Worker
from springtide.scheduler.scenario import parse
from springtide.scheduler.scenario.shape import Document
from springtide.scheduler.scenario.write import written
from springtide.scheduler.simulate.what_if import changed, difference, outcome, recorded_outcome
from springtide.scheduler.store.ledger import EndedFact, FactKind, LedgerEntry
from springtide.scheduler.store.queries.past import Past
from springtide.scheduler.store.records import (
    Act,
    Asked,
    AttemptRecord,
    AttemptState,
    AuditRecord,
    JobRecord,
    TrialRef,
)
from springtide.scheduler.wire import MoreNodes, PastChanges, PastFigures, PastOutcome

START, END = 1_000.0, 2_000.0
NODES = (Node("one", 8, "v100"), Node("two", 8, "v100"))


def past(
    *jobs: JobRecord, facts: Sequence[EndedFact] = (), audit: Sequence[AuditRecord] = (), **more: Any
) -> Past:
    return Past(list(jobs), more.get("forgotten", []), [fact("", 16), *facts], list(audit))


def fact(project: str, value: float | None, start: float = 0.0, end: float = END, **more: Any) -> EndedFact:
    kind = more.get("kind", FactKind.QUOTA if project else FactKind.GPUS)
    return EndedFact(0, kind, project, more.get("gpu_type", "v100"), value, start, end)


def entry(at: float, what: str, subject: str, **after: Any) -> AuditRecord:
    return AuditRecord(0, at, "admin", what, subject, {}, after)


def document(found: Past, nodes: tuple[Node, ...] = NODES, *projects: Project) -> Document:
    """The scenario of the span; it is one that `springtide simulate` takes."""
    made = scenario_of(
        found, Present(nodes, projects or (Project("vision", quota=4),), Settings(), {}), START, END
    )
    parse(written(made), "made")
    return made


def sent(number: int, at: float, *attempts: tuple[float, float | None, dict[str, Any]], **spec: Any) -> JobRecord:
    """A job sent ``at`` a time, with attempts from when to when."""
    record = job(number, submitted=at, workers=1, gpus=2, time_limit=None, **spec)
    made: list[AttemptRecord] = [
        attempt(
            record,
            place,
            created=begun,
            started=begun,
            ended=ended,
            gpu_type="v100",
            **{"state": AttemptState.RUNNING if ended is None else AttemptState.SUCCEEDED, **more},
        )
        for place, (begun, ended, more) in enumerate(attempts, 1)
    ]
    over = bool(made) and made[-1].ended is not None
    standing = record.with_standing(
        state=JobState.SUCCEEDED if over else JobState.RUNNING if made else JobState.QUEUED,
        started=made[0].started if made else None,
        ended=made[-1].ended if over else None,
        attempt=len(made),
    )
    return JobRecord(standing.spec, standing.standing, tuple(made))


def test_a_job_has_what_it_ran_without_what_pauses_lost() -> None:
    paused = {"state": AttemptState.PAUSED, "asked": Asked.PAUSE, "asked_at": 1290.0, "saved": 1250.0}
    found = document(past(sent(1, 1100, (1200, 1300, paused), (1500, 1900, {})))).jobs[0]
    assert found.duration == 50 + 400
    assert found.checkpoint_every == 100, "twice what the pause lost"
    assert (found.submitted, found.worked, found.placed) == (100, 0, ())


def test_a_job_that_runs_when_the_span_begins_is_placed_with_its_work_so_far() -> None:
    place = {"placement": (Worker(0, "two", (2, 3)),)}
    made = document(past(sent(1, 400, (600, 1700, place))))
    found = made.jobs[0]
    assert made.origin == 400
    assert made.span == (600, 1600)
    assert (found.submitted, found.started, found.placed) == (0, 200, ("two",))
    assert (found.worked, found.duration) == (400, 1100)


def test_a_job_that_has_not_ended_runs_as_long_as_similar_ones_or_twice_as_long_as_it_has() -> None:
    ended = [sent(number, 1000, (1000, 1800, {})).with_standing(served=1600.0) for number in (1, 2, 3)]
    made = document(past(*ended, sent(4, 1500, (1900, None, {})), sent(5, 1990)))
    assert [found.duration for found in made.jobs[3:]] == [800, 800]
    assert "2 jobs had not ended, or never ran" in " ".join(made.notes)
    alone = document(past(sent(1, 1000, (1200, None, {}))))
    assert alone.jobs[0].duration == 1600


def test_what_a_pause_lost_of_a_job_that_has_not_ended_counts_as_run() -> None:
    lost = {"state": AttemptState.PAUSED, "asked_at": 1790.0, "asked_why": Reason("engine-held")}
    made = sent(1, 1000, (1020, 1800, lost))
    waits = made.with_standing(state=JobState.PAUSED, ended=None)
    assert document(past(waits)).jobs[0].duration == 2 * 780
    again = sent(1, 1000, (1020, 1800, lost), (1900, None, {}))
    assert document(past(again)).jobs[0].duration == 2 * 780
    cancelled = made.with_standing(state=JobState.CANCELLED, ended=1900.0)
    assert document(past(cancelled)).jobs[0].duration == 780


def test_a_job_that_a_budget_paused_stays_paused_until_it_ran_again() -> None:
    why = Reason("limit-lowered", {"at": "vision", "budget_of": "vision"})
    paused = {"state": AttemptState.PAUSED, "asked_at": 1290.0, "asked_why": why, "saved": 1299.0}
    jobs = sent(1, 1100, (1200, 1300, paused), (1700, 1900, {})), sent(2, 1100, (1200, 1300, paused))
    made = document(past(jobs[0], jobs[1].with_standing(state=JobState.PAUSED, ended=None)))
    assert [job.away for job in made.jobs] == [((290, 700),), ((290, 1000),)]
    assert sum("budget" in note for note in made.notes) == 1


@pytest.mark.parametrize(
    ("at", "month", "is_said"), [(1500, "1970-01", True), (500, "1970-01", True), (500, "1969-12", False)]
)
def test_a_budget_that_was_spent_in_a_month_of_the_span_is_among_the_notes(
    at: float, month: str, is_said: bool
) -> None:
    spent = entry(at, "budget.spent", "vision", month=month)
    notes = " ".join(document(past(sent(1, 1100, (1200, 1300, {})), audit=[spent])).notes)
    assert ("budgets keep no other job waiting here" in notes) is is_said


def test_a_person_who_pauses_a_job_keeps_it_from_running_until_it_runs_again() -> None:
    asked = {"state": AttemptState.PAUSED, "asked_at": 1290.0, "asked_why": Reason("engine-held"), "saved": 1299.0}
    made = document(past(sent(1, 1100, (1200, 1300, asked), (1700, 1900, {}))))
    assert made.jobs[0].away == ((290, 700),)
    assert any("people had paused" in note for note in made.notes)


def test_a_pause_ends_when_its_owner_resumed_the_job() -> None:
    acts = (Act(1290.0, messages.did("pause", "susan")), Act(1450.0, messages.did("resume", "susan")))
    ran = sent(1, 1100, (1200, 1300, PAUSED_AT_1290), (1700, 1900, {})).with_standing(acts=acts)
    waited = sent(2, 1100, (1700, 1900, {})).with_standing(acts=acts)
    still = sent(3, 1100).with_standing(acts=acts[:1])
    made = document(past(ran, waited, still))
    assert [job.away for job in made.jobs] == [((290, 450),), ((290, 450),), ((290, 1000),)]
    assert not any("people had paused" in note for note in made.notes)


def test_edited_jobs_are_among_the_notes() -> None:
    edited = sent(1, 1100).with_standing(acts=(Act(1150.0, messages.did("edit", "susan")),))
    assert "Of 1 edited job the latest options count for the whole time." in document(past(edited)).notes


PAUSED_AT_1290 = {
    "state": AttemptState.PAUSED,
    "asked_at": 1290.0,
    "asked_why": Reason("engine-held"),
    "saved": 1299.0,
}


def test_a_pause_by_another_person_ends_when_the_trail_says_so() -> None:
    audit = [entry(1290, "job.pause", "job1"), entry(1500, "job.resume", "job1")]
    made = document(past(sent(1, 1100, (1200, 1300, PAUSED_AT_1290), (1700, 1900, {})), audit=audit))
    assert made.jobs[0].away == ((290, 500),)
    assert not any("people had paused" in note for note in made.notes)


def test_a_job_that_another_person_pauses_in_line_does_not_start_meanwhile() -> None:
    audit = [
        entry(1150, "job.pause", "job1"),
        entry(1150, "job.pause", "job2"),
        entry(1300, "job.resume", "job2"),
        entry(1250, "job.pause", "job3"),
    ]
    jobs = [sent(1, 1100, (1400, 1500, {})), sent(2, 1100, (1400, 1500, {})), sent(3, 1200)]
    made = document(past(*jobs, audit=audit))
    assert [job.away for job in made.jobs] == [((150, 400),), ((150, 300),), ((250, 1000),)]
    assert any(note.startswith("When 1 job that people had paused was resumed") for note in made.notes)


def test_a_sweep_that_another_person_pauses_keeps_its_trials_from_running() -> None:
    trial = TrialRef(sweep="job1", number=1)
    audit = [entry(1150, "job.pause", "job1"), entry(1300, "job.resume", "job1")]
    made = document(past(sent(2, 1100, (1400, 1500, {}), trial=trial), audit=audit))
    assert made.jobs[0].away == ((150, 300),)


def test_one_that_was_cancelled_in_line_is_cancelled_then() -> None:
    record = sent(1, 1100).with_standing(state=JobState.CANCELLED, ended=1400.0)
    assert document(past(record)).jobs[0].cancelled == 300 + 100


def test_only_jobs_that_ended_by_themselves_count_as_finished() -> None:
    ended = sent(1, 1000, (1000, 1400, {}))
    failed = sent(2, 1000, (1000, 1400, {})).with_standing(state=JobState.FAILED)
    stopped = [
        sent(3, 1000, (1000, 1400, {})).with_standing(state=JobState.CANCELLED),
        sent(4, 1000).with_standing(state=JobState.CANCELLED, ended=1400.0),
        sent(5, 1000).with_standing(state=JobState.FAILED, ended=1400.0),
    ]
    made = document(past(ended, failed, *stopped), NODES, Project("vision", quota=16))
    assert [each.stopped for each in made.jobs] == [False, False, True, True, True]
    total = outcome(parse(written(made), "made")).total
    assert (total.jobs, total.finished) == (5, 2)


def test_quotas_change_when_they_did_and_limits_by_type() -> None:
    facts = [
        fact("vision", 4, 0, 1500),
        fact("vision", 6, 1500),
        fact("vision", None, 0, kind=FactKind.LIMIT),
    ]
    made = document(past(sent(1, 1100), facts=facts))
    assert made.projects[0].quota == 4
    assert [(change.at, change.quota) for change in made.changes] == [(500, {"vision": 6})]


def test_a_project_that_is_gone_is_there_with_the_quota_that_it_had() -> None:
    made = document(past(sent(1, 1100, project="old"), facts=[fact("old", 3, 0, 1500)]))
    assert {part.name: part.quota for part in made.projects} == {"vision": 4, "old": 3}
    assert [(change.at, change.quota) for change in made.changes] == [(500, {"old": 0})]


def test_a_node_that_joined_is_there_from_then_on() -> None:
    facts = [fact("", 8, 0, 1500)]
    found = replace(past(sent(1, 1100, (1200, 1300, {"placement": (Worker(0, "one", (0, 1)),)}))), facts=facts)
    found = replace(found, facts=[*facts, fact("", 16, 1500)])
    made = document(found)
    assert {part.name: part.gpus for part in made.nodes} == {"one": 8, "two": 0}
    assert [(change.at, change.gpus) for change in made.changes] == [(500, {"two": 8})]


def test_a_node_that_left_is_known_by_the_jobs_that_ran_there() -> None:
    old = {"placement": (Worker(0, "old", (6, 7)),)}
    found = replace(past(sent(1, 1100, (1200, 1300, old))), facts=[fact("", 24, 0, 1500), fact("", 16, 1500)])
    made = document(found)
    assert {part.name: part.gpus for part in made.nodes} == {"one": 8, "two": 8, "old": 8}
    assert [(change.at, change.gpus) for change in made.changes] == [(500, {"old": 0})]


def test_drains_of_nodes_and_gpus_are_changes() -> None:
    audit = [
        entry(500, "node.drain", "one", finish=True),
        entry(1200, "node.undrain", "one"),
        entry(1300, "node.drain", "two"),
        entry(1400, "gpu.drain", "GPU 3 of one (GPU-1)"),
        entry(1500, "gpu.undrain", "GPU 3 of one (GPU-1)"),
        entry(1600, "node.drain", "nobody's"),
    ]
    made = document(past(sent(1, 1100), audit=audit))
    assert [(change.at, change.available, change.taken, change.empties) for change in made.changes] == [
        (0, {"one": False}, {}, ()),
        (200, {"one": True}, {}, ()),
        (300, {"two": False}, {}, ("two",)),
        (400, {}, {"one": [3]}, ()),
        (500, {}, {"one": []}, ()),
    ]


def test_holds_and_freezes_keep_jobs_from_running() -> None:
    audit = [
        entry(1150, "job.hold", "job1"),
        entry(1250, "job.release", "job1"),
        entry(1200, "project.freeze", "lab"),
        entry(1400, "project.unfreeze", "lab"),
    ]
    projects = (Project("lab"), Project("vision", "lab", age=1))
    made = document(past(sent(1, 1100), sent(2, 1300), sent(3, 1450), audit=audit), NODES, *projects)
    assert [found.away for found in made.jobs] == [((150, 400),), ((300, 400),), ()]


def test_of_a_deleted_job_the_ledger_knows_what_it_held() -> None:
    held = LedgerEntry(
        id=1,
        job="gone",
        attempt=1,
        user="susan",
        server="",
        project="vision",
        kind="training",
        gpu_type="v100",
        nodes={"one": 8, "two": 8},
        gpus=16,
        borrowed=0,
        price=None,
        start=1200.0,
        end=1500.0,
        wait=50.0,
    )
    found = document(past(forgotten=[held])).jobs[0]
    assert (found.workers, found.gpus, found.duration, found.submitted) == (2, 8, 300, 150)


def test_anonymous_names_keep_kinds_of_jobs_apart_and_known_projects_named() -> None:
    jobs = [sent(1, 1100, name="a 1"), sent(2, 1200, name="a 2"), sent(3, 1300, name="b", project="speech")]
    projects = (Project("vision", quota=4), Project("speech", age=1))
    made = document(past(*jobs), NODES, *projects)
    hidden = anonymous(made)
    parse(written(hidden), "hidden")
    text = written(hidden).decode()
    assert not any(name in text for name in ("susan", "vision", "speech", '"a 1', '"one"'))
    kinds = [found.name.rpartition(" ")[0] for found in hidden.jobs]
    assert kinds[0] == kinds[1] != kinds[2]
    half = anonymous(made, known=["vision"])
    assert [found.name for found in half.jobs][:2] == ["a 1-1", "a 2-2"]
    assert half.jobs[2].project not in {"vision", "speech"}
    assert [part.name for part in half.nodes] == ["one", "two"]


def figures(**more: Any) -> PastFigures:
    usual = {"jobs": 9, "finished": 8, "wait_p50_s": 2460.0, "wait_p95_s": 9000.0, "utilization": 0.5}
    return PastFigures(**{**usual, "gpu_hours": 9.0, "pauses": 100, "lost_gpu_hours": 1.0, "cost": None, **more})


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({}, "Nothing would have been different."),
        ({"wait_p50_s": 720.0, "pauses": 97}, "Median wait 41 min → 12 min and 3 % fewer pauses."),
        ({"finished": 9, "wait_p95_s": 60.0}, "95 % wait 2 h 30 min → 1 min and 1 more job finishes."),
        ({"finished": 2, "cost": 5.0}, "6 fewer jobs finish."),
        ({"gpu_hours": 8.9}, "Almost nothing changes."),
    ],
)
def test_a_sentence_says_what_differs(after: dict[str, Any], said: str) -> None:
    before = PastOutcome(total=figures(), projects={})
    assert headline(before, structs.replace(before, total=figures(**after))) == said
    assert len(said) <= 90


def test_the_other_pool_is_said_in_words() -> None:
    nodes = [
        {"name": name, "gpus": gpus, "gpu_type": of}
        for name, gpus, of in (("a", 10, "a100"), ("b", 8, "t4"), ("c", 4, "t4"))
    ]
    projects = [{"name": "vision", "quota": {"a100": 4}}, {"name": "nlp", "quota": {"t4": 2}}]
    scenario = parse(msgspec.json.encode({"nodes": nodes, "projects": projects, "jobs": []}), "the past")
    changes = PastChanges(
        nodes={"a100": MoreNodes(count=2), "t4": MoreNodes(count=-1)},
        quota={"vision": {"a100": 6}},
        limit={"nlp": None},
        order=Order.LEAST_SERVED,
        min_runtime=120.0,
    )
    assert difference(scenario, changed(scenario, changes), changes) == [
        "2 nodes with 20 a100 GPUs more",
        "1 node with 4 t4 GPUs fewer",
        "quota of “vision” 6 a100",
        "limit of “nlp” none",
        "order least-served",
        "minimum run time 2 min",
    ]


def test_a_pool_that_the_simulation_does_not_repeat_is_named_with_its_figures() -> None:
    projects = {"vision": figures(gpu_hours=4.03), "nlp": figures()}
    was = PastOutcome(total=figures(), projects=projects, others=figures(gpu_hours=0.01))
    assert deviation(was, was) == ""
    close = structs.replace(was, projects={"vision": figures(gpu_hours=4.08), "nlp": figures()})
    assert deviation(was, close) == ""
    apart = {"vision": figures(gpu_hours=5.13), "nlp": figures(gpu_hours=12.0)}
    text = deviation(was, structs.replace(was, projects=apart, others=figures(gpu_hours=0.04)))
    assert "GPU-hours of “vision” 5.13 instead of 4.03 and “nlp” 12 instead of 9.00." in text


def test_what_was_recorded_is_counted_as_what_is_simulated() -> None:
    paused = {"state": AttemptState.PAUSED, "asked": Asked.PAUSE, "asked_at": 1290.0, "saved": 1250.0}
    jobs = (
        sent(1, 1100, (1200, 1300, paused), (1500, 1900, {})),
        sent(2, 1000, (1000, 2400, {})),
        sent(3, 1700),
        sent(4, 900, (900, 1100, {})).with_standing(state=JobState.CANCELLED),
    )
    found = past(*jobs)
    made = document(found)
    period = period_of(found, START, END)
    scenario, jobs_of = parse(written(made), "made"), recorded_jobs(found, period)
    was = recorded_outcome(scenario, jobs_of)
    total = was.total
    assert (total.jobs, total.finished, total.pauses) == (3, 1, 1)
    assert (total.wait_p50_s, total.wait_p95_s) == (100, 300)
    assert total.gpu_hours == round(2 * (100 + 400 + 1000 + 100) / 3600, 3)
    assert total.lost_gpu_hours == round(2 * 50 / 3600, 3)
    assert was.projects == {"vision": structs.replace(total, cost=None)}
    assert recorded_outcome(scenario, jobs_of, ()).others == was.projects["vision"]

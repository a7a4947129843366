"""Without widgets, jobs and the pool are text and tables, and nobody's text can break out of them."""

import io
from typing import Any

import pytest
from jobs.job_options import with_options

from springtide.hub_extension.commands.jobs import asked
from springtide.scheduler.wire import (
    GpuRef,
    Job,
    JobUsage,
    PoolView,
    Progress,
    ProjectView,
    Reason,
    Starts,
    TrialCounts,
)
from springtide.widgets.display import phrases, plain, progress_bar
from springtide.widgets.display.feed import LOG_BYTES, LOG_LINES, Tail, thin

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e & \"quoted\" 'x'\n\x07"


def job(**changes: Any):
    fields: dict[str, Any] = {
        "id": "42", "name": "digits", "kind": "function", "user": "susan", "project": "vision", "state": "running",
        "priority": 50, "preemptible": True, "workers": 1, "gpus": 4, "min_workers": 1, "submitted": 0.0,
        "argv": [],
    }  # fmt: skip
    return with_options(Job, **{**fields, **changes})


def held(count, borrowed):
    refs = [
        GpuRef(node="n", index=i, uuid=str(i), label=str(i), borrowed=i >= count - borrowed) for i in range(count)
    ]
    return job(held=refs, progress=Progress(step=41, of=60, values={"loss": 0.25}))


def project(**changes: Any):
    fields: dict[str, Any] = {
        "name": "vision", "parent": None, "quota": 2, "set_quota": 2, "limit": None, "weight": 1, "priority": 100,
        "build_quota": 1, "fair_share": 2, "held": 1, "borrowed": 0, "waiting": 0, "running_jobs": 1,
        "waiting_jobs": 0,
        "colour": 0,
    }  # fmt: skip
    return ProjectView(**{**fields, **changes})


@pytest.mark.parametrize(
    "table",
    [
        plain.job_html(job(name=HOSTILE, project=HOSTILE, error=HOSTILE, state=HOSTILE), 0.0),
        plain.jobs_html([job(name=HOSTILE, reason=Reason(code="x", text=HOSTILE))]),
        plain.html_table(("a",), [(HOSTILE,)], "none"),
    ],
)
def test_html_shows_hostile_text_as_text(table):
    assert "<script" not in table
    assert "&lt;script&gt;" in table
    assert "\x1b" not in table
    assert "\u202e" not in table
    assert "'x'" not in table


def test_text_shows_hostile_text_on_one_line():
    shown = plain.jobs_text([job(name=HOSTILE)])
    assert len(shown.splitlines()) == 2
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_job_says_state_progress_gpus_and_why():
    waiting = job(state="queued", place=2, reason=Reason(code="x", text="All 8 GPUs are held. Number 2 in line."))
    assert (
        plain.job_text(held(8, 6), 0.0) == "Job digits (42): ▶ running, step 41 of 60, 8 GPUs, 6 of them borrowed"
    )
    assert plain.job_text(job(state="pausing", shown="cancelling"), 0.0).startswith(
        "Job digits (42): ⊖ cancelling, "
    )
    partly = job(state="succeeded", shown="succeeded, 2 of 12 trials failed")
    assert plain.job_text(partly, 0.0).startswith("Job digits (42): ✔ succeeded, 2 of 12 trials failed, ")
    assert plain.job_text(waiting, 0.0).splitlines()[1] == "All 8 GPUs are held. Number 2 in line."


def test_a_sweep_and_its_facts_in_a_terminal_say_what_each_trial_asks_for():
    states: dict[str, Any] = dict.fromkeys(("running", "paused", "succeeded", "pruned", "failed", "cancelled"), 0)
    counts = TrialCounts(number=12, queued=12, **states)
    sweep = job(state="queued", shown="queued", held=[], trials=counts, gpus=2)
    assert phrases.asked(sweep) == "2 GPUs for each of its trials"
    assert asked(sweep) == "2 each"
    assert asked(sweep, "a100") == "2 a100 each"
    assert phrases.asked(job(trials=counts, gpus=0)) == "no GPU"


def test_html_tells_how_much_of_the_gpus_is_used_as_far_as_that_is_known():
    real = JobUsage(at=1.0, gpus=2, utilization=0.874, memory_used=24 << 30)
    assert "87 % used, 24 GiB of memory<" in plain.job_html(job(usage=real), 0.0)
    assert (
        phrases.used(job(usage=JobUsage(at=1.0, gpus=2, utilization=0.0, simulated=True)))
        == "0 % used (simulated)"
    )
    assert phrases.used(job(usage=JobUsage(at=1.0, gpus=2))) == ""
    assert "use of GPUs" not in plain.job_html(job(), 0.0)


def test_empty_lists_say_what_to_do_next():
    assert "pool.submit" in plain.jobs_text([])
    none = "No job matches: state “paused”."
    assert plain.jobs_text([], none) == none
    assert none in plain.jobs_html([], none)
    assert "pool.submit" not in plain.jobs_html([], none)
    assert "pool.submit" in plain.jobs_html([])


def test_a_long_list_of_jobs_is_cut_with_the_number_of_the_rest():
    jobs = [job(name=f"job {number}") for number in range(130)]
    text, html = plain.jobs_text(jobs), plain.jobs_html(jobs)
    for shown in (text, html):
        assert "job 99" in shown
        assert "job 100" not in shown
        assert "… and 30 jobs more." in shown
    assert "more." not in plain.jobs_text(jobs[:100])


def test_the_pool_lists_quota_held_borrowed_and_waiting():
    view = PoolView(
        seq=1, nodes=[], projects=[project(held=5, borrowed=3, waiting=4), project(name="free", quota=None)],
        train_gpus=8, train_held=5, build_gpus=3, build_held=1, simulated=True, quota_sum=6,
        train_free={"idle": 1, "drained": 2},
    )  # fmt: skip
    lines = plain.pool_text(view).splitlines()
    assert lines[0] == "5 of 8 train GPUs (simulated) held, 1 idle, 2 drained"
    assert lines[2].split() == ["vision", "2", "5", "3", "4"]
    assert lines[3].split()[:2] == ["free", "unlimited"]


# ---------- the bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_is_rewritten_in_place_on_a_terminal():
    out = Terminal()
    shown = progress_bar.Bar(out)
    shown.show(job(state="queued", reason=Reason(code="x", text="A long reason why the job waits")))
    shown.show(held(4, 0))
    shown.close()
    first, second = out.getvalue().removeprefix("\r").split("\r")
    assert second.startswith("▶ running  [████████████████░░░░░░░░]  68 % step 41 of 60 · loss 0.25 · 4 GPUs")
    assert len(second.rstrip("\n")) >= len(first)


def test_the_bar_is_one_line_per_state_elsewhere():
    out = io.StringIO()
    shown = progress_bar.Bar(out)
    for _ in range(3):
        shown.show(held(4, 0))
    shown.show(job(state="succeeded"))
    shown.close()
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["running", "succeeded"]


# ---------- caps


def test_the_cards_log_is_capped_in_lines_and_bytes():
    many = Tail().plus("line\n" * 1000, 5000)
    assert many.text == "line\n" * LOG_LINES
    assert len(Tail().plus("x" * 10**6, 10**6).text) == LOG_BYTES
    assert many.plus("more\n", 5005).text.endswith("line\nmore\n")


def test_the_cards_curve_keeps_its_first_and_last_point():
    numbers: Any = range(10_000)
    kept: Any = thin(numbers, 400)
    assert len(kept) == 400
    assert (kept[0], kept[-1]) == (0, 9_999)


def test_a_waiting_job_tells_when_it_likely_starts():
    starts = Starts(earliest=300.0, likely=720.0, latest=2400.0, why=None, at=0.0)
    waiting = job(state="queued", reason=Reason(code="x", text="All 8 GPUs are held."), starts=starts)
    said = "Likely starts in about 12 min (between 5 and 40 min)."
    assert plain.job_text(waiting, 0.0).splitlines()[1] == f"All 8 GPUs are held. {said}"
    assert f'<td style="text-align: left">{said}</td>' in plain.job_html(waiting, 0.0)
    assert "resumes" in plain.job_text(job(state="paused", attempt=2, starts=starts), 0.0)

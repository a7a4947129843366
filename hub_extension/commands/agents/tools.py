"""The table of tools: the name of each, its text for assistants, its arguments and answer, and what it may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from springtide.hub_extension.commands.agents import acting, answers, questions, reading
from springtide.scheduler.client import Client
from springtide.scheduler.wire.shapes import Request


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    ``reads``: it changes nothing. ``destroys``: work or files may be lost. ``repeats``: a further call with the
    same arguments has no further effect.
    """

    name: str
    title: str
    text: str
    question: type[Request]
    answer: type[answers.Answer]
    run: Callable[[Client, Any], answers.Answer]
    reads: bool = False
    destroys: bool = False
    repeats: bool = False


TOOLS: Final = (
    Tool(
        "show_pool",
        "Show the pool",
        "Who you are, your projects with quota, fair share and what they hold, borrow and wait for, the pool's "
        "free GPUs and nodes, datasets, names of secrets, images and priorities. Call it before you choose a "
        "project or a number of GPUs.",
        questions.Nothing,
        answers.Pool,
        reading.show_pool,
        reads=True,
    ),
    Tool(
        "list_jobs",
        "List jobs",
        "List jobs, newest first: the person's own, unless everyone or user is given. where and order find runs"
        " by their arguments and metrics. Trials of sweeps are left out; list_trials has them.",
        questions.ListJobs,
        answers.JobPage,
        reading.list_jobs,
        reads=True,
    ),
    Tool(
        "show_job",
        "Show a job",
        "Show one job: its state, options, environment, progress, last metrics and output files.",
        questions.OfJob,
        answers.JobDetails,
        reading.show_job,
        reads=True,
    ),
    Tool(
        "wait_for_job",
        "Wait for a job",
        f"Wait until a job has ended for good, at most {questions.LONGEST_WAIT_S} seconds; then the answer has "
        "it as it is. Call it again while final is false, instead of asking show_job in a loop. A paused job is"
        " not final: it resumes by itself.",
        questions.WaitForJob,
        answers.Waited,
        reading.wait_for_job,
        reads=True,
    ),
    Tool(
        "explain_job",
        "Explain a job",
        "Explain why a job waits, runs, was paused or has ended, what would let it start, when it is expected "
        "to start, and how its attempts went. Use this before you guess at a queue or a failure.",
        questions.OfJob,
        answers.Explanation,
        reading.explain_job,
        reads=True,
    ),
    Tool(
        "read_log",
        "Read a job's log",
        "Read the end of a job's log, or what comes after a byte. The log is over all attempts of the job.",
        questions.ReadLog,
        answers.Log,
        reading.read_log,
        reads=True,
    ),
    Tool(
        "read_metrics",
        "Read a job's metrics",
        "Read the numbers that a job has reported: of each its last and its best value with its step, and a "
        "thinned series. A job reports by springtide.training or a framework's adapter; without that there are "
        "none, and read_log is what there is.",
        questions.ReadMetrics,
        answers.Metrics,
        reading.read_metrics,
        reads=True,
    ),
    Tool(
        "forecast_start",
        "Forecast a start",
        "Forecast when a job with these options would start if it were sent now, and which jobs would be paused"
        " or moved for it. Nothing is sent. Compare options by several calls, such as fewer GPUs or another "
        "type.",
        questions.ForecastStart,
        answers.Outlook,
        reading.forecast_start,
        reads=True,
    ),
    Tool(
        "list_trials",
        "List trials of a sweep",
        "List the trials of a sweep with their parameters and values. sort value, or -value, has the best ones "
        "first.",
        questions.ListTrials,
        answers.TrialPage,
        reading.list_trials,
        reads=True,
    ),
    Tool(
        "submit_job",
        "Submit a job",
        "Send a command or a notebook to the pool, with the code of its project folder as it is now. It runs in"
        " the person's name and may read and write the person's files. By default this is a dry run: nothing is"
        " sent, and the answer says when it would start, what a pause would cost, and which files go along. Show "
        "that to the person, then call it again with dry_run false.",
        questions.SubmitJob,
        answers.Submitted,
        acting.submit_job,
        destroys=True,
    ),
    Tool(
        "pause_job",
        "Pause a job",
        "Pause a job at its next checkpoint, until resume_job. What it has done since its last checkpoint is "
        "lost if it does not save when asked: resumes_from of show_job says from where it would resume.",
        questions.OfJob,
        answers.JobSummary,
        acting.pause_job,
        destroys=True,
        repeats=True,
    ),
    Tool(
        "resume_job",
        "Resume a job",
        "Let a job run again that its person has paused. Jobs that the pool has paused resume by themselves.",
        questions.OfJob,
        answers.JobSummary,
        acting.resume_job,
        repeats=True,
    ),
    Tool(
        "cancel_job",
        "Cancel a job",
        "End a job for good. It cannot be resumed. A sweep ends with all its trials.",
        questions.OfJob,
        answers.JobSummary,
        acting.cancel_job,
        destroys=True,
        repeats=True,
    ),
)

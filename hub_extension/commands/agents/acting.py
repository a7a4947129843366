"""The tools that send, pause, resume and cancel jobs. A tool that forks a job belongs here too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from springtide.hub_extension.commands.agents import answers, questions, views
from springtide.hub_extension.commands.agents.bounds import clipped
from springtide.hub_extension.commands.agents.questions import checked_options
from springtide.hub_extension.commands.sending import Prepared, prepared
from springtide.scheduler.capture import CaptureError, uncarried_words, working_directory
from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job
from springtide.scheduler.wording import LONG_GIVEN, given

SEND_IT: Final = "Nothing was sent. To send it, call submit_job with the same arguments and dry_run false."
FOLLOW_IT: Final = (
    "It was sent. wait_for_job waits for its end, explain_job says why it waits, read_log reads its log."
)


def submit_job(client: Client, asked: questions.SubmitJob) -> answers.Submitted:
    """Send a job, or say what would be sent. Raises `CaptureError` and `BadOption`."""
    work = prepared(asked.command, checked_options(asked.options), _directory(asked.directory))
    return _would_send(client, work) if asked.dry_run else _sent(client, work)


def _directory(text: str | None) -> Path:
    """Return the working directory of a submission. Raises `CaptureError` if there is none."""
    here = working_directory()
    path = here if text is None else here / Path(text).expanduser()
    given_whole = text is None or Path(text).expanduser().is_absolute()
    if not path.is_dir() or not (given_whole or path.resolve().is_relative_to(here.resolve())):
        msg = f"directory is {given(text, LONG_GIVEN)}; expected a directory, absolute or below {here}."
        raise CaptureError(msg)
    return path


def _would_send(client: Client, work: Prepared) -> answers.Submitted:
    found = work.prospect(client)
    return answers.Submitted(
        sent=False,
        next=SEND_IT,
        outlook=views.outlook(found.forecast),
        untrusted=answers.ProspectTexts(
            environment=views.environment_facts(found.environment, found.image),
            pause=clipped(found.pause, views.SENTENCES),
            notes=_notes(*work.notes, uncarried_words(found.unsent, _carry(found.unsent))),
        ),
    )


def _sent(client: Client, work: Prepared) -> answers.Submitted:
    sent = work.send(client)
    return answers.Submitted(
        sent=True,
        next=FOLLOW_IT,
        untrusted=answers.ProspectTexts(
            notes=_notes(*work.notes, uncarried_words(sent.unsent, _carry(sent.unsent)), sent.missing)
        ),
        job=views.summary(sent.job, time.time()),
    )


def _notes(*notes: str) -> list[str]:
    return [clipped(note, views.SENTENCES) for note in notes if note]


def _carry(names: Sequence[str]) -> str:
    return f"the option carry with {given(','.join(names), LONG_GIVEN)}"


def _act(act: Callable[[Client, str], Job]) -> Callable[[Client, questions.OfJob], answers.JobSummary]:
    def run(client: Client, asked: questions.OfJob) -> answers.JobSummary:
        return views.summary(act(client, asked.job), time.time())

    return run


pause_job = _act(Client.pause)
resume_job = _act(Client.resume)
cancel_job = _act(Client.cancel)

"""A command that is ready to be sent: what it takes along, when it would start, what a pause would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from springtide.scheduler.capture import (
    Captured,
    CaptureError,
    Here,
    capture_words,
    check_kernel,
    environment_shown,
    names_notebook,
    notes_of,
    pause_words,
    submission,
    terminal_place,
    unsent,
    with_training,
)
from springtide.scheduler.client import Client
from springtide.scheduler.client.descriptions import image_of
from springtide.scheduler.wire import Forecast, Job, JobEnvironment, Submission, missing_program


class Prospect(Struct, frozen=True, kw_only=True):
    """The outlook of a job before it is sent.

    ``pause`` says what a pause would cost, ``unsent`` names well-known variables that are set and not sent.
    """

    forecast: Forecast
    environment: JobEnvironment
    image: str | None
    pause: str
    unsent: Sequence[str]


class Sent(NamedTuple):
    """A job that was sent, well-known variables that are set and were not sent, and missing packages in words."""

    job: Job
    unsent: Sequence[str]
    missing: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A captured command with its request, and the place that it was captured at."""

    request: Submission
    captured: Captured
    here: Here

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences for whoever sends it."""
        return notes_of(self.captured, self.request)

    @property
    def notes_beside_prospect(self) -> tuple[str, ...]:
        """Those of the sentences that the environment of its prospect does not show."""
        project = self.captured.project
        shown = () if project is None else project.copy_notes()
        return tuple(note for note in self.notes if note not in shown)

    def prospect(self, client: Client) -> Prospect:
        """Ask the pool what to expect; nothing is sent. Raises `CaptureError` if its program is not there."""
        request = self.request
        forecast, me = client.when(request), client.me()
        image = image_of(request, me)
        contents = None if image is None else client.image_contents(image)
        if missing := missing_program(request.environment, request.argv[0], image, request.requirements):
            raise CaptureError(" ".join(missing))
        left = unsent(request, self.here, me.noted_variables)
        return Prospect(
            forecast=forecast,
            environment=environment_shown(request, image, contents, left),
            image=image,
            pause=pause_words(request, self.captured),
            unsent=left,
        )

    def send(self, client: Client) -> Sent:
        """Send it."""
        left = unsent(self.request, self.here, client.me().noted_variables)
        job = client.submit(self.request, self.captured.packed)
        missing = "" if job.environment is None else job.environment.missing_text
        return Sent(job, left, missing)


def prepared(command: Sequence[str], options: Mapping[str, Any], cwd: Path) -> Prepared:
    """Capture a command in a directory, with its options. Raises `CaptureError` if it cannot be sent."""
    here = terminal_place(cwd).for_job(options)
    captured = capture(command, here)
    request = submission(captured, options, here=here)
    if captured.kind == "notebook":
        with Client() as client:
            image = image_of(request, client.me())
        check_kernel(captured, image)
    return Prepared(request, captured, here)


def capture(command: Sequence[str], here: Here) -> Captured:
    """Capture a command. Raises `CaptureError` if it cannot be sent."""
    notes: tuple[str, ...] = ()
    if names_notebook(command[0]):
        here, notes = with_training(here)
    captured = capture_words(command, here)
    return replace(captured, notes=(*captured.notes, *notes))

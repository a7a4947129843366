"""The form of a page, without a kernel: its contents, and the pool's review of the typed options."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from springtide.scheduler.client.errors import problem_of
from springtide.scheduler.wire import Forecast, Me, Problem
from springtide.scheduler.wire.form_fields import Form, form_of
from springtide.widgets.form.review import Review, question, refused, reviewed
from springtide.widgets.server_extension.allowed import Target
from springtide.widgets.server_extension.pool_gate import GateError, PoolGate
from springtide.widgets.server_extension.sending import locate_directory

OK: Final = 200
MAX_NOTEBOOKS: Final = 200
"""Maximum number of notebooks that the form offers of a directory."""


class Typed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The typed options, by name."""

    typed: dict[str, str] = {}


async def drawn(gate: PoolGate, directory: str, root: Path) -> Form:
    """Return the contents of the form, for a notebook in ``directory`` below ``root``. Raises `GateError`."""
    me = msgspec.json.decode(await _answer(gate, Target("GET", "me")), type=Me)
    place = locate_directory(directory, root)
    return form_of(me, sorted(path.name for path in place.glob("*.ipynb"))[:MAX_NOTEBOOKS])


async def review(gate: PoolGate, body: bytes) -> Review:
    """Return the errors of the typed options, and the forecast of the job. Raises `GateError`."""
    what, unread = question(_read(body).typed)
    try:
        content = await _answer(gate, Target("POST", "forecast", takes_body=True), msgspec.json.encode(what))
    except GateError as error:
        return refused(unread, error.problem)
    return reviewed(unread, msgspec.json.decode(content, type=Forecast))


def _read(body: bytes) -> Typed:
    try:
        return msgspec.json.decode(body, type=Typed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"The form's content is not readable: {error}."
        raise GateError(Problem(status=422, code="invalid", message=message)) from None


async def _answer(gate: PoolGate, target: Target, body: bytes | None = None) -> bytes:
    """Return the answer of the pool. Raises `GateError` for a refusal."""
    status, content = await gate.ask(target, body)
    if status != OK:
        raise GateError(problem_of(status, content))
    return content

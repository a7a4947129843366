"""Requests of people for changes: the wanted change, and its outcome."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import quoted_name
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    cause,
    change,
    detail,
    follows,
    number,
    state,
)
from springtide.scheduler.wording import sentence


def _made(p: Params) -> Sentences:
    yield state(f"The person {quoted_name(p, 'user')} asks for {p.get('what')}.")


def _need(p: Params) -> Sentences:
    yield from _made(p)
    yield from detail(p)
    if p.get("present"):
        yield state(str(p.get("present")))
    if p.get("obstacle"):
        yield change(f"It cannot be granted as it is: {sentence(str(p.get('obstacle')))}")
    yield from _decide(p)


def _decide(p: Params) -> Sentences:
    values = ", with other values if you like," if p.get("values", 1) else ""
    yield change(
        f"Approve it{values} or refuse it with a reason: on the page Projects and quotas, "
        f"or by `springtide request approve {number(p, 'number')}`."
    )


def _made_next(p: Params) -> Sentences:
    yield from detail(p)
    yield from _decide(p)


def _ended(p: Params) -> Sentences:
    asked, by = f"Your request for {p.get('what')}", quoted_name(p, "by")
    match p.get("state"):
        case "approved":
            yield cause(f"{asked} is approved by {by}.")
        case "refused":
            yield cause(f"{asked} is refused by {by}.")
        case "expired":
            yield cause(f"{asked} has expired.")
        case _:
            yield cause(f"{asked} has ended.")


def _ended_next(p: Params) -> Sentences:
    if p.get("given"):
        yield state(f"You got {p.get('given')}.")
    yield from detail(p)
    if p.get("state") in {"refused", "expired"}:
        yield change("To ask again, make a new request on the page of the pool.")
    elif p.get("state") == "approved":
        yield follows("It holds from now on.")


CHANGE_REQUESTS: Table = {
    "need-request": _need,
    "notify-request": _made,
    "notify-request-next": _made_next,
    "notify-request-ended": _ended,
    "notify-request-ended-next": _ended_next,
}

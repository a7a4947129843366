"""The texts of notifications, and the reasons why one did not arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from springtide.scheduler.sentences.decisions import label, quoted_name
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentence,
    Sentences,
    Table,
    cause,
    change,
    follows,
    number,
    real,
    state,
)
from springtide.scheduler.wording import amount, count, duration, exactly, listed, plural, roughly, trials_failed

GONE = frozenset({401, 403, 404, 410})
"""Statuses of a server for a webhook address that is no longer valid."""
COUNTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "failed": "failed",
        "ended": "ended",
        "succeeded-soon": "ended",
        "paused": "paused",
        "resumed": "resumed",
        "time-limit": "near the time limit",
        "fault": "about a fault",
        "workspace": "about your workspaces",
        "report": "about reports",
    }
)
"""The events of notifications in words that follow their number; `bursts.js` has those of notices."""


def _job(p: Params, what: str) -> Sentences:
    yield cause(f"The job {quoted_name(p, 'name')} {what}.")


def _succeeded(p: Params) -> Sentences:
    failed = number(p, "failed")
    return _job(p, f"succeeded, {trials_failed(failed, number(p, 'trials'))}" if failed else "succeeded")


def _runs_again(p: Params) -> Sentences:
    return _job(p, "starts again from the beginning" if p.get("from_start") else "continues")


def _by(p: Params) -> str:
    return f" by {quoted_name(p, 'by')}" if p.get("by") else ""


def _attempt_failed(p: Params) -> Sentences:
    yield cause(f"An attempt of the job {quoted_name(p, 'name')} failed.")


def _limit_near(p: Params) -> Sentences:
    left = roughly(max(1.0, real(p, "seconds")))
    yield state(f"The job {quoted_name(p, 'name')} reaches its time limit in {left}.")


def _limit(p: Params) -> Sentences:
    yield follows(
        f"It is ended once it has run for {exactly(real(p, 'seconds'))}, whether it has finished or not."
    )


def _saved(p: Params) -> Sentences:
    yield state(f"Saved at step {amount(real(p, 'step'))}.")


def _ran(p: Params) -> Sentences:
    paused = real(p, "paused") if p.get("paused") else 0.0
    pauses = f", without pauses of {duration(paused)}" if paused >= 1 else ""
    yield state(f"It ran for {duration(real(p, 'seconds'))}{pauses}.")


def _many(p: Params) -> Sentences:
    many = number(p, "count")
    numbers = Counter[str]()
    for event, words in COUNTED.items():
        numbers[words] += number(p, event) if event in p else 0
    parts = [f"{amount(those)} {words}" for words, those in numbers.items() if those]
    kinds = f": {listed(parts)}" if parts else ""
    yield state(f"There {plural(many, 'is', 'are')} {count(many, 'notification')} of the pool{kinds}.")


def _more(p: Params) -> Sentences:
    more = number(p, "count")
    are, them = plural(more, "is", "are"), plural(more, "it", "them")
    yield state(f"Besides these there {are} {amount(more)} more; the pages of the pool have {them}.")


def _test(_: Params) -> Sentences:
    yield state("This is a test message of the pool.")
    yield follows("Notifications of your jobs arrive the same way.")


def _host(p: Params) -> str:
    return f"The server {label(p, 'host')}"


def _answered(p: Params) -> Sentences:
    status = number(p, "status")
    if 300 <= status < 400:
        yield cause(f"{_host(p)} answered with a redirect, which is not followed.")
    else:
        yield cause(f"{_host(p)} answered with status {status}.")
    if status in GONE:
        yield change("Make a new webhook address there, and put it in here.")


def _not_allowed(p: Params) -> Sentences:
    yield cause(f"Webhooks to {label(p, 'host')} are not allowed here.")
    yield change("An administrator of the pool can allow them.")


def _maybe() -> Sentence:
    return follows("It may have arrived, so it is not sent again.")


def _unconfirmed(p: Params) -> Sentences:
    yield cause(f"{_host(p)} did not confirm the message.")
    yield _maybe()


def _interrupted(_: Params) -> Sentences:
    yield cause("The pool's service was stopped while the message was being sent.")
    yield _maybe()


def _login(_: Params) -> Sentences:
    yield cause("The mail server does not accept the log-in of the pool.")
    yield change("Tell an administrator of the pool.")


def _no_mail(_: Params) -> Sentences:
    yield cause("The pool has no mail server.")
    yield change("An administrator of the pool can set one up.")


def _not_set_up(_: Params) -> Sentences:
    yield cause("This channel is not set up here.")
    yield change("An administrator of the pool can set it up.")


def _workspace(p: Params) -> str:
    return f"Your workspace {quoted_name(p, 'server')}" if p.get("server") else "Your workspace"


def _workspace_unused(p: Params) -> Sentences:
    held, unused = count(number(p, "gpus"), "GPU"), roughly(max(1.0, real(p, "unused")))
    yield state(f"{_workspace(p)} has not used its {held} for {unused}.")


def _workspace_stops(p: Params) -> Sentences:
    yield follows(f"It is stopped in {roughly(max(1.0, real(p, 'notice')))} unless it is used before.")
    yield follows("Saved files stay; unsaved changes and the variables of its kernels are lost then.")
    yield change("To keep it, use it, or choose “Keep” on the page of workspaces.")


def _workspace_stays(_: Params) -> Sentences:
    yield change("Stop it if you do not need it.")


def _workspace_stopped(p: Params) -> Sentences:
    held, unused = count(number(p, "gpus"), "GPU"), roughly(max(1.0, real(p, "unused")))
    yield cause(f"{_workspace(p)} was stopped because its {held} had not been used for {unused}.")


def _workspace_stopped_next(_: Params) -> Sentences:
    yield state("Saved files are still there.")
    yield change("Start it again when you need it.")


def _report_about(p: Params) -> Sentences:
    yield state(f"It is about {'the whole pool' if p.get('whole_pool') else 'the projects that you lead'}.")


def _launch_stopped(p: Params) -> Sentences:
    jobs = {"image": f" in the image {quoted_name(p, 'name')}", "user": f" of {quoted_name(p, 'name')}"}
    yield cause(f"No job{jobs.get(str(p.get('scope')), '')} is launched any more: several could not be started.")


def _launch_stopped_next(_: Params) -> Sentences:
    yield state("No job has failed.")
    yield follows("The pool tries a start from time to time; once one works, the others follow by themselves.")
    yield change("Find out what the cluster or the machine refuses, and allow it.")


NOTIFICATIONS: Table = {
    "notify-paused": lambda p: _job(p, f"was paused{_by(p)}"),
    "notify-resumed": _runs_again,
    "notify-edited": lambda p: _job(p, f"was edited{_by(p)}"),
    "notify-succeeded": _succeeded,
    "notify-cancelled": lambda p: _job(p, f"was cancelled{_by(p)}"),
    "notify-failed": lambda p: _job(p, "failed"),
    "notify-attempt-failed": _attempt_failed,
    "notify-limit-near": _limit_near,
    "notify-limit": _limit,
    "notify-held": lambda _: iter([follows("It runs again when it is resumed.")]),
    "notify-saved": _saved,
    "notify-ran": _ran,
    "notify-many": _many,
    "notify-more": _more,
    "notify-test": _test,
    "notify-workspace-unused": _workspace_unused,
    "notify-workspace-stops": _workspace_stops,
    "notify-workspace-stays": _workspace_stays,
    "notify-workspace-stopped": _workspace_stopped,
    "notify-workspace-stopped-next": _workspace_stopped_next,
    "notify-report": lambda p: iter([state(f"There is a report of {p.get('month')}.")]),
    "notify-report-about": _report_about,
    "notify-launch-stopped": _launch_stopped,
    "notify-launch-stopped-next": _launch_stopped_next,
    "notify-undelivered": lambda _: iter([state("The last message could not be delivered.")]),
    "notify-again": lambda _: iter([follows("It is tried again.")]),
    "delivery-unreachable": lambda p: iter([cause(f"{_host(p)} could not be reached.")]),
    "delivery-certificate": lambda p: iter([cause(f"{_host(p)} has no valid certificate.")]),
    "delivery-private": lambda p: iter(
        [cause(f"{_host(p)} has an address inside a private network, which webhooks must not reach.")]
    ),
    "delivery-not-allowed": _not_allowed,
    "delivery-answered": _answered,
    "delivery-unconfirmed": _unconfirmed,
    "delivery-interrupted": _interrupted,
    "delivery-login": _login,
    "delivery-refused": lambda p: iter(
        [cause(f"The mail server refused the message with code {number(p, 'code')}.")]
    ),
    "delivery-no-mail": _no_mail,
    "delivery-no-address": lambda _: iter([cause("Your user name makes no e-mail address here.")]),
    "delivery-not-set-up": _not_set_up,
    "delivery-address-removed": lambda _: iter([cause("The address was removed.")]),
    "delivery-no-channel": lambda _: iter([cause("The pool no longer has this channel.")]),
    "delivery-no-report": lambda _: iter(
        [cause("The report is for admins of the pool and for those who lead projects, and you are neither now.")]
    ),
    "delivery-failed": lambda _: iter([cause("The pool failed to send it; the service's log says why.")]),
}

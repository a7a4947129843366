"""What needs an administrator: its state, and the change that ends it."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import label, quoted_name
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    change,
    detail,
    follows,
    gpu_noun,
    number,
    real,
    state,
)
from springtide.scheduler.settings import DAY
from springtide.scheduler.wording import count, duration, gpus, plural, sentence


def _store(p: Params) -> Sentences:
    yield from detail(p)
    yield follows("Jobs keep running. Nothing new is accepted until this ends.")
    yield change("Correct the cause: the service then continues by itself.")


def _launch(p: Params) -> Sentences:
    jobs = number(p, "jobs")
    words = sentence(str(p.get("detail") or ""))
    yield state(
        f"Launching has stopped: {count(jobs, 'job')} {plural(jobs, 'is', 'are')} not started, because several "
        f"could not be: {words}"
    )
    yield change("Allow the refused action there. Jobs start by themselves once a start works.")


def _unmatched(p: Params) -> Sentences:
    yield from detail(p)
    held = number(p, "gpus")
    if held:
        yield state(f"It keeps {gpus(held)} out of the pool until it has ended.")
    yield change(str(p.get("change") or ""))
    yield change(f"On the page of the pool, or by `springtide free {p.get('holder')} --end`.")


def _usage(p: Params) -> Sentences:
    yield state(f"The use of GPUs is not recorded: {sentence(str(p.get('detail') or ''))}")
    yield change("Correct the cause. Jobs are not affected; reports lack the use that was not recorded.")


def _nodes(p: Params) -> Sentences:
    words = sentence(str(p.get("detail") or ""))
    yield state(f"The cluster cannot be asked for more nodes of {quoted_name(p, 'name')}: {words}")
    yield change("Correct the cause. Jobs that wait for such nodes start by themselves then.")


def _backup(p: Params) -> Sentences:
    if p.get("ever"):
        after = real(p, "after")
        yield state(f"The latest backup is older than {'a day' if after == DAY else duration(after)}.")
    else:
        yield state("There is no backup of this pool yet.")
    yield change("Run `springtide backup FILE`, best by a timer each night.")


def _channel(p: Params) -> Sentences:
    yield state(f"Messages by {label(p, 'channel')} do not arrive.")
    yield from detail(p)
    yield change("Correct the cause, and send yourself a test message on the page of notifications.")


def _quotas(p: Params) -> Sentences:
    over, room, noun = number(p, "over"), number(p, "room"), gpu_noun(p)
    yield state(f"The quotas of the top projects are {count(over, noun)} more than the {room} that the pool has.")
    yield change("Lower them, have them scaled to fit, or bring the missing nodes back.")


def _drain(p: Params) -> Sentences:
    gpu = p.get("gpu")
    what = f"The node {label(p, 'node')}" if gpu is None else f"The GPU {gpu} of {label(p, 'node')}"
    by = " by the pool, because of a fault" if p.get("fault") else f" by {quoted_name(p, 'by')}"
    why = sentence(str(p.get("detail") or ""))
    yield state(f"{what} is drained{by}: {why}" if why else f"{what} is drained{by}.")
    yield change("Undrain it once it is in order, or drain it until a time.")


def _leaver(p: Params) -> Sentences:
    jobs = number(p, "jobs")
    who = quoted_name(p, "user")
    yield state(f"The person {who} is no longer a user of JupyterHub and has {count(jobs, 'unfinished job')}.")
    yield follows("Waiting jobs are on hold; running jobs continue to their end or their next pause.")
    yield change(
        f"On the page Projects and quotas, under Jobs on hold, release or cancel {plural(jobs, 'it', 'them')}, "
        "or `springtide release JOB --to USER` to give one to another member of its project."
    )


def _handed_over(p: Params) -> Sentences:
    jobs, user, former = number(p, "jobs"), quoted_name(p, "user"), quoted_name(p, "former")
    them = plural(jobs, "it", "them")
    yield state(f"The person {user} was given {count(jobs, 'job')} of {former}, which cannot start.")
    yield from detail(p)
    yield follows(f"{plural(jobs, 'It is', 'They are')} on hold.")
    yield change(f"Let {user} use what is named and try again, give {them} to another person, or cancel {them}.")


def _whose(p: Params) -> str:
    return f"The {p.get('what')} of {quoted_name(p, 'subject')}" if p.get("subject") else f"The {p.get('what')}"


def _stays(p: Params) -> Sentences:
    yield state(f"{_whose(p)} did not return to {p.get('before')}: {sentence(str(p.get('detail') or ''))}")
    yield follows("It is tried again from time to time.")
    yield change("Make room for that, or keep the present value for good.")


def _ending(p: Params) -> Sentences:
    yield state(f"{_whose(p)} has another value for a time, which ends within a week.")
    yield follows(f"Then it returns to {p.get('before')} by itself.")
    yield change("Change it if it is to last longer.")


def _workspace(p: Params) -> Sentences:
    server = f" {quoted_name(p, 'server')}" if p.get("server") else ""
    held = count(number(p, "gpus"), "GPU")
    yield state(f"The workspace{server} of {quoted_name(p, 'user')} does not use its {held}.")
    yield change("Tell its owner, or stop it: saved files stay, unsaved changes are lost.")


def _job(p: Params) -> Sentences:
    held = count(number(p, "gpus"), "GPU")
    yield state(f"The job {quoted_name(p, 'name')} of {quoted_name(p, 'user')} hardly uses its {held}.")
    yield change("Tell its owner, or pause it: it goes on from its last checkpoint.")


def _many(p: Params) -> Sentences:
    many = number(p, "count")
    yield state(f"In the pool {count(many, 'thing')} {plural(many, 'needs', 'need')} an administrator.")


def _more(p: Params) -> Sentences:
    more = number(p, "count")
    yield state(f"And {more} more.")


def _where(_: Params) -> Sentences:
    yield change("See it, with what can be done, on the page Overview.")


def _asked(p: Params) -> Sentences:
    yield change(f"The administrator {quoted_name(p, 'by')} asks you to use them, or to give them back.")


NEEDS: Table = {
    "need-store": _store,
    "need-launch": _launch,
    "need-unmatched": _unmatched,
    "need-usage": _usage,
    "need-nodes": _nodes,
    "need-backup": _backup,
    "need-channel": _channel,
    "need-quotas": _quotas,
    "need-drain": _drain,
    "need-leaver": _leaver,
    "need-handed-over": _handed_over,
    "need-stays": _stays,
    "need-ending": _ending,
    "need-workspace": _workspace,
    "need-job": _job,
    "notify-needs": _many,
    "notify-needs-more": _more,
    "notify-needs-where": _where,
    "notify-asked": _asked,
}

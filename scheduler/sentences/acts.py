"""What people, and the pool in their place, did to a job, as lines of its history."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import quoted_name
from springtide.scheduler.sentences.sentence import Params, Sentences, Table, cause, names
from springtide.scheduler.wording import listed, sentence


def _by(p: Params) -> str:
    """Return the person who did it in quotes, or the pool."""
    return quoted_name(p, "by") if p.get("by") else "the pool"


def _why(p: Params) -> str:
    """Return the end of a sentence: the reason that was given, if there is one."""
    return f": {sentence(str(p['detail']))}" if p.get("detail") else "."


def edit_words(p: Params) -> str:
    """Return the end of a sentence: ``changed its time limit from 2 h to 4 h and moved it to the project “b”.``.

    Edits that were noted without their values have the names of the options alone.
    """
    options = [option.replace("_", " ") for option in names(p, "options")]
    values = list(zip(names(p, "was"), names(p, "now"), strict=True))
    if len(values) == len(options):
        options = [f"{option} from {was} to {now}" for option, (was, now) in zip(options, values, strict=True)]
    done = [f"changed its {listed(options)}"] if options else []
    done += [f"moved it to the project {quoted_name(p, 'project')}"] if p.get("project") else []
    return f"{listed(done)}{_why(p)}"


def _paused(p: Params) -> Sentences:
    yield cause(f"Paused by {_by(p)}.")


def _resumed(p: Params) -> Sentences:
    yield cause(f"Resumed by {_by(p)}.")


def _cancelled(p: Params) -> Sentences:
    yield cause(f"Cancelled by {_by(p)}.")


def _ended_now(p: Params) -> Sentences:
    yield cause(f"Ended now by {_by(p)}, without time to save.")


def _on_hold(p: Params) -> Sentences:
    if p.get("project"):
        yield cause(f"Put on hold: {_by(p)} froze the project {quoted_name(p, 'project')}{_why(p)}")
    else:
        yield cause(f"Put on hold by {_by(p)}{_why(p)}")


def _released(p: Params) -> Sentences:
    yield cause("Released: the freeze of its project ended." if p.get("project") else f"Released by {_by(p)}.")


def _edited(p: Params) -> Sentences:
    yield cause(f"Edited: {_by(p)} {edit_words(p)}")


def _given(p: Params) -> Sentences:
    yield cause(f"Handed over from {quoted_name(p, 'before')} to {quoted_name(p, 'user')} by {_by(p)}.")


ACTS: Table = {
    "did-pause": _paused,
    "did-resume": _resumed,
    "did-cancel": _cancelled,
    "did-end-now": _ended_now,
    "did-hold": _on_hold,
    "did-release": _released,
    "did-edit": _edited,
    "did-give": _given,
}

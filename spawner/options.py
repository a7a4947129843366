"""What a person may say when she starts a notebook, and the form that asks for it.

Options also come through the hub's REST API, so nothing here trusts where they come from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html import escape

from springtide.scheduler.wire import BuildQuota

MAX_GPUS = 1_000_000


class OptionError(ValueError):
    """An option that cannot be meant; the message is for the person who sent it."""


def requested_gpus(options: Mapping[str, object], *, default: int, others: Collection[str] = ()) -> int:
    """The GPUs that ``options`` ask for, ``default`` if they do not say.

    ``others`` are names of options that are somebody else's business. Raises `OptionError` for any further name
    and for anything but a whole number from 0.
    """
    unknown = sorted(set(options) - {"gpus"} - set(others))
    if unknown:
        names = ", ".join(repr(name) for name in unknown)
        raise OptionError(f"Unknown option {names}: a notebook takes the option 'gpus'.")
    gpus = options.get("gpus", default)
    if isinstance(gpus, bool) or not isinstance(gpus, int) or not 0 <= gpus <= MAX_GPUS:
        raise OptionError(f"gpus is {_brief(gpus)}; expected a whole number from 0 to your build quota.")
    return gpus


def options_from_form(form: Mapping[str, list[str]]) -> dict[str, object]:
    """The options that a sent form stands for; numbers that are none stay as they are, to be refused later."""
    return {name: _number(values[-1]) if name == "gpus" and values else values for name, values in form.items()}


def form_html(quota: BuildQuota | None, *, default: int) -> str:
    """The form's fields: what is free, and how many GPUs to take; ``quota`` None if nobody can tell now."""
    if quota is None:
        state = "How many GPUs are free cannot be told right now: the Springtide service is restarting."
        return _field(state, value=default, most=None)
    left = max(0, min(quota.quota - quota.used, quota.free))
    kind = "simulated GPU" if quota.simulated else "GPU"
    state = (
        f"Your build quota is {count(quota.quota, kind)}: {quota.used} in use by your notebooks, "
        f"{max(0, quota.quota - quota.used)} left. {count(quota.free, kind)} of this pool's build GPUs "
        f"{'is' if quota.free == 1 else 'are'} free."
    )
    if quota.quota == 0:
        state += " An admin can give you some on Springtide's admin page; a notebook without GPUs always starts."
    return _field(state, value=min(default, left), most=left)


def count(number: int, noun: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _field(state: str, *, value: int, most: int | None) -> str:
    limit = "" if most is None else f' max="{most}"'
    return (
        f'<p data-testid="springtide-build-quota">{escape(state)}</p>'
        '<div class="mb-3"><label class="form-label" for="springtide-gpus">GPUs for this notebook</label>'
        f'<input class="form-control" id="springtide-gpus" name="gpus" type="number" min="0"{limit} step="1" '
        f'value="{value}" required></div>'
    )


def _number(text: str) -> object:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else text


def _brief(value: object, most: int = 40) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"

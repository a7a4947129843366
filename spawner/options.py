"""Options of a notebook's start, and the form that asks for them.

Options are untrusted input: they also come through the hub's REST API.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from html import escape

from springtide.scheduler.wire import BuildQuota, StoppedWorkspace
from springtide.scheduler.wording import count, given, plural, quoted, roughly

OPTIONS = ("gpus", "gpu_type")
MAX_GPUS = 1_000_000
LONGEST_TYPE = 128
MOST_CELLS = 24
"""Maximum build quota with a drawing, in GPUs."""
CELL = 40
"""Distance from one cell to the next, in pixels."""
HELD = 'fill="#868e96" stroke="#868e96"'
IDLE = 'fill="none" stroke="#868e96"'
TAKEN = 'fill="none" stroke="#868e96" stroke-dasharray="3 3"'


class OptionError(ValueError):
    """An option is invalid; the message is shown to the user who sent it."""


def requested_gpus(options: Mapping[str, object], *, default: int, others: Collection[str] | None = ()) -> int:
    """Return the number of GPUs that ``options`` request, ``default`` if they do not name it.

    ``others`` are names of options that are handled elsewhere; None if the hub's own form may have any. Raises
    `OptionError` for any other name, for one that is nearly a name of ours, and for a number of GPUs that is no
    whole number from 0.
    """
    names = sorted(set(options) - {*OPTIONS})
    unknown = [name for name in names if (_nearly_ours(name) if others is None else name not in others)]
    if unknown:
        refused = ", ".join(given(name) for name in unknown)
        raise OptionError(f"Unknown option {refused}: a workspace takes the options “gpus” and “gpu_type”.")
    gpus = options.get("gpus", default)
    if isinstance(gpus, bool) or not isinstance(gpus, int) or not 0 <= gpus <= MAX_GPUS:
        raise OptionError(f"gpus is {given(gpus, 40)}; expected a whole number from 0 to your build quota.")
    return gpus


def requested_type(options: Mapping[str, object]) -> str:
    """Return the GPU type that ``options`` request, empty for any. Raises `OptionError` for an invalid name."""
    gpu_type = options.get("gpu_type", "")
    if not isinstance(gpu_type, str) or len(gpu_type) > LONGEST_TYPE:
        raise OptionError(f"gpu_type is {given(gpu_type, 40)}; expected the name of a GPU type.")
    return gpu_type


def options_from_form(form: Mapping[str, list[str]]) -> dict[str, object]:
    """Return the options of `form_html` in a submitted form; `requested_gpus` refuses text that is no number."""
    options: dict[str, object] = {}
    if form.get("gpus"):
        options["gpus"] = _number(form["gpus"][-1])
    if form.get("gpu_type"):
        options["gpu_type"] = form["gpu_type"][-1].strip()
    return options


def form_html(quota: BuildQuota | None, *, default: int) -> str:
    """Return the form's HTML: the free GPUs, and a field for the number of GPUs.

    ``quota`` is None if the service does not answer.
    """
    if quota is None:
        state = "The number of free GPUs is unknown right now: the Springtide service is restarting."
        return _form(_paragraph(state), value=default, most=None)
    if quota.by_type:
        return _form_by_type(quota, default)
    left = max(0, min(quota.quota - quota.held, quota.free))
    state = _cells(quota, left) + _stopped(quota) + _paragraph(_state(quota))
    return _form(state, value=min(default, left), most=left)


def _form_by_type(quota: BuildQuota, default: int) -> str:
    """Return the form for several types of build GPUs: the GPUs left of each, and a field to choose one."""
    kind = "simulated GPU" if quota.simulated else "GPU"
    left = {name: max(0, min(of.quota - of.held, of.free)) for name, of in quota.by_type.items()}
    state = "".join(
        _paragraph(
            f"{name}: your build quota is {count(of.quota, kind)}, {of.held} held by your workspaces; "
            f"{left[name]} can be taken now."
        )
        for name, of in quota.by_type.items()
    )
    first = next((name for name, number in left.items() if number), "")
    chosen = {first: " selected"}
    options = "".join(
        f'<option value="{escape(name)}"{chosen.get(name, "")}>{escape(name)}: {number} left</option>'
        for name, number in left.items()
    )
    choice = (
        '<div class="mb-3"><label class="form-label" for="springtide-gpu-type">Type of its GPUs</label>'
        f'<select class="form-select" id="springtide-gpu-type" name="gpu_type">{options}</select></div>'
    )
    most = max(left.values())
    return _form(_stopped(quota) + state, value=min(default, most), most=most) + choice


def _state(quota: BuildQuota) -> str:
    kind = "simulated GPU" if quota.simulated else "GPU"
    if quota.quota == 0:
        return (
            "Your build quota is 0 GPUs. An admin can give you some on Springtide's admin page; "
            "a workspace without GPUs always starts."
        )
    left = max(0, quota.quota - quota.held)
    state = f"Your build quota is {count(quota.quota, kind)}: {quota.held} held by your workspaces, {left} left."
    if not left:
        state += " Stop one of them to have its GPUs here; a workspace without GPUs always starts."
    if quota.free < left:
        free = "none is" if quota.free == 0 else f"only {quota.free} {plural(quota.free, 'is', 'are')}"
        state += f" Of the pool's build GPUs, {free} free right now."
    return state


def _stopped(quota: BuildQuota) -> str:
    """Return a paragraph for each of the person's workspaces that was stopped for unused GPUs."""
    return "".join(
        f'<p class="alert alert-info" data-testid="springtide-stopped">{escape(_was_stopped(workspace))}</p>'
        for workspace in quota.stopped
    )


def _was_stopped(workspace: StoppedWorkspace) -> str:
    name = f" {quoted(workspace.server)}" if workspace.server else ""
    held = count(workspace.gpus, "GPU")
    return (
        f"Your workspace{name} was stopped because its {held} had not been used for {roughly(workspace.unused)}. "
        "Saved files are still there."
    )


def _paragraph(state: str) -> str:
    return f'<p data-testid="springtide-build-quota">{escape(state)}</p>'


def _cells(quota: BuildQuota, left: int) -> str:
    """Return a drawing of the build quota with a cell per GPU.

    GPUs in use are grey, available ones empty, and those taken by other users dashed.
    """
    if not 0 < quota.quota <= MOST_CELLS:
        return ""
    runs = [("held", HELD, quota.held), ("idle", IDLE, left), ("taken", TAKEN, quota.quota)]
    drawn, at = "", 0
    for words, look, most in runs:
        number = min(most, quota.quota - at)
        cells = (
            f'<rect x="{place * CELL + 1}" y="1" width="34" height="34" rx="6" {look}/>'
            for place in range(at, at + number)
        )
        caption = f'<text x="{at * CELL + 1}" y="50" font-size="12" fill="currentColor">{words}</text>'
        drawn += "".join(cells) + (caption if number else "")
        at += number
    label = f"{quota.held} of {count(quota.quota, 'GPU')} of your build quota held"
    return (
        f'<svg class="d-block mb-2 overflow-visible text-body-secondary" role="img" aria-label="{label}" '
        f'width="{at * CELL}" height="56" data-testid="springtide-build-cells">{drawn}</svg>'
    )


def _form(state: str, *, value: int, most: int | None) -> str:
    limit = "" if most is None else f' max="{most}"'
    return (
        '<h2 class="h4 mt-3">A workspace with GPUs of your own</h2>'
        '<p class="text-body-secondary">For writing and trying out code. These GPUs are yours while the workspace '
        "runs: never lent, never taken. Long trainings go from its notebooks to the pool.</p>"
        f"{state}"
        '<div class="mb-3"><label class="form-label" for="springtide-gpus">GPUs for this workspace</label>'
        f'<input class="form-control" id="springtide-gpus" name="gpus" type="number" min="0"{limit} step="1" '
        f'value="{value}" required></div>'
    )


def _nearly_ours(name: str) -> bool:
    return bool(get_close_matches(name.casefold(), OPTIONS, n=1, cutoff=0.8))


def _number(text: str) -> object:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else text

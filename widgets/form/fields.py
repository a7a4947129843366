"""The form's fields for the options of a job, made from the table of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import ipywidgets

from springtide.scheduler.wire import OPTIONS, BadOption, Me, Option, Surface
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wire.submission import offered

FIRST: Final = ("name", "project", "gpus", "workers", "priority", "gpu_types", "image")
"""The options that are shown at once; the others stand under "More options"."""
STYLE: Final = {"description_width": "90px"}
LABELS: Final = {"gpus": "GPUs", "gpu_types": "GPU type", "env": "Environment"}
"""The labels that are not the option's name."""


class OptionFields:
    """A field for each option that the form offers; ``fields[name]`` is its widget."""

    def __init__(self, me: Me) -> None:
        self._widgets = {option.name: _field(option, me) for option in offered(Surface.FORM)}
        hidden = {"gpu_types": len(me.gpu_types) < 2, "image": not me.images}
        self.first = [self._widgets[name] for name in FIRST if not hidden.get(name)]
        """The fields that are shown at once."""
        rest = [widget for name, widget in self._widgets.items() if name not in FIRST]
        self.more = ipywidgets.Accordion(
            children=[ipywidgets.VBox(rest)], titles=("More options",), selected_index=None
        )
        """The other fields, folded away."""

    def __getitem__(self, name: str) -> Any:
        return self._widgets[name]

    def observe(self, changed: Callable[[Any], None]) -> None:
        """Call ``changed`` whenever a value changes."""
        for widget in self._widgets.values():
            widget.observe(changed, "value")

    def values(self) -> dict[str, Any]:
        """Return the options that were filled in, as requests carry them. Raise `BadOption`."""
        return dict(filter(lambda item: item[1] is not None, map(self._value, OPTIONS.values())))

    def problem(self) -> str:
        """Return what is wrong with the first field that is wrong; empty if none is."""
        try:
            self.values()
        except BadOption as error:
            return str(error)
        return ""

    def _value(self, option: Option) -> tuple[str, Any]:
        value = self._widgets[option.name].value
        if isinstance(value, str):
            value = option.read(value) if value.strip() else None
        return option.name, value if value is None else option.check(value)


def _field(option: Option, me: Me) -> ipywidgets.Widget:
    """Return the widget of an option: one with choices where there are only some, else one to type into."""
    label = LABELS.get(option.name, option.name.replace("_", " ").capitalize())
    about = {"description": label, "tooltip": option.help, "style": STYLE}
    choices = _choices(option, me)
    if choices is not None:
        return ipywidgets.Dropdown(options=choices, value=_first_value(option, choices), **about)
    if option.name == "image":
        known = [image for image in me.images if "*" not in image]
        return ipywidgets.Combobox(options=known, placeholder="as this notebook", **about)
    if option.kind is Kind.WHOLE and option.default is not None:
        return ipywidgets.IntText(option.default, **about)
    placeholder = " ".join(filter(None, [option.default_words, option.example and f"(or {option.example})"]))
    kind = ipywidgets.Textarea if option.kind is Kind.VARIABLES else ipywidgets.Text
    return kind(placeholder=placeholder, **about)


def _choices(option: Option, me: Me) -> list[tuple[str, Any]] | None:
    if option.name == "project":
        return [(choice.name, choice.name) for choice in me.projects]
    if option.kind is Kind.PRIORITY:
        return [(name, name) for name in sorted(me.priorities, key=_number_of(me.priorities))]
    if option.name == "gpu_types":
        return [("any", ""), *((kind, kind) for kind in me.gpu_types)]
    if option.kind is Kind.SWITCH:
        unset = [(option.default_words, None)] if option.default is None else []
        return [*unset, ("yes", True), ("no", False)]
    return None


def _number_of(priorities: Mapping[str, int]) -> Callable[[str], int]:
    return lambda name: priorities[name]


def _first_value(option: Option, choices: list[tuple[str, Any]]) -> Any:
    values = [value for _, value in choices]
    if option.default in values:
        return option.default
    return values[0] if values else None

"""The form's fields for a job's options, made from the table of options; and the parser of the typed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from springtide.scheduler.arguments import Argument, Arguments, is_editable, is_removable, takes_options
from springtide.scheduler.wire import OPTIONS, BadOption, Me, Option, PresetView, ProjectChoice, Surface
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wire.presets import MAX_TYPED, PRESET_OPTIONS, VARIABLES
from springtide.scheduler.wire.submission import Wish, offered
from springtide.scheduler.wire.wrong_values import wrong
from springtide.scheduler.wording import given

COMMON: Final = ("preset", "gpus", "workers", "gpu_types", "project", "priority", "time_limit", "image")
"""The options shown at once, in this order; the others are under "More options"."""
PRESET: Final = "preset"
UNSET_CHOICE: Final = "not set"
MORE_VARIABLES: Final = "Variables that are added, or have another value. The others stay as they were."
HIDDEN_ARGUMENT: Final = (
    "Its value is hidden, because its name is that of a secret. It stays unless another is typed."
)

FIXED_ARGUMENT: Final = "It is sent as it is, and cannot be changed here."


class Choice(msgspec.Struct, frozen=True):
    """A value to choose, and how it reads. The empty value leaves the option at its default."""

    value: str
    words: str


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of the form. Without ``choices`` it is typed into; with ``own`` also another value than the choices.

    ``value`` is what it begins with, ``placeholder`` the default in words if it begins empty.
    """

    name: str
    label: str
    help: str
    kind: str
    common: bool
    value: str = ""
    placeholder: str = ""
    choices: list[Choice] = []
    own: str = ""
    """The label of the choice of another value; empty if there is none."""
    least: int | None = None
    most: int | None = None
    removable: bool = False
    """Whether it can be left out: an option of a command."""
    read_only: bool = False
    """Whether it is only shown: an argument that cannot be changed."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """The form's data about the person who fills it in."""

    name: str
    projects: list[ProjectChoice]
    simulated: bool


class PresetChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A preset of these projects: how it reads, and what it fills into fields, by option.

    ``variables`` are the names of the environment variables that it adds to those that are typed.
    """

    name: str
    words: str
    projects: list[str]
    values: dict[str, str]
    variables: list[str]


class PresetForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields in which a preset is defined."""

    fields: list[Field]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the form: its fields, its person, and the notebooks that can be sent."""

    fields: list[Field]
    arguments: list[Field] = []
    """Those of the job, for a run again. One that cannot be changed is only shown."""
    takes_options: bool = False
    """Whether options can be added to the job's command, for a run again."""
    continues: str = ""
    """The checkpoint from which a run again of a fork continues: ``step 40 of “train”``; empty without one."""
    presets: list[PresetChoice] = []
    """The presets of all of the person's projects; the field ``preset`` offers those of the chosen one."""
    person: Person
    notebooks: list[str]


def form_of(me: Me, notebooks: list[str]) -> Form:
    """Return the form of a person."""
    person = Person(name=me.name, projects=me.projects, simulated=me.simulated)
    presets = [_preset(each) for each in me.presets]
    return Form(fields=_fields(me), presets=presets, person=person, notebooks=notebooks)


def preset_fields(me: Me) -> list[Field]:
    """Return the fields in which a preset is defined. All begin empty: such an option is none of the preset's."""
    return [_unset(field) for field in _fields(me) if field.name in PRESET_OPTIONS]


def _unset(field: Field) -> Field:
    option = OPTIONS[field.name]
    choices = [Choice("", UNSET_CHOICE), *(each for each in field.choices if each.value)] if field.choices else []
    example = f"{UNSET_CHOICE}, such as {option.example}" if option.example else UNSET_CHOICE
    return msgspec.structs.replace(field, value="", placeholder=example, choices=choices)


def _preset(view: PresetView) -> PresetChoice:
    return PresetChoice(
        name=view.name,
        words=": ".join(filter(None, [view.name, view.about or view.text])),
        projects=view.projects,
        values={name: text for name, text in view.values.items() if name != VARIABLES},
        variables=sorted(view.options.get(VARIABLES, {})),
    )


def filled(form: Form, options: Mapping[str, Any]) -> Form:
    """Return the form with these options filled in, as requests carry them; they need no preset any more.

    Variables are left out, and those typed are further ones: values may be secrets, so no page gets them.
    """
    fields = [_filled(field, options) for field in form.fields if field.name != PRESET]
    return msgspec.structs.replace(form, fields=fields, presets=[])


def with_arguments(form: Form, kind: str, argv: Sequence[str], arguments: Arguments) -> Form:
    """Return the form with the job's arguments, for a run again; the values of secrets stay out of it."""
    fields = [
        _argument(name, argument, is_removable(kind, argv, name))
        if is_editable(kind, argv, name, argument)
        else _fixed(name, argument)
        for name, argument in arguments.items()
    ]
    return msgspec.structs.replace(form, arguments=fields, takes_options=takes_options(kind, argv))


def _argument(name: str, argument: Argument, removable: bool) -> Field:
    return Field(
        name=name,
        label=name,
        help=HIDDEN_ARGUMENT if argument.hidden else "",
        kind="text",
        common=True,
        value=argument.text,
        placeholder="unchanged" if argument.hidden else "",
        removable=removable,
    )


def _fixed(name: str, argument: Argument) -> Field:
    return Field(
        name=name,
        label=name,
        help=FIXED_ARGUMENT,
        kind="text",
        common=True,
        value=argument.shown,
        read_only=True,
    )


def _filled(field: Field, options: Mapping[str, Any]) -> Field:
    option = OPTIONS[field.name]
    if option.kind is Kind.VARIABLES:
        return msgspec.structs.replace(field, help=MORE_VARIABLES, placeholder=f"such as {option.example}")
    value = options[field.name]
    unset = value is None or (option.kind is Kind.SWITCH and value == option.default)
    return msgspec.structs.replace(field, value="" if unset else option.text(value))


def typed_options(typed: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the typed options, as requests carry them, and the errors of the others, by name.

    Beside a preset an empty field is an option at its default, which the preset leaves so.
    """
    options: dict[str, Any] = {}
    problems: dict[str, str] = {}
    has_preset = bool(typed.get(PRESET, "").strip())
    for name, text in typed.items():
        if not text.strip() and not has_preset:
            continue
        try:
            option = _option(name)
            value = option.read(text[:MAX_TYPED]) if text.strip() else option.default
            _check_request(option, value)
            options[name] = value
        except BadOption as error:
            problems[error.name] = str(error)
    return options, problems


def _option(name: str) -> Option:
    option = OPTIONS.get(name)
    if option is None or not option.offered & Surface.FORM:
        raise BadOption(name, f"{given(name)} is no option of the form.")
    return replace(option, called=option.title)


def _check_request(option: Option, value: Any) -> None:
    """Raise `BadOption` for a value that no request may carry, such as a tag with a space."""
    try:
        msgspec.convert({option.name: value}, Wish)
    except msgspec.ValidationError as error:
        refusal = wrong(str(error), Wish, {option.name: list(value) if isinstance(value, tuple) else value})
        message = f"{option.called}{refusal.message.removeprefix(option.name)}"
        raise BadOption(option.name, message, refusal.hint) from None


def _fields(me: Me) -> list[Field]:
    hidden = {
        PRESET: not me.presets,
        "gpu_types": len(me.gpu_types) < 2,
        "image": not me.images,
        "datasets": not me.datasets,
        "secrets": not me.secrets,
    }
    shown = [option for option in offered(Surface.FORM) if not hidden.get(option.name)]
    place = {name: at for at, name in enumerate(COMMON)}
    return [_field(option, me) for option in sorted(shown, key=lambda each: place.get(each.name, len(COMMON)))]


def _field(option: Option, me: Me) -> Field:
    choices, own = _choices(option, me)
    begins = {"gpus": "1", "workers": "1"}.get(option.name, choices[0].value if choices else "")
    if option.kind is Kind.PRIORITY:
        begins = option.text(option.default)
    elif option.name == "project" and me.default_project is not None and not _lost_default(me):
        begins = me.default_project
    example = f"such as {option.example}" if option.example else ""
    return Field(
        name=option.name,
        label=option.title,
        help=option.help,
        kind=option.kind.name.lower(),
        common=option.name in COMMON,
        value=begins,
        placeholder=", ".join(filter(None, [option.default_words, example])),
        choices=choices,
        own=own,
        least=None if option.kind is not Kind.WHOLE or option.least is None else int(option.least),
        most=None if option.kind is not Kind.WHOLE or option.most is None else int(option.most),
    )


def _lost_default(me: Me) -> bool:
    """Return whether the default project is none that the person may submit for any more."""
    return me.default_project is not None and all(each.name != me.default_project for each in me.projects)


def _choices(option: Option, me: Me) -> tuple[list[Choice], str]:
    """Return the values to choose from, and the label of any other; nothing for a typed option."""
    default = Choice("", option.default_words)
    if option.name == PRESET:
        return [default], ""
    if option.name == "project":
        own = [Choice(each.name, each.name) for each in me.projects]
        return ([Choice("", "choose one"), *own] if _lost_default(me) else own), ""
    if option.kind is Kind.PRIORITY:
        names = sorted(me.priorities, key=lambda name: me.priorities[name])
        return [Choice(name, f"{name} ({me.priorities[name]})") for name in names], "another number"
    if option.name == "gpu_types":
        return [default, *(Choice(each, each) for each in me.gpu_types)], "several, in order"
    if option.name == "datasets":
        return [default, *(Choice(each, each) for each in me.datasets)], "several"
    if option.name == "secrets":
        return [default, *(Choice(each, each) for each in me.secrets)], "several"
    if option.name == "image":
        return [default, *(Choice(each, each) for each in me.images if "*" not in each)], "another image"
    if option.kind is Kind.SWITCH:
        unset = "yes" if option.default is True else "no" if option.default is False else option.default_words
        return [Choice("", f"{unset} (default)"), Choice("yes", "yes"), Choice("no", "no")], ""
    return [], ""

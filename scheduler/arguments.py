"""The arguments of a job as data: those of a function, a command, a notebook or a trial, by name; pure.

A command's arguments are read from its words as programs usually read them: ``--lr 0.1``, ``--lr=0.1``, flags,
and ``lr=0.1`` as Hydra takes it. Those of functions and notebooks are sent by name.
"""

from __future__ import annotations

import ast
import math
import re
import shlex
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from pathlib import PurePath, PurePosixPath
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from springtide.scheduler.project_tree import OUTSIDE, PLACE, at_submission
from springtide.scheduler.resuming import SHELLS, runs_text
from springtide.scheduler.wording import article, given, is_printable

MAX_ARGUMENTS: Final = 64
"""Maximum number of arguments that are kept of a job."""
MAX_NAME: Final = 128
"""Maximum length of an argument's name, in characters."""
MAX_TEXT: Final = 200
"""Maximum length of an argument's text, in characters: a longer one is shortened."""
MAX_TOTAL: Final = 6_000
"""Maximum length of all names and texts of a job's arguments together, in characters."""
MAX_TYPED: Final = 10_000
"""Maximum length of an argument that is typed for a run again, in characters."""
WHOLE: Final = 1 << 53
"""Bound of the whole numbers that stay numbers: all readers of JSON take these."""
HIDDEN: Final = "…"
"""The text shown in place of a secret in a command."""
CUT: Final = "…"
"""The end of a shortened text."""

Value: TypeAlias = str | int | float | bool | None

_SCRIPT = re.compile(r"[^-].*\.(py|pyc|sh|bash|ipynb|R|jl|pl|rb|js|lua)")
_INTERPRETER = re.compile(r"(python|pypy)[\d.]*|ba?sh|zsh|dash|Rscript|julia|perl|ruby|node|lua")
_LAUNCHER = re.compile(
    r"torchrun|accelerate|deepspeed|horovodrun|mpirun|mpiexec|srun|uv|poetry|pipenv|conda|mamba|micromamba|pixi|hatch"
    r"|pdm|nohup|time|nice|env|stdbuf|numactl|coverage|composer"
)
_LAUNCHING_MODULE = re.compile(
    r"torch\.distributed\.(run|launch)|accelerate\.commands\.launch|deepspeed\.launcher\.runner|cProfile|coverage"
)
_INLINE: Final = frozenset({"-c", "-lc", "-e"})
"""Options of interpreters after which the program itself is written."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,16}")
_OPTION = re.compile(r"--?(?P<name>[A-Za-z_][\w.-]*)(=(?P<value>.*))?", re.DOTALL)
_OVERRIDE = re.compile(r"\+{0,2}(?P<name>[A-Za-z_][\w./@-]*)=(?P<value>.*)", re.DOTALL)
_NEW = re.compile(r"--?[A-Za-z][\w.-]*|\+{1,2}[A-Za-z_][\w./@-]*")
"""Names of options as programs take them."""
_BRACKETS: Final = ("[]", "()")
"""The brackets around lists in commands."""
_SEPARATOR = re.compile(r"[\s,()\[\]{}'\"]")
"""A letter that separates values in a list of a command, or quotes them."""
_STANDS_FOR = re.compile(r"(?i:none|null)|\$?\{.*\}")
"""Texts that mean no value, or one that the program looks up, so that their type is unknown."""
_SWITCHES: Final = {"true": True, "True": True, "false": False, "False": False}
_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|credential|aikey|apikey|accesskey|privatekey|bearer|(?<![a-z])pwd(?![a-z])",
    re.IGNORECASE,
)
"""What names of secrets contain, whatever their value; looked for in the letters of the name as well."""
_SECRET_TEXT_WORDS: Final = frozenset({"token", "tokens", "key", "auth", "pass", "pw"})
"""Words of names that are those of secrets if the value is a text."""
_SECRET_INSIDE = re.compile(
    r"(?:passw|passphrase|pwd|secret|credential|(?:api|access|private)[_-]?key|authorization|(?<![a-z])tokens?(?![a-z]))"
    r"[\w@.-]*[\"'\])]*\s*[:=]\s*[^\s,}\])]|bearer\s+\S|://[^\s/@:]*:[^\s/@]+@",
    re.IGNORECASE,
)
"""A text with a secret in it: ``{password: x}``, ``Bearer x``, an address with a password."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBER_WORDS: Final = "a number"
_SWITCH: Final = "true or false"
_TEXT: Final = "a text"
_PLACED = re.compile(rf"{re.escape(PLACE)}(?:/{re.escape(OUTSIDE)}(?=/)|/?)")
_EDITED_TYPES: Final = frozenset({"", "float", "list", "tuple"})
_RESTORED_TYPES: Final = frozenset({"int", "float", "complex", "bytes", "list", "tuple", "dict", "set"})
_CUT: Final = "..."
"""What stands in the text of a list for values that were left out."""
_FUNCTION = re.compile(r"\s*(?:@.*\n\s*)*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
"""The beginning of a function's source, with decorators of one line."""
_LAMBDA = re.compile(r"\blambda\b")
MAX_PARSED: Final = 20_000
"""Number of characters of a source that are read as Python for its name."""
RUNNER_WORDS: Final = 5
"""Number of words that run a function or a notebook, the last of them its file; arguments that change follow."""


class Argument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of an argument: a number, a text, true, false or none.

    A value of another ``type`` is a short text, and so is a shortened text, whose type is ``text``. ``hidden``
    says that its name is that of a secret: ``value`` is then None.
    """

    value: Value
    type: str = ""
    hidden: bool = False

    @property
    def text(self) -> str:
        """The value as people read and type it; empty for a hidden one."""
        if self.hidden:
            return ""
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)

    @property
    def shown(self) -> str:
        """The value as tables show it, 1.0 as 1: equal numbers are equal texts."""
        if isinstance(self.value, float) and self.value.is_integer() and abs(self.value) <= WHOLE:
            return str(int(self.value))
        return "hidden" if self.hidden else self.text

    @property
    def restored(self) -> Any:
        """The value as it was given, if that is known: a list is a list again, unless its text was shortened."""
        if self.hidden or not isinstance(self.value, str) or self.type not in _RESTORED_TYPES:
            return self.shown if self.hidden else self.value
        try:
            value = literal(self.value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return self.value
        return value if type(value).__name__ == self.type else self.value


class _Unwritten(ast.NodeTransformer):
    """Replaces the names of numbers that have no literal."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(float(node.id)) if node.id in {"nan", "inf"} else node


Parameter: TypeAlias = str | int | float | bool | Argument | None
"""A parameter of a trial: a plain value, or the text and the type of one that JSON cannot express."""
Arguments: TypeAlias = Mapping[str, Argument]
"""Arguments by name, in their order."""
Typed: TypeAlias = Mapping[str, str | None]
"""Arguments that change, as people type them, by name; None for an option of a command that is removed."""


class BadArgument(Exception):  # noqa: N818 - like `BadOption`
    """An argument that cannot be changed like this: ``name``, and ``message`` and ``hint`` in sentences."""

    def __init__(self, name: str, message: str, hint: str) -> None:
        super().__init__(f"{message} {hint}")
        self.name = name
        self.message = message
        self.hint = hint


class _Form(Enum):
    FLAG = auto()
    """``--amp``."""
    NEXT = auto()
    """``--lr 0.1``: the words after the option."""
    JOINED = auto()
    """``--lr=0.1`` and ``lr=0.1``."""
    PLACE = auto()
    """A word by itself."""


class _Found(NamedTuple):
    """An argument in a command: its name, its texts, and the place of its first word."""

    name: str
    texts: tuple[str, ...]
    place: int
    form: _Form

    @property
    def followed(self) -> int:
        """The number of words after the first that belong to it."""
        return len(self.texts) if self.form is _Form.NEXT else 0


def arguments_of(kind: str, argv: Sequence[str], sent: Arguments) -> dict[str, Argument]:
    """Return the arguments of a submission: those of a command's words, else those ``sent`` with it.

    Names are plain and each is there once, texts are short, and secrets are hidden.
    """
    return bounded(of_command(argv) if kind == "command" else sent)


def of_command(argv: Sequence[str]) -> dict[str, Argument]:
    """Return the arguments in the words of a command, by name."""
    found: dict[str, list[_Found]] = {}
    for each in _found(argv):
        found.setdefault(each.name, []).append(each)
    return {name: _value(several) for name, several in found.items()}


def of_values(values: Mapping[str, Parameter]) -> dict[str, Argument]:
    """Return the parameters of a trial as arguments."""
    return bounded({name: argument_of(value) for name, value in values.items()})


def argument_of(value: Parameter) -> Argument:
    """Return a parameter of a trial as an argument."""
    return value if isinstance(value, Argument) else Argument(value=value)


def bounded(arguments: Arguments) -> dict[str, Argument]:
    """Return as many of the arguments as are kept, with short texts, and without the values of secrets."""
    kept: dict[str, Argument] = {}
    total = 0
    for name, argument in arguments.items():
        if not 0 < len(name) <= MAX_NAME or not is_printable(name):
            continue
        short = _short(name, argument)
        total += len(name) + len(short.type) + (len(short.value) if isinstance(short.value, str) else 0)
        if len(kept) == MAX_ARGUMENTS or total > MAX_TOTAL:
            break
        kept[name] = short
    return kept


def _short(name: str, argument: Argument) -> Argument:
    value, kind = argument.value, argument.type[:MAX_NAME]
    if argument.hidden or is_secret(name, value):
        return Argument(value=None, hidden=True)
    if isinstance(value, float) and not math.isfinite(value):
        return Argument(value=str(value), type="float")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > WHOLE:
        value, kind = str(value) if abs(value) < 1 << 256 else "a large number", "int"
    if isinstance(value, str):
        text = "".join(letter if is_printable(letter) else " " for letter in value[: MAX_TEXT + 1])
        if len(text) > MAX_TEXT:
            return Argument(value=f"{text[: MAX_TEXT - 1]}{CUT}", type=kind or "text")
        value = text
    return Argument(value=value, type=kind if is_printable(kind) else "")


def is_secret(name: str, value: object) -> bool:
    """Return whether an argument is taken for a secret, by its name or by its text.

    Names with words such as token, key or auth are secrets if the value is a text: ``max_tokens=512`` is none.
    """
    if value is None or isinstance(value, bool):
        return False
    if _names_secret(name):
        return True
    if not isinstance(value, str):
        return False
    words = {word.lower() for word in _WORDS.findall(name)}
    return bool(words & _SECRET_TEXT_WORDS) or _SECRET_INSIDE.search(value) is not None


def _names_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name) or _SECRET_NAME.search(re.sub(r"[^A-Za-z]", "", name)))


def program_words(kind: str, argv: Sequence[str]) -> Sequence[str]:
    """Return the words of a job before its arguments."""
    return argv[: _first(argv) if kind == "command" else RUNNER_WORDS]


def shown_words(kind: str, argv: Sequence[str], source: str) -> Sequence[str]:
    """Return the words of a job as people see them.

    Those of a function are ``function`` and its name instead of its runner, those of a cell ``cell``.
    """
    return _words_of_code(source) if kind == "function" and runs_function(argv) else argv


def typed_words(argv: Sequence[str], root: str | None) -> list[str]:
    """Return the words with paths of the project with this root, as they were typed, for those of its copy."""
    return list(argv) if root is None else [at_submission(word, root) for word in argv]


def _words_of_code(source: str) -> list[str]:
    """Return the words for a function with this source; a lambda comes with the statement that has it."""
    text = textwrap.dedent(source)
    begins = _FUNCTION.match(text)
    try:
        with warnings.catch_warnings(action="ignore"):
            statements = ast.parse(text[:MAX_PARSED]).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        statements = []
    match statements:
        case [ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name)]:
            return ["function", name]
        case [_, _, *_]:
            return ["cell"]
        case [] if begins is not None:
            return ["function", begins[1]]
        case [one] if not any(isinstance(node, ast.Lambda) for node in ast.walk(one)):
            return ["cell"]
    return ["lambda" if _LAMBDA.search(text) else "function"]


def runs_function(argv: Sequence[str]) -> bool:
    """Return whether the words run a pickled function, rather than a cell or a program."""
    return list(argv[1 : RUNNER_WORDS - 1]) == ["-m", "springtide.training.run", "function"]


def file_run(argv: Sequence[str]) -> str:
    """Return the name of the file of a function or a notebook."""
    return PurePosixPath(argv[:RUNNER_WORDS][-1]).name


def without_secrets(argv: Sequence[str]) -> list[str]:
    """Return the words of a command with the values of secrets left out."""
    words = list(argv)
    for place, word in enumerate(program_words("command", argv)):
        name, equals, text = word.partition("=")
        if equals and is_secret(name, text):
            words[place] = f"{name}={HIDDEN}"
    for each in _found(argv):
        value = None if each.form is _Form.FLAG else _value([each]).value
        if not is_secret(each.name, value):
            continue
        if each.form is _Form.JOINED:
            head = words[each.place].partition("=")[0]
            words[each.place] = f"{head}={HIDDEN}"
        elif each.form is _Form.PLACE:
            words[each.place] = HIDDEN
        else:
            for place in range(each.place + 1, each.place + 1 + each.followed):
                words[place] = HIDDEN
    return words


def without_secrets_in_text(command: str) -> str:
    """Return a command as text with the values of secrets left out; text that is no command stays."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    shown = without_secrets(words)
    return command if shown == words else shlex.join(shown)


def without_secrets_in_words(words: str) -> str:
    """Return words that are added to a command, as text, with the values of secrets left out."""
    program = "program"
    return without_secrets_in_text(f"{program} {words}").removeprefix(f"{program} ")


def _value(found: Sequence[_Found]) -> Argument:
    if len(found) > 1:
        return Argument(
            value=" ".join(text for each in found for text in each.texts) or str(len(found)), type="list"
        )
    each = found[0]
    if each.form is _Form.FLAG:
        return Argument(value=True)
    if len(each.texts) > 1:
        return Argument(value=" ".join(each.texts), type="list")
    return Argument(value=read(_PLACED.sub("", each.texts[0], count=1)))


def read(text: str) -> Value:
    """Return the value of a word: a number, true, false, or the text itself."""
    if text in _SWITCHES:
        return _SWITCHES[text]
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if len(text) <= MAX_NAME and _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


def _found(argv: Sequence[str]) -> Iterator[_Found]:
    """Yield the arguments of a command in their order."""
    place, unnamed = _first(argv), 0
    while place < len(argv):
        word = argv[place]
        option, override = _OPTION.fullmatch(word), _OVERRIDE.fullmatch(word)
        if option is not None and not _NUMBER.fullmatch(word):
            name = option["name"].replace("-", "_")
            if option["value"] is not None:
                yield _Found(name, (option["value"],), place, _Form.JOINED)
            else:
                texts = _words_after(argv, place + 1) if _names_secret(name) else _values_after(argv, place + 1)
                yield _Found(name, texts, place, _Form.NEXT if texts else _Form.FLAG)
                place += len(texts)
        elif override is not None:
            yield _Found(override["name"], (override["value"],), place, _Form.JOINED)
        elif word != "--":
            unnamed += 1
            yield _Found(f"argument {unnamed}", (word,), place, _Form.PLACE)
        place += 1


def _values_after(argv: Sequence[str], place: int) -> tuple[str, ...]:
    """Return the value of an option: the word after it, and further numbers after a number."""
    texts: list[str] = []
    while place < len(argv) and _is_value(argv[place]):
        is_number = _NUMBER.fullmatch(argv[place]) is not None
        if texts and not (is_number and _NUMBER.fullmatch(texts[0])):
            break
        texts.append(argv[place])
        place += 1
    return tuple(texts)


def _words_after(argv: Sequence[str], place: int) -> tuple[str, ...]:
    """Return the values of an option for a secret: all words to the next option; the first may have a dash."""
    begins = argv[place : place + 1]
    texts = list(begins) if begins and begins[0].startswith("-") and not begins[0].startswith("--") else []
    for word in argv[place + len(texts) :]:
        if not _is_value(word):
            break
        texts.append(word)
    return tuple(texts)


def _is_value(word: str) -> bool:
    if word.startswith("-"):
        return word == "-" or _NUMBER.fullmatch(word) is not None
    return _OVERRIDE.fullmatch(word) is None


def _first(argv: Sequence[str]) -> int:
    """Return the place of the first word that is the program's own, after interpreters and launchers."""
    program = PurePosixPath(argv[0]).name if argv else ""
    interpreter = program if _INTERPRETER.fullmatch(program) else ""
    if not (interpreter or _LAUNCHER.fullmatch(program)):
        return 1
    place = 1
    while place < len(argv):
        word = argv[place]
        if not interpreter and _INTERPRETER.fullmatch(name := PurePosixPath(word).name):
            interpreter = name
        if interpreter and word in _INLINE:
            return len(argv) if interpreter in SHELLS else min(place + 2, len(argv))
        if interpreter and word == "-m" and place + 1 < len(argv):
            if not _LAUNCHING_MODULE.fullmatch(argv[place + 1]):
                return place + 2
            place += 1
        elif _SCRIPT.fullmatch(word):
            return place + 1
        place += 1
    return next((at + 1 for at, word in enumerate(argv) if at and not word.startswith("-")), 1)


# ---------- changes


def is_editable(kind: str, argv: Sequence[str], name: str, argument: Argument) -> bool:
    """Return whether an argument can be changed for a run again."""
    if kind == "command":
        return sum(each.name == name for each in _found(argv)) == 1
    text = str(argument.value)
    whole = argument.type == "" or (_CUT not in text and is_literal(text))
    return name.isidentifier() and argument.type in _EDITED_TYPES and whole


def is_removable(kind: str, argv: Sequence[str], name: str) -> bool:
    """Return whether an argument can be left out of a run again: an option of a command."""
    found = [each for each in _found(argv) if each.name == name] if kind == "command" else []
    return len(found) == 1 and found[0].form is not _Form.PLACE


def takes_options(kind: str, argv: Sequence[str]) -> bool:
    """Return whether options can be added for a run again."""
    return kind == "command" and not runs_text(argv)


def changed(
    kind: str, argv: Sequence[str], arguments: Arguments, typed: Typed
) -> tuple[list[str], dict[str, Argument]]:
    """Return the words and the arguments of a job with other arguments, given as people type them.

    Those of a command may be named as it takes them; an option that it does not have is added: ``--decay``, or
    ``+decay`` as Hydra takes it; one that is None is removed. A text in quotes loses them. Raises
    `BadArgument` for one that the job does not have, that cannot be changed, or that is no such value.
    """
    for name, text in typed.items():
        _check_text(name, text)
    if kind == "command":
        words = list(argv)
        for name, text in typed.items():
            words = _without(words, name) if text is None else _with_option(words, name, text)
        return words, arguments_of(kind, words, {})
    words, after = list(argv), dict(arguments)
    for name, text in typed.items():
        if name not in arguments or not is_editable(kind, argv, name, arguments[name]):
            raise _refused(kind, argv, arguments, name)
        if text is None:
            raise BadArgument(name, f"A {kind} always has its argument {name}.", "Give it another value.")
        value = typed_value(name, arguments[name], text)
        words = with_value(words, name, value)
        plain = value is None or isinstance(value, str | int | float | bool)
        after[name] = Argument(value=value) if plain else Argument(value=repr(value), type=type(value).__name__)
    return words, bounded(after)


def with_value(argv: Sequence[str], name: str, value: Any) -> list[str]:
    """Return the words of a function or a notebook with another value of an argument, a literal of Python."""
    return [word for word in argv if not word.startswith(f"{name}=")] + [f"{name}={value!r}"]


def typed_of(kind: str, arguments: Arguments, values: Mapping[str, Any]) -> dict[str, str | None]:
    """Return values of Python as people type them for a job with these arguments; None removes that of a command.

    Raises `BadArgument` for a value that cannot be typed.
    """
    known = {name: arguments.get(_plain_name(name) if kind == "command" else name) for name in values}
    typed = {
        name: None if value is None and kind == "command" else _typed(kind, known[name], name, value)
        for name, value in values.items()
    }
    for name, text in typed.items():
        _check_text(name, text)
    return typed


def _check_text(name: str, text: str | None) -> None:
    """Raise `BadArgument` for a typed value that no run again can take."""
    shown = given(name, MAX_NAME)
    if text is not None and len(text) > MAX_TYPED:
        message = f"The value of {shown} has {len(text):,} characters; at most {MAX_TYPED:,} can be given here."
        raise BadArgument(name, message, "Save it to a file and give its path, or submit the program anew.")
    if text is not None and "\0" in text:
        message = f"The value of {shown} has a NUL character, which words of a program cannot have."
        raise BadArgument(name, message, "Leave it out, or save the value to a file and give its path.")


def _typed(kind: str, before: Argument | None, name: str, value: Any) -> str:
    if isinstance(value, Enum):
        value = value.value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, PurePath):
        value = str(value)
    if isinstance(value, str):
        return _quoted(value) if kind == "command" or before is None or _is_text(before) else repr(value)
    if kind == "command" and isinstance(value, list | tuple):
        return _list_of_command(before, name, value)
    text = repr(value)
    if is_literal(text):
        if before is not None and _is_text(before) and not isinstance(value, bool | int | float):
            raise _other_type(name, before.shown, _TEXT, text, _type_words(value))
        return text
    message = f"The argument {given(name, MAX_NAME)} is {article(type(value).__name__)}, {given(text)}."
    hint = "Give a number, a text, a bool, None, or a list or dictionary of nothing but these."
    raise BadArgument(name, message, hint)


def _list_of_command(before: Argument | None, name: str, values: Sequence[Any]) -> str:
    """Return a list in the form in which a command has one: ``3 4``, ``3,4`` or ``[3,4]``.

    Raises `BadArgument` if it has none, and for values that would not be read as they are.
    """
    if before is not None and before.type == "list":
        return shlex.join(map(str, values))
    text = before.text if before is not None else ""
    ends = next((ends for ends in _BRACKETS if text.startswith(ends[0]) and text.endswith((ends[1], CUT))), "")
    if before is None:
        message = (
            f"{given(str(values))} is a list, and the command has no {given(name, MAX_NAME)} that shows its form."
        )
        raise BadArgument(name, message, "Give a text as the program takes it, such as '3,4'.")
    if not ends and ("," not in text or not values):
        raise _other_type(name, before.shown, _type_words(before.restored), str(values), article("list"))
    is_python = bool(ends) and is_literal(text)
    items = [repr(value) if is_python else str(value) for value in values]
    if odd := [item for item in items if not is_python and _SEPARATOR.search(item)]:
        message = (
            f"{name} was {given(before.shown, MAX_TEXT)}; {given(odd[0])} would not stay one value in such a list."
        )
        raise BadArgument(name, message, "Give the whole list as a text.")
    listed = (", " if ", " in text else ",").join(items)
    return f"{ends[0]}{listed}{ends[1]}" if ends else listed


def _is_text(argument: Argument) -> bool:
    """Return whether a typed value for an argument of a function or a notebook is a text as it is."""
    return argument.hidden or (isinstance(argument.value, str) and not argument.type)


def _refused(
    kind: str, argv: Sequence[str], arguments: Arguments, name: str, *, adds: bool = False
) -> BadArgument:
    shown = given(name, MAX_NAME)
    names = [each for each in arguments if is_editable(kind, argv, each, arguments[each])]
    hint = f"Known are: {', '.join(names)}." if names else "Submit it again with other arguments."
    if name in arguments:
        return BadArgument(name, f"The argument {shown} of this job cannot be changed here.", hint)
    if adds:
        hint += f" An option that it does not have yet is named as the program takes it, such as --{name}."
    return BadArgument(name, f"{shown} is no argument of this job.", hint)


def _plain_name(name: str) -> str:
    """Return the name of an argument of a command that may be named as the command takes it: ``--max-lr``."""
    named = name.lstrip("-+")
    return named.replace("-", "_") if name.startswith("-") else named


def _with_option(argv: Sequence[str], name: str, text: str) -> list[str]:
    """Return a command in which an argument has another value, or is added if it is named like an option."""
    plain = _plain_name(name)
    found = [each for each in _found(argv) if each.name == plain]
    if len(found) == 1:
        return _changed_words(argv, found[0], text)
    if found or name[:1] not in {"-", "+"} or not _NEW.fullmatch(name):
        raise _refused("command", argv, of_command(argv), plain, adds=True)
    if runs_text(argv):
        message = f"{given(argv[0])} runs a text here, which has no options."
        raise BadArgument(name, message, "Give the whole command.")
    if name.startswith("+"):
        return [*argv, f"{name}={_unquoted(text)}"]
    return [*argv, name] if _SWITCHES.get(text) is True else [*argv, name, _plain(name, _unquoted(text))]


def _changed_words(argv: Sequence[str], each: _Found, text: str) -> list[str]:
    before, word, after = list(argv[: each.place]), argv[each.place], argv[each.place + 1 + each.followed :]
    if each.form is _Form.FLAG:
        words = [word] if _switch(each.name, text) else []
    elif each.form is _Form.JOINED:
        words = [f"{word.partition('=')[0]}={_of_one_type(each, _unquoted(text))}"]
    elif each.form is _Form.PLACE:
        words = [_of_one_type(each, _plain(each.name, _unquoted(text)))]
    else:
        several = _split(each.name, text) if len(each.texts) > 1 else [_unquoted(text)]
        words = [word, *(_of_one_type(each, _plain(each.name, one)) for one in several)]
    return [*before, *words, *after]


def _without(argv: Sequence[str], name: str) -> list[str]:
    """Return a command without an option. Raises `BadArgument` if it has not this one alone."""
    plain = _plain_name(name)
    found = [each for each in _found(argv) if each.name == plain]
    if len(found) != 1:
        raise _refused("command", argv, of_command(argv), plain)
    (each,) = found
    if each.form is _Form.PLACE:
        message = f"{given(plain, MAX_NAME)} is a word by itself: without it, other words would take its place."
        raise BadArgument(name, message, "Give it another value, or submit the command anew.")
    return [*argv[: each.place], *argv[each.place + 1 + each.followed :]]


def _unquoted(text: str) -> str:
    """Return the value of a typed text: one in quotes is the text between them, as in a shell."""
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "'\"":
        return text
    try:
        words = shlex.split(text)
    except ValueError:
        return text
    return words[0] if len(words) == 1 else text


def _quoted(text: str) -> str:
    """Return a text as it is typed: in quotes if it would lose its own."""
    return text if _unquoted(text) == text else shlex.quote(text)


def _of_one_type(each: _Found, text: str) -> str:
    """Return the new value of an argument of a command. Raises `BadArgument` for a text in place of a number."""
    before, after = _type_words(read(each.texts[0])), _type_words(read(text))
    is_same = before in {_TEXT, after} or (before == _NUMBER_WORDS and is_number(text))
    if not is_same and not _STANDS_FOR.fullmatch(text):
        raise _other_type(each.name, " ".join(each.texts), before, text, after)
    return text


def is_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _type_words(value: object) -> str:
    """Return the type of a value in words: the types that a program would confuse are different ones."""
    if isinstance(value, bool):
        return _SWITCH
    if isinstance(value, int | float):
        return _NUMBER_WORDS
    return _TEXT if isinstance(value, str) else article(type(value).__name__)


def _other_type(name: str, shown: str, before: str, text: str, after: str) -> BadArgument:
    message = f"{name} was {given(shown, MAX_TEXT)}, {before}; {given(text)} is {after}."
    return BadArgument(name, message, f"Write {before}, or submit the program anew for another type.")


def _switch(name: str, text: str) -> bool:
    now = {"true": True, "yes": True, "false": False, "no": False}.get(text.strip().lower())
    if now is None:
        raise BadArgument(
            name, f"{name} is a flag; {given(text)} is neither true nor false.", "Write true or false."
        )
    return now


def _split(name: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words:
        raise BadArgument(name, f"{given(text)} is no list of words.", "Write the values with spaces between.")
    return words


def _plain(name: str, text: str) -> str:
    if text.startswith("-") and not _NUMBER.fullmatch(text) and text != "-":
        message = f"{given(text)} would be read as an option, not as the value of {name}."
        raise BadArgument(name, message, "Write a value that does not begin with a minus.")
    return text


def typed_value(name: str, before: Argument, text: str) -> Any:
    """Return the value typed for an argument of a function or a notebook: text for a text, else as in Python.

    Raises `BadArgument` for one of another type than the value ``before``.
    """
    if _is_text(before):
        return _unquoted(text)
    word = text.strip()
    if word in _SWITCHES:
        return _as_before(name, before, _SWITCHES[word])
    if not is_literal(word):
        before_words = _type_words(before.restored)
        if before_words in {_NUMBER_WORDS, _SWITCH}:
            raise _other_type(name, before.shown, before_words, text, _TEXT)
        message = f"{name} was {given(before.shown, MAX_TEXT)}; {given(text)} is no value of Python."
        hint = "Write a number, true, false, 'text' in quotes, or a list: [1, 2]."
        raise BadArgument(name, message, hint)
    return _as_before(name, before, literal(word))


def _as_before(name: str, before: Argument, value: Any) -> Any:
    """Return a value in place of one of the same type, read from a text if it has to be.

    Raises `BadArgument` for a value of another type. Anything may follow None and come before it.
    """
    if isinstance(value, str) and not isinstance(before.restored, str):
        text = value.strip()
        value = literal(text) if is_literal(text) else _SWITCHES.get(text, value)
    types, after = _type_words(before.restored), _type_words(value)
    lists = {article("list"), article("tuple")}
    if before.value is None or value is None or types == after or {types, after} == lists:
        return value
    raise _other_type(name, before.shown, types, str(value), after)


def is_literal(text: str) -> bool:
    """Return whether a text is a value of Python, which its own text gives again: not ``...``."""
    try:
        literal(repr(literal(text)))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def literal(text: str) -> Any:
    """Return the value of Python in a text; ``nan`` and ``inf`` are numbers.

    Raises `ValueError`, `SyntaxError`, `TypeError`, `MemoryError` or `RecursionError` for anything else.
    """
    return ast.literal_eval(_Unwritten().visit(ast.parse(text.strip(), mode="eval")))

"""The step from bytes to plain data: JSON or YAML without ambiguous content."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from springtide.scheduler.wording import given

MAX_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 16
_OTHER_BASE = re.compile(r"[-+]?(0[0-7_]|.*:)")
YAML_SUFFIXES = frozenset({".yaml", ".yml"})


class ScenarioError(ValueError):
    """An unusable file; the message names the file, the field and the expected value."""

    def __init__(self, file: str, field: str, message: str) -> None:
        text = f"{file}: {field}: {message}" if field else f"{file}: {message}"
        super().__init__("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text))
        self.file = file
        self.field = field


def load(path: Path, shown: str, most: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file, at most ``most``. Raises `ScenarioError`, naming the file as ``shown``."""
    try:
        if not path.is_file():
            raise ScenarioError(shown, "", "no such file" if not path.exists() else "expected a plain file")
        check_size(path.stat().st_size, shown, most)
        return path.read_bytes()
    except OSError as error:
        raise ScenarioError(shown, "", f"cannot be read: {error.strerror}") from error


def check_size(size: int, shown: str, most: int) -> None:
    """Raise `ScenarioError` for content of more than ``most`` bytes."""
    if size > most:
        raise ScenarioError(shown, "", f"expected at most {most} bytes, got {size}")


def decode(raw: bytes, shown: str, *, as_yaml: bool) -> Any:
    """Return the data of a JSON or YAML document.

    NaN and infinities are kept; the check of their field rejects them. Raises `ScenarioError` for bytes that are
    not UTF-8, syntax errors, duplicate keys, YAML aliases and documents nested too deeply.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScenarioError(shown, "", f"expected UTF-8 text, got byte 0x{raw[error.start]:02x}") from error
    return _from_yaml(text, shown) if as_yaml else _from_json(text, shown)


def _from_json(text: str, shown: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ScenarioError(shown, key, "given twice in the same object, expected once")
            found[key] = value
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ScenarioError(
            shown, f"line {error.lineno}, column {error.colno}", f"expected JSON: {error.msg}"
        ) from error
    except RecursionError as error:
        raise ScenarioError(shown, "", "nested too deeply") from error
    except ScenarioError:
        raise
    except ValueError as error:  # a number with thousands of digits
        raise ScenarioError(shown, "", f"expected ordinary numbers: {error}") from error


class _Loader(yaml.SafeLoader):
    """Safe YAML loader that rejects duplicate keys in a mapping, and numbers to other bases than they look."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if _OTHER_BASE.match(node.value):
            message = f"{node.value} is a number to base 8 or 60; write it to base 10, or a text in quotes"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
        return super().construct_yaml_int(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {given(key)} is given twice", key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def _from_yaml(text: str, shown: str) -> Any:
    try:
        _check_yaml_shape(text, shown)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ScenarioError(shown, where, f"expected YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(shown, "", f"expected YAML: {' '.join(str(error).split())}") from error
    except ScenarioError:
        raise
    except ValueError as error:  # an impossible date, or a number with thousands of digits
        raise ScenarioError(shown, "", f"expected ordinary values: {error}") from error


def _check_yaml_shape(text: str, shown: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        where = f"line {event.start_mark.line + 1}" if event.start_mark else ""
        if isinstance(event, yaml.AliasEvent):
            raise ScenarioError(shown, where, f"alias *{event.anchor}: expected every value written out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ScenarioError(shown, where, f"expected at most {MAX_DEPTH} levels of nesting")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1

"""The names that a notebook defined, in ``__main__`` of a job and of the processes that the job starts.

A payload is a stream of pickles that share a memo. It has two parts, the function and the rest of its call, each
followed by dictionaries of the notebook's functions and classes in it by name, the last of which is empty.
In the job these are attributes of ``__main__``, so that pickle finds them as it does in the notebook. A process
that `multiprocessing` starts without a fork runs the file `MAIN` beside the payload, as it would run a script.
That defines nothing by itself: it loads the payload once a name is asked for, and runs the definitions of a cell,
but none of the work. Functions and classes of the user's own modules become attributes of these in the same way.
"""

from __future__ import annotations

import builtins
import functools
import io
import pickle
import sys
import typing
from contextlib import suppress
from pathlib import Path
from threading import RLock
from types import FunctionType, ModuleType
from typing import Any, BinaryIO, Callable, Dict, Optional, Tuple

from springtide.training.own_modules import variables_of

PAYLOAD = "payload.pkl"
MAIN = "payload_main.py"
"""File name of `MAIN_TEXT`, beside the payload."""
MAIN_TEXT = '''"""``__main__`` of the processes of this job: the names that its notebook defined."""

from springtide.training.names import names_beside

__getattr__ = names_beside(__file__)
'''
PARTS = 2
"""Number of the parts of a payload."""
MAX_DEFINITION = 16 << 20
"""Maximum size of a class or function that is sent with a result that has an object of it, in bytes."""
CACHED = type(functools.lru_cache(len))
"""The type of functions with a cache."""
_KINDS = ("NewType", "ParamSpec", "TypeAliasType", "TypeVar", "TypeVarTuple")
TYPING: Tuple[type, ...] = tuple(
    kind for kind in (getattr(typing, name, None) for name in _KINDS) if isinstance(kind, type)
)
"""The types of `typing` whose objects pickle knows by their name only."""
NAMED: Tuple[type, ...] = (type, FunctionType, CACHED, *TYPING)
"""The types of objects that pickle finds by their name."""


class Payload:
    """The content of a payload, loaded as far as it is asked for.

    ``defines`` is true in a process that does not call the function: it then runs the definitions of a cell.
    """

    def __init__(self, path: Path, *, defines: bool = False) -> None:
        self._path = path
        self._defines = defines
        self._lock = RLock()
        self._file: Optional[BinaryIO] = None
        self._unpickler: Optional[pickle.Unpickler] = None
        self._parts: Tuple[Any, ...] = ()
        self._is_loading = False

    @property
    def function(self) -> Callable[..., Any]:
        """The function."""
        function: Callable[..., Any] = self._part(0)
        return function

    @property
    def call(self) -> Dict[str, Any]:
        """The rest of the call, such as its arguments."""
        call: Dict[str, Any] = self._part(1)
        return call

    def find(self, name: str) -> Any:
        """Return what the notebook calls ``name``. Raises `AttributeError` if the payload has no such name."""
        with self._lock:
            while name not in namespace() and len(self._parts) < PARTS and not self._is_loading:
                self._load_part()
            if name in namespace():
                return namespace()[name]
        msg = (
            f"this job has nothing called {name!r} from the notebook: it has the functions and classes that the "
            "submitted one uses, and those that it defines itself"
        )
        raise AttributeError(msg)

    def _part(self, number: int) -> Any:
        with self._lock:
            while len(self._parts) <= number:
                self._load_part()
            return self._parts[number]

    def _load_part(self) -> None:
        if self._file is None:
            self._file = self._path.open("rb")  # closed with its second part
        if self._unpickler is None:
            self._unpickler = pickle.Unpickler(self._file)  # noqa: S301 - it runs with the rights of its sender
        self._is_loading = True
        try:
            part = self._unpickler.load()
            names = self._unpickler.load()
            while names:
                _define(names)
                names = self._unpickler.load()
        finally:
            self._is_loading = False
        self._parts = (*self._parts, part)
        if self._defines and hasattr(part, "define"):
            part.define()
        if len(self._parts) == PARTS:
            self._file.close()
            self._unpickler = None  # and with it all objects that it remembers


def _define(names: Dict[str, Dict[str, Any]]) -> None:
    """Give functions and classes their names in their modules, those in a class their qualified ones."""
    for module, values in names.items():
        for name, value in values.items():
            if "." in name:
                value.__qualname__ = name
            else:
                namespace(module)[name] = value


def display(*objects: Any, **options: Any) -> None:
    """Show objects as code of a notebook does: in the job's log, by IPython where the job has it."""
    try:
        from IPython.display import display as show  # noqa: PLC0415 - it may be missing, and takes long
    except ImportError:
        print(*objects)  # noqa: T201 - the job's log
    else:
        show(*objects, **options)  # type: ignore[no-untyped-call]


def add_builtins() -> None:
    """Give the code of a notebook what IPython adds to Python's built-in functions and a job can have."""
    if not hasattr(builtins, "display"):
        builtins.display = display  # type: ignore[attr-defined]


def become_main(path: Path) -> Payload:
    """Make ``__main__`` of this process that of the payload's notebook, and return the payload."""
    payload = Payload(path)
    add_builtins()
    main = ModuleType("__main__")
    main.__file__ = str(path.resolve().with_name(MAIN))
    vars(main)["__getattr__"] = _finder(payload)
    vars(main)["__builtins__"] = __builtins__
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main  # the second for classes of started processes
    return payload


def names_beside(file: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a main module that has the names of the payload beside ``file``."""
    add_builtins()
    return _finder(Payload(Path(file).with_name(PAYLOAD), defines=True))


def _finder(payload: Payload) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        if name.startswith("__"):
            msg = f"module '__main__' has no attribute {name!r}"
            raise AttributeError(msg)
        return payload.find(name)

    return find


class Namespace(Dict[str, Any]):
    """Replaces the variables of a module while they are pickled; loaded, it is those of the job's module."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self._module = module

    def __reduce__(self) -> Tuple[Any, ...]:
        return namespace, (self._module,)


def namespace(module: str = "__main__") -> Dict[str, Any]:
    """Return the variables of ``__main__`` or of a module of the user's."""
    return vars(sys.modules[module]) if module == "__main__" else variables_of(module)


def name_of(value: Any, variables: Dict[str, Any], module: str = "__main__") -> str:
    """Return the qualified name by which the variables of a module have a function, class or type variable.

    Empty for anything else, also for one whose name means another object.
    """
    if not isinstance(value, NAMED) or getattr(value, "__module__", None) != module:
        return ""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(name, str) or not name:
        return ""
    return name if _named(name, variables) is value else ""


def _named(name: str, variables: Dict[str, Any]) -> Any:
    first, *rest = name.split(".")
    value = variables.get(first)
    for word in rest:
        value = getattr(value, word, None)
    return value


def cached(function: Callable[..., Any], maxsize: Optional[int], typed: bool) -> Any:
    """Return the function with an empty cache, as `functools.lru_cache` makes it."""
    return functools.lru_cache(maxsize=maxsize, typed=typed)(function)


def typed(kind: str, name: str, arguments: Tuple[Any, ...], options: Dict[str, Any]) -> Any:
    """Return an object of `typing` that pickle knows by its name only, such as a `NewType`, of ``__main__``."""
    made = getattr(typing, kind)(name, *arguments, **options)
    with suppress(AttributeError):  # an alias of a type has its own
        made.__module__ = "__main__"
    return made


def of_notebook(name: str, definition: Optional[bytes]) -> Any:
    """Return a function or class of the notebook of a result: that of this ``__main__``, otherwise as it was sent.

    Raises `AttributeError` if there is neither.
    """
    found = _named(name, namespace())
    if found is not None:
        return found
    if definition is None:
        msg = f"{name!r} of the job's notebook is not defined here"
        raise AttributeError(msg)
    if definition not in _SENT:
        _SENT[definition] = pickle.loads(definition)  # noqa: S301 - a part of a result that is being loaded
    return _SENT[definition]


_SENT: Dict[bytes, Any] = {}


def result_dumps(result: Any) -> bytes:
    """Return a result as a pickle that can be loaded in the notebook, and where its classes are not defined.

    Raises whatever the pickling of the result raises.
    """
    try:
        import cloudpickle  # noqa: PLC0415 - only payloads of notebooks require it
    except ModuleNotFoundError:
        return pickle.dumps(result)

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            name = name_of(value, namespace())
            if name:
                return of_notebook, (name, _definition(value, cloudpickle.dumps))
            return super().reducer_override(value)

    file = io.BytesIO()
    Pickler(file).dump(result)
    return file.getvalue()


def _definition(value: Any, dumps: Callable[[Any], bytes]) -> Optional[bytes]:
    """Return a function or class pickled by value, None if it is large or cannot be."""
    try:
        definition = dumps(value)
    except Exception:  # noqa: BLE001 - it may use anything
        return None
    return definition if len(definition) <= MAX_DEFINITION else None

"""The steps of the tutorial, read from its own text, and a newcomer who does them in a browser.

In the text ``**Name**`` is a button, link or menu entry to press, or the field that a value is typed into;
``*words*`` are seen then; a ``python`` block is a cell to run, a ``sh`` block a command; "log in as `susan`" opens
a window of hers, and "in `susan`'s window" goes back to it. Text of any other form is for people only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from browsers.browser_people import KERNEL_TIMEOUT_MS, SPAWN_TIMEOUT_MS, Person
from hubs.hub_people import until
from patience import PATIENCE_S
from playwright.sync_api import Browser, Locator, Page, expect

PAGE = Path(__file__).parents[3] / "docs/tutorial.md"
SECTION = re.compile(r"^## \d+\. (?P<title>.+)\n(?P<text>(?:(?!^## ).*\n)*)", re.MULTILINE)
ACTION = re.compile(
    r"^```python\n(?P<cell>.*?)^```$"
    r"|^```sh\n(?P<command>.*?)^```$"
    r"|[Ll]og\sin\sas\s`(?P<user>\w+)`"
    r"|[Ii]n\s`(?P<window>\w+)`'s\swindow"
    r"|[Tt]ype\s`(?P<value>[^`]+)`\sinto\s\*\*(?P<field>[^*]+)\*\*"
    r"|\*\*(?P<button>[^*]+)\*\*"
    r"|\*(?P<seen>[^*]+)\*",
    re.MULTILINE | re.DOTALL,
)
PRESSED = ("button", "link", "menuitem")


@dataclass(frozen=True)
class Command:
    """A command of the shell."""

    text: str


@dataclass(frozen=True)
class LogIn:
    """Opens a window of a user at the address of the hub, and fills in the form."""

    user: str


@dataclass(frozen=True)
class GoBack:
    """Goes to the window of a logged-in user."""

    user: str


@dataclass(frozen=True)
class Press:
    """Presses what has this name."""

    name: str


@dataclass(frozen=True)
class Type:
    """Types a value into the field of this name."""

    value: str
    field: str


@dataclass(frozen=True)
class Run:
    """Runs code in a new cell."""

    code: str


@dataclass(frozen=True)
class See:
    """Sees these words."""

    words: str


class AnyHub(Protocol):
    """What a newcomer needs of a hub: its address, its users' password, and the file that it prints to."""

    url: str
    log: Path

    @property
    def password(self) -> str: ...


Action: TypeAlias = Command | LogIn | GoBack | Press | Type | Run | See


@dataclass(frozen=True)
class Step:
    """A numbered section of the tutorial."""

    title: str
    actions: tuple[Action, ...]


def steps() -> list[Step]:
    """Return the steps of the tutorial."""
    return [Step(found["title"], tuple(_actions(found["text"]))) for found in SECTION.finditer(PAGE.read_text())]


def _actions(text: str) -> Iterator[Action]:
    for found in ACTION.finditer(text):
        match found.lastgroup, " ".join(found[found.lastgroup or 0].split()):
            case "cell", _:
                yield Run(found["cell"].rstrip("\n"))
            case "command", words:
                yield Command(words)
            case "user", user:
                yield LogIn(user)
            case "window", user:
                yield GoBack(user)
            case "field", field:
                yield Type(found["value"], field)
            case "button", name:
                yield Press(name)
            case "seen", words:
                yield See(words)


class Newcomer:
    """Does what the tutorial says, in one window for each user; before the first, reads what the hub prints."""

    def __init__(self, browser: Browser, hub: AnyHub) -> None:
        self._browser = browser
        self._hub = hub
        self._people: dict[str, Person] = {}
        self._person: Person | None = None

    @property
    def person(self) -> Person:
        """The user in whose window the newcomer is."""
        assert self._person is not None, "the tutorial logs in before it does anything in a browser"
        return self._person

    def do(self, action: Action) -> None:
        """Do one thing, and fail if it cannot be done, or its result is not seen."""
        match action:
            case LogIn(user):
                self._log_in(user)
            case GoBack(user):
                self._person = self._people[user]
                self.person.tab.bring_to_front()
            case Press(name):
                self._press(name)
            case Type(value, field):
                self.person.tab.get_by_label(field, exact=True).fill(value)
            case Run(code):
                self.person.type_and_run(code)
            case See(words) if self._person is None:
                until(f"{words!r} from the hub", lambda: words in self._hub.log.read_text())
            case See(words):
                expect(seen(self.person.tab, words), f"in the window of {self.person.name}").to_be_visible()
            case Command(text):
                raise AssertionError(f"a hub is started by {text!r} before the newcomer comes")

    def _log_in(self, user: str) -> None:
        tab = self._browser.new_context(
            viewport={"width": 1300, "height": 1600}, reduced_motion="reduce"
        ).new_page()
        tab.set_default_timeout(PATIENCE_S * 1000)
        tab.goto(self._hub.url)
        tab.get_by_label("Username").fill(user)
        tab.get_by_label("Password").fill(self._hub.password)
        self._person = self._people[user] = Person(user, self._hub.url, tab)

    def _press(self, name: str) -> None:
        tab = self.person.tab
        named = [tab.get_by_role(role, name=name, exact=True) for role in PRESSED]  # type: ignore[arg-type]
        either = named[0].or_(named[1]).or_(named[2])
        either.filter(visible=True).first.click()
        if name == "Start":
            tab.wait_for_url(re.compile(f"/user/{self.person.name}/lab"), timeout=SPAWN_TIMEOUT_MS)
            idle = tab.locator(".jp-NotebookPanel .jp-Notebook-ExecutionIndicator[data-status='idle']")
            idle.first.wait_for(timeout=KERNEL_TIMEOUT_MS)


def seen(tab: Page, words: str) -> Locator:
    """Return the first place in a window where these words can be read, as they are written."""
    whole = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
    return tab.get_by_text(whole).filter(visible=True).first

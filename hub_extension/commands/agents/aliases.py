"""Stand-ins for names in Springtide's sentences: the id of a job, the number of another; the names stand apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from springtide.hub_extension.commands.agents.bounds import MORE, clipped
from springtide.scheduler.wire import Alternative, Reason
from springtide.scheduler.wording import quoted, sentence

LONGEST: Final = 160
"""Longest name, in characters."""
_QUOTED: Final = re.compile("“[^”]*(?:”|$)")
_PLACES: Final = ("project", "for_project", "at", "budget_of")
"""Parameters of reasons that name projects, which administrators choose."""
_PEOPLE: Final = ("for_user",)
"""Parameters of reasons that name people."""
_ENDED: Final = re.compile("the job “(.*)” of “")
_FOREIGN: Final = ("detail", "error")
"""Parameters of reasons with the words of others, which some sentences end in."""


class Aliases:
    """Stand-ins for all quoted names but those of ``known`` projects and people.

    ``jobs`` are ids of jobs by their names; ``names`` has the meanings of the stand-ins.
    """

    def __init__(self, known: Iterable[str] = (), jobs: Mapping[str, str] | None = None) -> None:
        self._known = {quoted(name) for name in known if name}
        self._jobs = {quoted(name): job for name, job in (jobs or {}).items() if name}
        self._foreign: set[str] = set()
        self.names: dict[str, str] = {}

    def learn(self, reason: Reason | None) -> None:
        """Take the projects, people and jobs that the parameters of a reason name, and words of others in it."""
        params: Mapping[str, Any] = {} if reason is None else reason.params
        self._known |= {quoted(str(params[key])) for key in (*_PLACES, *_PEOPLE) if params.get(key)}
        named = [*zip(params.get("names") or (), params.get("jobs") or (), strict=False)]
        named.append((params.get("for_name"), params.get("for_job")))
        self._jobs |= {quoted(str(name)): str(job) for name, job in named if name and job}
        self._foreign |= {sentence(str(params[key])) for key in _FOREIGN if params.get(key)}

    def learn_change(self, change: Alternative) -> None:
        """Take the name of the only job that a change ends."""
        if len(change.remove_jobs) == 1 and (found := _ENDED.search(change.text)):
            self._jobs[quoted(found[1])] = change.remove_jobs[0]

    def apart(self, text: str) -> str:
        """Return the text with stand-ins, and keep their meanings in ``names``."""
        for words in self._foreign:
            if f" {words}" in text:
                text = text.replace(f" {words}", f" “{self._numbered(words)}”.")
        for name in sorted(self._jobs.keys() - self._known, key=len, reverse=True):  # may have such marks in it
            text = text.replace(name, self._stand_in(name))
        return _QUOTED.sub(lambda found: self._stand_in(found.group()), text)

    def _stand_in(self, name: str) -> str:
        words = name.removeprefix("“").removesuffix("”")
        if name in self._known or words in self.names:
            return name
        job = self._jobs.get(name) or self._shortened(words)
        if job is None:
            return f"“{self._numbered(words)}”"
        self.names[f"job {job}"] = clipped(words, LONGEST)
        return f"“job {job}”"

    def _shortened(self, words: str) -> str | None:
        """Return the only job whose name begins like this, if the words end in ``…``."""
        if not words.endswith(MORE):
            return None
        found = {job for name, job in self._jobs.items() if name.startswith(f"“{words.removesuffix(MORE)}")}
        return found.pop() if len(found) == 1 else None

    def _numbered(self, words: str) -> str:
        """Return the stand-in of further words: ``name 1``, always the same for the same."""
        kept = clipped(words, LONGEST)
        known = (each for each, name in self.names.items() if name == kept and each.startswith("name "))
        alias = next(known, None) or f"name {len(self.names) + 1}"
        self.names[alias] = kept
        return alias

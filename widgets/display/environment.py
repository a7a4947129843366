"""The environment of a job, as a notebook shows it."""

from __future__ import annotations

from springtide.scheduler.client.environments import facts
from springtide.scheduler.wire import JobEnvironment
from springtide.widgets.display import phrases, plain


class Environment:
    """What a job runs with, as a table; ``told`` has the parts. ``image`` is None on one machine."""

    def __init__(self, told: JobEnvironment, image: str | None) -> None:
        self.told = told
        self.image = image

    def __repr__(self) -> str:
        return "\n".join(phrases.clean(f"{head}: {words}") for head, words in facts(self.told, self.image))

    def _repr_html_(self) -> str:
        return plain.pair_table([(head, phrases.clean(words)) for head, words in facts(self.told, self.image)])

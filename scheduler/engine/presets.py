"""Presets of jobs, as the API asks for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from springtide.scheduler import wire
from springtide.scheduler.engine.requests import presets, ranges
from springtide.scheduler.engine.requests.presets import POOL
from springtide.scheduler.engine.requests.validation import ValidationContext, validate_resources
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import PresetKey, PresetRecord
from springtide.scheduler.wire.presets import preset_words, supplied, values_of
from springtide.scheduler.wording import count, quoted

MOST_TRIED = 20
"""Maximum number of projects for whose jobs a preset of the pool is tried."""

Change = Callable[[Callable[[Transaction], None]], Awaitable[None]]


class Presets:
    """The presets of a running pool."""

    def __init__(self, state: State, nodes: ObservedNodes, change: Change, settings: EngineSettings) -> None:
        self._state = state
        self._nodes = nodes
        self._change = change
        self._settings = settings

    def named(self, name: str, project: str) -> PresetRecord:
        """Return the preset that a job of a project names. Raises `Refusal` if there is none."""
        return presets.preset_named(self._state.presets, name, project, self._state.projects)

    def of(self, project: str | None, name: str) -> PresetRecord | None:
        """Return a preset of a project itself, or with None of the pool, if there is such a one."""
        return self._state.presets.get((project or POOL, name))

    def usable(self, own: Sequence[str]) -> list[wire.PresetView]:
        """Return the presets that jobs of these projects can name, those of the pool first."""
        users = self._users(own)
        return [self._view(record, users) for key, record in self._in_order() if key in users]

    def listed(self, own: Sequence[str], led: Collection[str] | None) -> list[wire.PresetView]:
        """Return the presets that jobs of the projects ``own`` can name, and those of ``led`` ones; None: all.

        Each says whether a job with its options alone would be refused now.
        """
        users = self._users(own)
        return [
            self._view(record, users, self._obstacle(record))
            for key, record in self._in_order()
            if key in users or led is None or record.project in led
        ]

    async def set(self, project: str | None, name: str, part: wire.PresetPart, by: str) -> None:
        """Define a preset, or replace it as a whole. Raises `Refusal`."""
        await self._change(lambda transaction: presets.set_preset(transaction, project or POOL, name, part, by))

    async def remove(self, project: str | None, name: str, by: str) -> None:
        """Delete a preset. Raises `Refusal`."""
        await self._change(lambda transaction: presets.remove_preset(transaction, project or POOL, name, by))

    def _users(self, own: Sequence[str]) -> dict[PresetKey, list[str]]:
        return presets.users_of(self._state.presets, own, self._state.projects)

    def _in_order(self) -> list[tuple[PresetKey, PresetRecord]]:
        return sorted(self._state.presets.items())

    def _view(
        self, record: PresetRecord, users: dict[PresetKey, list[str]], obstacle: str = ""
    ) -> wire.PresetView:
        return wire.PresetView(
            name=record.name,
            project=record.project or None,
            about=record.about,
            options=dict(record.options),
            values=values_of(record.options),
            text=preset_words(record.options),
            by=record.by,
            at=record.at,
            projects=users.get((record.project, record.name), []),
            obstacle=obstacle,
        )

    def _obstacle(self, record: PresetRecord) -> str:
        """Return why a job of its project with its options alone would be refused; empty if it would not.

        One of the pool has an obstacle if jobs of all projects, `MOST_TRIED` at most, would be refused.
        """
        nodes, projects = self._nodes, self._state.projects
        context = ValidationContext(nodes.possible(), projects, self._settings, self._state.types, nodes.by_type)
        if record.project != POOL:
            return self._refusal(record, record.project, context)
        found: dict[str, str] = {}
        for name in sorted(projects)[:MOST_TRIED]:
            refusal = self._refusal(record, name, context)
            if not refusal:
                return ""
            found[name] = refusal
        if len(found) == len(projects) and len(set(found.values())) <= 1:
            return next(iter(found.values()), "")
        first = next(iter(found))
        return f"In {quoted(first)}, one of {count(len(found), 'project')} that refuse it: {found[first]}"

    def _refusal(self, record: PresetRecord, project: str, context: ValidationContext) -> str:
        """Return why a job of a project with the options of a preset alone would be refused."""
        wish = wire.Wish.of(supplied(record.options, (), {}))
        try:
            validate_resources(wish, record.by, project, context, job_id="", now=record.at)
            ranges.choose_image(wish.image, ranges.lineage(project, context.records), self._settings.images)
        except Refusal as refusal:
            return f"{refusal.message} {refusal.hint}".strip()
        return ""

"""Changes that idle workspaces make: what was told, kept and done, and the rules."""

from __future__ import annotations

from dataclasses import asdict, replace

from springtide.scheduler.engine.state.state import WorkspaceKey
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import POOL, IdleRecord, IdleRule, RuleKey, RuleScope, WorkspaceRecord
from springtide.scheduler.wording import given

STOPPED_SHOWN = 7 * 86_400.0
"""Time for which owners are shown that a workspace was stopped, unless they start it again, in seconds."""

STOPPING = 60.0
"""Time for which a workspace counts as being stopped after the hub was asked to, in seconds."""


def record_of(transaction: Transaction, workspace: WorkspaceRecord) -> IdleRecord:
    """Return what was told and done about a workspace since its GPUs were reserved."""
    found = transaction.idle_record((workspace.user, workspace.server))
    if found is not None and found.reserved == workspace.since:
        return found
    return IdleRecord(workspace.user, workspace.server, workspace.since, len(workspace.gpus))


def tell(transaction: Transaction, key: WorkspaceKey, unused: float, notice: float | None) -> None:
    """Record that the owner is told that the workspace was not used for ``unused`` seconds.

    ``notice`` is the time until it is stopped, in seconds, None if it is not.
    """
    workspace = transaction.all_workspaces().get(key)
    if workspace is None:
        return
    stops = None if notice is None else transaction.now + notice
    record = record_of(transaction, workspace)
    told = replace(record, told=transaction.now, stops=stops, stopping=None, unused=unused)
    transaction.put_idle_record(key, told)


def forget(transaction: Transaction, key: WorkspaceKey, reserved: float) -> None:
    """Forget what was told about a workspace, because it was used since."""
    record = transaction.idle_record(key)
    if record is not None and record.reserved == reserved and record.stopped is None:
        transaction.put_idle_record(key, replace(record, told=None, stops=None, stopping=None))


def keep(transaction: Transaction, key: WorkspaceKey, by: str) -> None:
    """Keep a workspace, as if it were used now.

    Raises `Refusal`: 404 for one without GPUs, 409 while it is being stopped.
    """
    workspace = transaction.all_workspaces().get(key)
    if workspace is None or not workspace.gpus:
        raise Refusal(404, "not_found", f"{key[0]} has no workspace {given(key[1] or 'default')} with GPUs.")
    record = record_of(transaction, workspace)
    if record.stopping is not None and transaction.now - record.stopping < STOPPING:
        raise Refusal(409, "stopping", "The workspace is being stopped now.", hint="Start it again in a moment.")
    kept = replace(record, kept=transaction.now, told=None, stops=None, stopping=None)
    transaction.put_idle_record(key, kept)
    if record.told is not None:
        transaction.add_audit_entry(by, "workspace.keep", _subject(key), {"unused": round(record.unused)}, {})


def stopping(transaction: Transaction, key: WorkspaceKey, reserved: float, unused: float) -> bool:
    """Record that the hub is asked to stop a workspace; return False if its owner has kept it meanwhile."""
    record = transaction.idle_record(key)
    if record is None or record.reserved != reserved or record.told is None:
        return False
    transaction.put_idle_record(key, replace(record, stopping=transaction.now, unused=unused))
    return True


def not_stopped(transaction: Transaction, key: WorkspaceKey) -> None:
    """Record that the hub did not stop a workspace."""
    record = transaction.idle_record(key)
    if record is not None and record.stopped is None and record.stopping is not None:
        transaction.put_idle_record(key, replace(record, stopping=None))


def released(transaction: Transaction, workspace: WorkspaceRecord) -> None:
    """Record that the GPUs of a workspace are released: if it was being stopped as idle, that it was."""
    key = (workspace.user, workspace.server)
    record = transaction.idle_record(key)
    if record is None or record.reserved != workspace.since:
        return
    if record.stopping is None:
        transaction.put_idle_record(key, None)
        return
    transaction.put_idle_record(key, replace(record, stopped=transaction.now))
    unused = {"gpus": record.gpus, "gpu_type": workspace.gpu_type, "unused": round(record.unused)}
    transaction.add_audit_entry(POOL, "workspace.stop", _subject(key), unused, {})
    for other, old in transaction.state.idle_records.items():
        if old.stopped is not None and old.stopped < transaction.now - STOPPED_SHOWN:
            transaction.put_idle_record(other, None)


def reserved(transaction: Transaction, key: WorkspaceKey) -> None:
    """Forget an earlier workspace of the same name: it was started again."""
    if transaction.idle_record(key) is not None:
        transaction.put_idle_record(key, None)


def set_rule(transaction: Transaction, key: RuleKey, rule: IdleRule | None, by: str) -> None:
    """Set the rule of the pool, of a project or of a person; None removes it.

    Raises `Refusal` (404) for an unknown project.
    """
    scope, name = key
    if scope is RuleScope.PROJECT and transaction.project(name) is None:
        raise Refusal(404, "not_found", f"There is no project {given(name)}.", field="project")
    before = transaction.idle_rules.get(key, transaction.state.idle_rules.get(key))
    if before != rule:
        transaction.put_idle_rule(key, rule)
        subject = f"{scope.value} {name}".rstrip()
        transaction.add_audit_entry(by, "idle_rule.change", subject, _shown(before), _shown(rule))


def _shown(rule: IdleRule | None) -> dict[str, object]:
    return {} if rule is None else asdict(rule)


def _subject(key: WorkspaceKey) -> str:
    return "/".join(filter(None, key))

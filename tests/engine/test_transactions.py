"""Transactions: changes in a copy leave the transaction as it was."""

from __future__ import annotations

from dataclasses import fields

from springtide.scheduler.engine.state.bundle_sizes import BundleSizes
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction


def test_a_copy_shares_no_container_with_its_transaction() -> None:
    transaction = Transaction(State(), ObservedNodes(), 0.0)
    copy = transaction.copy()
    changing = {
        field.name: getattr(transaction, field.name)
        for field in fields(transaction)
        if isinstance(getattr(transaction, field.name), dict | list | set | BundleSizes)
    }
    assert "jobs" in changing
    assert [name for name, value in changing.items() if getattr(copy, name) is value] == []

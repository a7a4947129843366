"""What the pool counts as it goes is what a count from scratch gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from springtide.scheduler.model import Node, Worker
from springtide.scheduler.policy.state.nodes import NodePool
from springtide.scheduler.policy.state.undo import UndoLog

workers = st.builds(
    lambda node, gpus: Worker(0, f"n{node}", tuple(sorted(gpus))),
    st.integers(0, 2),
    st.sets(st.integers(0, 3), min_size=1),
)
steps = st.lists(st.tuples(st.sampled_from(["reserve", "unreserve", "occupy", "vacate"]), workers))


def counted(pool: NodePool) -> tuple[int, int, int]:
    return (
        sum(node.reserved.bit_count() for node in pool.node_states),
        sum((node.allocatable & node.reserved & ~node.held).bit_count() for node in pool.node_states),
        sum(node.free.bit_count() for node in pool.node_states),
    )


@given(steps, steps)
def test_reserved_and_free_gpus_are_counted_right_after_any_changes_and_after_they_are_rolled_back(kept, tried):
    pool = NodePool(
        [Node("n0", 4), Node("n1", 4, taken=frozenset({3})), Node("n2", 4, available=False)], UndoLog()
    )

    def change(step: str, worker: Worker) -> None:
        if step in {"occupy", "vacate"}:
            getattr(pool, step)("job", (worker,))
        else:
            getattr(pool, step)((worker,))

    for step, worker in kept:
        change(step, worker)
    before = counted(pool)
    with pool.undo.trial():
        for step, worker in tried:
            change(step, worker)
            assert (pool.reserved, pool.idle_reserved, pool.free) == counted(pool)

    assert (pool.reserved, pool.idle_reserved, pool.free) == before

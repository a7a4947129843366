"""Cores and amounts of memory as people and Kubernetes write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.scheduler.resources import quantities
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu, per_gpu_of


@pytest.mark.parametrize(
    ("text", "number"), [("4", 4.0), (" 0.5 ", 0.5), ("500m", 0.5), ("7910m", 7.91), (2, 2.0), (0.25, 0.25)]
)
def test_cores(text: object, number: float) -> None:
    assert quantities.cores(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("16Gi", 16 << 30),
        ("16 GiB", 16 << 30),
        ("16 GB", 16 * 10**9),
        ("1.5G", 1_500_000_000),
        ("32869012Ki", 32869012 << 10),
        ("512M", 512_000_000),
        ("64k", 64_000),
        ("2Ti", 2 << 40),
        ("1024", 1024),
        (1 << 30, 1 << 30),
    ],
)
def test_memory(text: object, number: int) -> None:
    assert quantities.memory(text) == number


@pytest.mark.parametrize(
    "wrong", ["", "x", "-1", "4 cores", "1e3", "0x10", "4\n4", "9" * 100, True, None, float("nan")]
)
def test_what_is_no_number_of_cores_is_refused_with_what_was_given(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"is not a number of cores such as 4, 0\.5 or 500m"):
        quantities.cores(wrong)


@pytest.mark.parametrize(
    "wrong", ["", "Gi", "-1Gi", "16 XB", "16Gib", "1..5G", "16Gi\n5", "9" * 100, True, None, 1.5]
)
def test_what_is_no_amount_of_memory_is_refused_with_what_was_given(wrong: object) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory such as 16Gi, 16 GB or a number of bytes"):
        quantities.memory(wrong)


@given(st.integers(1, 10_000_000))
def test_cores_are_shown_as_they_are_read(thousandths: int) -> None:
    assert quantities.cores(quantities.shown_cores(thousandths / 1000)) == thousandths / 1000


@given(st.integers(1, 1 << 50))
def test_memory_is_shown_as_it_is_read(number: int) -> None:
    assert quantities.memory(quantities.shown_memory(number)) == number


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 512_000), st.integers(1, 1 << 44))
def test_workers_within_what_their_gpus_come_with_fit_on_a_node_whatever_their_sizes(
    gpus: int, on_node: int, thousandths: int, memory: int
) -> None:
    """What all GPUs of a node come with is the node, also after rounding."""
    of_node = per_gpu_of(thousandths / 1000, memory, on_node)
    if gpus <= on_node:
        whole = per_gpu_of(thousandths / 1000 * gpus / on_node, memory * gpus / on_node, gpus)
        assert of_node.holds(whole)
    assert not of_node.holds(PerGpu(of_node.cpus * 1.001, 0))
    assert UNSPECIFIED.holds(whole if gpus <= on_node else of_node)


@given(st.integers(1, 64), st.integers(0, 2_000), st.lists(st.integers(1, 64), max_size=64))
def test_workers_with_rdma_that_a_node_holds_never_take_more_devices_than_it_has(
    on_node: int, devices: int, sizes: list[int]
) -> None:
    """Whatever workers are on the GPUs of a node: all that the node may hold for itself fit beside each other."""
    of_node = per_gpu_of(0, 0, on_node, devices)
    left = on_node
    workers = 0
    for gpus in sizes:
        if gpus <= left and of_node.holds(per_gpu_of(0, 0, gpus, 1)):
            left -= gpus
            workers += 1
    assert workers <= min(devices, on_node)
    assert of_node.rdma_workers(on_node) == min(devices, on_node)
    assert of_node.holds(per_gpu_of(0, 0, on_node, 1)) == (devices > 0)

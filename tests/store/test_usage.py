"""Measured use in the store: sums of longer intervals, retention, and queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from stores.earlier_store import EARLIER, write_earlier

from springtide.scheduler.gpu_reading import METRICS, Reading
from springtide.scheduler.store import Store, gpu_usage_writing
from springtide.scheduler.store.gpu_usage import (
    DAY,
    FINE,
    HOUR,
    MINUTE,
    MOST_POINTS,
    UsageKey,
    UsageRecord,
    downsample,
    step_for,
)
from springtide.scheduler.store.queries import usage

Opener = Callable[..., Store]
START = 1_000 * HOUR
SUSAN = UsageKey("GPU-0", kind="job", job="digits", user="susan", project="vision")


def record(
    at: int,
    utilization: float | None = 0.5,
    key: UsageKey = SUSAN,
    *,
    memory_peak: int | None = None,
    simulated: bool = False,
    **values: Any,
) -> UsageRecord:
    return UsageRecord(
        step=FINE,
        at=at,
        seconds=FINE,
        key=key,
        memory_peak=memory_peak,
        simulated=simulated,
        reading=Reading(utilization=utilization, **values),
    )


def test_longer_intervals_have_means_peaks_and_the_newest_counters() -> None:
    records = [
        record(START, 0.2, memory_used=10, memory_peak=10, temperature=50, ecc_corrected=1, power=100.0),
        record(START + 10, 0.4, memory_used=30, memory_peak=40, temperature=70, ecc_corrected=3, xid=63),
        record(START + 20, None, temperature=60, power=300.0),
        record(START + 60, 1.0),
    ]
    first, second = downsample(reversed(records), MINUTE)
    assert (first.step, first.at, first.seconds, first.memory_peak) == (MINUTE, START, 30, 40)
    assert first.reading.utilization == pytest.approx(0.3)
    assert replace(first.reading, utilization=None) == Reading(
        memory_used=20,
        temperature=70,
        ecc_corrected=3,
        xid=63,
        power=200.0,
    )
    assert (second.at, second.seconds, second.reading.utilization, second.reading.power) == (
        START + 60,
        10,
        1.0,
        None,
    )


def test_holders_and_gpus_are_summed_up_by_themselves() -> None:
    records = [
        record(START),
        record(START + 10, key=replace(SUSAN, gpu="GPU-1")),
        record(START + 20, key=UsageKey("GPU-0", kind="job", job="bert", user="joe", project="nlp")),
        record(START + 30, key=UsageKey("GPU-0")),
    ]
    assert [each.key for each in downsample(records, HOUR)] == [each.key for each in records]
    assert {each.at for each in downsample(records, HOUR)} == {START}


def test_summing_up_in_two_steps_is_summing_up_in_one() -> None:
    records = [record(START + FINE * n, (n % 7) / 7 if n % 5 else None) for n in range(360)]
    [by_minutes] = downsample(downsample(records, MINUTE), HOUR)
    [at_once] = downsample(records, HOUR)
    assert (by_minutes.seconds, by_minutes.at) == (at_once.seconds, at_once.at) == (HOUR, START)
    assert by_minutes.reading.utilization == pytest.approx(at_once.reading.utilization, abs=0.02)


@pytest.mark.parametrize(
    ("length", "age", "step"),
    [
        (HOUR, 0, FINE),
        (12 * HOUR, 0, MINUTE),
        (HOUR, 2 * DAY, MINUTE),
        (40 * DAY, 0, HOUR),
        (HOUR, 60 * DAY, HOUR),
    ],
)
def test_a_span_is_told_in_the_shortest_intervals_that_are_kept_and_not_too_many(
    length: int, age: int, step: int
) -> None:
    now = float(START)
    assert step_for(now - age - length, now - age, now) == step
    assert length / step <= MOST_POINTS


def test_minutes_and_hours_are_written_when_they_have_ended_and_old_intervals_go(open_store: Opener) -> None:
    store = open_store()

    def kept(step: int) -> list[int]:
        return [each.at for each in store.read(usage.of_job, "digits", step, 0, 1e12) if each.step == step]

    for at in range(START, START + 130, FINE):
        store.write(gpu_usage_writing.save, [record(at)], at + FINE)
    assert (len(kept(FINE)), kept(MINUTE), kept(HOUR)) == (13, [START, START + 60], [])
    store.write(gpu_usage_writing.save, [record(START + HOUR)], START + HOUR + FINE)
    assert kept(HOUR) == [START]
    assert kept(MINUTE) == [START, START + 60, START + 120]
    hour, last = store.read(usage.of_job, "digits", HOUR, 0, 1e12)
    assert (last.step, last.at) == (FINE, START + HOUR), "shorter intervals follow the last full hour"
    assert hour.seconds == 130
    assert hour.reading.utilization == pytest.approx(0.5)
    later = START + 2 * DAY
    store.write(gpu_usage_writing.save, [record(later)], later + FINE)
    store.write(gpu_usage_writing.save, [record(later + 60)], later + 70)
    assert kept(FINE) == [later, later + 60]
    assert len(kept(MINUTE)) == 5
    end = START + 40 * DAY
    store.write(gpu_usage_writing.save, [record(end)], end + FINE)
    store.write(gpu_usage_writing.save, [record(end + HOUR)], end + HOUR + 70)
    assert kept(MINUTE) == [end, end + HOUR]
    assert kept(HOUR) == [START, START + HOUR, later, end]
    [whole] = store.read(usage.sums, ["project"], HOUR, 0, 1e12, kinds=["job"])
    assert whole.held == 130 + 10 + 20 + 20


def test_every_value_of_a_reading_is_kept(open_store: Opener) -> None:
    store = open_store()
    values: dict[str, Any] = {
        name: number if metric.most else number / 2 for number, (name, metric) in enumerate(METRICS.items())
    }
    saved = replace(record(START, memory_peak=7), reading=Reading(**values))
    store.write(gpu_usage_writing.save, [saved], START + FINE)
    assert store.read(usage.of_job, "digits", FINE, 0, 1e12) == [saved]


def test_an_interval_that_is_measured_again_after_a_restart_is_replaced(open_store: Opener) -> None:
    store = open_store()
    first, other = record(START, 0.1), record(START, 0.1, key=replace(SUSAN, gpu="GPU-1"))
    store.write(gpu_usage_writing.save, [first, other], START + 5)
    store.write(gpu_usage_writing.save, [record(START, 0.9)], START + 8)
    assert [each.reading.utilization for each in store.read(usage.of_job, "digits", FINE, 0, 1e12)] == [0.9]


def test_use_is_summed_up_by_what_is_asked_for(open_store: Opener) -> None:
    store = open_store()
    bert = UsageKey("GPU-2", kind="job", job="bert", user="joe", project="vision")
    store.write(
        gpu_usage_writing.save,
        [
            record(START, 0.5, memory_peak=7),
            record(START, None, key=replace(SUSAN, gpu="GPU-1"), memory_peak=9),
            record(START, 1.0, key=bert, simulated=True),
            record(START, 0.0, key=UsageKey("GPU-3")),
        ],
        START + FINE,
    )

    def told(*by: str, kinds: tuple[str, ...] = ("job",)) -> list[tuple[UsageKey, float, float, float]]:
        found = store.read(usage.sums, by, FINE, START, START + 60, kinds=kinds)
        return [(each.key, each.held, each.measured, each.used) for each in found]

    assert told("project") == [(UsageKey("", project="vision"), 30, 20, 15)]
    assert told("job", "user") == [
        (UsageKey("", job="digits", user="susan"), 20, 10, 5),
        (UsageKey("", job="bert", user="joe"), 10, 10, 10),
    ]
    assert len(told("gpu", kinds=("job", ""))) == 4
    [whole] = store.read(usage.sums, ["project"], FINE, START, START + 60, kinds=["job"])
    assert (whole.memory_peak, whole.simulated) == (9, True)
    assert store.read(usage.sums, ["project"], FINE, START + 60, START + 120, kinds=["job"]) == []


def test_a_store_without_measured_use_gets_its_table(empty: str, open_store: Opener) -> None:
    write_earlier(empty, "0002", EARLIER)
    store = open_store(empty)
    store.write(gpu_usage_writing.save, [record(START)], START + FINE)
    assert len(store.read(usage.of_job, "digits", FINE, 0, 1e12)) == 1

"""The bounded cache."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler.lru_cache import LruCache


def test_the_least_recently_used_entry_is_dropped_beyond_the_capacity():
    cache: LruCache[Any, Any] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert len(cache) == 2


def test_entries_are_dropped_by_their_weight():
    cache: LruCache[Any, Any] = LruCache(10, len)
    cache.put("a", "123456")
    cache.put("b", "1234")
    cache.put("c", "12345")
    assert ["a" in cache, "b" in cache, "c" in cache] == [False, True, True]
    cache.put("b", "12345")
    assert [cache.get("b"), cache.get("c")] == ["12345", "12345"]


def test_a_value_heavier_than_the_capacity_is_not_kept_and_drops_nothing_else():
    cache: LruCache[Any, Any] = LruCache(3, len)
    cache.put("a", "123")
    cache.put("b", "1234")
    assert [cache.get("a"), cache.get("b")] == ["123", None]


def test_an_entry_is_made_once():
    cache: LruCache[Any, Any] = LruCache(3)
    assert cache.get_or_put("a", list) is cache.get_or_put("a", list)


def test_a_cache_without_capacity_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        LruCache(0)

"""The policy: pure and deterministic. A snapshot goes in, a plan comes out."""

from springtide.scheduler.policy.planner import Planner

__all__ = ["Planner"]

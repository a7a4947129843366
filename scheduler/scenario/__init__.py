"""Scenarios: files that describe a pool, for `springtide plan` and `springtide simulate`."""

from springtide.scheduler.scenario.document import ScenarioError
from springtide.scheduler.scenario.read import Scenario, parse, read

__all__ = ["Scenario", "ScenarioError", "parse", "read"]

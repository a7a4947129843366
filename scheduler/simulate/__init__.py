"""Simulation of a pool in virtual time: the same policy, applied to scenarios and traces."""

from springtide.scheduler.simulate.load import Load, load_of
from springtide.scheduler.simulate.run import Policy, Result, simulate
from springtide.scheduler.simulate.settle import Rest, opening, settle
from springtide.scheduler.simulate.virtual import Costs, Course, VirtualPool

__all__ = [
    "Costs",
    "Course",
    "Load",
    "Policy",
    "Rest",
    "Result",
    "VirtualPool",
    "load_of",
    "opening",
    "settle",
    "simulate",
]

"""Scenarios for `pcietool check`: how kernels of your own are launched, and what has to come of it.

    from pcietool.check import Kernel, scenario

This module is the public interface, and follows semantic versioning; what lies below it does not.
"""

from pcietool.check.arrays import Array, Piece
from pcietool.check.kernel import Kernel
from pcietool.check.scenario import Scenario, load_scenarios, scenario
from pcietool.check.world import HostView, World

__all__ = ["Array", "HostView", "Kernel", "Piece", "Scenario", "World", "load_scenarios", "scenario"]

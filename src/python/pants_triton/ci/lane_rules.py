"""The lanes of the workspace, and the tests that they select."""

from __future__ import annotations

from dataclasses import dataclass

from pants.core.goals.test import TestFieldSet
from pants.engine.rules import collect_rules, rule
from pants.engine.target import AllTargets, Tags, Target
from pants.engine.unions import UnionMembership
from pants.util.logging import LogLevel

from pants_triton.ci.lane import check_lanes
from pants_triton.ci.matrix import LaneTests
from pants_triton.ci.target_types import LaneTagExpressionField, lane_of


@dataclass(frozen=True)
class AllLanes:
    """All lanes of the workspace, by address.

    :param untested: the addresses of test targets that no lane selects.
    """

    lanes: tuple[LaneTests, ...]
    untested: tuple[str, ...]


@rule(desc="Find all lanes of CI", level=LogLevel.DEBUG)
def all_lanes(all_targets: AllTargets, union_membership: UnionMembership) -> AllLanes:
    field_sets = union_membership[TestFieldSet]

    def is_test(target: Target) -> bool:
        return any(field_set.is_applicable(target) for field_set in field_sets)

    # All targets: what the command line selects has no say in which lanes there are.
    lanes = [lane_of(target) for target in all_targets if target.has_field(LaneTagExpressionField)]
    check_lanes(lanes)
    tests = {
        target.address.spec: target.get(Tags).value or ()
        for target in all_targets
        if is_test(target)
    }
    by_lane = tuple(
        LaneTests(
            lane,
            frozenset(
                address for address, tags in tests.items() if lane.runs_tests and lane.selects(tags)
            ),
        )
        for lane in sorted(lanes, key=lambda lane: lane.address)
    )
    selected = frozenset().union(*(each.tests for each in by_lane))
    return AllLanes(by_lane, tuple(sorted(tests.keys() - selected)))


def rules():
    return collect_rules()

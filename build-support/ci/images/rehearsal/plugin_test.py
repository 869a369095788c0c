"""The packages that the backend and its tests import."""

import chevron
import grpc
import hypothesis
import lit
import yaml
from pants.version import VERSION


def test_they_are_there() -> None:
    assert VERSION
    assert all((chevron, grpc, hypothesis, lit, yaml))

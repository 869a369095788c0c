"""What tests have that import nothing else, such as the sample's."""

import pytest


def test_it_is_there() -> None:
    assert pytest.__version__

"""The sample kernels on one of AMD's GPUs."""

from __future__ import annotations

from typing import Callable

import pytest
from minitriton.runtime import Driver
from minitriton.testing import SAMPLES, Sample


@pytest.fixture(scope="module")
def gpu(device: Callable[[str], Driver]) -> Driver:
    return device("rocm")


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_sample(gpu: Driver, sample: Sample) -> None:
    actual, expected = sample(gpu)
    assert actual == expected

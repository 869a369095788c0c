"""The sample kernels on one of NVIDIA's GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

import pytest
from minitriton.runtime import Driver, DriverError
from minitriton.testing import SAMPLES, Sample, add_kernel


@pytest.fixture(scope="module")
def gpu(device: Callable[[str], Driver]) -> Driver:
    return device("cuda")


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_sample(gpu: Driver, sample: Sample) -> None:
    actual, expected = sample(gpu)
    assert actual == expected


def test_the_driver_says_why_it_refuses_code(gpu: Driver) -> None:
    kernel = add_kernel.compile(
        {"x": "*f32", "y": "*f32", "out": "*f32", "n": "i32"}, {"BLOCK": 128}, gpu.arch
    )
    broken = replace(kernel, assembly=kernel.assembly.replace("add.rn.f32", "add.no.f32"))
    with pytest.raises(DriverError, match="cuModuleLoadDataEx"):
        gpu.load(broken)

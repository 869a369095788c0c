"""The devices that tests run on."""

from __future__ import annotations

import os
from typing import Callable

import pytest
from minitriton.runtime import Driver, DriverError, open_driver

#: Set by whoever gave this process a device: without that device the test must fail then, because a
#: skipped test would turn a CI job green that tested nothing.
HARDWARE_VARIABLE = "PANTS_TRITON_HARDWARE"


@pytest.fixture(scope="session")
def device() -> Callable[[str], Driver]:
    """Opens the first device of a platform; skips the test where there is none and nobody promised
    one."""

    def open_or_skip(platform: str) -> Driver:
        try:
            return open_driver(platform)
        except DriverError as error:
            if os.environ.get(HARDWARE_VARIABLE) == platform:
                pytest.fail(f"{HARDWARE_VARIABLE}={platform}, but: {error}", pytrace=False)
            pytest.skip(str(error))

    return open_or_skip

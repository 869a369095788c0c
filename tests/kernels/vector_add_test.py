"""Vector addition against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.harness.device_arrays import ArrayBackend
from kernels.harness.element_types import ELEMENT_TYPES
from kernels.vector_add import vector_add

pytestmark = pytest.mark.numerics


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(
    "n_elements",
    [
        pytest.param(1, id="one"),
        pytest.param(1024, id="one-full-block"),
        pytest.param(1025, id="one-over"),
        pytest.param(98_432, id="many-blocks"),
        pytest.param(5_003, id="odd-tail"),
    ],
)
def test_sum(device: ArrayBackend, n_elements: int, dtype: str) -> None:
    rng = np.random.default_rng(n_elements)
    element_type = ELEMENT_TYPES[dtype]
    x = element_type.round(rng.uniform(-100, 100, n_elements))
    y = element_type.round(rng.uniform(-100, 100, n_elements))
    out = device.empty((n_elements,), dtype)

    vector_add(device.array(x, dtype), device.array(y, dtype), out)

    # Both inputs are exact in dtype, so only the one rounding of the sum may differ.
    np.testing.assert_allclose(
        device.read(out).astype(np.float64),
        x.astype(np.float64) + y.astype(np.float64),
        rtol=element_type.epsilon,
    )


def test_other_shapes_are_refused(device: ArrayBackend) -> None:
    x, y = device.empty((4,), "float32"), device.empty((5,), "float32")
    with pytest.raises(ValueError, match="y must be contiguous, of out's shape and type"):
        vector_add(x, y, device.empty((4,), "float32"))


def test_views_with_gaps_are_refused(device: ArrayBackend) -> None:
    columns = device.empty((4, 4), "float32").narrow(1, 0, 2)
    with pytest.raises(ValueError, match="x must be contiguous"):
        vector_add(columns, columns, columns)

"""The extension module by itself."""

from __future__ import annotations

import pytest
from minitriton._C import libminitriton

SPLAT = """\
module {
  func.func @splat() -> tensor<4xi32> {
    %c7_i32 = arith.constant 7 : i32
    %0 = mini.splat %c7_i32 : tensor<4xi32>
    return %0 : tensor<4xi32>
  }
}"""


def test_modules_are_printed_as_they_were_read() -> None:
    context = libminitriton.Context()
    assert str(libminitriton.Module.parse(context, SPLAT)).strip() == SPLAT


def test_passes_by_name() -> None:
    module = libminitriton.Module.parse(libminitriton.Context(), SPLAT)
    libminitriton.run_passes(module, "canonicalize")
    assert "arith.constant dense<7> : tensor<4xi32>" in str(module)
    assert "mini.splat" not in str(module)


def test_errors_have_their_place() -> None:
    text = SPLAT.replace("mini.splat", "mini.splash")
    with pytest.raises(libminitriton.Error, match=":4: .*mini.splash"):
        libminitriton.Module.parse(libminitriton.Context(), text)


def test_unknown_passes() -> None:
    module = libminitriton.Module.parse(libminitriton.Context(), SPLAT)
    with pytest.raises(libminitriton.Error, match="nothing-known"):
        libminitriton.run_passes(module, "nothing-known")


def test_failing_passes_say_why() -> None:
    module = libminitriton.Module.parse(libminitriton.Context(), SPLAT)
    with pytest.raises(libminitriton.Error, match="3 threads can't share equally"):
        libminitriton.run_passes(module, "mini-distribute{threads=3}")


def test_unknown_operations() -> None:
    builder = libminitriton.KernelBuilder(libminitriton.Context(), "kernel", ["i32"])
    with pytest.raises(libminitriton.Error, match="there is no operation arith.addq"):
        builder.arithmetic("addq", builder.arguments())

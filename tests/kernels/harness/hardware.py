"""Decide where the kernels of a numerics test run.

Two environment variables speak. ``TRITON_INTERPRET=1`` makes every ``@triton.jit`` function of the
process an interpreted one. ``PANTS_TRITON_HARDWARE``, set by the Pants rules, says what hardware
the test was given; where it names a GPU, a run without that GPU must fail, because a skipped test
would turn a CI job green that tested nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

HARDWARE_VARIABLE = "PANTS_TRITON_HARDWARE"
INTERPRET_VARIABLE = "TRITON_INTERPRET"


@dataclass(frozen=True)
class TorchDevice:
    """The GPU torch can use. ``vendor`` is ``cuda`` or ``rocm``, ``arch`` such as ``sm_90``."""

    vendor: str
    arch: str


@dataclass(frozen=True)
class RunInterpreted:
    """Kernels run in Triton's interpreter on the CPU."""


@dataclass(frozen=True)
class RunOnGpu:
    """Kernels run on ``device``."""

    device: TorchDevice


@dataclass(frozen=True)
class Skip:
    """Nothing was promised and nothing is there; ``reason`` says what to do."""

    reason: str


@dataclass(frozen=True)
class Fail:
    """What was promised is not there; ``reason`` says what and why."""

    reason: str


Decision = Union[RunInterpreted, RunOnGpu, Skip, Fail]


def decide(environ: Mapping[str, str], interpreted: bool, found: TorchDevice | str) -> Decision:
    """Where to run.

    :param environ: the process's environment.
    :param interpreted: whether Triton was imported with its interpreter switched on.
    :param found: the GPU, or a sentence on why there is none.
    """
    promised = environ.get(HARDWARE_VARIABLE)
    if promised in ("cuda", "rocm"):
        promise = f"{HARDWARE_VARIABLE}={promised} promises a GPU"
        if interpreted:
            return Fail(f"{promise}, but {INTERPRET_VARIABLE} is set: unset it.")
        if isinstance(found, str):
            return Fail(f"{promise}, but {found}.")
        if found.vendor != promised:
            return Fail(f"{promise}, but torch here drives a {found.vendor} device ({found.arch}).")
        return RunOnGpu(found)
    if promised in ("cpu", "macos"):
        if interpreted:
            return RunInterpreted()
        return Fail(
            f"{HARDWARE_VARIABLE}={promised} runs kernels in Triton's interpreter: "
            f"set {INTERPRET_VARIABLE}=1 before Triton is imported."
        )
    if promised is not None:
        return Fail(f"{HARDWARE_VARIABLE}={promised} is none of cpu, cuda, rocm, macos.")
    if interpreted:
        return RunInterpreted()
    if isinstance(found, TorchDevice):
        return RunOnGpu(found)
    return Skip(f"{found}. Set {INTERPRET_VARIABLE}=1 to run kernels on the CPU.")


def probe() -> TorchDevice | str:
    """The GPU torch can use, or a sentence on why there is none."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU"
    # A ROCm build of torch calls its devices "cuda" too.
    if torch.version.hip is not None:
        architecture = torch.cuda.get_device_properties(0).gcnArchName.split(":")[0]
        return TorchDevice("rocm", architecture)
    major, minor = torch.cuda.get_device_capability(0)
    return TorchDevice("cuda", f"sm_{major}{minor}")

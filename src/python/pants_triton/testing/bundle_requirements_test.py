from __future__ import annotations

import pytest

from pants_triton.testing.bundle_requirements import (
    ProvidedError,
    is_provided,
    provided_packages,
    without_provided,
)

LOCK = """\
# From cuda.in. Do not edit.

numpy==2.4.6 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
    # via -r cuda.in
nvidia-cublas==13.1.1.3 \\
    --hash=sha256:ba
nvidia-cuda-cupti==13.0.85 --hash=sha256:ca
# torch is the last.
torch==2.13.0 ; sys_platform == "linux" \\
    --hash=sha256:da
    # via
    #   -r cuda.in
typing_extensions==4.16.0 \\
    --hash=sha256:ea
"""


def test_what_is_provided_is_left_out_with_its_hashes() -> None:
    assert (
        without_provided(LOCK, ["torch", "nvidia-*"])
        == """\
# From cuda.in. Do not edit.

numpy==2.4.6 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
    # via -r cuda.in
# torch is the last.
typing_extensions==4.16.0 \\
    --hash=sha256:ea
"""
    )


def test_nothing_provided_leaves_the_lock_as_it_is() -> None:
    assert without_provided(LOCK, []) == LOCK


@pytest.mark.parametrize(
    ("name", "provided", "expected"),
    [
        pytest.param("typing_extensions", "Typing.Extensions", True, id="spelled otherwise"),
        pytest.param("torchvision", "torch", False, id="only begins so"),
        pytest.param("nvidia_cublas", "nvidia-*", True, id="glob"),
        pytest.param("torch", "nvidia-*", False, id="another glob"),
    ],
)
def test_names_are_compared_as_pip_does(name: str, provided: str, expected: bool) -> None:
    assert is_provided(name, [provided]) is expected


def test_a_package_that_no_lock_has_can_be_the_machines() -> None:
    assert without_provided(LOCK, ["pytorch-triton-rocm"]) == LOCK


def test_a_glob_that_matches_nothing_is_refused() -> None:
    with pytest.raises(
        ProvidedError, match=r"`nvidai-\*` matches no package.*numpy, nvidia-cublas"
    ):
        without_provided(LOCK, ["torch", "nvidai-*"])


def test_globs_are_not_looked_for_on_the_machine() -> None:
    assert provided_packages(["torch", "nvidia-*", "triton"]) == ("torch", "triton")

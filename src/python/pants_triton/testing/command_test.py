from __future__ import annotations

import pytest

from pants_triton.testing.command import leased, process_environment, with_target_args

PYTEST = ["./pytest_runner.pex_pex_shim.sh", "-k", "typed", "--color=no", "a_test.py"]


def test_what_a_person_types_comes_after_what_the_target_says() -> None:
    assert with_target_args(
        PYTEST,
        prepended=0,
        pytest_args=["-m", "not slow"],
        workers=8,
        isolated=True,
        is_debug=False,
    ) == (
        "./pytest_runner.pex_pex_shim.sh",
        *("-m", "not slow", "-n", "{pants_concurrency}", "--forked"),
        *("-k", "typed", "--color=no", "a_test.py"),
    )


def test_a_debugger_sees_one_process() -> None:
    argv = [PYTEST[0], "--listen", "host:1", *PYTEST[1:]]
    assert with_target_args(
        argv, prepended=2, pytest_args=["-x"], workers=8, isolated=True, is_debug=True
    ) == (PYTEST[0], "--listen", "host:1", "-x", *PYTEST[1:])


@pytest.mark.parametrize("hardware", ["cpu", "macos"])
def test_tests_without_a_lease_see_no_device(hardware: str) -> None:
    env = process_environment({}, hardware=hardware, fingerprint="", target_env={})
    assert env["CUDA_VISIBLE_DEVICES"] == env["ROCR_VISIBLE_DEVICES"] == ""
    assert env["HIP_VISIBLE_DEVICES"] == "-1"
    assert env["PANTS_TRITON_HARDWARE"] == hardware
    assert "PANTS_TRITON_FINGERPRINT" not in env


def test_a_lease_chooses_the_devices_itself() -> None:
    env = process_environment({}, hardware="cuda", fingerprint="cuda sm_90", target_env={})
    assert not [name for name in env if name.endswith("VISIBLE_DEVICES")]
    assert env["PANTS_TRITON_FINGERPRINT"] == "cuda sm_90"


def test_who_wins() -> None:
    env = process_environment(
        {"HOME": "/of/a/user", "A": "pants", "B": "pants"},
        hardware="cpu",
        fingerprint="",
        target_env={"B": "target", "TRITON_HOME": "target"},
    )
    assert env["HOME"] == "{chroot}/.home"
    assert (env["A"], env["B"], env["TRITON_HOME"]) == ("pants", "target", "target")


def test_leased() -> None:
    assert leased(
        PYTEST,
        hardware="rocm",
        fingerprint="rocm gfx942 | MI300X",
        devices=2,
        exclusive=True,
        timeout_s=60,
        is_debug=False,
    ) == (
        "./pytest_runner.pex_bin_python_shim.sh",
        ".pants_triton_agent",
        "lease",
        "--lease-dir=.pants_triton_leases",
        "--hardware=rocm",
        "--fingerprint=rocm gfx942 | MI300X",
        "--devices=2",
        "--exclusive",
        "--timeout=60",
        "--",
        *PYTEST,
    )


def test_a_debugged_test_keeps_the_terminal_and_has_no_timeout() -> None:
    argv = leased(
        PYTEST,
        hardware="cuda",
        fingerprint="",
        devices=1,
        exclusive=False,
        timeout_s=60,
        is_debug=True,
    )
    options = argv[3 : argv.index("--")]
    assert "--interactive" in options
    assert not [o for o in options if o.startswith("--timeout") or o == "--exclusive"]


def test_another_way_to_run_pytest_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="not the shim of a venv"):
        leased(
            ["pytest"],
            hardware="cuda",
            fingerprint="",
            devices=1,
            exclusive=False,
            timeout_s=None,
            is_debug=False,
        )

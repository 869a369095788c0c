from __future__ import annotations

from textwrap import dedent

import pytest

from pants_triton.testing.markers import Situation, check_markers

CUDA = Situation("cuda", interpreter=False)
ROCM = Situation("rocm", interpreter=False)
CPU = Situation("cpu", interpreter=False)
INTERPRETER = Situation("cpu", interpreter=True)


def messages(source: str, *situations: Situation) -> list[str]:
    return [f"{f.line}: {f.message}" for f in check_markers(dedent(source), situations)]


SKIPIF_OTHER_VENDOR = """\
    import pytest
    from triton._internal_testing import is_hip

    @pytest.mark.skipif(not is_hip(), reason="AMD only")
    def test_mfma():
        pass
    """


def test_a_test_for_the_other_vendor_runs_nowhere() -> None:
    assert messages(SKIPIF_OTHER_VENDOR, CUDA) == [
        "5: `test_mfma` is skipped wherever this file's targets run it (cuda). It would run on: "
        "rocm."
    ]


def test_all_owners_count_together() -> None:
    assert messages(SKIPIF_OTHER_VENDOR, CUDA, ROCM) == []


@pytest.mark.parametrize(
    "skip",
    [
        pytest.param("@pytest.mark.skipif(condition=is_cuda(), reason='')", id="keyword"),
        pytest.param("@pytest.mark.skipif(_testing.is_cuda(), reason='')", id="attribute"),
        pytest.param("@pytest.mark.skipif(True and is_cuda(), reason='')", id="and"),
        pytest.param("@pytest.mark.skipif(unknown() or is_cuda(), reason='')", id="or"),
        pytest.param("@pytest.mark.skipif(not is_hip_cdna3(), reason='')", id="arch of other"),
        pytest.param("@pytest.mark.skipif(not (is_hip() or is_xpu()), reason='')", id="not or"),
        pytest.param("@pytest.mark.skipif(is_hip() is False, reason='')", id="is False"),
        pytest.param("@pytest.mark.skipif(is_cuda() == True, reason='')", id="== True"),
        pytest.param("HIP = is_hip()\n@pytest.mark.skipif(not HIP, reason='')", id="named"),
    ],
)
def test_conditions_that_skip_on_cuda(skip: str) -> None:
    assert len(messages(f"{skip}\ndef test_x(): pass", CUDA)) == 1


@pytest.mark.parametrize(
    "skip",
    [
        pytest.param("@pytest.mark.skipif(is_hip(), reason='')", id="skips elsewhere"),
        pytest.param("@pytest.mark.skipif(unknown(), reason='')", id="unknown"),
        pytest.param("@pytest.mark.skipif(unknown() and is_cuda(), reason='')", id="undecided and"),
        pytest.param("@pytest.mark.skipif(not is_hopper(), reason='')", id="arch undecided"),
        pytest.param("@pytest.mark.skipif(True, reason='')", id="skipped everywhere on purpose"),
        pytest.param("@pytest.mark.skip", id="skip"),
        pytest.param("A = B\nB = A\n@pytest.mark.skipif(A, reason='')", id="names in a circle"),
        pytest.param("@pytest.mark.skipif(capability()[0] < 9, reason='')", id="capability"),
    ],
)
def test_conditions_that_may_run_on_cuda(skip: str) -> None:
    assert messages(f"{skip}\ndef test_x(): pass", CUDA) == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            """\
            requires_amd = pytest.mark.skipif(not is_hip(), reason="")
            @requires_amd
            def test_x(): pass
            """,
            id="named mark",
        ),
        pytest.param(
            """\
            pytestmark = [pytest.mark.skipif(not is_hip(), reason="")]

            def test_x(): pass
            """,
            id="pytestmark",
        ),
        pytest.param(
            """\
            @pytest.mark.skipif(not is_hip(), reason="")
            class TestAmd:
                def test_x(self): pass
            """,
            id="class",
        ),
        pytest.param(
            """\
            class TestAmd:
                pytestmark = pytest.mark.skipif(not is_hip(), reason="")
                def test_x(self): pass
            """,
            id="pytestmark of a class",
        ),
        pytest.param(
            """\


            def test_x():
                if not is_hip():
                    pytest.skip("AMD only")
                assert True
            """,
            id="in the body",
        ),
    ],
)
def test_places_of_a_skip(source: str) -> None:
    assert [m.split(":")[0] for m in messages(source, CUDA)] == ["3"]


def test_interpreter_condition() -> None:
    source = """\
        @pytest.mark.skipif(is_interpreter(), reason="compiles")
        def test_x(): pass
        """
    assert messages(source, CUDA, INTERPRETER) == []
    assert messages(source, INTERPRETER) == [
        "2: `test_x` is skipped wherever this file's targets run it (cpu (interpreter)). It would "
        "run on: cuda, rocm, macos, cpu."
    ]


def test_marker_without_its_tag() -> None:
    source = """\
        @pytest.mark.rocm
        @pytest.mark.interpreter
        @pytest.mark.slow
        def test_x(): pass
        """
    assert messages(source, CUDA) == [
        "4: `test_x` is marked `rocm`, but no target of this file has that tag (cuda).",
        "4: `test_x` is marked `interpreter`, but no target of this file runs it with "
        "TRITON_INTERPRET=1 (cuda).",
    ]
    assert messages(source, ROCM, INTERPRETER) == []


def test_a_file_that_does_not_parse_is_left_to_other_linters() -> None:
    assert messages("def test_x(:", CPU) == []
    assert messages("\0", CPU) == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            """\
            def test_x():
                if is_cuda():
                    check()
                    return
                if not is_hip():
                    pytest.skip("needs a GPU")
            """,
            id="after an early return",
        ),
        pytest.param(
            """\
            @pytest.fixture
            def test_data():
                if not is_hip():
                    pytest.skip("AMD only")
            """,
            id="a fixture with a test's name",
        ),
    ],
)
def test_what_only_looks_like_a_test_that_runs_nowhere(source: str) -> None:
    assert messages(source, CUDA) == []

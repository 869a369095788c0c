from __future__ import annotations

import hashlib

import pytest

from pants_triton.artifact.fetched import FetchedFile, render_fetched

LLVM = ("3rdparty/llvm:llvm", "LLVM 62b7cf96", "linux_x86_64-ubuntu")
SYSROOT = ("3rdparty/cc:sysroot", "the tree of bookworm's clang-19", "linux_x86_64")


def cached(name: str, size: int | None = 1000) -> FetchedFile:
    return FetchedFile(name, hashlib.sha256(name.encode()).hexdigest(), size, cached=True)


def downloaded(name: str, size: int | None = 1000) -> FetchedFile:
    return FetchedFile(name, hashlib.sha256(name.encode()).hexdigest(), size, cached=False)


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        pytest.param(
            [cached("llvm.tar.gz")],
            [
                "3rdparty/llvm:llvm: LLVM 62b7cf96 for linux_x86_64-ubuntu: 1.0 kB: cached",
                "0 files downloaded (0 bytes) of 1 file (1.0 kB); all verified.",
            ],
            id="cached",
        ),
        pytest.param(
            [downloaded("llvm.tar.gz")],
            [
                "3rdparty/llvm:llvm: LLVM 62b7cf96 for linux_x86_64-ubuntu: 1.0 kB: downloaded",
                "1 file downloaded (1.0 kB) of 1 file (1.0 kB); all verified.",
            ],
            id="downloaded",
        ),
        pytest.param(
            [cached("a.deb"), downloaded("b.deb", 500), downloaded("c.deb", 700)],
            [
                "3rdparty/llvm:llvm: LLVM 62b7cf96 for linux_x86_64-ubuntu: 3 files, 2.2 kB: "
                "2 downloaded, the others cached",
                "2 files downloaded (1.2 kB) of 3 files (2.2 kB); all verified.",
            ],
            id="some of each",
        ),
        pytest.param(
            # A sum with a part that nobody knows is no sum.
            [downloaded("a.deb", None), downloaded("b.deb")],
            [
                "3rdparty/llvm:llvm: LLVM 62b7cf96 for linux_x86_64-ubuntu: 2 files, size unknown: "
                "downloaded",
                "2 files downloaded (size unknown) of 2 files (size unknown); all verified.",
            ],
            id="of unknown size",
        ),
    ],
)
def test_one_artifact(files: list[FetchedFile], lines: list[str]) -> None:
    assert render_fetched([(*LLVM, files)]) == lines


def test_a_line_for_each_artifact_in_the_order_given() -> None:
    lines = render_fetched(
        [(*SYSROOT, [downloaded("a.deb"), downloaded("b.deb")]), (*LLVM, [cached("llvm.tar.gz")])]
    )
    assert [line.partition(": ")[0] for line in lines[:-1]] == [SYSROOT[0], LLVM[0]]
    assert lines[-1] == "2 files downloaded (2.0 kB) of 3 files (3.0 kB); all verified."


def test_a_file_of_two_targets_is_counted_once() -> None:
    # The same bytes, whatever each calls them.
    one = downloaded("a.whl")
    other = FetchedFile("b.whl", one.sha256, one.size, cached=False)
    lines = render_fetched([(*LLVM, [one]), (*SYSROOT, [other])])
    assert lines[-1] == "1 file downloaded (1.0 kB) of 1 file (1.0 kB); all verified."


def test_nothing_fetched_is_nothing_told() -> None:
    assert render_fetched([]) == []

"""Test data: Triton's old workflow, and BUILD files that declare what it ran.

`testdata/triton-2025-02.yml` is `.github/workflows/integration-tests.yml` of triton-lang/triton as of
February 2025, under Triton's MIT licence. The files are those of its tree that matter to it.
"""

from __future__ import annotations

import os
from typing import Iterable, Sequence

from pants_triton.ci.coverage import DeclaredBuild, DeclaredTest, Workspace

PATH = ".github/workflows/integration-tests.yml"

#: What `[test].extra_env_vars` has: the workflow's own `env:`.
EXTRA_ENV = {"TRITON_DISABLE_LINE_INFO": "1", "PROTON_SKIP_PC_SAMPLING_TEST": "1"}


def workflow_text() -> str:
    path = os.path.join(os.path.dirname(__file__), "testdata", "triton-2025-02.yml")
    with open(path, encoding="utf-8") as file:
        return file.read()


_UNIT = "python/test/unit"
_LANGUAGE = (
    *("test_block_pointer.py", "test_core.py", "test_decorator.py", "test_line_info.py"),
    *("test_random.py", "test_standard.py", "test_subprocess.py"),
)
_RUNTIME = ("test_autotuner.py", "test_cache.py", "test_launch.py")
_LIT = ("Analysis/test-alias.mlir", "Conversion/tritongpu_to_llvm.mlir", "LLVMIR/break-phi.ll")

#: The files of the tree.
FILES: tuple[str, ...] = (
    *(f"{_UNIT}/language/{name}" for name in _LANGUAGE),
    *(f"{_UNIT}/runtime/{name}" for name in _RUNTIME),
    f"{_UNIT}/hopper/test_flashattention.py",
    f"{_UNIT}/hopper/test_gemm.py",
    f"{_UNIT}/instrumentation/test_gpuhello.py",
    f"{_UNIT}/test_debug.py",
    f"{_UNIT}/test_perf_warning.py",
    "python/test/regression/test_cast_matmul.py",
    "python/test/regression/test_functional_regression.py",
    "python/tutorials/06-fused-attention.py",
    "third_party/amd/python/test/test_extract_slice.py",
    "third_party/proton/test/test_api.py",
    "third_party/proton/test/test_profile.py",
    "test/lit.cfg.py",
    *(f"test/{name}" for name in _LIT),
)

#: The BUILD files that declare what the workflow did, by folder.
BUILD_FILES: dict[str, str] = {
    "": """
cmake_project(
    name="cmake",
    sources=["CMakeLists.txt"],
    env={"TRITON_BUILD_WITH_CLANG_LLD": "TRUE", "TRITON_USE_ASSERT_ENABLED_LLVM": "TRUE"},
)
cmake_output(name="libtriton", project=":cmake", outputs=["libtriton.so"])
cmake_output(name="instrumentation", project=":cmake", outputs=["libGPUInstrumentationTestLib.so"])
cmake_output(name="tools", project=":cmake", outputs=["bin/triton-opt"])
triton_package(
    name="triton",
    sources=["python/triton/__init__.py"],
    root="python",
    parts={":libtriton": "triton/_C"},
)
lit_tests(name="lit", root="test", project=":cmake", tools=[":tools"])
gtest_tests(
    name="unit",
    project=":cmake",
    env={"TRITON_DISABLE_LINE_INFO": "1", "PROTON_SKIP_PC_SAMPLING_TEST": "1"},
)
""",
    "python/test/unit": """
# What runs in a way of its own has targets of its own below.
triton_tests(
    name="cuda",
    sources=[
        "**/test_*.py",
        "!hopper/test_flashattention.py",
        "!language/test_line_info.py",
        "!test_debug.py",
    ],
    hardware="cuda",
    workers=8,
    dependencies=["//:triton"],
)
triton_tests(
    name="rocm",
    sources=["language/test_*.py", "runtime/test_*.py", "!language/test_line_info.py"],
    hardware="rocm",
    workers=16,
    dependencies=["//:triton"],
)
triton_tests(
    name="debug",
    sources=["test_debug.py"],
    hardware="cuda",
    workers=8,
    isolated=True,
    dependencies=["//:triton"],
)
triton_tests(
    name="line_info",
    sources=["language/test_line_info.py"],
    hardware=parametrize("cuda", "rocm"),
    env={"TRITON_DISABLE_LINE_INFO": "0"},
    dependencies=["//:triton"],
)
triton_tests(
    name="flash_attention",
    sources=["hopper/test_flashattention.py"],
    hardware="cuda",
    exclusive_device=True,
    dependencies=["//:triton"],
)
triton_tests(
    name="instrumentation",
    sources=["instrumentation/test_gpuhello.py"],
    hardware=parametrize("cuda", "rocm"),
    env={
        "TRITON_ALWAYS_COMPILE": "1",
        "TRITON_DISABLE_LINE_INFO": "0",
        "LLVM_PASS_PLUGIN_PATH": "{chroot}/instrumentation/libGPUInstrumentationTestLib.so",
    },
    dependencies=["//:triton", "//:instrumentation"],
)
triton_tests(
    name="interpreter",
    sources=[
        "language/test_block_pointer.py",
        "language/test_core.py",
        "language/test_line_info.py",
        "language/test_random.py",
        "language/test_standard.py",
        "language/test_subprocess.py",
    ],
    env={"TRITON_INTERPRET": "1"},
    pytest_args=["-m", "interpreter", "--device", "cpu"],
    workers=16,
    dependencies=["//:triton"],
)
triton_tests(
    name="interpreter_autotuner",
    sources=["runtime/test_autotuner.py"],
    env={"TRITON_INTERPRET": "1"},
    pytest_args=["-m", "interpreter", "-k", "test_kwargs and False", "--device", "cpu"],
    workers=16,
    dependencies=["//:triton"],
)
""",
    "python/test/regression": """
triton_tests(name="cuda", hardware="cuda", workers=8, dependencies=["//:triton"])
triton_tests(
    name="rocm",
    sources=["test_cast_matmul.py"],
    hardware="rocm",
    workers=8,
    dependencies=["//:triton"],
)
""",
    "python/tutorials": """
triton_tests(
    name="rocm",
    sources=["06-fused-attention.py"],
    hardware="rocm",
    dependencies=["//:triton"],
)
triton_tests(
    name="interpreter",
    sources=["06-fused-attention.py"],
    env={"TRITON_INTERPRET": "1"},
    pytest_args=["-m", "interpreter", "-k", "test_op", "--device", "cpu"],
    workers=16,
    dependencies=["//:triton"],
)
""",
    "third_party/amd/python/test": """
triton_tests(name="rocm", hardware="rocm", dependencies=["//:triton"])
""",
    "third_party/proton/test": """
triton_tests(name="device", hardware=parametrize("cuda", "rocm"), dependencies=["//:triton"])
# The build on macOS: a test that imports what was built.
triton_tests(name="macos", sources=["test_api.py"], hardware="macos", dependencies=["//:triton"])
""",
}


def workspace() -> Workspace:
    """What those BUILD files declare, as the rules read them."""
    interpreter = ("-m", "interpreter", "--device", "cpu")
    built = ("//:libtriton", "//:triton")

    def tests(
        folder: str,
        name: str,
        files: Iterable[str],
        hardware: Sequence[str] = ("cpu",),
        env: dict[str, str] | None = None,
        builds: tuple[str, ...] = built,
        **fields,
    ) -> Iterable[DeclaredTest]:
        for file in files:
            up = "../" * file.count("/")
            for one in hardware:
                parameters = f"@hardware={one}" if len(hardware) > 1 else ""
                yield DeclaredTest(
                    address=f"{folder}/{file}:{up}{name}{parameters}",
                    tool="pytest",
                    path=f"{folder}/{file}",
                    hardware=one,
                    env=tuple(sorted({**EXTRA_ENV, **(env or {})}.items())),
                    builds=builds,
                    **fields,
                )

    both = ("cuda", "rocm")
    own_way = ("language/test_line_info.py", "hopper/test_flashattention.py", "test_debug.py")
    unit = [f[len(_UNIT) + 1 :] for f in FILES if f.startswith(f"{_UNIT}/")]
    plain = [file for file in unit if file not in own_way]
    on_rocm = [file for file in plain if file.startswith(("language/", "runtime/"))]
    interpreted = [f"language/{name}" for name in _LANGUAGE if name != "test_decorator.py"]
    plugin = {
        "TRITON_ALWAYS_COMPILE": "1",
        "TRITON_DISABLE_LINE_INFO": "0",
        "LLVM_PASS_PLUGIN_PATH": "{chroot}/instrumentation/libGPUInstrumentationTestLib.so",
    }
    regression = ["test_cast_matmul.py", "test_functional_regression.py"]
    found = [
        *tests(_UNIT, "cuda", plain, ("cuda",), workers=8),
        *tests(_UNIT, "rocm", on_rocm, ("rocm",), workers=16),
        *tests(_UNIT, "debug", ["test_debug.py"], ("cuda",), workers=8, isolated=True),
        *tests(_UNIT, "line_info", own_way[:1], both, {"TRITON_DISABLE_LINE_INFO": "0"}),
        *tests(_UNIT, "flash_attention", own_way[1:2], ("cuda",)),
        *tests(
            *(_UNIT, "instrumentation", ["instrumentation/test_gpuhello.py"], both, plugin),
            builds=("//:instrumentation", *built),
        ),
        *tests(
            *(_UNIT, "interpreter", interpreted, ("cpu",), {"TRITON_INTERPRET": "1"}),
            args=interpreter,
            workers=16,
        ),
        *tests(
            *(_UNIT, "interpreter_autotuner", ["runtime/test_autotuner.py"], ("cpu",)),
            {"TRITON_INTERPRET": "1"},
            args=("-m", "interpreter", "-k", "test_kwargs and False", "--device", "cpu"),
            workers=16,
        ),
        *tests("python/test/regression", "cuda", regression, ("cuda",), workers=8),
        *tests("python/test/regression", "rocm", regression[:1], ("rocm",), workers=8),
        *tests("python/tutorials", "rocm", ["06-fused-attention.py"], ("rocm",)),
        *tests(
            *("python/tutorials", "interpreter", ["06-fused-attention.py"], ("cpu",)),
            {"TRITON_INTERPRET": "1"},
            args=("-m", "interpreter", "-k", "test_op", "--device", "cpu"),
            workers=16,
        ),
        *tests("third_party/amd/python/test", "rocm", ["test_extract_slice.py"], ("rocm",)),
        *tests("third_party/proton/test", "device", ["test_api.py", "test_profile.py"], both),
        *tests("third_party/proton/test", "macos", ["test_api.py"], ("macos",)),
        *(
            DeclaredTest(
                f"//test/{name}:{'../' * (name.count('/') + 1)}lit",
                "lit",
                f"test/{name}",
                env=tuple(sorted(EXTRA_ENV.items())),
                suite="test",
                builds=("//:tools",),
            )
            for name in _LIT
        ),
        DeclaredTest("//:unit", "gtest", "", env=tuple(sorted(EXTRA_ENV.items()))),
    ]
    env = (("TRITON_BUILD_WITH_CLANG_LLD", "TRUE"), ("TRITON_USE_ASSERT_ENABLED_LLVM", "TRUE"))
    builds = [
        DeclaredBuild(f"//:{name}", "", name == "triton", env)
        for name in ("instrumentation", "libtriton", "tools", "triton")
    ]
    return Workspace(
        tuple(sorted(found, key=lambda t: t.address)), tuple(builds), tuple(sorted(FILES))
    )

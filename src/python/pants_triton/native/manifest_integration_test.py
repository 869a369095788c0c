"""What is read from a manifest, and what ninja itself says of it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Callable, Iterable, Mapping

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pants_triton.native.manifest import Edge, Manifest, ManifestError, read_manifest

NINJA = shutil.which("ninja")
CMAKE = shutil.which("cmake")
COMPILER = shutil.which("c++") or shutil.which("clang++") or shutil.which("g++")

# Older ones know no validations.
OLDEST_NINJA = (1, 11)


def ninja_version() -> tuple[int, ...]:
    if NINJA is None:
        return ()
    done = subprocess.run([NINJA, "--version"], stdout=subprocess.PIPE, check=True)
    return tuple(map(int, re.findall(r"\d+", done.stdout.decode("ascii"))[:2]))


VERSION = ninja_version()


def why_not(*, cmake: bool) -> str:
    """Why this host can't run these tests, "" if it can."""
    if NINJA is None:
        return "ninja isn't there"
    if VERSION < OLDEST_NINJA:
        return f"ninja is {VERSION}, older than {OLDEST_NINJA}"
    if cmake and CMAKE is None:
        return "cmake isn't there"
    if cmake and COMPILER is None:
        return "a C++ compiler isn't there"
    return ""


if why_not(cmake=True):
    what = "CMake's manifests" if not why_not(cmake=False) else "manifests against ninja"
    warnings.warn(f"NOT TESTED: {what}, because {why_not(cmake=True)}", stacklevel=1)
pytestmark = pytest.mark.skipif(bool(why_not(cmake=False)), reason=why_not(cmake=False) or "-")
with_cmake = pytest.mark.skipif(bool(why_not(cmake=True)), reason=why_not(cmake=True) or "-")


def ninja(folder: Path, *args: str, status: str = "") -> tuple[str, str]:
    """What ninja prints, and what it complains of where it fails."""
    assert NINJA is not None
    done = subprocess.run(
        [NINJA, *args],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NINJA_STATUS": status},
        timeout=300,
    )
    problem = ""
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace")
        problem = f"exit code {done.returncode}: {said}"
    return done.stdout.decode("utf-8", "surrogateescape"), problem


def answer(folder: Path, *args: str, status: str = "") -> str:
    output, problem = ninja(folder, *args, status=status)
    assert not problem
    return output


def read_in(folder: Path) -> Manifest:
    def text_of(name: str) -> str:
        return (folder / name).read_bytes().decode("utf-8", "surrogateescape")

    return read_manifest(text_of)


def argument(path: str) -> str:
    """`path` as an argument of ninja that is no option and no target of its `^` syntax."""
    assert not path.endswith("^")
    return path if path.startswith("/") else f"./{path}"


def described(manifest: Manifest) -> str:
    """What `ninja -t query` says of every output."""
    users: dict[str, list[str]] = {}
    validated: dict[str, list[str]] = {}
    for edge in manifest.edges:
        for path in edge.all_inputs:
            users.setdefault(path, []).extend(edge.all_outputs)
        for path in edge.validations:
            validated.setdefault(path, []).extend(edge.all_outputs)
    lines = []
    for edge in manifest.edges:
        for output in edge.all_outputs:
            lines += [f"{output}:", f"  input: {edge.rule}"]
            lines += [f"    {path}" for path in edge.inputs]
            lines += [f"    | {path}" for path in edge.implicit_inputs]
            lines += [f"    || {path}" for path in edge.order_only]
            if edge.validations:
                lines += ["  validations:", *(f"    {path}" for path in edge.validations)]
            lines += ["  outputs:", *(f"    {path}" for path in users.get(output, ()))]
            if output in validated:
                lines += ["  validation for:", *(f"    {path}" for path in validated[output])]
    return "".join(f"{line}\n" for line in lines)


def names_itself(said: str, manifest: Manifest) -> bool:
    """Whether `ninja -t query` lists a phony edge among the users of its own outputs. Ninja drops such
    an input of the first output, and goes on listing it: see `test_a_phony_edge_of_itself`."""
    output = section = ""
    for line in said.splitlines():
        if not line.startswith(" "):
            output = line[:-1]
        elif not line.startswith("    "):
            section = line.strip()
        elif section == "outputs:":
            edge = manifest.edge_of(output)
            if edge is not None and edge.is_phony and line.strip() in edge.all_outputs:
                return True
    return False


def written_command(edge: Edge) -> str:
    """A phony edge's too, which ninja lists and never runs."""
    return edge.bindings.get("command", "")


def with_response_file(edge: Edge) -> str:
    """The command as `ninja -t compdb -x` gives it."""
    command = written_command(edge)
    before, at, after = command.partition(f"@{edge.rspfile}")
    if not edge.rspfile or not at or command.find(edge.rspfile) != len(before) + 1:
        return command
    return before + edge.rspfile_content.replace("\n", " ") + after


def assert_commands(
    manifest: Manifest, folder: Path, command: Callable[[Edge], str], *options: str
) -> None:
    """Of all edges that have inputs: ninja leaves the others out."""
    seen = {}
    for entry in json.loads(answer(folder, "-t", "compdb", *options)):
        edge = manifest.edge_of(entry["output"])
        assert edge is not None
        assert entry["file"] in edge.all_inputs
        assert entry["command"] == command(edge)
        seen[edge.all_outputs[0]] = edge
    assert list(seen.values()) == [edge for edge in manifest.edges if edge.all_inputs]


def assert_same_as_ninja(folder: Path) -> Manifest:
    manifest = read_in(folder)
    assert answer(folder, "-t", "targets", "all") == "".join(
        f"{path}: {edge.rule}\n" for edge in manifest.edges for path in edge.all_outputs
    )
    assert answer(folder, "-t", "rules").split() == list(manifest.rules)
    assert_commands(manifest, folder, written_command)
    assert_commands(manifest, folder, with_response_file, "-x")
    outputs = [path for edge in manifest.edges for path in edge.all_outputs]
    assert answer(folder, "-t", "query", *map(argument, outputs)) == described(manifest)

    # Of every edge alone, those without inputs too.
    commands = "".join(f"{edge.command}\n" for edge in manifest.edges if not edge.is_phony)
    assert answer(folder, "-t", "commands", "-s", *map(argument, outputs)) == commands
    # And what each needs, in ninja's own order. It leaves validations out here.
    plain = dataclasses.replace(
        manifest, edges=tuple(dataclasses.replace(e, validations=()) for e in manifest.edges)
    )
    step = max(1, len(outputs) // 100)
    for targets in [[path] for path in outputs[::step]] + [outputs[::-1]]:
        assert answer(folder, "-t", "commands", *map(argument, targets)) == "".join(
            f"{edge.command}\n" for edge in plain.edges_for(targets) if not edge.is_phony
        )
    by_default = [e.command for e in plain.edges_for(manifest.default_targets) if not e.is_phony]
    assert answer(folder, "-t", "commands") == "".join(f"{command}\n" for command in by_default)
    return manifest


def dry_run(folder: Path, *targets: str) -> list[str]:
    """The commands that ninja would run in a folder where nothing is built, sorted."""
    output = answer(folder, "-n", "-v", *targets, status="\x01")
    return sorted(each.rstrip("\n") for each in output.split("\x01")[1:])


def run_edges(edges: Iterable[Edge], folder: Path) -> None:
    """Runs them one after the other, as a user of the manifest would."""
    for edge in edges:
        if edge.is_phony:
            continue
        for path in edge.all_outputs:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if edge.rspfile:
            (folder / edge.rspfile).parent.mkdir(parents=True, exist_ok=True)
            (folder / edge.rspfile).write_text(edge.rspfile_content)
        subprocess.run(["/bin/sh", "-c", edge.command], cwd=folder, check=True)


# What CMake writes


def configure(source: Path, build: Path, *options: str) -> None:
    assert CMAKE is not None and NINJA is not None and COMPILER is not None
    done = subprocess.run(
        [
            CMAKE,
            *("-G", "Ninja", "-S", source, "-B", build),
            *(f"-DCMAKE_MAKE_PROGRAM={NINJA}", f"-DCMAKE_CXX_COMPILER={COMPILER}", *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


SAMPLE = {
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.18)
project(sample CXX)
set_property(GLOBAL PROPERTY JOB_POOLS one=1 two=2)
set(CMAKE_JOB_POOL_LINK one)
add_custom_command(
  OUTPUT gen/version.h BYPRODUCTS gen/stamp
  COMMAND ${CMAKE_COMMAND} -E make_directory gen
  COMMAND ${CMAKE_COMMAND} -E touch gen/stamp
  COMMAND ${CMAKE_COMMAND} -E echo "static const char *version = \\"$$ a:b | c#d\\";" > gen/version.h
  DEPENDS version.in VERBATIM JOB_POOL two COMMENT "Cost: $5")
add_library(core STATIC core.cpp "odd names/a $b:c.cpp" gen/version.h)
target_compile_definitions(core PRIVATE "TEXT=\\"a b$c:%\\"" PLAIN)
target_include_directories(core PUBLIC ${CMAKE_CURRENT_BINARY_DIR}/gen)
add_library(plugin MODULE plugin.cpp)
target_link_libraries(plugin PRIVATE core)
set_target_properties(core plugin PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_executable(tool tool.cpp)
target_link_libraries(tool PRIVATE core)
add_custom_command(TARGET tool POST_BUILD COMMAND ${CMAKE_COMMAND} -E touch "tool ran")
add_custom_command(
  OUTPUT result.txt COMMAND tool > result.txt DEPENDS tool)
add_custom_target(check ALL DEPENDS result.txt)
add_custom_target(always COMMAND ${CMAKE_COMMAND} -E echo always USES_TERMINAL)
add_dependencies(plugin check)
add_subdirectory(sub)
enable_testing()
add_test(NAME tool COMMAND tool)
install(TARGETS tool DESTINATION bin)
""",
    "version.in": "1\n",
    "core.cpp": '#include "version.h"\nconst char *core() { return version; }\n',
    "odd names/a $b:c.cpp": "const char *odd() { return TEXT; }\n",
    "plugin.cpp": "const char *core();\nconst char *plugin() { return core(); }\n",
    "tool.cpp": "#include <cstdio>\nconst char *core(); const char *odd(); int sub();\n"
    'int main() { std::printf("%s %s\\n", core(), odd()); }\n',
    "sub/CMakeLists.txt": "add_library(sub SHARED sub.cpp)\ntarget_link_libraries(tool PRIVATE sub)\n",
    "sub/sub.cpp": "int sub() { return 1; }\n",
}


@with_cmake
@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="plain"),
        pytest.param(("-DCMAKE_NINJA_FORCE_RESPONSE_FILE=ON",), id="response files"),
    ],
)
def test_a_cmake_project(tmp_path: Path, options: tuple[str, ...]) -> None:
    source = tmp_path / "a source $x"
    build = tmp_path / "build"
    write(source, SAMPLE)
    configure(source, build, *options)
    manifest = assert_same_as_ninja(build)

    assert any(edge.rspfile for edge in manifest.edges) == bool(options)
    assert manifest.pools == {"console": 1, "one": 1, "two": 2}
    assert {edge.pool for edge in manifest.edges} == {"", "console", "one", "two"}
    assert manifest.defaults == ("all",)

    wanted = manifest.edges_for(["all"])
    commands = sorted(edge.command for edge in wanted if not edge.is_phony)
    assert dry_run(build, "all") == commands
    manifest.require_sources(wanted, lambda path: (build / path).exists())

    odd = next(e for e in manifest.edges if e.inputs[:1] == (f"{source}/odd names/a $b:c.cpp",))
    # CMake 3.25 quotes it for the shell, so that ninja never finds it.
    assert odd.depfile == f"{odd.outputs[0]}.d" or odd.depfile.startswith('"')
    core = next(e for e in manifest.edges if e.inputs[:1] == (f"{source}/core.cpp",))
    assert (core.depfile, core.deps) == (f"{core.outputs[0]}.d", "gcc")
    assert str(build / "gen/version.h") not in odd.all_inputs
    assert "gen/version.h" in {p for each in odd.order_only for p in manifest.resolve_phony(each)}
    configured_from = manifest.edge_of(str(source / "CMakeLists.txt"))
    assert configured_from is not None and configured_from.stands_for_nothing

    run_edges(wanted, build)
    assert (build / "result.txt").read_text() == "$$ a:b | c#d a b$c:%\n"
    assert all(
        (build / path).exists()
        for target in ["all", *(p for edge in wanted for p in edge.inputs)]
        for path in manifest.resolve_phony(target)
        if path != "CMakeFiles/check"
    )


def large_project(libraries: int, files: int, tables: int) -> dict[str, str]:
    """As LLVM is built: tables generated by a tool that is itself built, and many libraries of
    which each needs those before it."""
    project = {
        "tool.cpp": "int main() {}\n",
        "CMakeLists.txt": f"""\
cmake_minimum_required(VERSION 3.18)
project(large CXX)
set(CMAKE_CXX_FLAGS "-O2 -fno-exceptions")
add_executable(tblgen tool.cpp)
foreach(i RANGE 1 {tables})
  add_custom_command(OUTPUT inc/t${{i}}.inc COMMAND tblgen -I ${{CMAKE_SOURCE_DIR}} t${{i}}.td
    -o inc/t${{i}}.inc DEPENDS tblgen VERBATIM COMMENT "Building t${{i}}.inc...")
  list(APPEND tables inc/t${{i}}.inc)
endforeach()
add_custom_target(tables_gen DEPENDS ${{tables}})
foreach(i RANGE 1 {libraries})
  set(sources)
  foreach(j RANGE 1 {files})
    file(WRITE ${{CMAKE_BINARY_DIR}}/src/l${{i}}_${{j}}.cpp "")
    list(APPEND sources ${{CMAKE_BINARY_DIR}}/src/l${{i}}_${{j}}.cpp)
  endforeach()
  add_library(l${{i}} STATIC ${{sources}})
  add_dependencies(l${{i}} tables_gen)
  if(i GREATER 1)
    math(EXPR previous "${{i}} - 1")
    target_link_libraries(l${{i}} PUBLIC l${{previous}})
  endif()
endforeach()
add_executable(opt tool.cpp)
target_link_libraries(opt PRIVATE l{libraries})
""",
    }
    return project


@with_cmake
def test_a_large_cmake_project(tmp_path: Path) -> None:
    write(tmp_path, large_project(libraries=20, files=40, tables=60))
    build = tmp_path / "build"
    configure(tmp_path, build)
    start = time.process_time()
    read_in(build)
    took = time.process_time() - start
    manifest = assert_same_as_ninja(build)
    assert len(manifest.edges) > 930
    assert dry_run(build) == sorted(
        edge.command for edge in manifest.edges_for(manifest.default_targets) if not edge.is_phony
    )
    # In seconds; 0.05 as a rule.
    assert took < 2


# What people write

HAND_WRITTEN = {
    "escapes": {
        "build.ninja": """\
# a comment
   # another
ninja_required_version = 1.3
v = a  b$$c$:$ d | e:f # no comment
long = one $
    two$
    three
empty =
dir.name = x
bar = |
builddir = .
rule $
  r
  command = echo $v ${long}$empty "$dir.name" ${dir.name} $in '$in_newline' $out $unknown.
  description = $v
  # a comment in a rule
  restat = $empty
rule rsp
  command = cat @$out.rsp $rspfile '$rspfile_content'
  rspfile = $out.rsp
  rspfile_content = $in_newline '$out'

build out$ 1 $
    ./out//2 | x/../implicit$:$$: r in'1 ../in#2 a${bar}b $
    =x | dep || order $
    |@ valid
build ${dir.name}/o: rsp in$ put "q" \\ ~ * | x/./o.dep
  v = edge
build ../up /abs/../o é: rsp a/../../b /a//b/ . ./. ..
  rspfile = set $out
build valid order dep: phony
build none: r
build alias|also: phony none |@ valid
default out$ 1 x/o
default alias ./none
"""
    },
    "windows line ends": {
        "build.ninja": "# c\r\nv = a $\r\n   b\r\n\r\nrule r\r\n  command = c $v $in\r\n"
        "build a: r b $\r\n  c\r\n  v = x\r\n\r\ndefault a\r\n"
    },
    "scopes": {
        "build.ninja": """\
v = 1
w = $v
rule r
  command = r v=$v w=$w x=$x
  description = rule's
build a$v: r in
build b$v: r in
  v = edge
  x = $v
v = 2
include inc.ninja
build c$v: r in
n = first
subninja sub$v.ninja
build d$v: inc in
n = second
subninja sub$v.ninja
v = 4
""",
        "inc.ninja": "v = 3\nrule inc\n  command = inc $v\nx = included\n",
        "sub3.ninja": """\
build ${p}e$v$n: r in
  p = ${v}p
v = sub
rule r
  command = sub's r v=$v w=$w $description
build f$v$n: r in
build g$v$n: inc in
rule phony
  command = not phony
description = file's
build h$v$n: phony a1
build i$v$n: r in
w = i
""",
    },
    "pools": {
        "build.ninja": "pool p\n  depth = 3x\npool q\n  depth =  0\np = p\n"
        "rule r\n  command = c\n  pool = $p$in\nbuild a: r b\n  x = y\np = q\nbuild c: r\n"
        "build d: r\n  pool = console\nbuild e: r\n  pool =\n"
    },
    "phony": {
        "build.ninja": "rule r\n  command = c $in\nbuild always: phony\n"
        "build x: r y | always\nbuild z: phony x always || y\nbuild w: phony |@ always\n"
    },
    "blank lines and comments between": {
        "build.ninja": "rule r # c\n\n  # c\n  command = c\n\n\n  # c\nbuild a: r # b\n# c\n  x = y\n"
    },
    "the file's before the rule's": {
        "build.ninja": "command = top\nrspfile = top\nrule r\n  command = rule $description\n"
        "  description = x\nbuild a: r b\nbuild c: r d\n  x = y\n"
    },
    "an end at NUL": {"build.ninja": "rule r\n  command = c\nbuild a: r b\n\0build ?\n"},
}


@pytest.mark.parametrize("files", [pytest.param(v, id=k) for k, v in HAND_WRITTEN.items()])
def test_a_hand_written_manifest(tmp_path: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode("utf-8"))
    assert assert_same_as_ninja(tmp_path).edges


def test_a_phony_edge_of_itself(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text("build self: phony a self b\n")
    edge = read_in(tmp_path).edges[0]
    said = answer(tmp_path, "-t", "query", "self").partition("  outputs:")[0]
    assert said == "self:\n  input: phony\n" + "".join(f"    {p}\n" for p in edge.inputs)


def test_validations_are_built(tmp_path: Path) -> None:
    text = """\
rule r
  command = $name $in
build a: r b |@ check
  name = a
build b: r || c
  name = b
build c: r |@ check2
  name = c
build check: r a x
  name = check
build check2 x: r
  name = check2
build unneeded: r
"""
    (tmp_path / "build.ninja").write_text(text)
    manifest = assert_same_as_ninja(tmp_path)
    for target in "a", "b", "c", "check", "x":
        commands = sorted(edge.command for edge in manifest.edges_for([target]))
        assert dry_run(tmp_path, target) == commands


@pytest.mark.parametrize(
    ("edges", "target"),
    [
        ("build a: r b\nbuild b: r a\n", "a"),
        ("build a b: r c\nbuild c: r a\n", "b"),
        ("build a: r || a\n", "a"),
        ("build a: r |@ b\nbuild b: r | c\nbuild c: r || b\n", "a"),
        ("build a: phony b\nbuild b: phony c\nbuild c: phony b\n", "a"),
    ],
)
def test_circles_are_named_as_ninja_names_them(tmp_path: Path, edges: str, target: str) -> None:
    (tmp_path / "build.ninja").write_text(f"rule r\n  command = c\n{edges}")
    _, problem = ninja(tmp_path, target)
    said = re.search("dependency cycle: [^\n[]*", problem)
    assert said is not None
    with pytest.raises(ManifestError) as e:
        read_in(tmp_path).edges_for([target])
    assert f"{said[0].strip()}. " in str(e.value)


# Whatever comes

VALUES = st.lists(
    st.sampled_from(
        [
            *("a", "b ", "$$", "$ ", "$:", "$\n   ", "$x", "${y}", "$in", "$out", "$in_newline"),
            *("$rspfile", "$description", "#", ":", "|", "'", '"', "\t", "\u00e9"),
        ]
    ),
    max_size=5,
).map("".join)
# Canonical forms beyond the root differ between versions of ninja.
PATHS = st.lists(
    st.sampled_from(
        [
            *("a", "b", "c", "$x", "${y}", "./", "d/../", "//e", "$ ", "$:", "$$", "'", "#", "="),
            *("\u00e9", "$\n  "),
        ]
    ),
    min_size=1,
    max_size=3,
).map(lambda parts: "p" + "".join(parts))
PATH_LISTS = st.lists(PATHS, max_size=3).map(" ".join)


@st.composite
def statements(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["let", "rule", "build", "build", "build", "other"]))
    name = draw(st.sampled_from(["x", "y", "x.y", "command", "description", "rspfile"]))
    if kind == "let":
        return f"{name} = {draw(VALUES)}\n"
    if kind == "rule":
        rule = draw(st.sampled_from(["t", "u", "v", "w", "r"]))
        text = f"rule {rule}\n  command = c {draw(VALUES)}\n"
        if draw(st.booleans()):
            text += f"  rspfile = $out{draw(VALUES)}\n  rspfile_content = c{draw(VALUES)}\n"
        return text + draw(st.sampled_from(["", "  # c\n", f"  description = {draw(VALUES)}\n"]))
    if kind == "other":
        return draw(
            st.sampled_from(
                [
                    *("\n", "# c\n", "include x.ninja\n", "subninja x.ninja\n", "default pa\n"),
                    *("pool p\n  depth = 1\n", "  x = 1\n", "build", "default $x\n", "x\n"),
                    *("y = $^\n", "y = ${\n", "y = $", "y = $\r", "build a: phony |\n"),
                    *("\n", "# c\n") * 5,
                ]
            )
        )
    parts = [f"build o{draw(PATHS)} {draw(PATH_LISTS)}"]
    if draw(st.booleans()):
        parts.append(f" | {draw(PATH_LISTS)}")
    parts.append(
        f": {draw(st.sampled_from(['r', 's', 'r', 's', 'phony', 't']))} {draw(PATH_LISTS)}"
    )
    for symbol in "|", "||", "|@":
        if draw(st.booleans()):
            parts.append(f" {symbol} {draw(PATH_LISTS)}")
    bindings = draw(st.lists(st.tuples(st.sampled_from(["x", "y", name]), VALUES), max_size=2))
    return "".join(parts) + "\n" + "".join(f"  {key} = {value}\n" for key, value in bindings)


RULES = "rule r\n  command = r $in $x $out\nrule s\n  command = s $y\n"
NEWLINES = st.sampled_from(["\n", "\n", "\n", "\r\n"])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(statements(), max_size=6).map("".join),
    # Without an end, ninja crashes after long.
    st.lists(statements(), max_size=2).map("".join).filter(lambda text: "ninja" not in text),
    NEWLINES,
)
@example("build a: r b#c $\n  d | e\n", "", "\n")
@example("rule t # c\n\n  command = c\nbuild a: t b\n", "", "\n")
@example("build b/../a : phony c/../a\n", "", "\n")
def test_manifests_that_come_about(text: str, other: str, newline: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {"build.ninja": RULES + text, "x.ninja": other}
        for file, content in files.items():
            (folder / file).write_bytes(content.replace("\n", newline).encode("utf-8"))
        said, problem = ninja(folder, "-t", "targets", "all")
        try:
            manifest = read_in(folder)
        except ManifestError as e:
            assert problem, e
            return
        assert not problem
        assert said == "".join(
            f"{path}: {edge.rule}\n" for edge in manifest.edges for path in edge.all_outputs
        )
        assert answer(folder, "-t", "rules").split() == list(manifest.rules)
        outputs = [path for edge in manifest.edges for path in edge.all_outputs]
        if outputs:
            said = answer(folder, "-t", "query", *map(argument, outputs))
            assert names_itself(said, manifest) or said == described(manifest)
        _, problem = ninja(folder, "-t", "compdb")
        if not problem:
            assert_commands(manifest, folder, written_command)
        elif VERSION >= (1, 13):
            # Older ones take a variable that a rule names twice for a circle.
            with pytest.raises(ManifestError, match="cycle in rule variables"):
                [edge.command for edge in manifest.edges]

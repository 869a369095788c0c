from __future__ import annotations

import dataclasses
import re
import time
from pathlib import Path
from typing import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pants_triton.native.manifest import (
    RULE_VARIABLES,
    Edge,
    Manifest,
    ManifestError,
    canonical_path,
    read_manifest,
    shell_quoted,
)

CAT = "rule cat\n  command = cat $in > $out\n"


def read(text: str, **others: str) -> Manifest:
    """The manifest `text`; each of `others` is the file of that name and the ending `.ninja`."""
    files = {f"{name}.ninja": content for name, content in others.items()}
    return read_manifest({**files, "build.ninja": text})


def only_edge(text: str, **others: str) -> Edge:
    (edge,) = read(text, **others).edges
    return edge


def refused(text: str, **others: str) -> str:
    with pytest.raises(ManifestError) as e:
        read(text, **others)
    assert len(str(e.value).splitlines()) == 1
    return str(e.value)


def test_everything_about_an_edge() -> None:
    manifest = read(
        """\
# As CMake writes it.
ninja_required_version = 1.5
cflags = -O2

pool link_pool
  depth = 2

rule CXX
  command = c++ $cflags $FLAGS -MF $DEP -o $out -c $in @$out.rsp
  depfile = $DEP
  deps = gcc
  description = Building $out
  rspfile = $out.rsp
  rspfile_content = $in_newline $EXTRA
  restat = 1
  generator = 1

build a$ b.o x.o | x.gcno: CXX ./x.cc src/../y.cc | gen.h $
    gen2.h || order |@ check
  FLAGS = -g
  DEP = $out.d
  pool = link_pool
build check order: phony
default x.o
cflags = -O3
"""
    )
    edge = manifest.edges[0]
    assert edge == Edge(
        outputs=("a b.o", "x.o"),
        implicit_outputs=("x.gcno",),
        inputs=("x.cc", "y.cc"),
        implicit_inputs=("gen.h", "gen2.h"),
        order_only=("order",),
        validations=("check",),
        rule="CXX",
        bindings={
            # What an edge's own variable says is expanded where `$out` isn't known yet.
            "DEP": ".d",
            "FLAGS": "-g",
            "command": "c++ -O3 -g -MF .d -o 'a b.o' x.o -c x.cc y.cc @'a b.o' x.o.rsp",
            "depfile": ".d",
            "deps": "gcc",
            "description": "Building 'a b.o' x.o",
            "generator": "1",
            "pool": "link_pool",
            "restat": "1",
            "rspfile": "a b.o x.o.rsp",
            "rspfile_content": "x.cc\ny.cc ",
        },
    )
    assert (edge.location, manifest.edges[1].location) == ("build.ninja:18", "build.ninja:23")
    assert edge.all_outputs == ("a b.o", "x.o", "x.gcno")
    assert edge.all_inputs == ("x.cc", "y.cc", "gen.h", "gen2.h", "order")
    assert (edge.restat, edge.generator, edge.is_phony) == (True, True, False)
    assert (edge.depfile, edge.deps, edge.pool) == (".d", "gcc", "link_pool")
    assert (edge.rspfile, edge.rspfile_content) == ("a b.o x.o.rsp", "x.cc\ny.cc ")
    assert edge.description == edge.bindings["description"]
    assert manifest.pools == {"console": 1, "link_pool": 2}
    assert manifest.defaults == manifest.default_targets == ("x.o",)
    assert manifest.variables == {"ninja_required_version": "1.5", "cflags": "-O3"}
    assert manifest.rules == ("CXX", "phony")


def test_an_edge_of_nothing_but_a_command() -> None:
    edge = only_edge("rule r\n  command = true\nbuild out: r\n")
    assert edge.bindings == {"command": "true"}
    assert edge.command == "true"
    assert (edge.description, edge.depfile, edge.deps, edge.pool) == ("", "", "", "")
    assert (edge.rspfile, edge.rspfile_content) == ("", "")
    assert not edge.restat and not edge.generator
    assert repr(edge.bindings) == "{'command': 'true'}"


# Text


@pytest.mark.parametrize(
    ("written", "value"),
    [
        pytest.param("a b  ", "a b  ", id="trailing blanks stay"),
        pytest.param("   a", "a", id="leading ones go"),
        pytest.param("$ a", " a", id="but not an escaped one"),
        pytest.param("$$x $: |:# $", "$x : |:# ", id="escapes"),
        pytest.param("$v ${v} $v.x ${v.x} $v-x $", "V V V.x VX VVX ", id="names"),
        pytest.param("a$\n     b", "ab", id="a continued line"),
        pytest.param("a $\n     $\n  b", "a b", id="two"),
        pytest.param("$\n  a", "a", id="before the value"),
        pytest.param("$unknown", "", id="an unknown variable"),
        pytest.param("", "", id="empty"),
        pytest.param("a\tb # c", "a\tb # c", id="neither tab nor comment end it"),
        pytest.param("\u00e9\u2028\udcff", "\u00e9\u2028\udcff", id="more than ASCII"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_values(written: str, value: str, newline: str) -> None:
    written = written[:-1] + "$\n" if written.endswith(" $") else written
    text = f"v = V\nv.x = VX\nv-x = VVX\nx = {written}\n".replace("\n", newline)
    assert read(text).variables["x"] == value


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        pytest.param("a   b ", ["a", "b"], id="blanks part paths"),
        pytest.param("a$ b", ["a b"], id="unless escaped"),
        pytest.param("a$:b$$c", ["a:b$c"], id="colon and dollar"),
        pytest.param("$v/x ${v}y", ["d/x", "dy"], id="a variable"),
        pytest.param("$two", ["a b"], id="one variable is one path"),
        pytest.param("a$\n   b", ["ab"], id="a line continued within a path"),
        pytest.param("a $\n   b", ["a", "b"], id="and between paths"),
        pytest.param("a#b #c", ["a#b", "#c"], id="no comment"),
        pytest.param("a\tb", ["a\tb"], id="a tab"),
        pytest.param("a=b {x}", ["a=b", "{x}"], id="other symbols"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", " ", " || z", "|z"])
def test_paths(written: str, paths: list[str], newline: str, end: str) -> None:
    text = f"v = d\ntwo = a b\nbuild out: phony {written}{end}\n".replace("\n", newline)
    assert list(only_edge(text).inputs) == paths


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("a", "a"),
        ("./a/.//b/../c/", "a/c"),
        ("a/..", "."),
        (".", "."),
        ("..", ".."),
        ("../../a", "../../a"),
        ("../a/../../b", "../../b"),
        ("a/../../b", "../b"),
        ("/", "/"),
        ("//a/.", "/a"),
        ("/a/..", "/"),
        ("/../a", "/../a"),
        (".a/..b/c.", ".a/..b/c."),
        ("", ""),
    ],
)
def test_canonical_paths(path: str, canonical: str) -> None:
    assert canonical_path(path) == canonical
    assert canonical_path(canonical) == canonical


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        ("a/b-c_d+e.0", "a/b-c_d+e.0"),
        ("a b", "'a b'"),
        ("it's", "'it'\\''s'"),
        ("$x:=\\", "'$x:=\\'"),
        ("\u00e9", "'\u00e9'"),
    ],
)
def test_quoted_paths(path: str, quoted: str) -> None:
    assert shell_quoted(path) == quoted


def test_comments_and_empty_lines() -> None:
    text = f"#\n\n   # indented\n{CAT}   # in a rule's variables\n  restat = 1\n\nbuild a: cat b\n"
    edge = only_edge(text)
    assert (edge.restat, edge.location) == (True, "build.ninja:9")
    # An empty line ends the indented ones, so this is none of the rule's.
    assert "unexpected indent" in refused("rule x\n  command = c\n\n  restat = 1\n")


def test_the_text_ends_at_a_nul() -> None:
    assert read("a = 1\n\0b = 2\n").variables == {"a": "1"}


# Scopes, and when what is expanded


def command(text: str, **others: str) -> str:
    return read(text, **others).edges[0].command


def test_a_top_level_variable_is_expanded_at_once() -> None:
    assert read("a = 1\nb = $a\na = 2\n").variables == {"a": "2", "b": "1"}


def test_a_rule_is_expanded_late() -> None:
    assert command("rule r\n  command = $a\na = 1\nbuild x: r\na = 2\n") == "2"


def test_an_edges_variables_and_paths_are_expanded_at_once() -> None:
    text = "rule r\n  command = $b\na = 1\nbuild $p.$a: r\n  b = $a\n  p = x\na = 2\n"
    assert (only_edge(text).command, only_edge(text).outputs) == ("1", ("x.1",))


def test_an_edges_variables_do_not_see_each_other() -> None:
    assert command("rule r\n  command = $b\na = top\nbuild x: r\n  a = edge\n  b = $a\n") == "top"


def test_edge_then_rule_then_file() -> None:
    rule = "rule r\n  command = $description $x\n  description = rule\n"
    assert command(f"{rule}x = top\nbuild o: r\n  description = edge\n  x = edge\n") == "edge edge"
    assert command(f"{rule}x = top\nbuild o: r\n  y =\n") == "rule top"


def test_without_variables_of_its_own_the_file_goes_before_the_rule() -> None:
    # Not what the manual says, but what ninja does.
    rule = "rule r\n  command = $description\n  description = rule\ndescription = top\n"
    assert command(f"{rule}build o: r\n") == "top"
    assert command(f"{rule}build o: r\n  y =\n") == "rule"


def test_in_and_out_cannot_be_set() -> None:
    text = "rule r\n  command = $in $out\nin = top\nbuild o: r i\n  in = edge\n  out = edge\n"
    assert command(text) == "i o"


def test_a_rule_has_no_response_file_of_the_top_level() -> None:
    text = "rule r\n  command = c\nrspfile = x\nrspfile_content = y\nbuild o: r\n  y =\n"
    assert only_edge(text).rspfile == ""


def test_an_include_is_the_same_scope() -> None:
    manifest = read(
        "a = 1\ninclude x.ninja\nbuild o: r $a\n", x=f"a = 2\n{CAT.replace('cat', 'r')}"
    )
    assert manifest.variables == {"a": "2"}
    assert manifest.rules == ("phony", "r")
    assert manifest.edges[0].inputs == ("2",)


def test_a_subninja_is_a_scope_of_its_own() -> None:
    child = "a = child\nrule r\n  command = child $a $b\nbuild in: r\nbuild also: cat\n  pool = p\n"
    text = f"a = top\nb = old\n{CAT}pool p\n  depth = 0\nsubninja x.ninja\nb = new\n"
    manifest = read(f"{text}rule r\n  command = top $a\nbuild out: r\n", x=child)
    assert [e.command for e in manifest.edges] == ["child child new", "cat  > also", "top top"]
    assert [e.location for e in manifest.edges] == ["x.ninja:4", "x.ninja:5", "build.ninja:11"]
    assert manifest.variables["a"] == "top"


def test_the_name_of_an_included_file() -> None:
    assert read("d = x\ninclude $d.ninja\n", x="y = 1\n").variables["y"] == "1"


def test_files_come_from_a_function(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text("include rules.ninja\n")
    (tmp_path / "rules.ninja").write_text(CAT)
    assert read_manifest(lambda name: (tmp_path / name).read_text()).rules == ("cat", "phony")
    (tmp_path / "rules.ninja").unlink()
    with pytest.raises(ManifestError, match=r"build\.ninja:1: loading 'rules\.ninja': .*No such"):
        read_manifest(lambda name: (tmp_path / name).read_text())
    (tmp_path / "rules.ninja").write_bytes(b"\xff")
    with pytest.raises(ManifestError, match="loading 'rules.ninja': .*decode"):
        read_manifest(lambda name: (tmp_path / name).read_text("utf-8"))


def test_a_pool_is_chosen_where_the_edge_stands() -> None:
    pools = "pool a\n  depth = 1\npool b\n  depth = 2\n"
    text = f"{pools}rule r\n  command = $in\n  pool = $p$in\np = a\nbuild o: r i\np = b\n"
    assert only_edge(text).pool == "a"


def test_the_console_is_a_pool() -> None:
    assert only_edge(f"{CAT}build o: cat\n  pool = console\n").pool == "console"


def test_an_old_cmakes_phony_edge_of_itself() -> None:
    manifest = read("build a: phony x a\n")
    assert manifest.edges[0].inputs == ("x",)
    assert manifest.edges_for(["a"]) == manifest.edges


# Errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("x", "build.ninja:1: expected '=', got eof", id="end of file"),
        pytest.param("\n\nx = 1", "build.ninja:3: unexpected end of file", id="no last newline"),
        pytest.param("x 3\n", "build.ninja:1: expected '=', got identifier", id="no ="),
        pytest.param("x = $\n $", "build.ninja:2: bad $-escape", id="a $ at the end"),
        pytest.param("x = ${a b}\n", "bad $-escape (literal $ must be written as $$)", id="name"),
        pytest.param("x = $^\n", "bad $-escape", id="an escape of ninja 1.14"),
        pytest.param("x = a\rb\n", "unexpected character '\\r'", id="a lone CR"),
        pytest.param("\tx = a\n", "1: unexpected tab: indent with spaces", id="tab"),
        pytest.param("\ufeffx = a\n", "1: unexpected character '\\ufeff'", id="byte-order mark"),
        pytest.param("  x = 1\n", "1: unexpected indent", id="indent"),
        pytest.param("= 1\n", "1: unexpected '='", id="symbol"),
        pytest.param("# no newline", "1: unexpected character '#'", id="comment at the end"),
        pytest.param("build\n", "1: expected path after 'build'", id="no output"),
        pytest.param("build : phony\n", "1: expected path", id="no output before a colon"),
        pytest.param("build a\n", "1: expected ':', got newline: in a path", id="no colon"),
        pytest.param("build a || b: phony\n", "expected ':', got '||'", id="order-only output"),
        pytest.param("build a:\n", "expected build command name", id="no rule"),
        pytest.param("build a: b\n", "1: unknown build rule 'b': define it fur", id="unknown rule"),
        pytest.param(f"build a: cat\n{CAT}", "1: unknown build rule 'cat'", id="later rule"),
        pytest.param("build a: phony b:c\n", "expected newline, got ':'", id="colon in input"),
        pytest.param("build a: phony || b | c\n", "got '|'", id="implicit after order-only"),
        pytest.param("build a: phony |@ b || c\n", "got '||'", id="order-only after validation"),
        pytest.param("\nbuild $x: phony\n", "2: empty path", id="empty path"),
        pytest.param("build a: phony $x\n", "1: empty path", id="empty input"),
        pytest.param("build a a: phony\n", "'a' is defined as an output multiple", id="a twice"),
        pytest.param("build a | ./a: phony\n", "'a' is defined as an output", id="implicitly"),
        pytest.param(
            "build a: phony\n\nbuild b ./a: phony\n",
            "3: multiple rules generate 'a': the edge at build.ninja:1 does",
            id="two edges",
        ),
        pytest.param("build a: phony\n  pool = p\n", "1: unknown pool name 'p'", id="pool"),
        pytest.param("build a: phony\nd\n", "2: expected '='", id="the line of the statement"),
        pytest.param("build a: phony\n  x y\n", "2: expected '='", id="the line of a variable"),
        pytest.param("build a: phony\n  $x = y\n", "2: expected variable name", id="no name"),
        pytest.param("build a: phony d\n  dyndep = d\n", "1: dyndep isn't supported", id="dyndep"),
        pytest.param("rule\n", "expected rule name", id="no rule name"),
        pytest.param("rule r\n", "1: expected 'command =' line", id="no command"),
        pytest.param("rule r\n  command =\n", "expected 'command =' line", id="empty command"),
        pytest.param(f"{CAT}{CAT}", "3: duplicate rule 'cat'", id="duplicate rule"),
        pytest.param("rule phony\n  command = c\n", "1: duplicate rule 'phony'", id="phony"),
        pytest.param("rule r\n  x = 1\n", "1: unexpected variable 'x': a rule can have", id="rule"),
        pytest.param(f"{CAT}  rspfile = x\n", "rspfile_content need to be both", id="rspfile"),
        pytest.param("pool\n", "expected pool name", id="no pool name"),
        pytest.param("pool p\n", "1: expected 'depth =' line", id="no depth"),
        pytest.param("pool p\n  depth = -1\n", "1: invalid pool depth", id="depth"),
        pytest.param("pool p\n  x = 1\n", "1: unexpected variable 'x'", id="pool's variable"),
        pytest.param("pool console\n  depth = 1\n", "1: duplicate pool", id="duplicate pool"),
        pytest.param("default\n", "1: expected target name", id="default without a name"),
        pytest.param("default a\nbuild a: phony\n", "1: unknown target 'a'", id="later edge"),
        pytest.param("build a: phony\ndefault a:\n", "2: expected newline, got ':'", id="default"),
        pytest.param("build a: phony\ndefault $x\n", "2: empty path", id="default's empty path"),
        pytest.param("include\n", "1: loading '': there is no such file", id="no file name"),
        pytest.param("include a b\n", "1: loading 'a': there is no such file", id="missing file"),
        pytest.param("ninja_required_version = 1.14\n", "requires ninja 1.14", id="newer"),
        pytest.param("ninja_required_version = 2\n", "as ninja 1.13 does", id="much newer"),
    ],
)
def test_errors(text: str, message: str) -> None:
    assert message in refused(text)
    assert refused(text).startswith("build.ninja:")


def test_errors_in_other_files() -> None:
    assert refused("include x.ninja\n", x="\n?\n").startswith("x.ninja:2: ")
    assert refused("include x.ninja y\n", x="").startswith("build.ninja:1: expected newline")
    assert "loading 'build.ninja'" in str(pytest.raises(ManifestError, read_manifest, {}).value)


def test_files_that_include_themselves() -> None:
    assert refused("include build.ninja\n").startswith("build.ninja:1: files include each other")
    assert "y.ninja:1: files include each other" in refused(
        "subninja x.ninja\n", x="subninja y.ninja\n", y="include x.ninja\n"
    )


def test_an_old_required_version_is_fine() -> None:
    text = "ninja_required_version = 1.13.2\nninja_required_version = x\n"
    assert read(text).variables == {"ninja_required_version": "x"}


def test_rules_that_go_round() -> None:
    text = "rule r\n  command = $description\n  description = $deps $depfile\n  deps = a\n  depfile = $description\n"
    edge = only_edge(f"\n{text}build o: r\n")
    with pytest.raises(ManifestError) as e:
        assert edge.command
    assert str(e.value).startswith(
        "build.ninja:7: cycle in rule variables: description -> depfile -> description. "
    )
    # Ninja minds only when it expands them.
    assert command(f"{text}build o: r\n  depfile = x\n") == "a x"
    assert "cycle" in refused("rule r\n  command = c\n  pool = $pool\nbuild o: r\n")


def test_values_without_bounds() -> None:
    doubling = "".join(f"v{i + 1} = $v{i}$v{i}\n" for i in range(64))
    assert "build.ninja:25: a value of more than 64 million" in refused(f"v0 = xxxxx\n{doubling}")
    # Ten to the eighth ways lead to nothing, and each is gone once.
    names = [name for name in RULE_VARIABLES if name not in ("pool", "dyndep", "rspfile_content")]
    chain = "".join(f"  {a} = {f'${b}' * 10}\n" for a, b in zip(names, [*names[1:], "none"]))
    chain += "  rspfile_content = x\n"
    assert command(f"rule r\n{chain}build o: r\n") == ""


# What a target needs


GRAPH = f"""{CAT}
build gen.h: cat gen.in
build order: phony || gen.h
build a.o: cat a.c | config.h || order
build b.o: cat b.c || order
build lib: cat a.o b.o |@ test
build test: cat lib other
build other: cat b.o
build unneeded: cat
build all: phony lib
"""


def first_outputs(manifest: Manifest, *targets: str) -> list[str]:
    return [edge.outputs[0] for edge in manifest.edges_for(targets)]


def test_edges_for() -> None:
    manifest = read(GRAPH)
    assert first_outputs(manifest, "a.o") == ["gen.h", "order", "a.o"]
    assert first_outputs(manifest, "./b.o", "gen.h", "b.o") == ["gen.h", "order", "b.o"]
    # The validation needs the library, so it comes after it.
    everything = ["gen.h", "order", "a.o", "b.o", "lib", "all", "other", "test"]
    assert first_outputs(manifest, "all") == everything
    assert first_outputs(manifest, "gen.in") == first_outputs(manifest) == []


def test_unknown_targets() -> None:
    manifest = read(GRAPH)
    with pytest.raises(ManifestError, match="unknown target 'a.oo': did you mean 'a.o'?"):
        manifest.edges_for(["a.oo"])
    with pytest.raises(ManifestError, match="unknown target 'zzzzzz': `ninja -t targets all`"):
        manifest.edges_for(["zzzzzz"])


@pytest.mark.parametrize(
    ("edges", "target", "circle"),
    [
        pytest.param("build a: cat b\nbuild b: cat a\n", "a", "a -> b -> a", id="two"),
        pytest.param("build a: cat || a\n", "a", "a -> a", id="itself"),
        # As ninja does: not by the name that we came in with.
        pytest.param("build a b: cat c\nbuild c: cat a\n", "b", "a -> c -> a", id="other output"),
        pytest.param(
            "build x: cat a\nbuild a: cat b\nbuild b: cat a\n", "x", "a -> b -> a", id="in"
        ),
        pytest.param("build x: cat |@ a\nbuild a: cat a\n", "x", "a -> a", id="a validation"),
    ],
)
def test_circles(edges: str, target: str, circle: str) -> None:
    manifest = read(CAT + edges)
    with pytest.raises(ManifestError, match=rf"^build\.ninja:\d+: dependency cycle: {circle}\. "):
        manifest.edges_for([target])


def test_a_circle_by_way_of_a_validation_is_none() -> None:
    manifest = read(f"{CAT}build a: cat |@ b\nbuild b: cat a |@ a\n")
    assert first_outputs(manifest, "a") == ["a", "b"]
    assert first_outputs(manifest, "b") == ["a", "b"]


def test_default_targets() -> None:
    assert read(GRAPH).default_targets == ("test", "unneeded", "all")
    assert read("").default_targets == ()
    with pytest.raises(ManifestError, match="dependency cycle: a -> b -> a"):
        assert read(f"{CAT}build x: cat\nbuild a: cat b\nbuild b: cat a x\n").default_targets


def test_a_chain_of_ten_thousand() -> None:
    links = "".join(f"build {i}: phony {i + 1}\n" for i in range(10_000))
    manifest = read(links)
    assert len(manifest.edges_for(["0"])) == 10_000
    assert manifest.resolve_phony("0") == ("10000",)


def test_edge_of() -> None:
    manifest = read(GRAPH)
    edge = manifest.edge_of("./x/../a.o")
    assert edge is manifest.edges[2]
    assert manifest.edge_of("a.c") is None


def test_what_is_behind_a_phony_edge() -> None:
    manifest = read(
        f"""{CAT}
build lib: cat x
build alias: phony lib ./src.h || more alias2
build alias2: phony more lib
build more: phony | gen.h
build gen.h: cat
"""
    )
    assert manifest.resolve_phony("alias") == ("lib", "src.h", "gen.h")
    assert manifest.resolve_phony("./alias2") == ("gen.h", "lib")
    assert manifest.resolve_phony("lib") == ("lib",)
    assert manifest.resolve_phony("src.h") == ("src.h",)
    assert manifest.resolve_phony("unknown") == ("unknown",)


def test_a_phony_edge_of_nothing() -> None:
    manifest = read(f"{CAT}build always: phony\nbuild x: phony y always\nbuild o: cat | always\n")
    always = manifest.edge_of("always")
    assert always and always.stands_for_nothing
    assert [edge.stands_for_nothing for edge in manifest.edges] == [True, False, False]
    assert manifest.resolve_phony("always") == ()
    assert manifest.resolve_phony("x") == ("y",)
    # CMake's own input files: they are there, but it wants no error when they are gone.
    assert manifest.resolve_phony("x", {"always", "y"}.__contains__) == ("y", "always")
    assert first_outputs(manifest, "o") == ["always", "o"]
    manifest.require_sources(manifest.edges_for(["o"]), lambda path: False)


@pytest.mark.parametrize("edges", ["build a b: phony a\n", "build a: phony b\nbuild b: phony a\n"])
def test_phony_edges_in_a_circle(edges: str) -> None:
    manifest = read(edges + "build x: phony a\n")
    for _ in range(2):
        with pytest.raises(ManifestError, match="dependency cycle: "):
            manifest.resolve_phony("x")


def test_missing_sources() -> None:
    manifest = read(GRAPH)
    there = {"gen.in", "a.c", "b.c"}
    manifest.require_sources(manifest.edges_for(["b.o"]), there.__contains__)
    with pytest.raises(ManifestError) as e:
        manifest.require_sources(manifest.edges_for(["all"]), there.__contains__)
    assert str(e.value) == (
        "build.ninja:6: 'config.h', needed by 'a.o', is missing and no edge makes it. "
        "Add the file, or the edge that makes it."
    )


# As values


def test_equal_manifests_are_equal() -> None:
    first, second = read(GRAPH), read(f"# moved\n{GRAPH}")
    assert first == second and hash(first) == hash(second)
    assert len({*first.edges, *second.edges}) == len(first.edges)
    assert first != read(GRAPH.replace("$in", "-n $in"))
    assert first.edges[0] != dataclasses.replace(first.edges[0], bindings={"command": "other"})


def test_a_large_manifest_is_quick() -> None:
    lines = [CAT]
    for i in range(5000):
        inputs = " ".join(f"dir{i}/file{j}.h" for j in range(10))
        lines.append(f"build out/dir{i}/x.o: cat in/x{i}.cc | {inputs} || order\n  F = -O2 $$x\n")
    lines.append("build order: phony\n")
    text = "".join(lines)
    times = []
    for _ in range(3):
        start = time.process_time()
        manifest = read(text)
        times.append(time.process_time() - start)
    assert len(manifest.edges) == 5001
    # In seconds; 0.2 as a rule.
    assert min(times) < 1


# Whatever comes

PIECES = [
    *("build", "rule", "pool", "default", "include", "subninja", "phony", "command", "depth"),
    *("build.ninja", "x.ninja", "in", "out", "pool", "dyndep", "rspfile", "ninja_required_version"),
    *("$", "$$", "$\n", "${", "}", "$x", "$in", ":", "$:", "|", "||", "|@", "=", "#", "\t"),
    *(" ", "  ", "\n", "\n  ", "\r\n", "\0", "a", "./a", "b/../a", "x", "1", "\u00e9", "'"),
    *("build a: phony b\n", "rule r\n  command = $x\n", "build x: r a\n", "x = $x$x\n"),
]
TEXTS = st.one_of(
    st.text(), st.lists(st.sampled_from(PIECES), max_size=40).map("".join).map(lambda t: f"{t}\n")
)


def look_at_all(manifest: Manifest) -> None:
    for edge in manifest.edges:
        dict(edge.bindings)
    manifest.edges_for(manifest.default_targets)
    for path in [p for edge in manifest.edges for p in edge.all_outputs]:
        manifest.resolve_phony(path)


@settings(max_examples=500, deadline=2000)
@given(TEXTS, TEXTS)
@example("rule r\n  command = $command\nbuild o: r\n", "")
@example("build a: phony | a\n", "")
@example("\ud800 = $\ud800\n", "")
def test_no_text_raises_anything_else(text: str, other: str) -> None:
    try:
        look_at_all(read(text, x=other))
    except ManifestError as e:
        assert "\n" not in str(e) and re.match(r"\S+\.ninja:\d+: .*\.$", str(e))


NAMES = st.from_regex(r"[a-zA-Z0-9_.-]{1,6}", fullmatch=True)
TEXT = st.text(
    st.characters(blacklist_characters="\0\r\n", blacklist_categories=()), min_size=1, max_size=8
)
# In the form that ninja makes of them, so that they come back as they are.
PATHS = TEXT.map(canonical_path).filter(lambda path: path != ".")


def escaped_value(text: str) -> str:
    text = text.replace("$", "$$")
    return f"$ {text[1:]}" if text.startswith(" ") else text


def escaped_path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:").replace("|", "${bar}")


def written(edges: list[Edge], variables: Mapping[str, str]) -> str:
    """A manifest of these edges, each with a rule of its own."""
    lines = ["bar = |\n", *(f"{k} = {escaped_value(v)}\n" for k, v in variables.items())]
    for edge in edges:
        rule = edge.rule
        bindings = dict(edge.bindings)
        if not edge.is_phony:
            lines.append(f"rule {rule}\n  command = {escaped_value(bindings.pop('command'))}\n")
        parts = [f"build {' '.join(map(escaped_path, edge.outputs))}"]
        for symbol, paths in (
            ("|", edge.implicit_outputs),
            (f": {rule}", edge.inputs),
            ("|", edge.implicit_inputs),
            ("||", edge.order_only),
            ("|@", edge.validations),
        ):
            if paths or symbol.startswith(":"):
                parts.append(" ".join([symbol, *map(escaped_path, paths)]))
        lines.append(" ".join(parts) + "\n")
        lines += [f"  {k} = {escaped_value(v)}\n" for k, v in bindings.items()]
    return "".join(lines)


@st.composite
def edge_lists(draw: st.DrawFn) -> list[Edge]:
    outputs = draw(st.lists(PATHS, min_size=1, max_size=8, unique=True))
    names = st.lists(PATHS, max_size=3).map(tuple)
    edges: list[Edge] = []
    while outputs:
        count = draw(st.integers(1, len(outputs)))
        explicit = draw(st.integers(0, count))
        is_phony = draw(st.booleans())
        own = draw(
            st.dictionaries(
                NAMES.filter(lambda name: name not in (*RULE_VARIABLES, "bar")), TEXT, max_size=3
            )
        )
        edge = Edge(
            outputs=tuple(outputs[:explicit]),
            implicit_outputs=tuple(outputs[explicit:count]),
            inputs=draw(names),
            implicit_inputs=draw(names),
            order_only=draw(names),
            validations=draw(names),
            rule="phony" if is_phony else f"r{len(edges)}",
            is_phony=is_phony,
            # An own variable, for else the top level's go before the rule's.
            bindings={**own, "own": "1", **({} if is_phony else {"command": draw(TEXT)})},
        )
        outputs = outputs[count:]
        if not is_phony or not set(edge.all_outputs) & set(edge.all_inputs):
            edges.append(edge)
    return edges


@settings(max_examples=200, deadline=2000)
@given(
    edge_lists(),
    st.dictionaries(
        NAMES.filter(
            lambda name: name not in (*PIECES, *RULE_VARIABLES, "bar", "ninja_required_version")
        ),
        TEXT,
        max_size=3,
    ),
)
def test_what_is_written_is_read(edges: list[Edge], variables: Mapping[str, str]) -> None:
    manifest = read(written(edges, variables))
    assert list(manifest.edges) == edges
    assert manifest.variables == {"bar": "|", **variables}

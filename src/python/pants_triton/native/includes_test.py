from __future__ import annotations

import time
from typing import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pants_triton.native.includes import (
    Closure,
    Includes,
    Resolver,
    Scans,
    Search,
    scan_c,
    scan_definitions,
    scan_td,
)


def spelled(includes: Includes) -> list[str]:
    """As lines of a file would have it: `include "x.h"`."""
    return [f"{include.kind} {include.spelled}" for include in includes]


# --- scanning C -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('#include "x.h"', ['include "x.h"'], id="in quotes"),
        pytest.param("#include <a/b.h>", ["include <a/b.h>"], id="in brackets"),
        pytest.param('#include"x.h"', ['include "x.h"'], id="no space"),
        pytest.param(' \t# \t include\t"x.h"', ['include "x.h"'], id="spaces"),
        pytest.param('#include "x.h" // why', ['include "x.h"'], id="a comment behind it"),
        pytest.param('\ufeff#include "x.h"', ['include "x.h"'], id="byte-order mark"),
        pytest.param(
            '#include "x.h"\r\n#include "y.h"\r\n', ['include "x.h"', 'include "y.h"'], id="CRLF"
        ),
        pytest.param('#include "x.h"\r#include <y>', ['include "x.h"', "include <y>"], id="CR"),
        pytest.param('#inc\\\nlude \\\n"x\\\n.h"', ['include "x.h"'], id="continued lines"),
        pytest.param('#include \\ \t\r\n "x.h"', ['include "x.h"'], id="a space after the \\"),
        pytest.param('/* a */ # /* b\n */ include/**/"x.h"', ['include "x.h"'], id="comments"),
        pytest.param('/* a\n b */ #include "x.h"', ['include "x.h"'], id="after a long comment"),
        pytest.param('%:include "x.h"', ['include "x.h"'], id="digraph"),
        pytest.param('??=include "x.h"', ['include "x.h"'], id="trigraph"),
        pytest.param('#inc??/\nlude "x.h"', ['include "x.h"'], id="trigraph as a continuation"),
        pytest.param('#import "x.h"', ['include "x.h"'], id="import"),
        pytest.param("#include_next <x.h>", ["next <x.h>"], id="include_next"),
        pytest.param('#embed "x.bin" limit(4)', ['embed "x.bin"'], id="embed"),
        pytest.param("#include <a//b/*c>\n", ["include <a//b/*c>"], id="no comment in a name"),
        pytest.param(
            '#if 0\n#include "x.h"\n#else\n#include "y.h"\n#endif',
            ['include "x.h"', 'include "y.h"'],
            id="both branches",
        ),
        pytest.param('#include "x.h"\n#include "x.h"', ['include "x.h"'], id="twice is once"),
        pytest.param("#include CONFIG_H // why", ["include CONFIG_H"], id="a macro"),
        pytest.param("#include STR(x.h)", ["include STR(x.h)"], id="a macro with arguments"),
        pytest.param("#include <x END", ["include <x END"], id="a macro may end it"),
        pytest.param(
            'import "x.h";\nexport import <y>;', ['include "x.h"', "include <y>"], id="unit"
        ),
        pytest.param(
            '#if __has_include(<x.h>) && !__has_include ( /**/ "y.h")',
            ["probe <x.h>", 'probe "y.h"'],
            id="asks whether it is there",
        ),
        pytest.param("#elif __has_include_next(<x.h>)", ["next <x.h>"], id="asks for the next"),
        pytest.param("#if __has_embed(<x>)", ["probe <x>", "embed <x>"], id="asks for data"),
        pytest.param("#if __has_include(X_H)", ["probe X_H"], id="asks for a macro's"),
        pytest.param(
            "#define HAS(x) __has_include(x)\n#if HAS(<x.h>)",
            ["probe <x.h>"],
            id="asks through a macro of its own",
        ),
        pytest.param(
            "#ifndef __has_include\n#define __has_include(x) 0\n#endif\n#if defined(__has_include)",
            [],
            id="asks nothing",
        ),
        pytest.param('#pragma GCC dependency "x.y" old', ['probe "x.y"'], id="a dependency"),
        pytest.param('_Pragma("GCC dependency \\"x.y\\"")', ['probe "x.y"'], id="in a string"),
        pytest.param('.include "x.s"', ['assemble "x.s"'], id="assembler"),
        pytest.param('asm(".incbin \\"x.bin\\"");', ['assemble "x.bin"'], id="inline assembler"),
        pytest.param('asm(".incbin " NAME);', ["assemble .incbin"], id="some file of bytes"),
        pytest.param("#pragma once\n#define X <x.h>\nint includes;", [], id="nothing"),
        pytest.param('#includes "x.h"\n#include_ "y"', [], id="another word"),
        pytest.param('// #include "x.h" \\\n#include "y.h"', [], id="in a line's comment"),
        pytest.param('/*\n#include "x.h"\n*/', [], id="in a comment"),
        pytest.param('f("#include <x.h>");\nx = y # include "z.h"', [], id="not at the beginning"),
    ],
)
def test_what_a_file_includes(text: str, expected: list[str]) -> None:
    assert spelled(scan_c(text.encode())) == expected


@pytest.mark.parametrize(
    "before",
    [
        pytest.param('f("/*");', id="no comment in a string"),
        pytest.param("f('\"', '/*');", id="nor in a character"),
        pytest.param("x = 1'000'0; f('\"', \"/*\");", id="digits with separators"),
        pytest.param("// don't /*", id="nor in a comment"),
        pytest.param("#error don't use sys/*.h", id="nor in an error"),
        pytest.param("/* a */ #error use sys/*.h", id="nor in one behind a comment"),
        pytest.param("#if 0\ndon't /*\n#endif", id="nor in text that nobody reads"),
        pytest.param("#include <sys/*.h>", id="nor in a header's name"),
        pytest.param("/**/ #include <sys/*.h>", id="nor in one behind a comment, of a header"),
        pytest.param("#if __has_include(<sys/*.h>)\n#endif", id="nor in one that is asked for"),
        pytest.param("import <sys/*.h>;", id="nor in one that is imported"),
        pytest.param('R"(\n/*\n)";', id="nor in a raw string"),
        pytest.param('f("//", R"x(")" \n /* " \\\n)x");', id="nor behind what isn't its end"),
        pytest.param('#define R\nR"("; /* \' */', id="no raw string in C"),
        pytest.param("/* unfinished \" ' */", id="quotes in a comment"),
        pytest.param("/* /* */", id="comments don't nest"),
        pytest.param("/*/ */", id="a slash doesn't close"),
        pytest.param("/***/ /**/ /* **/", id="stars"),
        pytest.param("\\\n", id="an empty continuation"),
    ],
)
def test_an_include_is_never_hidden_by(before: str) -> None:
    text = f'{before}\n#include "x.h"\nint i; /* end */\n'
    assert 'include "x.h"' in spelled(scan_c(text.encode()))


def test_in_doubt_a_comment_or_string_includes() -> None:
    # In C before gnu99 the first line holds a string and the second is a directive.
    assert spelled(scan_c(b'f(R"(\n#include "x.h"\n)");')) == ['include "x.h"']
    assert spelled(scan_c(b'f("s"); /*\n#include "x.h"\n*/')) == ['include "x.h"']


def test_names_that_are_not_utf8() -> None:
    assert scan_c(b'#include "\xff.h"')[0].path.encode("utf-8", "surrogateescape") == b"\xff.h"


GAPS = st.lists(
    st.sampled_from(
        [" ", "\t", "/**/", "/* # \" ' */", "/*\n*/", "/* a\r\n * b\n **/", "\\\n", "\f"]
    ),
    max_size=3,
).map("".join)


@given(GAPS, GAPS, GAPS, GAPS, st.sampled_from(["#", "%:"]), st.sampled_from(['"x.h"', "<x.h>"]))
def test_white_space_changes_nothing(a: str, b: str, c: str, d: str, hash: str, name: str) -> None:
    text = f"int i;\n{a}{hash}{b}include{c}{name}{d}\nint j;\n"
    assert spelled(scan_c(text.encode())) == [f"include {name}"]


FRAGMENTS = st.lists(
    st.sampled_from(
        ['"', "'", "/*", "*/", "//", "\n", "\\\n", "\r", 'R"(', ')"', "#", "include", " ", "<x>"]
        + [
            "%:",
            "??/",
            "??=",
            "__has_include(",
            "define ",
            "A",
            "\0",
            ".incbin ",
            "import ",
            "é",
            "(,",
        ]
    ),
    max_size=30,
).map(lambda parts: "".join(parts).encode())


@settings(max_examples=300)
@given(st.one_of(st.binary(), FRAGMENTS))
def test_any_bytes_are_scanned(content: bytes) -> None:
    for scan in (scan_c, scan_td):
        found = scan(content)
        assert len(set(found)) == len(found)
    scan_definitions(content)


@given(FRAGMENTS)
def test_a_line_of_its_own_is_found_after_any_code_that_is_complete(before: bytes) -> None:
    # What ends every comment and raw string that may be open, and every line.
    text = before + b'\n*/ )" \n*/\n#include "here.h"\n'
    assert 'include "here.h"' in spelled(scan_c(text))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"/*" * 20_000 + b"*/", id="comments"),
        pytest.param(b"/* a */ " * 20_000, id="many comments"),
        pytest.param(b"\n/* a */" * 20_000, id="comments at the beginning"),
        pytest.param(b"#define X(a) f(a)\n" * 10_000, id="macros"),
        pytest.param(b'"' * 100_000, id="quotes"),
        pytest.param(b" " * 200_000, id="spaces"),
    ],
)
def test_scanning_takes_no_time(content: bytes) -> None:
    before = time.monotonic()
    scan_c(content)
    assert time.monotonic() - before < 2


def test_what_macros_are() -> None:
    text = b"""
    #define A "a.h"
    # define B <b/c.h>   /* why */
    #define C A  // why
    #define C B
    #define D(x) #x
    #define E "a" "b"
    #define F
    #define G "//g.h" /* why
       and */
    """
    found = scan_definitions(text)
    assert {name: [body and body.spelled for body in bodies] for name, bodies in found.items()} == {
        "A": ['"a.h"'],
        "B": ["<b/c.h>"],
        "C": ["A", "B"],
        "D": [None],
        "E": [None],
        "F": [None],
        "G": ['"//g.h"'],
    }


# --- scanning TableGen ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('include "a/x.td"', ['include "a/x.td"'], id="plain"),
        pytest.param('include // why\n /* and */\n"x.td"', ['include "x.td"'], id="over lines"),
        pytest.param('def a;include"x.td"def b;', ['include "x.td"'], id="within a line"),
        pytest.param('#ifdef X\r\ninclude "x.td"\r\n#endif', ['include "x.td"'], id="condition"),
        pytest.param(
            '#ifdef X\n[{ "\n#endif\ninclude "x.td"', ['include "x.td"'], id="skipped text"
        ),
        pytest.param('/* a\n// b */ include "x.td"', ['include "x.td"'], id="a comment's end"),
        pytest.param(r'include "a\"b\\c.td"', [r'include "a"b\c.td"'], id="escapes"),
        pytest.param('  // include "x.td"\nincludes "y.td"; let include = 1;', [], id="none"),
    ],
)
def test_what_a_tablegen_file_includes(text: str, expected: list[str]) -> None:
    assert spelled(scan_td(text.encode())) == expected


# --- closures ---------------------------------------------------------------------------------


def resolver(
    files: Mapping[str, str], outside: Iterable[str] = (), roots: Iterable[str] = ()
) -> Resolver:
    return Resolver(
        files, lambda path: files[path].encode(), outside=outside, roots=roots, scans=Scans()
    )


def closure(files: Mapping[str, str], search: Search, outside: Iterable[str] = ()) -> Closure:
    """Of `a.cpp`."""
    return resolver(files, outside).compile_closure("a.cpp", search)


def test_a_closure() -> None:
    files = {
        "src/a.cpp": '#include "a.h"\n#include <lib/b.h>\n#include <vector>',
        "src/a.h": '#include "../src/../inc/lib/c.h"',
        "inc/lib/b.h": '#include "c.h"',
        "inc/lib/c.h": '#include "b.h" // in a circle',
        "inc/lib/unused.h": "",
        "other/lib/b.h": "what comes later isn't searched",
    }
    found = resolver(files).compile_closure("src/a.cpp", Search(include=("inc", "other")))
    assert found == Closure(
        files=frozenset({"src/a.cpp", "src/a.h", "inc/lib/b.h", "inc/lib/c.h"}),
        folders=frozenset({"src"}),
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param('#include "x.h"', "here/x.h", id="quotes: beside the file"),
        pytest.param('#include "y.h"', "quote/y.h", id="quotes: then -iquote"),
        pytest.param("#include <x.h>", "inc/x.h", id="brackets: -I"),
        pytest.param("#include <y.h>", "inc/y.h", id="brackets: not -iquote"),
        pytest.param("#include <z.h>", "sys/z.h", id="then -isystem"),
        pytest.param("#include <w.h>", "after/w.h", id="then -idirafter"),
        pytest.param("#include <Kit/k.h>", "fw/Kit.framework/Headers/k.h", id="frameworks"),
        pytest.param('#embed "e.bin"', "data/e.bin", id="--embed-dir"),
        pytest.param("#if __has_include(<z.h>)", "sys/z.h", id="what is asked for"),
        pytest.param('.incbin "w.h"', "work/w.h", id="the assembler: its working folder"),
        pytest.param('.include "y.h"', "inc/y.h", id="the assembler: then -I"),
        pytest.param('#include "{root}/other/o.h"', "other/o.h", id="absolute, in the root"),
    ],
)
def test_where_is_searched(line: str, expected: str) -> None:
    places = "here/x quote/x quote/y inc/x inc/y sys/y sys/z after/z after/w work/w other/o".split()
    files = {f"{place}.h": "" for place in places}
    files.update({"fw/Kit.framework/Headers/k.h": "", "data/e.bin": "", "here/a.cpp": line})
    search = Search("work", ("quote",), ("inc",), ("sys",), ("after",), ("fw",), ("data",))
    found = resolver(files, roots=["{root}"]).compile_closure("here/a.cpp", search)
    assert found.files == {"here/a.cpp", expected}


def test_what_the_command_line_opens() -> None:
    files = {
        "src/a.cpp": "",
        "build/forced.h": '#include "more.h"',
        "build/more.h": "",
        "inc/forced2.h": "",
        "pch/all.h": "",
        "pch/all.h.pch": "",
        "build/forced.h.gch": "",
        "lists/ignore.txt": "",
        "src/forced.h": "isn't looked for beside the source",
    }
    search = Search(
        directory="build",
        include=("inc",),
        forced=("forced.h", "forced2.h", "{root}/pch/all.h"),
        mentioned=("lists/ignore.txt", "c++17", "/usr/lib/plugin.so"),
    )
    found = resolver(files, roots=["{root}"]).compile_closure("src/a.cpp", search)
    assert found.files == set(files) - {"src/forced.h"}


def test_behind_an_artifact_the_search_goes_on() -> None:
    files = {"a.cpp": "#include <llvm/x.h>\n#include <llvm/y.h>", "inc/llvm/x.h": ""}
    found = closure(files, Search(include=("llvm19/include", "inc")), outside=["llvm19"])
    assert found == Closure(frozenset({"a.cpp", "inc/llvm/x.h"}))
    # What is absolute is outside.
    assert found == closure(files, Search(include=("/usr/include", "inc")))


def test_of_two_equal_folders_a_compiler_may_drop_the_first() -> None:
    files = {"a.cpp": "#include <x.h>", "one/x.h": "", "two/x.h": ""}
    found = closure(files, Search(include=("one", "two"), system=("one",)))
    assert found.files == {"a.cpp", "one/x.h", "two/x.h"}


def test_include_next_may_find_all() -> None:
    files = {
        "a.cpp": "#include <x.h>",
        "one/x.h": "#include_next <x.h>",
        "two/x.h": "",
        "3/x.h": "",
    }
    assert closure(files, Search(include=("one", "two", "3"))).files == set(files)
    # GCC goes on with -iquote, if that is how it came to x.h.
    assert closure(files, Search(quote=("3",), include=("one", "two"))).files == set(files)


def test_what_is_missing() -> None:
    files = {"a.cpp": '#include "x.h"\n#include <y.h>\n#if __has_include("z.h")'}
    assert closure(files, Search(include=("inc",))).missing == (("a.cpp", '"x.h"'),)
    assert closure(files, Search(include=("llvm",)), outside=["llvm"]).missing == ()


@pytest.mark.parametrize(
    ("text", "defines", "expected", "unknown"),
    [
        pytest.param('#define X "x.h"\n#include X', (), {"x.h"}, [], id="defined there"),
        pytest.param("#include X", ('X="x.h"',), {"x.h"}, [], id="on the command line"),
        pytest.param("#define X <y.h>\n#include X", ('X="x.h"',), {"x.h", "y.h"}, [], id="both"),
        pytest.param(
            '#define Y X\n#define X "x.h"\n#include Y', (), {"x.h"}, [], id="over another"
        ),
        pytest.param('#include "def.h"\n#include Z', (), {"def.h", "z.h", "x.h"}, [], id="in turn"),
        pytest.param("#include __FILE__", (), set(), [], id="the file itself"),
        pytest.param('#define X "x.h"\n#if __has_include(X)', (), {"x.h"}, [], id="asked for"),
        pytest.param("#include X", (), set(), ["X"], id="nobody knows"),
        pytest.param("#include X", ("X",), set(), ["X"], id="no file"),
        pytest.param("#define S(x) #x\n#include S(x.h)", (), set(), ["S(x.h)"], id="arguments"),
        pytest.param(
            '#define X "x.h"\n#define X f(x)\n#include X', (), {"x.h"}, ["X"], id="not always known"
        ),
        pytest.param(
            "#define y x\n#define X <y.h>\n#include X", (), {"y.h"}, ["X"], id="in brackets"
        ),
    ],
)
def test_includes_of_macros(
    text: str, defines: tuple[str, ...], expected: set[str], unknown: list[str]
) -> None:
    files = {
        "a.cpp": text,
        "x.h": "",
        "y.h": "",
        "def.h": '#define Z "z.h"',
        "z.h": "#define W <x.h>\n#include W",
    }
    found = closure(files, Search(include=("",), defines=defines))
    assert found.files == {"a.cpp", *expected}
    assert found.unknown == tuple(("a.cpp", name) for name in unknown)


def test_what_an_edge_makes_is_scanned_once_it_is_there() -> None:
    content = {"a.cpp": '#include "made.inc"', "b.h": ""}
    files = [*content, "made.inc"]
    scans = Scans()

    def read(path: str) -> bytes | None:
        return content[path].encode() if path in content else None

    first = Resolver(files, read, scans=scans)
    assert first.compile_closure("a.cpp", Search()) == Closure(
        files=frozenset({"a.cpp", "made.inc"}), unread=frozenset({"made.inc"})
    )
    content["made.inc"] = '#include "b.h"'
    assert first.compile_closure("a.cpp", Search()).files == {"a.cpp", "made.inc", "b.h"}


def test_folders_that_are_left_have_to_exist() -> None:
    files = {"a.cpp": '#include "sub/../x.h"', "sub/y.h": "", "x.h": "", "inc/x.h": ""}
    found = closure(files, Search(include=("inc",)))
    assert found == Closure(frozenset({"a.cpp", "x.h"}), folders=frozenset({"sub"}))
    # If it may not be there, the next place may be meant.
    del files["sub/y.h"]
    files["inc/sub/y.h"] = ""
    found = closure(files, Search(include=("inc",)))
    assert found == Closure(frozenset({"a.cpp", "x.h", "inc/x.h"}), folders=frozenset({"inc/sub"}))


def test_a_shared_header_is_read_once() -> None:
    files = {f"{i}.cpp": '#include "x.h"' for i in range(10)}
    files["x.h"] = ""
    reads: list[str] = []

    def read(path: str) -> bytes:
        reads.append(path)
        return files[path].encode()

    one = Resolver(files, read)
    for i in range(10):
        assert one.compile_closure(f"{i}.cpp", Search()).files == {f"{i}.cpp", "x.h"}
    assert len(reads) == 11


def test_the_closure_of_a_tablegen_file() -> None:
    files = {
        "inc/ops.td": 'include "base.td"\ninclude "mlir/x.td"',
        "inc/base.td": "is not looked for beside the file",
        "build/base.td": "",
        "td/base.td": "the working folder comes first",
        "td/mlir/x.td": 'include "nowhere.td"',
    }
    search = Search("build", include=("td",))
    found = resolver(files).tablegen_closure("inc/ops.td", search)
    assert found == Closure(
        files=frozenset({"inc/ops.td", "build/base.td", "td/mlir/x.td"}),
        missing=(("td/mlir/x.td", '"nowhere.td"'),),
    )

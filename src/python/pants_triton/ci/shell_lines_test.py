"""What the shell of a `run:` block does."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pants_triton.ci.shell_lines import (
    PLACEHOLDER,
    Command,
    Word,
    path_from,
    run_script,
)
from pants_triton.ci.shell_syntax import ShellError
from pants_triton.ci.unknown import Unknown


def run(text: str, **environment: str) -> tuple[Command, ...]:
    return run_script(text, environment={n: Word((v,)) for n, v in environment.items()})


def shown(commands: tuple[Command, ...]) -> list[str]:
    return [" ".join(map(str, command.words)) for command in commands]


@pytest.mark.parametrize(
    "text,expected",
    [
        pytest.param("pytest a\npytest b; pytest c", ["pytest a", "pytest b", "pytest c"], id="list"),
        pytest.param("pytest a \\\n  b\\\n c", ["pytest a b c"], id="continued lines"),
        pytest.param("pytest a # b\n# pytest c", ["pytest a"], id="comments"),
        pytest.param("pytest 'a b' \"c d\" e\\ f", ["pytest a b c d e f"], id="quotes"),
        pytest.param("pytest test[False]", ["pytest test[False]"], id="brackets"),
        pytest.param("X=a; pytest $X ${X}b \"$X\" '$X'", ["pytest a ab a $X"], id="variables"),
        pytest.param("pytest ${X:-8} ${Y-z}", ["pytest 8 z"], id="defaults"),
        pytest.param("pytest $X", ["pytest $X"], id="unknown variable"),
        pytest.param("pytest $(ls | grep x)/y", ["ls", "grep x", "pytest $(ls | grep x)/y"], id="substitution"),
        pytest.param("pytest `ls`", ["ls", "pytest `ls`"], id="backquotes"),
        pytest.param("cat <<EOF\npytest a\nEOF\npytest b", ["cat", "pytest b"], id="here-document"),
        pytest.param("cat <<-'E' | sh\n\tpytest a\n\tE\npytest b", ["cat", "sh", "pytest b"], id="indented here-document"),
        pytest.param("f() { pytest $1; }\nf a\nf b", ["pytest a", "pytest b"], id="function"),
        pytest.param("for t in a b; do pytest $t; done", ["pytest a", "pytest b"], id="for"),
        pytest.param("for t in $(ls); do pytest $t; done", ["ls", "pytest $t"], id="for of what is unknown"),
        pytest.param("while read l; do pytest $l; done < f", ["read l", "pytest $l"], id="while"),
        pytest.param("case x in x) pytest a;; *) pytest b;; esac", ["pytest a"], id="case"),
        pytest.param("if true; then pytest a; else pytest b; fi", ["true", "pytest a"], id="decided if"),
        pytest.param("[[ a == b ]] && pytest a", ["[[ a == b ]]", "pytest a"], id="and"),
        pytest.param("(pytest a) | tee log", ["pytest a", "tee log"], id="pipeline"),
        pytest.param("pytest a & wait", ["pytest a", "wait"], id="background"),
        pytest.param("exit 0\npytest a", ["exit 0"], id="what comes after exit"),
        pytest.param("A=(a 'b c')\npytest a", ["pytest a"], id="array"),
        pytest.param("P='python -m pytest'; $P a", ["python -m pytest a"], id="split variable"),
        pytest.param("", [], id="nothing"),
    ],
)  # fmt: skip
def test_commands(text: str, expected: list[str]) -> None:
    assert shown(run(text)) == expected


def test_a_split_variable_is_several_words() -> None:
    (command,) = run("P='python -m pytest'; $P \"$P\" x$P")
    assert [word.text for word in command.words] == [
        *("python", "-m", "pytest"),
        "python -m pytest",
        *("xpython", "-m", "pytest"),
    ]


def test_environment_is_what_is_exported_and_what_stands_before() -> None:
    first, second, third = run(
        "A=1\nexport B=2 C\nC=3\nD=4 pytest a\npytest b\nB=5\nunset C\npytest c", E="6"
    )[1:4]
    assert {n: w.text for n, w in first.environment} == {"B": "2", "C": "3", "D": "4", "E": "6"}
    assert {n: w.text for n, w in second.environment} == {"B": "2", "C": "3", "E": "6"}
    # `unset` is a command as well.
    assert third.words[0].text == "unset"


def test_folder_follows_cd_but_not_out_of_a_subshell() -> None:
    commands = run(
        "(cd a/b; pytest)\ncd c\npytest\ncd ../d/./e\npytest\ncd $GITHUB_WORKSPACE/f\npytest"
    )
    assert [c.folder.text for c in commands if c.words[0].text == "pytest"] == [
        "a/b",
        "c",
        "d/e",
        "f",
    ]


def test_a_branch_that_cannot_be_decided_is_a_condition() -> None:
    commands = run("if [ -d x ]; then cd a; pytest a; else pytest b; fi\npytest c")
    conditions = {shown((c,))[0]: c.conditions for c in commands}
    assert conditions["pytest a"] == ("if [ -d x ]",)
    assert conditions["pytest b"] == ("if not [ -d x ]",)
    assert conditions["pytest c"] == ()
    assert commands[-1].folder.known is None


def test_a_branch_that_exits_changes_nothing_after_it() -> None:
    commands = run('if [ ! -d "$X" ]; then cd y; exit 1; fi\npytest a')
    assert commands[-1].conditions == ()
    assert commands[-1].folder.text == "."


@pytest.mark.parametrize(
    "text,may_fail",
    [
        pytest.param("pytest a", False, id="plain"),
        pytest.param("pytest a || true", True, id="or true"),
        pytest.param("pytest a && true", False, id="and"),
        pytest.param("set +e\npytest a\ntrue", True, id="set +e"),
        pytest.param("! pytest a", True, id="negated"),
        pytest.param("if pytest a; then true; fi", True, id="condition"),
    ],
)
def test_whether_a_failure_counts(text: str, may_fail: bool) -> None:
    (command,) = [c for c in run(text) if c.words[0].text == "pytest"]
    assert command.may_fail is may_fail


def test_what_stands_behind_or_runs_if_the_first_fails() -> None:
    first, second = run("pytest a || pytest b")
    assert first.conditions == ()
    assert second.conditions == ("if `pytest a` fails",)


def test_redirects_and_lines() -> None:
    first, second = run('\n{ echo "A=1"\n  echo B=2; } >> "$GITHUB_ENV"')
    assert [(first.line, second.line)] == [(2, 3)]
    assert [(o, t.text) for o, t in first.redirects] == [(">>", "/github/env")]


def test_placeholders_stand_for_what_is_unknown() -> None:
    commands = run_script(
        f"pytest x{chr(PLACEHOLDER)}'{chr(PLACEHOLDER)}'",
        environment={},
        placeholders=[Unknown("${{ x }}")],
    )
    assert commands[0].words[1].glob == "x**"
    assert commands[0].words[1].text == "x${{ x }}${{ x }}"
    assert commands[0].words[1].known is None


@pytest.mark.parametrize(
    "text",
    [
        "pytest 'a", 'pytest "a', "pytest $(ls", "pytest `ls", "if true; then pytest", "if; then x; fi",
        "for in x; do y; done", "case x in", "{ pytest", "(pytest", "pytest )", "fi", "a && ", "a ||\n",
        "[[ a", "echo ${a", "| a", "a >", ";;", "$((1", "f( x ) { y; }",
    ],
)  # fmt: skip
def test_what_is_no_shell_is_said(text: str) -> None:
    with pytest.raises(ShellError):
        run(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("f() { f; }; f", id="endless recursion"),
        pytest.param("X=aaaaaaaaaa\n" + "X=$X$X\n" * 60 + "pytest $X", id="doubling value"),
        pytest.param("(" * 5000, id="deep nesting"),
        pytest.param("$(" * 5000, id="deep substitution"),
        pytest.param("x" + "${a:-" * 3000, id="deep defaults"),
        pytest.param("f() { g; g; }; " + "".join(
            f"{a}() {{ {b}; {b}; {b}; {b}; }}; " for a, b in zip("ghijklmn", "hijklmno")) + "o() { x; }; f",
            id="many commands"),
    ],
)  # fmt: skip
def test_hostile_scripts_end_with_an_error(text: str) -> None:
    with pytest.raises(ShellError):
        run(text)


@pytest.mark.parametrize(
    "folder,path,expected",
    [
        ("python", "build/..", "python"),
        ("a/b", "../../c", "c"),
        (".", ".", "."),
        ("a", "/github/workspace/b", "b"),
        ("a", "/opt/x", "/opt/x"),
        ("a", "~/x", "~/x"),
        (".", "../x", "../x"),
    ],
)
def test_paths(folder: str, path: str, expected: str) -> None:
    assert path_from(Word((folder,)), Word((path,))).text == expected


def test_an_unknown_part_is_one_name_of_a_path() -> None:
    path = path_from(Word(("a",)), Word(("build/", Unknown("$(ls)"), "/../test")))
    assert path.text == "a/build/test"


_TOKENS = st.sampled_from(
    [
        *(
            "pytest",
            "-k",
            "a",
            "x=1",
            "$X",
            "${X:-a}",
            "$(",
            ")",
            "(",
            "{",
            "}",
            "if",
            "then",
            "else",
        ),
        *(
            "fi",
            "for",
            "in",
            "do",
            "done",
            "case",
            "esac",
            ";;",
            ";",
            "\n",
            "&&",
            "||",
            "|",
            "&",
            "!",
        ),
        *(
            "'",
            '"',
            "`",
            "\\",
            "\\\n",
            "<<EOF",
            "EOF",
            "<",
            ">>",
            "$((",
            "))",
            "[[",
            "]]",
            "[",
            "]",
        ),
        *(
            "while",
            "#",
            "${",
            "$",
            " ",
            "f()",
            "function",
            "cd",
            "export",
            "exit",
            "set +e",
            "\ue000",
        ),
    ]
)


@settings(max_examples=400, deadline=None)
@example("${")
@example("a<(")
@given(st.one_of(st.text(max_size=60), st.lists(_TOKENS, max_size=25).map(" ".join), st.lists(_TOKENS, max_size=25).map("".join)))  # fmt: skip
def test_any_text_is_commands_or_an_error(text: str) -> None:
    try:
        commands = run(text)
    except ShellError as e:
        assert e.line >= 1 and str(e)
        return
    assert all(command.words for command in commands)

"""What the shell of a `run:` block does."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pants_triton.ci.shell_lines import PLACEHOLDER, Command, run_script
from pants_triton.ci.shell_syntax import ShellError
from pants_triton.ci.shell_words import Word, path_from
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
        pytest.param("[[ a == a ]] && pytest a", ["[[ a == a ]]", "pytest a"], id="and"),
        pytest.param("[[ a == b ]] && pytest a", ["[[ a == b ]]"], id="and not"),
        pytest.param("true || pytest a; false || pytest b", ["true", "false", "pytest b"], id="or"),
        pytest.param("pytest t/{a,b}_test.py {1..2}", ["pytest t/a_test.py t/b_test.py 1 2"], id="braces"),
        pytest.param("pytest {a} '{a,b}' {a..}", ["pytest {a} {a,b} {a..}"], id="no braces"),
        pytest.param("f() { shift; pytest $# \"$@\" x$1; }; f a 'b c' d", ["shift", "pytest 2 b c d xb c"], id="parameters"),
        pytest.param("f() { return 0; pytest a; }; f; pytest b", ["return 0", "pytest b"], id="return"),
        pytest.param("(exit 0); pytest a", ["exit 0", "pytest a"], id="exit of a subshell"),
        pytest.param("for t in a b c; do [ $t = b ] && continue; pytest $t; done", ["[ a = b ]", "pytest a", "[ b = b ]", "continue", "[ c = b ]", "pytest c"], id="continue"),
        pytest.param("for t in a b c; do pytest $t; break; done; pytest d", ["pytest a", "break", "pytest d"], id="break"),
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


@pytest.mark.parametrize(
    "text,conditions",
    [
        pytest.param('[ -n "$SKIP" ] && exit 0\npytest', ('if not [ -n "$SKIP" ]',), id="and"),
        pytest.param(
            "grep -q x f && { true; exit 0; }\npytest", ("if not grep -q x f",), id="and a group"
        ),
        pytest.param("./wanted && exit 0\npytest", ("if `./wanted` fails",), id="of a program"),
        pytest.param("./wanted || exit 0\npytest", ("if `./wanted` succeeds",), id="or"),
        pytest.param("if [ $A ]; then exit 0; fi\npytest", ("if not [ $A ]",), id="if"),
        pytest.param(
            "if [ $A ]; then exit; elif [ $B ]; then true; fi\npytest",
            ("if not [ $A ]",),
            id="elif",
        ),
        pytest.param("case $A in a) exit 0;; esac\npytest", ("if not $A is a",), id="case"),
        pytest.param("./build || exit 1\npytest", (), id="of a failure"),
        pytest.param("./build || exit $?\npytest", (), id="of the same failure"),
        pytest.param("f() { [ $A ] && return 0; true; }\nf\npytest", (), id="of a function"),
        pytest.param(
            "for t in $A; do [ $t = a ] && continue; true; done\npytest", (), id="of a round"
        ),
        pytest.param(
            "f() { [ $A ] && exit 0; }\nf\npytest", ("if not [ $A ]",), id="in a function"
        ),
    ],
)
def test_what_follows_where_it_may_have_ended(text: str, conditions: tuple[str, ...]) -> None:
    *_, last = run(text)
    assert (last.words[0].text, last.conditions) == ("pytest", conditions)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('[ "$E" = x ] && N=1', id="and"),
        pytest.param("((N++))", id="arithmetic"),
        pytest.param("let N=1", id="let"),
        pytest.param("read -r N < f", id="read"),
        pytest.param("source ./config.sh", id="source"),
        pytest.param('eval "$(./config)"', id="eval"),
        pytest.param("f() { N=1; }; [ $E ] && f", id="function"),
        pytest.param("for t in a b; do [ $t = $E ] && { N=1; break; }; done", id="break"),
        pytest.param("while read -r l; do N=$l; done < f", id="loop"),
        pytest.param("f() { if [ $E ]; then N=1; return 0; fi; true; }; f", id="return"),
    ],
)
def test_a_variable_that_may_have_changed_decides_nothing(text: str) -> None:
    *_, last = run(f"N=0\n{text}\nif [ $N -eq 1 ]; then pytest a; fi")
    assert (last.words[0].text, last.conditions) == ("pytest", ("if [ $N -eq 1 ]",))
    # Nor where it is a loop's next round that finds it changed.
    texts = [c.text for c in run(f"N=0\nwhile ./more; do [ $N = 1 ] && pytest a\n{text}\ndone")]
    assert "pytest a" in texts


def test_a_virtual_environment_changes_no_variable_of_the_script() -> None:
    commands = run("N=0\n. venv/bin/activate\nif [ $N = 1 ]; then pytest a; fi")
    assert "pytest a" not in shown(commands)


def test_what_a_function_does_to_the_shell_lasts() -> None:
    commands = run(
        "f() { local A=1; export B=2; cd c; set +e; }\nA=0\nD=4 f\npytest a\ng() { pytest $D; }\nD=4 g"
    )
    first, second = [c for c in commands if c.words[0].text == "pytest"]
    assert {n: w.text for n, w in first.environment} == {"B": "2"}
    assert (first.folder.text, first.may_fail) == ("c", True)
    assert {n: w.text for n, w in second.environment} == {"B": "2", "D": "4"}
    assert second.text == "pytest $D"


def test_a_function_that_may_be_another_is_run_as_both() -> None:
    commands = run("if [ $A ]; then t() { pytest a; }; else t() { pytest b; }; fi\nt\npytest c")
    assert [(c.text, c.conditions) for c in commands[1:]] == [
        ("pytest a", ("if that is what `t` is",)),
        ("pytest b", ("if that is what `t` is",)),
        ("pytest c", ()),
    ]


def test_folders_are_gone_back_to() -> None:
    commands = run("pushd a; pushd b; popd; pytest; popd; pytest; cd c; cd -; pytest; popd; pytest")
    folders = [c.folder for c in commands if c.words[0].text == "pytest"]
    assert [folder.known for folder in folders] == ["a", ".", ".", None]


def test_a_folder_that_a_round_leaves_is_not_the_next_ones() -> None:
    (command,) = [c for c in run("while ./more; do pytest; cd a; done") if c.text == "pytest"]
    assert command.folder.known is None
    commands = run("cd $A; cd ..; pytest")
    assert commands[-1].folder.known is None


def test_conditions_show_what_is_unknown_as_in_the_file() -> None:
    (_, command, _, other) = run_script(
        f"if [ {chr(PLACEHOLDER)} ]; then pytest a; fi\n{chr(PLACEHOLDER)} || pytest b",
        environment={},
        placeholders=[Unknown("${{ inputs.gpu }}")],
    )
    assert command.conditions == ("if [ ${{ inputs.gpu }} ]",)
    assert other.conditions == ("if `${{ inputs.gpu }}` fails",)


def test_set_exports_and_forgives() -> None:
    commands = run("set -a; A=1; set +a; B=2; pytest; set -o allexport +o errexit; C=3; pytest")
    first, second = [c for c in commands if c.words[0].text == "pytest"]
    assert ({n for n, _ in first.environment}, first.may_fail) == ({"A"}, False)
    assert ({n for n, _ in second.environment}, second.may_fail) == ({"A", "C"}, True)


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

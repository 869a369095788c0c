"""What a workflow's file says of its jobs and steps."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pants_triton.ci.coverage_seed import PATH, workflow_text
from pants_triton.ci.workflow_steps import Step, Workflow, WorkflowError, parse_workflow


def parse(text: str, **context: str) -> Workflow:
    dotted = {name.replace("_", "."): value for name, value in context.items()}
    return parse_workflow(textwrap.dedent(text), "ci.yml", context=dotted)


def steps_of(job: str) -> tuple[Step, ...]:
    return parse(f"on: push\njobs:\n  a:\n{textwrap.indent(textwrap.dedent(job), '    ')}").steps


def ran(step: Step) -> list[tuple[str, str]]:
    """Runner and command of each run."""
    return [
        (str(run.runner), " ".join(map(str, command.words)))
        for run in step.runs
        for command in run.commands
    ]


def test_the_seed() -> None:
    workflow = parse_workflow(workflow_text(), PATH)
    assert workflow.name == "Integration Tests"
    assert len(workflow.steps) == 56
    by_name = {(step.job, step.name): step for step in workflow.steps}
    cuda = by_name["Integration-Tests", "Run python tests on CUDA"]
    assert [str(run.runner) for run in cuda.runs] == ["a100-runner-set", "h100-runner-set"]
    assert cuda.runs[0].conditions == ()
    interpreter = by_name["Integration-Tests", "Run interpreter tests"]
    assert [str(run.runner) for run in interpreter.runs] == ["h100-runner-set"]
    rocm = by_name["Integration-Tests-AMD", "Run lit tests"]
    assert [str(run.runner) for run in rocm.runs] == ["self-hosted/gfx90a", "self-hosted/gfx942"]
    assert "--device=/dev/kfd" in rocm.runs[0].runner.options
    line_info = [c for c in cuda.runs[0].commands if c.words[-1].text.endswith("test_line_info.py")]
    assert line_info[0].line == 252
    assert {n: w.text for n, w in line_info[0].environment} == {
        "PROTON_SKIP_PC_SAMPLING_TEST": "1",
        "TRITON_BUILD_WITH_CLANG_LLD": "TRUE",
        "TRITON_DISABLE_LINE_INFO": "0",
        "TRITON_USE_ASSERT_ENABLED_LLVM": "TRUE",
    }


def test_the_repository_is_taken_from_the_workflow_and_can_be_named() -> None:
    assert parse_workflow(workflow_text(), PATH).taken == (
        f"`github.repository` is taken to be triton-lang/triton, which is all that {PATH} compares "
        "it with.",
    )
    fork = parse_workflow(workflow_text(), PATH, context={"github.repository": "me/triton"})
    assert fork.taken == ()
    (lit,) = [s for s in fork.steps if s.job == "Integration-Tests" and s.name == "Run lit tests"]
    assert [str(run.runner) for run in lit.runs] == ["ubuntu-latest"]


@pytest.mark.parametrize(
    "more,repository",
    [
        ("if: github.repository == 'me/fork'", "me/fork"),
        ("name: a # github.repository == 'me/fork'", None),
        (
            "env: {A: \"${{ github.repository == 'me/fork' && github.repository != 'me/fork' }}\"}",
            None,
        ),
        (
            "env: {A: \"${{ github.repository == 'me/fork' && github.repository != 'a/b' }}\"}",
            "me/fork",
        ),
        ("env: {A: \"${{ github.repository == 'me/fork' || github.repository == 'a/b' }}\"}", None),
    ],
)
def test_the_repository_is_taken_from_values(more: str, repository: str | None) -> None:
    workflow = parse(f"jobs:\n  a:\n    {more}\n    runs-on: x\n    steps: [{{run: pytest}}]")
    assert [text.split()[5] for text in workflow.taken] == [f"{repository},"] * bool(repository)


def test_the_repository_is_not_taken_from_comments_in_shell() -> None:
    (step,) = steps_of(
        """
        runs-on: x
        if: github.repository != 'me/fork'
        steps:
        - run: |
            # where github.repository == 'me/fork'
            pytest
        """
    )
    assert step.runs[0].conditions == ("github.repository != 'me/fork'",)


def test_matrix_with_include_and_exclude() -> None:
    (step,) = steps_of(
        """
        runs-on: ${{ matrix.os }}
        strategy:
          matrix:
            os: [x, y]
            n: [1, 2]
            exclude: [{os: x, n: 2}]
            include: [{os: y, extra: e}, {os: z, n: 3}]
        steps:
        - run: echo ${{ matrix.n }} ${{ matrix.extra }}
        """
    )
    assert ran(step) == [("x", "echo 1"), ("y", "echo 1 e"), ("y", "echo 2 e"), ("z", "echo 3")]


def test_a_matrix_that_only_a_run_knows() -> None:
    (step,) = steps_of(
        """
        runs-on: ${{ matrix.runner }}
        strategy: {matrix: {runner: "${{ fromJson(needs.prepare.outputs.matrix-NVIDIA) }}"}}
        steps: [{run: make test-unit}]
        """
    )
    (run,) = step.runs
    assert str(run.runner) == "${{ matrix.runner }}"
    assert run.runner.hints == ("a", "${{ fromJson(needs.prepare.outputs.matrix-NVIDIA) }}")


@pytest.mark.parametrize(
    "strategy,kinds",
    [
        pytest.param('{matrix: {include: "${{ fromJson(needs.p.outputs.m) }}"}}', [None], id="include"),
        pytest.param('{matrix: "${{ fromJson(inputs.m) }}"}', [None], id="matrix"),
        pytest.param('"${{ fromJson(inputs.m) }}"', [None], id="strategy"),
        pytest.param('{matrix: {kind: "${{ fromJson(inputs.m) }}"}}', [None], id="axis"),
        pytest.param('{matrix: {kind: ["${{ inputs.a }}", cpu]}}', [None, "cpu"], id="value of an axis"),
        pytest.param('{matrix: {kind: [gpu], include: "${{ fromJson(inputs.m) }}"}}', ["gpu", None], id="axis and include"),
        pytest.param('{matrix: {os: [x], include: "${{ fromJson(inputs.m) }}"}}', [None, None], id="other axis and include"),
        pytest.param('{matrix: {include: [{kind: gpu}, "${{ fromJson(inputs.m) }}"]}}', ["gpu", None], id="an entry"),
        pytest.param('{matrix: {include: [{kind: "${{ inputs.a }}"}, {kind: cpu}]}}', [None, "cpu"], id="a member of an entry"),
        pytest.param('{matrix: {os: [x], include: [{os: "${{ inputs.a }}", kind: gpu}]}}', [None, "gpu"], id="an entry that may fit"),
        pytest.param('{matrix: {os: ["${{ inputs.a }}"], include: [{os: x, kind: gpu}]}}', [None, "gpu"], id="an axis that may fit"),
        pytest.param('{matrix: {kind: [gpu], exclude: "${{ fromJson(inputs.m) }}"}}', ["gpu"], id="exclude"),
        pytest.param('{matrix: {kind: [gpu, cpu], exclude: [{kind: "${{ inputs.a }}"}, {kind: cpu}]}}', ["gpu"], id="an entry of exclude"),
        pytest.param('{matrix: {os: [x], include: [{os: x, kind: gpu}]}}', ["gpu"], id="known"),
    ],
)  # fmt: skip
def test_what_a_run_knows_of_a_matrix_decides_nothing(strategy: str, kinds: list) -> None:
    (is_gpu, shell, place) = steps_of(
        f"""
        runs-on: x
        strategy: {strategy}
        steps:
        - {{run: pytest, if: matrix.kind == 'gpu'}}
        - run: if [ "${{{{ matrix.kind }}}}" = gpu ]; then pytest; fi
        - {{run: pytest, working-directory: "a/${{{{ matrix.kind }}}}"}}
        """
    )
    conditions = {"gpu": (), None: ("matrix.kind == 'gpu'",)}
    assert [run.conditions for run in is_gpu.runs] == [conditions[k] for k in kinds if k != "cpu"]
    found = [
        c.conditions for run in shell.runs for c in run.commands if c.words[0].text == "pytest"
    ]
    assert [not c for c in found] == [k == "gpu" for k in kinds if k != "cpu"]
    folders = [run.commands[0].folder.text for run in place.runs]
    assert folders == [f"a/{k or '${{ matrix.kind }}'}" for k in kinds]


def test_a_matrix_of_which_all_that_it_may_be_is_known() -> None:
    workflow = parse(
        """
        on: push
        jobs:
          make:
            runs-on: x
            outputs: {m: "${{ steps.s.outputs.m }}"}
            steps:
            - id: s
              run: |
                if [ -f x ]; then
                  echo 'm=[{"r": "a"}]' >> $GITHUB_OUTPUT
                else
                  echo 'm=[{"r": "b"}, {"r": "c"}]' >> $GITHUB_OUTPUT
                fi
          use:
            needs: make
            runs-on: ${{ matrix.r }}
            strategy: {matrix: {include: "${{ fromJSON(needs.make.outputs.m) }}"}}
            steps: [{run: pytest}]
        """
    )
    assert ran(workflow.steps[-1]) == [("a", "pytest"), ("b", "pytest"), ("c", "pytest")]


def test_outputs_of_branches_that_cannot_be_decided_are_all_taken() -> None:
    workflow = parse(
        """
        on: push
        jobs:
          use:
            needs: make
            runs-on: ${{ matrix.r }}
            if: needs.make.outputs.m != ''
            strategy: {matrix: {r: "${{ fromJSON(needs.make.outputs.m) }}"}}
            steps: [{run: pytest}]
          make:
            runs-on: x
            outputs: {m: "${{ steps.s.outputs.m }}"}
            steps:
            - id: s
              run: |
                if [ -f x ]; then
                  echo 'm=["a"]' >> $GITHUB_OUTPUT
                else
                  echo '::set-output name=m::["b", "c"]'
                fi
        """
    )
    assert ran(workflow.steps[0]) == [("a", "pytest"), ("b", "pytest"), ("c", "pytest")]


def outcome(script: str, condition: str, more: str = "") -> bool | None:
    """Whether a step with this condition runs behind the step `c`; None where that isn't told.

    :param more: keys of the step `c`.
    """
    step = f"id: c\n{more}\nrun: |\n{textwrap.indent(script, '  ')}"
    steps = steps_of(
        "runs-on: x\nenv: {RUN: 'false', OTHER: o}\nsteps:\n-\n"
        f"{textwrap.indent(step, '  ')}\n- {{run: pytest, if: \"{condition}\"}}"
    )
    if not steps[-1].runs:
        return False
    return None if steps[-1].runs[0].conditions else True


@pytest.mark.parametrize(
    "script,more",
    [
        ("if git diff --quiet; then echo skip=true >> $GITHUB_OUTPUT; fi", ""),
        ("git diff --quiet || echo skip=true >> $GITHUB_OUTPUT", ""),
        ("if git diff --quiet; then echo ::set-output name=skip::true; fi", ""),
        ("echo skip=true >> $GITHUB_OUTPUT", "if: github.event_name == 'push'"),
        ("echo skip=false >> $GITHUB_OUTPUT\nif x; then echo skip=true >> $GITHUB_OUTPUT; fi", ""),
    ],
)
def test_an_output_that_may_be_unset_decides_nothing(script: str, more: str) -> None:
    assert outcome(script, "steps.c.outputs.skip != 'true'", more) is None
    assert outcome(script, "steps.c.outputs.skip == 'other'", more) is False
    assert outcome("echo skip=true >> $GITHUB_OUTPUT", "steps.c.outputs.skip != 'true'") is False


def test_outputs_of_steps_that_may_not_run_are_not_those_of_their_job() -> None:
    workflow = parse(
        """
        on: push
        jobs:
          p:
            runs-on: x
            outputs: {m: "${{ steps.a.outputs.m || steps.b.outputs.m }}", n: "${{ steps.a.outputs.m }}"}
            steps:
            - {id: a, if: github.event_name == 'push', run: echo "m=full" >> $GITHUB_OUTPUT}
            - {id: b, run: echo "m=fast" >> $GITHUB_OUTPUT}
          fast: {needs: p, runs-on: x, if: needs.p.outputs.m == 'fast', steps: [{run: pytest}]}
          not: {needs: p, runs-on: x, if: needs.p.outputs.n != 'full', steps: [{run: pytest}]}
          any: {needs: p, runs-on: x, if: needs.p.outputs.n != '', steps: [{run: pytest}]}
        """
    )
    assert [step.runs[0].conditions for step in workflow.steps[2:]] == [
        ("needs.p.outputs.m == 'fast'",),
        ("needs.p.outputs.n != 'full'",),
        (),
    ]


@pytest.mark.parametrize(
    "write",
    [
        "cat x | tee -a FILE",
        'echo "RUN=false" | sed s/false/true/ | tee -a FILE',
        'echo "RUN=false" | tee -a log FILE',
        "cat >> FILE <<EOF\nRUN=true\nEOF",
        "python x.py >> FILE",
        "python decide.py --out=FILE",
        "{ cat x; } >> FILE",
        "bash -c 'echo RUN=true >> FILE'",
        "if x; then cat x; fi >> FILE",
        "echo 'RUN<<EOF' >> FILE; echo RUN=false >> FILE; echo EOF >> FILE",
        'echo "$x=true" >> FILE',
        "echo $'RUN=true\\nx=1' >> FILE",
        "printf 'RUN=%b' true >> FILE",
        'echo -e "x=\\\\1\\nRUN=true" >> FILE',
        "printf RUN= >> FILE; echo true >> FILE",
        "python - <<EOF\nopen(os.environ['VARIABLE'])\nEOF",
    ],
)
def test_what_is_written_but_not_understood_leaves_nothing_known(write: str) -> None:
    env = write.replace("FILE", '"$GITHUB_ENV"').replace("VARIABLE", "GITHUB_ENV")
    assert outcome(env, "env.RUN == 'true'") is None
    assert outcome(env, "env.OTHER == 'x'") is None
    output = write.replace("FILE", "$GITHUB_OUTPUT").replace("VARIABLE", "GITHUB_OUTPUT")
    assert (
        outcome(f"echo RUN=false >> $GITHUB_OUTPUT\n{output}", "steps.c.outputs.RUN == 'true'")
        is None
    )
    assert outcome(output, "env.RUN == 'true'") is False


def test_what_is_not_shell_that_is_understood_may_write_variables() -> None:
    assert outcome("RUN=true >> $GITHUB_ENV; if", "env.RUN == 'true'") is None
    assert outcome("open(os.environ['GITHUB_ENV'])", "env.RUN == 'true'", "shell: python") is None
    assert outcome("print()", "env.RUN == 'true'", "shell: python") is False


@pytest.mark.parametrize(
    "write",
    [
        "python x.py > log",
        "cat $GITHUB_ENV",
        "[ -s $GITHUB_ENV ]",
        "uses > $GITHUB_OUTPUT",
        "if [ -f x ]; then :; fi >> $GITHUB_ENV",
        "echo >> $GITHUB_ENV",
    ],
)
def test_what_writes_no_variables_leaves_them_known(write: str) -> None:
    assert outcome(write, "env.RUN == 'true'") is False


@pytest.mark.parametrize(
    "write",
    [
        "echo RUN=true >> FILE",
        "{ echo RUN=true; } >> FILE",
        'echo "RUN=true" |  tee -a FILE > log',
        "printf 'RUN=true\\n' >> FILE",
        "printf 'RUN=%s\\n' true >> FILE",
        "printf '%s=%s\\n' x 1 RUN true >> FILE",
        'echo -e "RUN=true\\nx=1" >> FILE',
        'echo "x=1\nRUN=true" >> FILE',
        "echo -n RUN=true >> FILE",
        "echo RUN=true >> FILE 2>&1",
        "cat x >> FILE; echo RUN=true >> FILE",
        "echo 'RUN=false' >> FILE; echo RUN=true >> FILE",
    ],
)
def test_what_echo_and_printf_write(write: str) -> None:
    env = write.replace("FILE", '"$GITHUB_ENV"')
    assert outcome(env, "env.RUN == 'true'") is True
    output = write.replace("FILE", "$GITHUB_OUTPUT")
    assert outcome(output, "steps.c.outputs.RUN == 'true'") is True
    assert outcome(output, "steps.c.outputs.RUN != 'true'") is False


def test_environment_of_all_scopes_and_of_the_steps_before() -> None:
    workflow = parse(
        """
        on: push
        env: {A: 1, B: on, C: 1.5}
        jobs:
          a:
            runs-on: x
            env: {B: true, D: "${{ env.A }}"}
            container: {image: x, env: {G: 7, B: 8}}
            steps:
            - run: echo "E=5" >> "$GITHUB_ENV"
            - {run: pytest, env: {A: 010, F: "${{ secrets.F }}"}}
        """
    )
    (command,) = workflow.steps[1].runs[0].commands
    assert {name: word.text for name, word in command.environment} == {
        **{"A": "10", "B": "true", "C": "1.5", "D": "1", "E": "5"},
        **{"F": "${{ secrets.F }}", "G": "7"},
    }


def test_yaml_is_read_as_github_reads_it() -> None:
    workflow = parse("on: push\nenv: {X: on, Y: no, Z: 1:30}\njobs: {a: {runs-on: x, steps: [{run: p}]}}")  # fmt: skip
    (command,) = workflow.steps[0].runs[0].commands
    assert {n: w.text for n, w in command.environment} == {"X": "on", "Y": "no", "Z": "1:30"}


def test_conditions() -> None:
    steps = steps_of(
        """
        runs-on: x
        env: {BACKEND: CUDA}
        if: github.event_name == 'push'
        steps:
        - {run: a, if: "env.BACKEND == 'CUDA'"}
        - {run: b, if: "env.BACKEND == 'HIP'"}
        - {run: c, if: "${{ github.ref == 'x' }}"}
        """
    )
    assert [[run.conditions for run in step.runs] for step in steps] == [
        [("github.event_name == 'push'",)],
        [],
        [("github.event_name == 'push'", "github.ref == 'x'")],
    ]


def test_a_job_that_never_runs() -> None:
    (step,) = steps_of("runs-on: x\nif: false\nsteps: [{run: pytest}]")
    assert step.runs == ()
    assert "never holds" in step.name


def test_working_directories() -> None:
    (first, second) = steps_of(
        """
        runs-on: x
        defaults: {run: {working-directory: python}}
        steps:
        - run: pytest
        - {run: cd b; pytest, working-directory: "./a/"}
        """
    )
    assert first.runs[0].commands[-1].folder.text == "python"
    assert second.runs[0].commands[-1].folder.text == "a/b"


def test_other_shells_and_broken_ones_are_errors_of_their_step() -> None:
    steps = steps_of(
        """
        runs-on: x
        steps:
        - {run: import x, shell: python}
        - run: |
            pytest a
            if true
        - {run: pytest, shell: "bash -l {0}"}
        """
    )
    assert [step.runs[0].error for step in steps] == [
        "its shell is `python`; only bash and sh are read",
        "line 11 is not shell that is understood: `then` of `if` is missing",
        "",
    ]


def test_the_shell_of_windows_is_its_own() -> None:
    steps = steps_of(
        """
        runs-on: "${{ matrix.os }}"
        strategy: {matrix: {os: [windows-latest, ubuntu-latest], sh: ["${{ inputs.sh }}"]}}
        steps:
        - run: pytest
        - {run: pytest, shell: bash}
        - {run: pytest, shell: "${{ matrix.os == 'windows-latest' && 'cmd' || 'sh' }}"}
        - {run: pytest, shell: "${{ matrix.sh }}"}
        """
    )
    assert [[run.error.partition(";")[0] for run in step.runs] for step in steps] == [
        ["its shell is `pwsh`", ""],
        ["", ""],
        ["its shell is `cmd`", ""],
        ["its shell is `${{ matrix.sh }}`"] * 2,
    ]


def test_failures_that_may_not_count() -> None:
    workflow = parse(
        """
        on: push
        jobs:
          a:
            runs-on: x
            continue-on-error: ${{ matrix.new }}
            strategy: {matrix: {new: [true, false]}}
            steps:
            - run: pytest
            - {run: pytest, continue-on-error: true}
            - {run: pytest, continue-on-error: "${{ inputs.x }}"}
            - {run: pytest, continue-on-error: "${{ matrix.new == 'x' }}"}
          b:
            runs-on: x
            steps:
            - {id: c, run: pytest; echo "passed=true" >> $GITHUB_OUTPUT, continue-on-error: true}
            - {run: python again.py, if: steps.c.outputs.passed != 'true'}
        """
    )
    assert [step.may_fail for step in workflow.steps] == [False, True, True, False, True, False]
    found = [[run.commands[0].may_fail for run in step.runs] for step in workflow.steps]
    assert found == [[True, False], [True, True], [True, True], [True, False], [True], [False]]
    assert workflow.steps[-1].runs[0].conditions == ("steps.c.outputs.passed != 'true'",)


def test_places_and_texts_that_are_not_usual() -> None:
    workflow = parse(
        """
        on: push
        jobs:
          a:
            uses: ./x.yml
          b: {runs-on: x, steps: [{run: true}]}
        """
    )
    assert [(step.line, step.name) for step in workflow.steps] == [(4, "a"), (6, "true")]
    assert ran(workflow.steps[1]) == [("x", "true")]


def test_anchors_are_followed() -> None:
    workflow = parse(
        """
        on: push
        jobs:
          a: {runs-on: x, steps: &steps [{run: pytest}]}
          b: {runs-on: y, steps: *steps}
        """
    )
    assert [ran(step) for step in workflow.steps] == [[("x", "pytest")], [("y", "pytest")]]


@pytest.mark.parametrize(
    "text,message",
    [
        pytest.param("a: [", r"ci\.yml is not YAML, line 1: ", id="not YAML"),
        pytest.param("a: !!python/object:x y", "ci.yml is not YAML", id="tags"),
        pytest.param("{" * 2000, "ci.yml is not YAML", id="deep"),
        pytest.param("", "is not a workflow of GitHub Actions", id="empty"),
        pytest.param("[a]", "it has neither `on` nor `jobs`", id="list"),
        pytest.param("a: 1", "it has neither `on` nor `jobs`", id="other mapping"),
        pytest.param("on: push", "has no jobs", id="no jobs"),
        pytest.param("on: push\njobs: {}", "has no jobs", id="empty jobs"),
        pytest.param("jobs: {a: 1}", "the job `a` is not a mapping", id="job"),
        pytest.param("jobs: {a: {runs-on: x}}", "the job `a` has no list of steps", id="no steps"),
        pytest.param("jobs: {a: {steps: [1]}}", "the job `a` has no list of steps", id="steps"),
        pytest.param("jobs: {a: {steps: [], strategy: {matrix: 1}}}", "the matrix of the job `a`", id="matrix"),
        pytest.param("jobs: {a: {steps: [{run: a, if: '('}]}}", r"the expression `\(` is not understood", id="expression"),
        pytest.param("jobs: {a: {steps: [], strategy: {matrix: {x: [" + "1," * 20 + "], y: [" + "1," * 20 + "]}}}}",
                     "has 400 combinations; GitHub allows 256", id="large matrix"),
    ],
)  # fmt: skip
def test_what_is_no_workflow_is_said(text: str, message: str) -> None:
    with pytest.raises(WorkflowError, match=message):
        parse_workflow(text, "ci.yml")


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=5),
    st.sampled_from(["${{ matrix.a }}", "x: y", "pytest", "${{ fromJSON('[1]') }}", "needs.a.outputs.b"]),
)  # fmt: skip
_KEYS = st.sampled_from(
    [*("steps", "run", "uses", "if", "env", "strategy", "matrix", "include", "exclude", "runs-on"),
     *("needs", "outputs", "container", "image", "labels", "group", "shell", "defaults", "name", "id", "a")]
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=6))
@example({"steps": [], "outputs": "a"})
@example({"steps": [{"run": []}]})
def test_any_document_is_a_workflow_or_an_error(job: dict) -> None:
    import json

    try:
        parse_workflow(json.dumps({"on": "push", "jobs": {"j": job}}), "ci.yml")
    except WorkflowError as e:
        assert "ci.yml" in str(e)

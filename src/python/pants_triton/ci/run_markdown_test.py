from __future__ import annotations

from pants_triton.ci import example_workunits as example
from pants_triton.ci.run_markdown import code, fitting, prose, render_markdown
from pants_triton.testing.repeat import Repeat
from pants_triton.workunits import EDGE, work_metadata


def test_summary() -> None:
    goal = example.goal()
    failed = example.test_rule(goal, "t/a_test.py:t", level="ERROR")
    skipped = [example.test_rule(goal, f"t:{i}", level="DEBUG") for i in range(3)]
    record = example.record(
        example.process(failed, "Run t/a_test.py:t", exit_code=1, took=2),
        failed,
        *(example.skip(test, "needs cuda: [no device]") for test in skipped),
        *skipped,
        goal,
        has_failed=True,
    )
    assert render_markdown(record) == (
        """\
### 4 tests: 1 failed, 3 skipped.

Tests: 1 executed. Processes: 1 executed.

10 s in all; 2.0 s spent in processes, 0.0 s saved by caches.

**Failed**

| Test | Process | From |
| --- | --- | --- |
| `t/a_test.py:t` | 2.0 s | executed |

**Skipped**

| Tests | Why |
| --- | --- |
| 3 | needs cuda: \\[no device\\] |

**Slowest of 1 executed**

| Process | For | Took |
| --- | --- | --- |
| `Run t/a_test.py:t` | `t/a_test.py:t` | 2.0 s |
"""
    )


def test_what_failed_to_build() -> None:
    goal = example.goal()
    failed = example.test_rule(goal, "t:unit", level="ERROR")
    edge = example.workunit("run_edge", failed, metadata=work_metadata(EDGE, "p:p", "a.o"))
    probe = example.workunit("pants.find_binary", failed)
    text = render_markdown(
        example.record(
            example.process(edge, "[1/2] Building a.o", exit_code=1),
            edge,
            example.process(probe, "Test binary /bin/python2", exit_code=127),
            probe,
            failed,
            goal,
            has_failed=True,
        )
    )
    assert (
        "**Failed to build**\n\n| Process | For |\n| --- | --- |\n"
        "| `[1/2] Building a.o` | `p:p` |\n\n"
    ) in text


def test_how_to_repeat_failures() -> None:
    goal = example.goal()
    repeats: dict[tuple[str, ...], Repeat] = {
        ("t:a",): Repeat("./pants test t:a -- -k 'a|b'", "sm_90 NVIDIA H100, driver 550"),
        ("t:b",): Repeat("./pants test t:b", ""),
        # Of no use in part, or dangerous.
        ("t:c",): Repeat(f"./pants test t:c -- {'x' * 500}", ""),
        ("t:d",): Repeat("./pants test t:d -- '```\n<b>'", ""),
    }
    failed = [example.test_rule(goal, *addresses, level="ERROR") for addresses in repeats]
    text = render_markdown(example.record(*failed, goal, repeats=repeats, lane="cuda-h100"))
    assert (
        (
            """\
**Repeat it (lane cuda-h100)**

```sh
# On sm_90 NVIDIA H100, driver 550
./pants test t:a -- -k 'a|b'
./pants test t:b
```
"""
        )
        in text
    )
    assert text.count("```") == 2


def test_names_are_no_markup() -> None:
    assert code("a|b`c\nd") == "`a\\|b'c d`"
    assert code("") == ""
    assert prose("<img src=x> **b** | [l](u) @you\n# t") == (
        "\\<img src=x\\> \\*\\*b\\*\\* \\| \\[l\\](u) \\@you \\# t"
    )


def test_size_is_bounded() -> None:
    goal = example.goal()
    failed = [example.test_rule(goal, f"{'long/' * 1000}:{i}", level="ERROR") for i in range(5_000)]
    repeats = {tuple(f["metadata"]["addresses"]): Repeat("./pants " * 62, "") for f in failed}
    text = render_markdown(example.record(*failed, goal, has_failed=True, repeats=repeats))
    assert len(text.encode()) < 100_000
    assert "… and 4,900 more." in text


def test_fitting() -> None:
    text = "### Head\n\nBody\n"
    assert fitting(text, 0, limit=100) == text
    assert fitting(text, 85, limit=100) == text
    assert fitting(text, 86, limit=100) == "### Head\n"
    assert fitting(text, 95, limit=100) == ""

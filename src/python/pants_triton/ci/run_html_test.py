from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from pants_triton.ci import example_workunits as example
from pants_triton.ci.run_html import render_html
from pants_triton.testing.repeat import Repeat
from pants_triton.workunits import EDGE, work_metadata


class Page(HTMLParser):
    """What a browser makes of a page: its text, the data in it, and what it would load."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.text = ""
        self.scripts: dict[str, str] = {}
        self._script: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.loads += [str(values[key]) for key in ("src", "href") if key in values]
        if tag == "script":
            self._script = values.get("id") or "code"

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, text: str) -> None:
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + text
        else:
            self.text += text

    @property
    def data(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.scripts["data"])
        return content


def test_page() -> None:
    goal = example.goal()
    failed = example.test_rule(goal, "t:failed", level="ERROR", at=1, took=4)
    skipped = example.test_rule(goal, "t:skipped", level="DEBUG")
    edge = example.workunit("run_edge", failed, metadata=work_metadata(EDGE, "p:p", "lib/a.o"))
    broken = example.workunit("run_edge", failed, metadata=work_metadata(EDGE, "p:p", "lib/b.o"))
    page = Page(
        render_html(
            example.record(
                example.process(edge, "[1/9] Building a.o", "HitLocally", at=1, took=0.25),
                edge,
                example.process(broken, "[2/9] Building b.o", at=5, took=1.25, exit_code=1),
                broken,
                example.process(failed, "Run t:failed", at=2, took=3, exit_code=1),
                failed,
                example.skip(skipped, "needs cuda"),
                skipped,
                goal,
                has_failed=True,
                counters={"remote_cache_read_errors": 7},
                repeats={("t:failed",): Repeat("./pants test t:failed -- '<b>'", "sm_90 H100")},
                lane="cuda-h100",
            )
        )
    )
    text = " ".join(page.text.split())
    assert "2 tests: 1 failed, 1 skipped." in text
    assert (
        "Failed t:failed failed · 3.0 s · executed · sm_90 H100 ./pants test t:failed -- '<b>'"
    ) in text
    assert "lane cuda-h100 · 2023-11-14" in text
    assert "Failed to build [2/9] Building b.o for p:p · 1.2 s" in text
    assert "Skipped 1 × needs cuda" in text
    assert "7 × remote_cache_read_errors" in text
    assert page.data["processes"] == [
        ["Run t:failed", 0, 0, 0, 1, 2.0, 3.0, 0.0, 0.0, 0],
        ["lib/b.o", 1, 1, 0, 1, 5.0, 1.25, 0.0, 0.0, 0],
        ["lib/a.o", 1, 1, 1, 0, 1.0, 0.25, 0.0, 0.0, 0],
    ]
    assert page.data["tests"] == [
        ["t:failed", 1, 0, "", 4.0, 3.0, 0.0],
        ["t:skipped", 2, -1, "needs cuda", 1.0, None, None],
    ]


def test_it_loads_nothing() -> None:
    html = render_html(example.record(example.goal()))
    assert Page(html).loads == []
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", html)
    # The one location in it is a name that browsers know and don't open.
    assert set(re.findall(r"\w+://[\w./]+", html)) == {"http://www.w3.org/2000/svg"}


def test_names_are_no_markup() -> None:
    goal = example.goal()
    evil = "</script><img src=x>{{outcome}}<!--"
    rule = example.test_rule(goal, f"t:{evil}", level="ERROR")
    page = Page(render_html(example.record(example.process(rule, evil), rule, goal)))
    assert page.loads == []
    assert page.data["processes"][0][0] == evil
    assert f"t:{evil}" in page.text


def test_size_is_bounded() -> None:
    goal = example.goal()
    processes = [
        example.process(goal, f"[{i}/5000] {'lib/Dialect/Triton/' * 9}{i}.cpp.o", at=i / 100)
        for i in range(5_000)
    ]
    html = render_html(example.record(*processes, goal))
    assert len(html.encode()) < 2_000_000


def test_nothing_to_do() -> None:
    goal = example.goal()
    page = Page(render_html(example.record(example.test_rule(goal, "t:a"), goal)))
    assert "Nothing to do. 1 test: 1 passed, all from this daemon's memory." in page.text
    assert page.data["processes"] == []

"""Draw a workflow of GitHub Actions as an SVG: what starts it, and which job runs what, where, after which.

    ./pants run build-support/pictures/workflow_picture.py -- WORKFLOW.yml PICTURE.svg

It is for workflows that `./pants generate-workflows` writes. The same workflow is the same picture, byte
for byte, so that a test can see whether a picture is behind.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import yaml

from pants_triton.ci.unknown import Unknown
from pants_triton.ci.workflow_expressions import evaluate_condition, interpolate_value

# About as wide as a README on GitHub, so that text has about the size that it says.
_WIDTH = 960
_MARGIN = 16
_GAP = 10
_EVENTS = (_MARGIN, 150)
_CHOICE = (214, 242)
_LANES = (504, _WIDTH - _MARGIN - 504)
_BAR = 5
_PADDING = 14

_SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

# Okabe and Ito's colours, as in the page of a run report.
_STYLE = f"""
svg {{ --page: #f6f7f9; --card: #fff; --text: #1b1f24; --quiet: #59636e; --line: #c3ccd5;
  --cpu: #0072b2; --cuda: #009e73; --rocm: #d55e00; --macos: #a8528a; --other: #77808a; }}
@media (prefers-color-scheme: dark) {{
  svg {{ --page: #0f1318; --card: #181d24; --text: #e6eaef; --quiet: #9aa5b1; --line: #46515d;
    --cpu: #56b4e9; --cuda: #2bc795; --rocm: #ff7b3d; --macos: #e3a3c9; --other: #7d8590; }}
}}
.page {{ fill: var(--page); }}
.card {{ fill: var(--card); stroke: var(--line); }}
.edge {{ fill: none; stroke: var(--quiet); stroke-width: 1.4; }}
.if {{ stroke-dasharray: 5 3; }}
.head {{ fill: var(--quiet); }}
text {{ fill: var(--text); font: 13px {_SANS}; }}
.title {{ font-weight: 600; }}
.quiet {{ fill: var(--quiet); font-size: 11.5px; }}
.command {{ font: 12px {_MONO}; }}
.cpu {{ fill: var(--cpu); }} .cuda {{ fill: var(--cuda); }} .rocm {{ fill: var(--rocm); }}
.macos {{ fill: var(--macos); }} .other {{ fill: var(--other); }}
"""

_HARDWARE = ("cpu", "cuda", "rocm", "macos")
_TAG = re.compile(r"--tag=(\w+)")

_EVENT_NAMES = {
    "pull_request": "Pull request",
    "merge_group": "Merge queue",
    "push": "Push",
    "workflow_dispatch": "By hand",
}

# Widths of a character by its size, of the widest font that browsers may take (DejaVu).
_WIDE = {"title": 13 * 0.68, "": 13 * 0.62, "quiet": 11.5 * 0.62, "command": 12 * 0.603}


@dataclass(frozen=True)
class Job:
    """A job of a workflow, as it is drawn.

    :param runner: its labels, with commas.
    :param fork_runner: those in a fork, or "" where they are the same.
    :param not_on: names of events that start the workflow, but not this job.
    """

    id: str
    title: str
    command: str
    needs: tuple[str, ...]
    runner: str
    fork_runner: str = ""
    container: str = ""
    may_fail: bool = False
    not_on: tuple[str, ...] = ()

    @property
    def hardware(self) -> str:
        tag = _TAG.search(self.command)
        return tag.group(1) if tag and tag.group(1) in _HARDWARE else "other"

    @property
    def notes(self) -> list[str]:
        """Further lines, in small print."""
        notes = []
        if self.container:
            notes.append(f"in {self.container}")
        if self.not_on:
            notes.append(f"not on {', '.join(self.not_on)}")
        if self.may_fail:
            notes.append("may fail")
        return notes


def read_workflow(text: str) -> tuple[list[tuple[str, str]], list[Job]]:
    """The events of a workflow with what narrows them, and its jobs, in the file's order."""
    document = yaml.safe_load(text)
    # YAML 1.1 takes `on` for true.
    triggers = document.get("on", document.get(True))
    events = [
        (_EVENT_NAMES.get(name, name), _narrowed(value or {})) for name, value in triggers.items()
    ]
    jobs = [_job(id, job, list(triggers)) for id, job in document["jobs"].items()]
    return events, jobs


def _narrowed(trigger: Mapping[str, Any]) -> str:
    if "branches" in trigger:
        return ", ".join(trigger["branches"])
    if "branches-ignore" in trigger:
        return f"not {', '.join(trigger['branches-ignore'])}"
    return ""


def _job(id: str, job: Mapping[str, Any], events: Sequence[str]) -> Job:
    needs = job.get("needs", ())
    runner, forked = (_labels(job["runs-on"], is_fork) for is_fork in (False, True))
    container = job.get("container", "")
    commands = [step["run"] for step in job["steps"] if "run" in step]
    not_on = [
        _EVENT_NAMES.get(event, event).lower()
        for event in events
        # What only a run knows, it may run for.
        if evaluate_condition(job.get("if", True), _context(event=event)) is False
    ]
    return Job(
        id,
        str(job.get("name", id)),
        " && ".join(commands).replace(" --github-output", ""),
        (needs,) if isinstance(needs, str) else tuple(needs),
        runner,
        forked if forked != runner else "",
        container["image"] if isinstance(container, Mapping) else container,
        bool(job.get("continue-on-error", False)),
        tuple(not_on),
    )


def _labels(runs_on: Any, is_fork: bool) -> str:
    value = interpolate_value(runs_on, _context(is_fork=is_fork))
    if isinstance(value, Mapping):
        labels = value.get("labels", ())
        value = [f"group {value['group']}", *([labels] if isinstance(labels, str) else labels)]
    return value if isinstance(value, str) else ", ".join(map(str, value))


def _context(*, is_fork: bool = False, event: str = "") -> Callable[[Sequence[Any]], Any]:
    """What is known of a run."""
    known = {
        ("github", "event", "repository", "fork"): is_fork,
        ("github", "event_name"): event or Unknown("github.event_name"),
    }
    return lambda path: known.get(tuple(path), Unknown(".".join(map(str, path))))


# -----------------------------------------------------------------------------------------
# Drawing
# -----------------------------------------------------------------------------------------


def draw_workflow(text: str) -> str:
    """The picture of a workflow, as the content of an SVG file."""
    events, jobs = read_workflow(text)
    # The one that others wait for finds out which of them are needed.
    waited_for = {id for job in jobs for id in job.needs}
    choices = [job for job in jobs if job.id in waited_for]
    lanes = sorted((job for job in jobs if job.id not in waited_for), key=lambda j: bool(j.needs))

    svg = Element("svg", xmlns="http://www.w3.org/2000/svg", role="img")
    ElementTree.SubElement(svg, "title").text = "What starts which lane, and where it runs"
    ElementTree.SubElement(svg, "style").text = _STYLE
    page = ElementTree.SubElement(svg, "rect", {"class": "page"})
    edges = ElementTree.SubElement(svg, "g")
    middles: dict[str, float] = {}
    y: float = _MARGIN
    for lane in lanes:
        height = _draw_lane(svg, lane, y)
        middles[lane.id] = y + height / 2
        y += height + _GAP
    height = y - _GAP + _MARGIN

    first = next((middles[lane.id] for lane in lanes if lane.needs), height / 2)
    last = max(middles.values(), default=height / 2)
    middle = (first + last) / 2
    for choice in choices:
        _draw_choice(svg, choice, middle)
        _draw_edge(edges, (_EVENTS[0] + _EVENTS[1], middle), (_CHOICE[0], middle))
    _draw_events(svg, events, middle)
    for lane in lanes:
        x, _ = _LANES
        if lane.needs:
            start = (_CHOICE[0] + _CHOICE[1], middle)
            _draw_edge(edges, start, (x, middles[lane.id]), "edge if")
        else:
            # Over the choice, which it doesn't wait for.
            top = middle - _events_height(events) / 2 + 17
            _draw_edge(edges, (_EVENTS[0] + _EVENTS[1], top), (x, middles[lane.id]))
    svg.set("viewBox", f"0 0 {_WIDTH} {height:g}")
    svg.set("width", f"{_WIDTH}")
    svg.set("height", f"{height:g}")
    page.attrib.update(width=f"{_WIDTH}", height=f"{height:g}", rx="8")
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def _draw_lane(svg: Element, lane: Job, y: float) -> float:
    """Returns its height."""
    x, width = _LANES
    height = 54.0 + 17 * len(lane.notes)
    _box(svg, x, y, width, height)
    ElementTree.SubElement(
        svg,
        "rect",
        {"class": lane.hardware, "rx": "2.5", "width": f"{_BAR}", "height": f"{height - 12:g}"},
        x=f"{x + 6:g}",
        y=f"{y + 6:g}",
    )
    left, right = x + _PADDING + 8, x + width - _PADDING
    _text(svg, left, y + 22, lane.title, "title", room=_room(left, right, lane.runner, "quiet"))
    _text(svg, right, y + 22, lane.runner, "quiet", is_end=True)
    forks = f"forks: {lane.fork_runner}" if lane.fork_runner else ""
    _text(svg, left, y + 41, lane.command, "command", room=_room(left, right, forks, "quiet"))
    _text(svg, right, y + 41, forks, "quiet", is_end=True)
    for number, note in enumerate(lane.notes):
        _text(svg, left, y + 59 + 17 * number, note, "quiet", room=right - left)
    return height


def _draw_choice(svg: Element, choice: Job, middle: float) -> None:
    x, width = _CHOICE
    y = middle - 38
    _box(svg, x, y, width, 76)
    room = width - 2 * _PADDING
    _text(svg, x + _PADDING, y + 24, choice.title, "title", room)
    _text(svg, x + _PADDING, y + 44, choice.command, "command", room)
    _text(svg, x + _PADDING, y + 62, choice.runner, "quiet", room)
    _text(svg, x + _PADDING, y + 96, "starts those, and no others", "quiet", room)


def _events_height(events: Sequence[tuple[str, str]]) -> float:
    return 16.0 + sum(38 if narrowed else 24 for _, narrowed in events)


def _draw_events(svg: Element, events: Sequence[tuple[str, str]], middle: float) -> None:
    x, width = _EVENTS
    height = _events_height(events)
    y = middle - height / 2
    _box(svg, x, y, width, height)
    y += 8
    room = width - 2 * _PADDING
    for name, narrowed in events:
        _text(svg, x + _PADDING, y + 17, name, "title", room)
        if narrowed:
            _text(svg, x + _PADDING, y + 32, narrowed, "quiet", room)
        y += 38 if narrowed else 24


def _box(svg: Element, x: float, y: float, width: float, height: float) -> None:
    box = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{width:g}", "height": f"{height:g}", "rx": "6"}
    ElementTree.SubElement(svg, "rect", {"class": "card", **box})


def _draw_edge(
    svg: Element, start: tuple[float, float], end: tuple[float, float], kind: str = "edge"
) -> None:
    (x1, y1), (x2, y2) = start, end
    tip = x2 - 1
    bend = min(60.0, (tip - x1) / 2)
    path = f"M{x1:g} {y1:g} C{x1 + bend:g} {y1:g} {tip - bend:g} {y2:g} {tip - 7:g} {y2:g}"
    ElementTree.SubElement(svg, "path", {"class": kind}, d=path)
    head = f"M{tip:g} {y2:g} l-8 -4 v8 z"
    ElementTree.SubElement(svg, "path", {"class": "head"}, d=head)


def _room(left: float, right: float, beside: str, kind: str) -> float:
    """What is left of a line for the text at its begin."""
    return right - left - (len(beside) * _WIDE[kind] + 12 if beside else 0)


def _text(
    svg: Element,
    x: float,
    y: float,
    text: str,
    kind: str,
    room: float | None = None,
    is_end: bool = False,
) -> None:
    if not text:
        return
    most = len(text) if room is None else int(room / _WIDE[kind])
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    attributes = {"class": kind, "x": f"{x:g}", "y": f"{y:g}"}
    if is_end:
        attributes["text-anchor"] = "end"
    ElementTree.SubElement(svg, "text", attributes).text = shown


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print("Usage: workflow_picture WORKFLOW.yml PICTURE.svg", file=sys.stderr)
        return 2
    workflow, picture = map(Path, arguments)
    picture.write_text(draw_workflow(workflow.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

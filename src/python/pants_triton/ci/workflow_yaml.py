"""Workflow files as text: YAML in the order that it was thought in, the same each time."""

from __future__ import annotations

import textwrap
from typing import Mapping

import yaml


class _Dumper(yaml.SafeDumper):
    """Block style, lists indented below their key, and no anchors, which GitHub lacked for long."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # YAML 1.1, which PyYAML writes, takes the key `on` for a truth value and would quote it. GitHub
    # reads YAML 1.2, where it is text; said to be what it looks like, it stays plain.
    tag = "tag:yaml.org,2002:bool" if text == "on" else "tag:yaml.org,2002:str"
    style = None
    if "\n" in text:
        style = "|"
    elif "'" in text and ": " in text:
        # In quotes, each quote in it would be doubled.
        style = ">"
    return dumper.represent_scalar(tag, text, style=style)


def _represent_nothing(dumper: yaml.SafeDumper, _: None) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:null", "")


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(type(None), _represent_nothing)


def write_yaml(header: str, workflow: Mapping[str, object], comments: Mapping[str, str]) -> str:
    """The text of a workflow file.

    :param header: lines for its beginning, without `#`.
    :param workflow: its keys in order; the value of `jobs` is a mapping of mappings.
    :param comments: scalar -> comment to be put behind it wherever a line ends in it.
    """
    head = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
    sections = [_dump({key: value}) for key, value in workflow.items() if key != "jobs"]
    jobs = workflow["jobs"]
    assert isinstance(jobs, Mapping)
    written_jobs = "\n".join(textwrap.indent(_dump({job: jobs[job]}), "  ") for job in jobs)
    body = "\n".join([*sections, f"jobs:\n{written_jobs}"])
    lines = []
    for line in body.splitlines():
        comment = comments.get(line.rpartition(" ")[2])
        lines.append(f"{line} # {comment}" if comment else line)
    return head + "\n" + "\n".join(lines) + "\n"


def _dump(data: Mapping[str, object]) -> str:
    return yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        width=10_000,
    )

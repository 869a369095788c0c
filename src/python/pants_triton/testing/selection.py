"""What a run's tags select, and whether they are tags that exist."""

from __future__ import annotations

import difflib
from typing import Iterable, Sequence


def wanted_tags(tag_options: Iterable[str]) -> tuple[str, ...]:
    """The tags that the values of `--tag` ask for, in order.

    Those of an exclusion (`-slow`) are left out: misspelt, it selects more, not less.

    :param tag_options: values as Pants takes them: a comma-separated list of tags, with a leading
        `+` or `-` for the whole list (`pants.util.filtering`).
    """
    return tuple(
        tag
        for option in tag_options
        if not option.startswith("-")
        for tag in (option[1:] if option.startswith("+") else option).split(",")
        if tag
    )


def selects(tag_expression: Sequence[str], tags: Iterable[str]) -> bool:
    """Whether a target with these tags matches all values of `--tag`, as Pants takes them.

    A value is a comma-separated list of tags, any of which will do; a leading `-` means none of them.
    """
    present = frozenset(tags)
    return all(
        value.startswith("-") != bool(present & set(value.lstrip("+-").split(",")))
        for value in tag_expression
    )


def describe_unknown_tags(tag_options: Iterable[str], known_tags: Iterable[str]) -> str | None:
    """One sentence for each wanted tag that no target has, with the nearest that one has.

    :param tag_options: values of `--tag`, see `wanted_tags`.
    :param known_tags: all tags of all targets of the workspace.
    :return: None if every wanted tag exists.
    """
    known = sorted(set(known_tags))
    unknown = [tag for tag in wanted_tags(tag_options) if tag not in known]
    if not unknown:
        return None
    return "\n".join(_describe(tag, known) for tag in dict.fromkeys(unknown))


def _describe(tag: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(tag, known, n=1)
    hint = f" Did you mean `{nearest[0]}`?" if nearest else ""
    listing = ", ".join(f"`{k}`" for k in known) or "none"
    return f"No target has the tag `{tag}`.{hint} The tags in use are: {listing}."


def is_literal(spec: str) -> bool:
    """Whether what was typed is one address or one path, rather than a glob or an exclusion."""
    return not (spec.startswith("-") or spec.endswith(":") or "*" in spec)


def describe_empty_selection(specs: Iterable[str], tag_options: Iterable[str]) -> str:
    """What to say of a command line that selects no test.

    :param specs: the addresses and globs of the command line, as typed.
    :param tag_options: values of `--tag`, see `wanted_tags`.
    """
    typed = list(specs)
    if not typed:
        return "No test is selected: name some, such as `::` for all below the build root."
    tags = [f"--tag={option}" for option in tag_options]
    message = f"`{' '.join([*tags, *typed])}` selects no test."
    if tags and any(map(is_literal, typed)):
        message += (
            " `--tag` compares a target's own tags. If this is a target generator, its tests carry "
            "the tags, not it: name its folder with `::` instead. If it is a file, no target of it "
            "has such a tag."
        )
    return message

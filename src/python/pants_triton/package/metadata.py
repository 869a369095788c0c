"""What a wheel tells about itself: names, versions, METADATA and entry_points.txt.

The formats: https://packaging.python.org/en/latest/specifications/core-metadata/ and
https://packaging.python.org/en/latest/specifications/entry-points/
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Mapping, Sequence

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

# As Pants does: this `packaging` warns of the newer pyparsing that it finds, whenever it is imported.
from pkg_resources import Requirement

# Those with a field of their own are left out, and those that no tool reads any more.
_HEADERS = {
    name.lower(): name
    for name in (
        *("Author", "Author-email", "Classifier", "Home-page", "Keywords", "License", "Maintainer"),
        *("Maintainer-email", "Platform", "Project-URL", "Summary"),
    )
}
_SEVERAL = {"Classifier", "Platform", "Project-URL"}

_NAME = re.compile(r"[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]")
_GROUP = re.compile(r"\w+(?:\.\w+)*")
_ENTRY_POINT = re.compile(r"([^\s=\[][^=]*?)\s*=\s*[\w.]+(?:\s*:\s*[\w.]+)?")


class MetadataError(ValueError):
    """Something in it isn't as tools expect. The message names the field and the value."""


@dataclass(frozen=True)
class Metadata:
    """What is told. Values are as in BUILD files; `rendered_*` raise MetadataError for one that is
    wrong.

    :param version: with its suffix.
    :param requires, extras: as in `pip install`: "numpy>=1.20; python_version < '3.12'".
    :param entry_points: of each group, "name = module:object".
    :param headers: more of METADATA, by their names.
    """

    name: str
    version: str
    requires_python: str = ""
    requires: Sequence[str] = ()
    extras: Mapping[str, Sequence[str]] = field(default_factory=dict)
    entry_points: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def escaped(self) -> str:
        """The name and version as wheels and their folders are called."""
        if not _NAME.fullmatch(self.name):
            raise MetadataError(f"`distribution` has {self.name!r}, which is no name of one.")
        return f"{canonicalize_name(self.name).replace('-', '_')}-{self._version()}"

    def _version(self) -> str:
        try:
            return str(Version(self.version))
        except InvalidVersion:
            raise MetadataError(
                f"The version {self.version!r} is none that pip understands: write it as in `3.2.0`, "
                "`3.2.0rc1` or `3.2.0+git1a2b3c`."
            ) from None

    def rendered(self) -> str:
        """METADATA."""
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self._version()}"]
        for given, values in self.headers.items():
            name = _HEADERS.get(given.lower())
            if name is None:
                raise MetadataError(
                    f"`metadata` has {given!r}, which is none of {', '.join(_HEADERS.values())}."
                )
            if len(values) != 1 and name not in _SEVERAL:
                raise MetadataError(f"`metadata` has {len(values)} values of {name}: give one.")
            for value in values:
                if "\n" in value:
                    raise MetadataError(f"`metadata` has a {name} of several lines: {value!r}.")
                lines.append(f"{name}: {value}")
        if self.requires_python:
            try:
                # Its own order is that of a set.
                parts = sorted(str(each) for each in SpecifierSet(self.requires_python))
            except InvalidSpecifier:
                raise MetadataError(
                    f"`requires_python` has {self.requires_python!r}: write it as in `>=3.9,<3.14`."
                ) from None
            lines.append(f"Requires-Python: {','.join(parts)}")
        lines += [f"Requires-Dist: {_requirement(text, 'requires')}" for text in self.requires]
        for extra, requires in self.extras.items():
            if not _NAME.fullmatch(extra):
                raise MetadataError(f"`extras` has {extra!r}, which is no name of one.")
            lines.append(f"Provides-Extra: {extra}")
            for text in requires:
                requirement = _requirement(text, "extras")
                condition = f'extra == "{extra}"'
                if requirement.marker:
                    condition = f"({requirement.marker}) and {condition}"
                    requirement.marker = None
                lines.append(f"Requires-Dist: {requirement}; {condition}")
        return "\n".join(lines) + "\n"

    def rendered_entry_points(self) -> str:
        """entry_points.txt, "" for none."""
        sections = []
        for group, points in self.entry_points.items():
            if not _GROUP.fullmatch(group):
                raise MetadataError(f"`entry_points` has the group {group!r}, which is no name.")
            for point in points:
                if not _ENTRY_POINT.fullmatch(point):
                    raise MetadataError(
                        f"`entry_points` has {point!r}: write it as in `name = module:object`."
                    )
            sections.append(f"[{group}]\n" + "".join(f"{point}\n" for point in points))
        return "\n".join(sections)


def _requirement(text: str, source: str) -> Requirement:
    try:
        return Requirement.parse(text)
    except ValueError as e:
        raise MetadataError(
            f"`{source}` has {text!r}, which pip doesn't understand: {e}."
        ) from None


def python_tags(compile_commands: str) -> tuple[str, ...]:
    """The Pythons whose headers are in the folders of compile commands: `cp311`, `cp313t`."""
    found = re.findall(
        r"/(?:include|Headers)/python3\.(\d+)(t?)d?(?=[/\"'\s]|\\)", compile_commands
    )
    return tuple(sorted({f"cp3{minor}{threads}" for minor, threads in found}))

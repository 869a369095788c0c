"""What a custom command wanted to read and its project has, but it doesn't declare.

Its sandbox has what it declares and names, so that it fails as if the file were missing. By what it
says then, the file is found that a person would look for in vain.
"""

from __future__ import annotations

import posixpath
import re
from typing import AbstractSet, Iterable

# How tools say that a file isn't there.
_MISSING = re.compile(
    r"no such file|not found|not exist|no module named|(?:can't|cannot|could not|unable to) "
    r"(?:be )?(?:open|find|found|read|load|stat)|enoent",
    re.IGNORECASE,
)
_MODULE = re.compile(r"No module named '?([\w.]+)'?")
_NAME = re.compile(r"[\w./+@~-]+")
_MOST = 5


def undeclared_reads(output: str, known: Iterable[str], inputs: AbstractSet[str]) -> list[str]:
    """Files among `known` that a command misses by its `output`, and that aren't among its `inputs`.

    Paths are below the sandbox's root; in the output they may be so, too, or relative to wherever
    the command ran.
    """
    wanted: dict[str, None] = {}
    for line in output.splitlines():
        if not _MISSING.search(line):
            continue
        for module in _MODULE.findall(line):
            name = module.replace(".", "/")
            wanted.update(dict.fromkeys((f"{name}.py", f"{name}/__init__.py")))
        for word in _NAME.findall(line):
            name = re.sub(r"^(?:\.\./)+", "", posixpath.normpath(word.rstrip(".,")))
            # A word alone is more often one of the sentence.
            if "." in name or "/" in name:
                wanted[name] = None
    found = []
    for path in known:
        parts = path.split("/")
        tails = ("/".join(parts[start:]) for start in range(len(parts)))
        if path not in inputs and any(tail in wanted for tail in tails):
            found.append(path)
    return sorted(found)[:_MOST]

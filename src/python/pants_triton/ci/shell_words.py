"""Words of a shell, and paths among them, of which a part may be unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Union

from pants_triton.ci.unknown import Unknown

#: The checkout on a runner, as its own variable names it.
WORKSPACE = "/github/workspace"


@dataclass(frozen=True)
class Word:
    """A word after all expansions that can be done.

    :param parts: text and what can't be told, in order; no two texts beside each other.
    """

    parts: tuple[Union[str, Unknown], ...]

    @property
    def text(self) -> str:
        """For people: what is unknown stands as in the source."""
        return "".join(map(str, self.parts))

    @property
    def known(self) -> str | None:
        """The text, or None where a part of it is unknown."""
        if any(isinstance(part, Unknown) for part in self.parts):
            return None
        return self.text

    @property
    def glob(self) -> str:
        """The text with `*` for each unknown part."""
        return "".join(part if isinstance(part, str) else "*" for part in self.parts)

    def __str__(self) -> str:
        return self.text


#: The checkout's root.
ROOT = Word((".",))


def join_words(parts: Iterable[str | Unknown]) -> Word:
    """A word of these parts, with texts beside each other joined."""
    joined: list[str | Unknown] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return Word(tuple(joined))


def split_word(word: Word, separator: str) -> list[Word]:
    """What stands between separators; those in what is unknown aren't seen."""
    found: list[list[str | Unknown]] = [[]]
    for part in word.parts:
        if isinstance(part, Unknown):
            found[-1].append(part)
            continue
        first, *more = part.split(separator)
        found[-1].append(first)
        found.extend([text] for text in more)
    return list(map(join_words, found))


def path_from(folder: Word, path: Word) -> Word:
    """`path` as seen from the checkout's root, if one is in `folder`; normalised as text.

    What is unknown counts as one name, so that `build/$(ls build)/..` is `build`. Not so where it is
    the first: `$DIR/..` may be anywhere.
    """
    if path.parts[:1] and isinstance(path.parts[0], str) and path.parts[0][:1] in ("/", "~"):
        joined: list[str | Unknown] = [*path.parts]
    else:
        joined = [*folder.parts, "/", *path.parts]
    absolute = bool(joined) and isinstance(joined[0], str) and joined[0].startswith("/")
    kept: list[Word] = []
    for name in split_word(Word(tuple(joined)), "/"):
        if name.parts in ((), (".",)):
            continue
        anywhere = len(kept) == 1 and not absolute and isinstance(kept[0].parts[0], Unknown)
        if name.parts == ("..",) and kept and kept[-1].parts != ("..",) and not anywhere:
            kept.pop()
        elif not (name.parts == ("..",) and absolute):
            kept.append(name)
    workspace = [Word((name,)) for name in WORKSPACE.strip("/").split("/")]
    if absolute and kept[: len(workspace)] == workspace:
        kept, absolute = kept[len(workspace) :], False
    separated: list[str | Unknown] = ["/"] if absolute else []
    for i, name in enumerate(kept):
        separated += ["/"] if i else []
        separated += name.parts
    return join_words(separated) if separated else Word((".",))

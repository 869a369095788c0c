"""What can't be told from a workflow's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Unknown:
    """A value that only a run knows.

    :param text: what stands for it in the file, for people: `$(ls build)`, `github.event_name`.
    :param alternatives: the values it may have, where they are known; empty where not.
    """

    text: str
    alternatives: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return self.text

"""What our rules write on their workunits about what they are for.

Pants reports each process by a description for people. Whoever reports a run (`ci`) wants to know
which target or edge it was for, and finds that in the workunits above it, without parsing any text.
A rule writes it where its request or its result has `metadata()`, and is seen only with a `desc` and
a level of DEBUG.
"""

from __future__ import annotations

from typing import Any

WORK = "pants_triton_work"

ARTIFACT = "artifact"  # an artifact is fetched
CONFIGURE = "configure"  # a project is configured
EDGE = "edge"  # an edge of a project is run; the detail is its first output
NOT_RUN = "not_run"  # a test is not run; the detail says why


def work_metadata(kind: str, address: str, detail: str = "") -> dict[str, Any]:
    """The `metadata()` of a request or a result.

    :param kind: one of the kinds above.
    :param address: of the target.
    """
    return {WORK: {"kind": kind, "address": address, "detail": detail}}

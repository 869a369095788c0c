"""What one run of Pants did, read from the workunits that Pants reports while it runs.

`Recorder` takes them as they come, so that little is left to do at the end of the run; its `record`
is what all forms of the report are rendered from. All times are in seconds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Callable, Iterable, Iterator, Mapping

from pants_triton.testing.repeat import Repeat
from pants_triton.workunits import NOT_RUN, WORK

# Pants' own names, see `pants.engine.internals.scheduler.Workunit`.
_TEST_GOAL = "pants.core.goals.test.run_tests"
_PROCESS = "process"
_LOCAL_PROCESS = "run_local_process"
_DESCRIPTION_PREFIX = "Scheduling: "

# Long enough for all but command lines, and a page of 5,000 processes stays below 2 MB.
_DESCRIPTION_LIMIT = 160

# The kinds of processes, besides those of `workunits`.
TEST = "test"
OTHER = "other"


class Source(Enum):
    """Where a result came from. MEMORY is the daemon's, which has no process for it."""

    EXECUTED = "executed"
    LOCAL_HIT = "local_hit"
    REMOTE_HIT = "remote_hit"
    MEMORY = "memory"


_SOURCES = {
    "Ran": Source.EXECUTED,
    "HitLocally": Source.LOCAL_HIT,
    "HitRemotely": Source.REMOTE_HIT,
}


class Outcome(Enum):
    """What became of a test. UNFINISHED ones were running, or waiting, when the run ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNFINISHED = "unfinished"


class RunOutcome(Enum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class ProcessRecord:
    """A process that the run needed.

    :param kind: `test`, `other`, or a kind of `workunits`.
    :param address: of the target that it was for, "" if it was for none.
    :param output: of an edge, relative to the build folder; else "".
    :param start_s: since the start of the run; of an executed one, when it was let run.
    :param duration_s: that the run spent on it, be it to execute it or to get it from a cache.
    :param waited_s: before `start_s`, for its turn.
    :param saved_s: what the cache says it would have taken, less the look-up.
    """

    description: str
    kind: str
    address: str
    output: str
    source: Source
    exit_code: int
    start_s: float
    duration_s: float
    waited_s: float
    saved_s: float


@dataclass(frozen=True)
class TestRecord:
    """A test as Pants runs it: a target, or several in one process.

    :param source: of its process; None if it needs none, as when it is skipped.
    :param reason: why it was skipped, or couldn't be run at all; else "".
    :param start_s: since the start of the run, when Pants began to prepare it.
    :param duration_s: from then to its end, the wait for what it needs included.
    :param process_s, saved_s: of its process, see `ProcessRecord`; None if it has none.
    :param repeat: the command that repeats a failed one, and what it ran on, if that matters.
    """

    addresses: tuple[str, ...]
    outcome: Outcome
    source: Source | None
    reason: str
    start_s: float
    duration_s: float
    process_s: float | None = None
    saved_s: float | None = None
    repeat: Repeat | None = None

    __test__ = False

    @property
    def name(self) -> str:
        more = len(self.addresses) - 1
        return f"{self.addresses[0]}{f' and {more} more' if more else ''}"


@dataclass(frozen=True)
class Transfer:
    """Bytes that the run moved; None where Pants doesn't tell.

    :param local_read: blobs read from the local store.
    :param downloaded, uploaded: from and to the remote store.
    """

    local_read: int | None
    downloaded: int | None
    uploaded: int | None


@dataclass(frozen=True)
class RunInfo:
    """The run as a whole.

    :param started: Unix time.
    :param lane: the job of CI that it was, or "".
    """

    id: str
    started: float
    seconds: float
    goals: tuple[str, ...]
    command: str
    pants_version: str
    has_failed: bool
    lane: str = ""


@dataclass(frozen=True)
class RunRecord:
    """All of a run that was for tests.

    :param cache_errors: counts by Pants' name of the counter, those above 0.
    :param counters: all of Pants' counters of the run.
    :param unreadable: workunits that could not be understood.
    """

    info: RunInfo
    outcome: RunOutcome
    tests: tuple[TestRecord, ...]
    processes: tuple[ProcessRecord, ...]
    cache_errors: Mapping[str, int]
    counters: Mapping[str, int]
    transfer: Transfer
    unreadable: int = 0

    def tests_by_outcome(self) -> Counter[Outcome]:
        return Counter(test.outcome for test in self.tests)

    def tests_by_source(self) -> Counter[Source]:
        """Of tests that passed or failed; one may be skipped by what its process says."""
        return Counter(
            test.source
            for test in self.tests
            if test.source is not None and test.outcome is not Outcome.SKIPPED
        )

    def processes_by_source(self, kind: str | None = None) -> Counter[Source]:
        return Counter(p.source for p in self.processes if kind in (None, p.kind))

    @property
    def failed_builds(self) -> list[ProcessRecord]:
        """What tests could not be built for. (Of other processes some fail in order to find out.)"""
        return [p for p in self.processes if p.exit_code != 0 and p.kind not in (TEST, OTHER)]

    @property
    def spent_s(self) -> float:
        """In executed processes, one after the other."""
        return sum(p.duration_s for p in self.processes if p.source is Source.EXECUTED)

    @property
    def saved_s(self) -> float:
        """By caches, of one process after the other."""
        return sum(p.saved_s for p in self.processes)

    @property
    def is_all_from_memory(self) -> bool:
        """Whether all results of tests were in the daemon's memory."""
        ran = [t for t in self.tests if t.outcome is not Outcome.SKIPPED]
        return bool(ran) and all(t.source is Source.MEMORY for t in ran)

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether, besides, nothing was built. (Other processes look at the host, in each run.)"""
        return self.is_all_from_memory and not any(
            p.source is Source.EXECUTED and p.kind != OTHER for p in self.processes
        )


# A cache that does less than it could, or results that are lost.
_CACHE_ERRORS = (
    "local_cache_read_errors",
    "local_cache_write_errors",
    "remote_cache_read_errors",
    "remote_cache_write_errors",
    "remote_cache_request_timeouts",
    "remote_store_request_timeouts",
    "remote_store_missing_digest",
)


@dataclass(frozen=True)
class _Span:
    """What is kept of a workunit, times in Unix time."""

    name: str
    parents: tuple[str, ...]
    start: float
    duration: float
    level: str
    description: str
    metadata: Mapping[str, Any]

    @property
    def work(self) -> Mapping[str, str] | None:
        return self.metadata.get(WORK)

    @property
    def is_test(self) -> bool:
        # Of `TestRequest.Batch`, and of nothing else.
        return "addresses" in self.metadata and "partition_description" in self.metadata


_KEPT_METADATA = (
    *(WORK, "addresses", "partition_description"),
    *("source", "exit_code", "total_elapsed_ms", "saved_by_cache_ms"),
)


def _span(workunit: Mapping[str, Any]) -> _Span:
    metadata = workunit.get("metadata") or {}
    description = ""
    if workunit["name"] == _PROCESS:
        description = workunit.get("description") or ""
        if description.startswith(_DESCRIPTION_PREFIX):
            description = description[len(_DESCRIPTION_PREFIX) :]
        if len(description) > _DESCRIPTION_LIMIT:
            description = f"{description[: _DESCRIPTION_LIMIT - 1]}…"
    return _Span(
        workunit["name"],
        tuple(workunit.get("parent_ids") or ()),
        workunit["start_secs"] + workunit["start_nanos"] / 1e9,
        workunit.get("duration_secs", 0) + workunit.get("duration_nanos", 0) / 1e9,
        workunit.get("level") or "",
        description,
        {key: metadata[key] for key in _KEPT_METADATA if key in metadata},
    )


class Recorder:
    """Collects the workunits of one run."""

    def __init__(self) -> None:
        self._running: dict[str, _Span] = {}
        self._done: dict[str, _Span] = {}
        self._unreadable = 0

    def add(
        self, started: Iterable[Mapping[str, Any]], completed: Iterable[Mapping[str, Any]]
    ) -> None:
        """Take what Pants reports at one time. Never raises on a workunit."""
        for id, span in self._spans(started):
            self._running[id] = span
        for id, span in self._spans(completed):
            self._running.pop(id, None)
            self._done[id] = span

    def _spans(self, workunits: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, _Span]]:
        for workunit in workunits:
            try:
                yield workunit["span_id"], _span(workunit)
            except (AttributeError, KeyError, TypeError):
                # Another release of Pants may say it otherwise: the rest is still worth a report.
                self._unreadable += 1

    @property
    def has_tested(self) -> bool:
        """Whether the run came as far as its `test` goal."""
        return any(s.name == _TEST_GOAL for s in (*self._running.values(), *self._done.values()))

    def record(
        self,
        info: RunInfo,
        counters: Mapping[str, int],
        transfer: Transfer,
        repeats: Mapping[tuple[str, ...], Repeat] = MappingProxyType({}),
    ) -> RunRecord:
        """
        :param counters: Pants' counters of the run.
        :param repeats: how to repeat failed tests, by their addresses.
        """
        outcome = RunOutcome.FAILED if info.has_failed else RunOutcome.SUCCEEDED
        # A goal that fails is done, one that is interrupted vanishes.
        if any(span.name == _TEST_GOAL for span in self._running.values()):
            outcome = RunOutcome.INTERRUPTED
        processes = dict(self._processes(info.started))
        return RunRecord(
            info,
            outcome,
            tuple(sorted(self._tests(info, processes, repeats), key=lambda test: test.addresses)),
            tuple(sorted(processes.values(), key=lambda process: process.start_s)),
            {name: counters[name] for name in _CACHE_ERRORS if counters.get(name)},
            dict(sorted(counters.items())),
            transfer,
            self._unreadable,
        )

    def _processes(self, run_start: float) -> Iterator[tuple[str, ProcessRecord]]:
        executions = {
            id: span
            for span in self._done.values()
            if span.name == _LOCAL_PROCESS
            for id in self._ancestors(span, lambda ancestor: ancestor.name == _PROCESS)
        }
        for id, span in self._done.items():
            source = _SOURCES.get(span.metadata.get("source", ""))
            if span.name != _PROCESS or source is None:
                continue
            kind, address, output = self._purpose(span)
            execution = executions.get(id) if source is Source.EXECUTED else None
            start, duration = span.start, span.duration
            if execution is not None:
                start, duration = execution.start, execution.duration
            yield id, ProcessRecord(
                span.description,
                kind,
                address,
                output,
                source,
                span.metadata.get("exit_code", 0),
                max(0.0, start - run_start),
                duration,
                max(0.0, start - span.start),
                span.metadata.get("saved_by_cache_ms", 0) / 1000,
            )

    def _purpose(self, span: _Span) -> tuple[str, str, str]:
        """The kind, address and output of a process."""
        for id in self._ancestors(span, lambda ancestor: ancestor.is_test or bool(ancestor.work)):
            ancestor = self._get(id)
            assert ancestor is not None
            if ancestor.work and ancestor.work["kind"] != NOT_RUN:
                return ancestor.work["kind"], ancestor.work["address"], ancestor.work["detail"]
            if ancestor.is_test:
                # What sets a test up has rules of its own between it and the test.
                kind = TEST if id in span.parents else OTHER
                return kind, ancestor.metadata["addresses"][0], ""
        return OTHER, "", ""

    def _tests(
        self,
        info: RunInfo,
        processes: Mapping[str, ProcessRecord],
        repeats: Mapping[tuple[str, ...], Repeat],
    ) -> Iterator[TestRecord]:
        reasons = {
            span.work["address"]: span.work["detail"]
            for span in self._done.values()
            if span.work and span.work["kind"] == NOT_RUN
        }
        own: dict[str, ProcessRecord] = {}
        for id, process in processes.items():
            if process.kind == TEST:
                for parent in self._done[id].parents:
                    # The last one, should there be several, is the test itself.
                    if parent not in own or process.start_s > own[parent].start_s:
                        own[parent] = process
        for id, span in self._done.items():
            if not span.is_test:
                continue
            addresses = tuple(span.metadata["addresses"])
            own_process = own.get(id)
            reason = reasons.get(addresses[0], "")
            if span.level == "ERROR":
                outcome = Outcome.FAILED
            elif span.level == "INFO":
                outcome = Outcome.PASSED
            else:
                # Pants' `TestResult` without an exit code.
                outcome, reason = Outcome.SKIPPED, reason or "no tests found"
            yield TestRecord(
                addresses,
                outcome,
                own_process.source if own_process else None if reason else Source.MEMORY,
                reason,
                max(0.0, span.start - info.started),
                span.duration,
                own_process.duration_s if own_process else None,
                own_process.saved_s if own_process else None,
                repeats.get(addresses),
            )
        for span in self._running.values():
            if span.is_test:
                start_s = max(0.0, span.start - info.started)
                yield TestRecord(
                    tuple(span.metadata["addresses"]),
                    Outcome.UNFINISHED,
                    None,
                    "",
                    start_s,
                    max(0.0, info.seconds - start_s),
                )

    def _get(self, id: str) -> _Span | None:
        return self._done.get(id) or self._running.get(id)

    def _ancestors(self, span: _Span, wanted: Callable[[_Span], bool]) -> list[str]:
        """The nearest workunits above that are wanted."""
        level, seen = list(span.parents), set(span.parents)
        while level:
            found: list[str] = []
            above: list[str] = []
            for id in level:
                parent = self._get(id)
                if parent is None:
                    continue
                if wanted(parent):
                    found.append(id)
                above.extend(p for p in parent.parents if p not in seen)
                seen.update(parent.parents)
            if found:
                return found
            level = above
        return []

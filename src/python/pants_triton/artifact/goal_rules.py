"""The goals `lock-artifacts` and `fetch-artifacts`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pants.base.build_environment import get_buildroot
from pants.engine.console import Console
from pants.engine.fs import (
    CreateDigest,
    Digest,
    FileContent,
    Workspace,
)
from pants.engine.goal import Goal, GoalSubsystem
from pants.engine.rules import Get, MultiGet, collect_rules, goal_rule, rule
from pants.engine.target import FilteredTargets
from pants.option.option_types import BoolOption, StrOption
from pants.util.strutil import help_text, softwrap

from pants_triton.artifact.declaration import Question, Slot, UrlQuestion, WheelQuestion
from pants_triton.artifact.declaration_rules import (
    AllArtifacts,
    ArtifactDeclaration,
    ArtifactDeclarationRequest,
)
from pants_triton.artifact.errors import addressed, shown_url
from pants_triton.artifact.fetch_rules import ENTRY, FetchProcess, FetchResult
from pants_triton.artifact.fetched import FetchedFile, render_fetched
from pants_triton.artifact.lock import (
    LOCK_COMMAND,
    DebianPackage,
    diff_locks,
    entry_json,
    write_lock,
)
from pants_triton.artifact.lock_rules import (
    ArtifactLock,
    LocatedArtifact,
    LocatedArtifactRequest,
)
from pants_triton.artifact.locking import (
    Absent,
    Answer,
    DebianAnswer,
    Found,
    Plan,
    UrlAnswer,
    WheelAnswer,
    WheelFile,
    known_answer,
    new_lock,
    plan,
    problems,
)
from pants_triton.artifact.subsystem import ArtifactError, ArtifactSubsystem
from pants_triton.artifact.target_types import ArtifactSourceField

# --- lock-artifacts --------------------------------------------------------------------------


class LockArtifactsSubsystem(GoalSubsystem):
    name = "lock-artifacts"
    help = help_text(
        """
        Make the lock of artifacts (`[artifact].lock`) from what BUILD files and pins declare, for
        every platform at once.

        Entries whose pin or declaration didn't change stay as they are. What changes is printed. On
        any error nothing is written.

        `./pants lock-artifacts --refresh 3rdparty/llvm::` looks these artifacts up again, such
        as for Debian's updates.
        """
    )

    check = BoolOption(
        default=False,
        help=softwrap(
            """
            Write nothing, and fail if the lock is not what BUILD files and pins declare. Needs no
            network, but with `--refresh`: then also whether everything is still what is locked.
            """
        ),
    )
    refresh = BoolOption(
        default=False,
        help=softwrap(
            """
            Look the named artifacts up again though nothing was changed; all, if none is named.
            """
        ),
    )


class LockArtifacts(Goal):
    subsystem_cls = LockArtifactsSubsystem
    environment_behavior = Goal.EnvironmentBehavior.LOCAL_ONLY


@dataclass(frozen=True)
class AnswerRequest:
    """Asks one question of the lock over the network, for the first slot that has it."""

    question: Question
    slot: Slot


@dataclass(frozen=True)
class AnsweredQuestion:
    """The answer, or why there is none."""

    answer: Answer | None
    error: str


@rule
async def answer_question(request: AnswerRequest) -> AnsweredQuestion:
    question, slot = request.question, request.slot
    what = f"{slot.target}: {slot.artifact}"
    # An index has all wheels of a version at once.
    if not isinstance(question, WheelQuestion):
        what += f" for {slot.platform}"
    if isinstance(question, UrlQuestion):
        argv = ["digest", *(f"--url={location}" for location in question.locations)]
    elif isinstance(question, WheelQuestion):
        argv = ["wheels", f"--name={question.distribution}", f"--version={question.version}"]
    else:
        argv = ["debian", f"--suite={question.suite}", f"--arch={question.arch}"]
        argv += question.packages
    result = await Get(
        FetchResult,
        FetchProcess(
            argv=tuple(argv),
            description=f"Look up {what}",
        ),
    )
    if result.error:
        return AnsweredQuestion(None, f"{what}: {addressed(result.error, slot.target)}")
    found = json.loads(result.stdout)
    if isinstance(question, UrlQuestion):
        if "absent" in found:
            return AnsweredQuestion(Absent(found["absent"]), "")
        return AnsweredQuestion(UrlAnswer(**found), "")
    if isinstance(question, WheelQuestion):
        return AnsweredQuestion(WheelAnswer(tuple(WheelFile(**file) for file in found)), "")
    return AnsweredQuestion(DebianAnswer(tuple(DebianPackage(**package) for package in found)), "")


@goal_rule
async def lock_artifacts(
    console: Console,
    subsystem: LockArtifactsSubsystem,
    artifacts: AllArtifacts,
    lock: ArtifactLock,
    targets: FilteredTargets,
    workspace: Workspace,
) -> LockArtifacts:
    def fail(lines: list[str]) -> LockArtifacts:
        for line in lines:
            console.print_stderr(line)
        console.print_stderr(f"{old.path} is as it was.")
        return LockArtifacts(exit_code=1)

    old = lock.lock
    errors = [declared.error for declared in artifacts.declarations if declared.error]
    if errors:
        return fail(errors)
    slots = artifacts.slots
    if subsystem.check and not subsystem.refresh:
        found = problems(slots, old)
        for problem in found:
            console.print_stderr(problem.message)
        if not found:
            console.print_stdout(_up_to_date(old.path, len(old.rows), "is up to date"))
        return LockArtifacts(exit_code=1 if found else 0)

    named = {target.address.spec for target in targets if target.has_field(ArtifactSourceField)}
    refresh = (named or None) if subsystem.refresh else ()
    planned = plan(slots, old, refresh)
    answers: dict[Slot, Answer] = {}
    asked: dict[Question, Slot] = {}
    for slot in planned.asked:
        known = known_answer(slot)
        if known is not None:
            answers[slot] = known
        else:
            asked.setdefault(slot.question, slot)
    answered = await MultiGet(
        Get(AnsweredQuestion, AnswerRequest(question, slot)) for question, slot in asked.items()
    )
    by_question = {question: result.answer for question, result in zip(asked, answered)}
    for slot in planned.asked:
        answer = by_question.get(slot.question)
        if answer is not None:
            answers[slot] = answer
    errors = [result.error for result in answered if result.error]
    # What is wrong with the answers is told along with it. Of an address that one couldn't be had of
    # nobody can say that it exists nowhere.
    unknown = {slot.address for slot in planned.asked if slot not in answers}
    known_slots = tuple(
        slot
        for slot in planned.asked
        if slot in answers and not (slot.optional and slot.address in unknown)
    )
    try:
        new = new_lock(old.path, Plan(planned.kept, known_slots), answers)
    except ValueError as e:
        errors.append(str(e))
    if errors:
        return fail(errors)
    changes = diff_locks(old, new)
    for line in changes:
        console.print_stdout(line)
    if not changes:
        console.print_stdout(_up_to_date(old.path, len(new.rows), "is up to date"))
        return LockArtifacts(exit_code=0)
    if subsystem.check:
        console.print_stderr(
            f"{old.path} is not what BUILD files and pins declare now: run `{LOCK_COMMAND}` with the "
            "same arguments but `--check`."
        )
        return LockArtifacts(exit_code=1)
    digest = await Get(Digest, CreateDigest([FileContent(old.path, write_lock(new).encode())]))
    workspace.write_digest(digest)
    console.print_stdout(_up_to_date(old.path, len(new.rows), "was written"))
    return LockArtifacts(exit_code=0)


def _up_to_date(path: str, count: int, state: str) -> str:
    return f"{path} {state}: {count} {'entry' if count == 1 else 'entries'}."


# --- fetch-artifacts -------------------------------------------------------------------------


class FetchArtifactsSubsystem(GoalSubsystem):
    name = "fetch-artifacts"
    help = help_text(
        """
        Download and verify what the named artifacts are unpacked from, and say what was there
        already: `./pants fetch-artifacts 3rdparty::`.

        Whatever needs an artifact fetches it by itself; this is to have it beforehand (before a
        journey, in an image, for a mirror). What is interrupted is resumed.
        """
    )

    all_platforms = BoolOption(
        default=False,
        help="Fetch what is locked for any platform, not only what this host needs.",
    )
    mirror = StrOption(
        default=None,
        metavar="<folder>",
        help=softwrap(
            """
            Also put all files into this folder (a path, relative to the build root, or a `file:` URL),
            by their sha256: it is then a mirror for others' `[artifact].mirrors`, as a `file:` URL or
            behind any web server.
            """
        ),
    )


class FetchArtifacts(Goal):
    subsystem_cls = FetchArtifactsSubsystem
    environment_behavior = Goal.EnvironmentBehavior.LOCAL_ONLY


@dataclass(frozen=True)
class FilesRequest:
    """Asks for the files of one entry in the cache.

    :param mirror: the folder to have them in as well, absolute, or "".
    """

    target: str
    found: Found
    mirror: str


@dataclass(frozen=True)
class Files:
    """How it went for one entry: its files, or why it failed."""

    target: str
    found: Found
    files: tuple[FetchedFile, ...]
    error: str


@rule
async def fetch_files(request: FilesRequest) -> Files:
    found = request.found
    what = f"{found.artifact} for {found.platform}"
    mirror = (f"--mirror={request.mirror}",) if request.mirror else ()
    result = await Get(
        FetchResult,
        FetchProcess(
            argv=("download", f"--entry={ENTRY}", *mirror),
            description=f"Download {request.target}: {what}",
            entry=entry_json(found.entry),
        ),
    )
    if result.error:
        error = f"{request.target}: {what}: {addressed(result.error, request.target)}"
        return Files(request.target, found, (), error)
    files = (FetchedFile(**file) for file in json.loads(result.stdout))
    return Files(request.target, found, tuple(files), "")


def _mirror_folder(value: str | None) -> str:
    """The absolute path that `--mirror` names, "" where it isn't given. Raises ValueError."""
    if value is None:
        return ""
    path = value
    scheme, separator, _ = value.partition("://")
    if separator:
        parts = urlsplit(value)
        if scheme != "file" or parts.netloc not in ("", "localhost"):
            raise ValueError(
                "The option `[fetch-artifacts].mirror` must be a folder of this machine, but is "
                f"{shown_url(value)!r}: make the folder here, and copy it to where it is served from."
            )
        path = unquote(parts.path)
    path = os.path.expanduser(path)
    if not path.strip():
        raise ValueError(
            "The option `[fetch-artifacts].mirror` is empty: name a folder, or leave it out."
        )
    return os.path.normpath(os.path.join(get_buildroot(), path))


@goal_rule
async def fetch_artifacts(
    console: Console,
    subsystem: FetchArtifactsSubsystem,
    artifact: ArtifactSubsystem,
    lock: ArtifactLock,
    targets: FilteredTargets,
) -> FetchArtifacts:
    addresses = [t.address for t in targets if t.has_field(ArtifactSourceField)]
    if not addresses:
        console.print_stderr(
            "No artifact is named: say which, as in `./pants fetch-artifacts 3rdparty::`."
        )
        return FetchArtifacts(exit_code=1)
    try:
        mirror = _mirror_folder(subsystem.mirror)
    except ValueError as e:
        console.print_stderr(str(e))
        return FetchArtifacts(exit_code=1)
    # Parts are fetched for themselves. They have no parts but by way of another artifact_tree.
    todo, seen = list(addresses), set(addresses)
    simple = []
    errors = []
    while todo:
        declared_now = await MultiGet(
            Get(ArtifactDeclaration, ArtifactDeclarationRequest(address)) for address in todo
        )
        todo = []
        for declared in declared_now:
            if declared.error:
                errors.append(declared.error)
            elif declared.address.spec in artifact.local_trees:
                console.print_stdout(
                    f"{declared.address}: is {artifact.local_trees[declared.address.spec]}, by "
                    "`[artifact].local_trees`"
                )
            elif declared.parts:
                todo += [part for part in declared.parts if part not in seen]
                seen.update(declared.parts)
            else:
                simple.append(declared)

    requests = []
    for declared in sorted(simple, key=lambda declared: declared.address):
        found: tuple[Found, ...]
        if subsystem.all_platforms:
            # A host's own entries are judged by `locate_artifact`.
            wrong = [
                problem.message
                for problem in problems(declared.slots, lock.lock)
                if problem.target == declared.address.spec
            ]
            if wrong:
                errors += wrong
                continue
            found = tuple(
                Found(slot.address, slot.artifact, slot.platform, entry)
                for slot in declared.slots
                for entry in [lock.lock.get(slot.address, slot.platform)]
                if entry is not None
            )
        else:
            try:
                located = await Get(LocatedArtifact, LocatedArtifactRequest(declared.address))
                found = located.found
            except ArtifactError as e:
                errors.append(str(e))
                continue
        requests += [FilesRequest(declared.address.spec, each, mirror) for each in found]
    results = await MultiGet(Get(Files, FilesRequest, request) for request in requests)
    lines = render_fetched(
        (result.target, result.found.artifact, result.found.platform, result.files)
        for result in results
        if not result.error
    )
    for line in lines:
        console.print_stdout(line)
    errors += [result.error for result in results if result.error]
    for error in errors:
        console.print_stderr(error)
    return FetchArtifacts(exit_code=1 if errors else 0)


def rules():
    return collect_rules()

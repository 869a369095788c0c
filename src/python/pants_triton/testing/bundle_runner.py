"""The program of a test bundle: runs its tests where there is neither Pants nor a network.

    bundle.pex [option …] [TEST …] [-- pytest argument …]

It runs with Python 3.8 or newer and imports nothing but its siblings. What it starts for each test
is itself, as the program that leases devices and ends the test in time.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, Mapping, Sequence
from xml.etree import ElementTree

from pants_triton.hardware import agent
from pants_triton.hardware.agent import SANDBOX_LEASE_DIR
from pants_triton.hardware.child import run_child
from pants_triton.hardware.device import Host
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.probe import observe
from pants_triton.hardware.session import Session, save_session
from pants_triton.testing.bundle_command import (
    RUN,
    command_of_test,
    entries_to_variables,
    environment_of_test,
    search_path,
)
from pants_triton.testing.bundle_manifest import (
    MANIFEST,
    PROGRAM,
    BundledTest,
    Manifest,
    ManifestError,
    manifest_from_json,
)
from pants_triton.testing.bundle_python import BundleError, TestPython, find_provided, unpack
from pants_triton.testing.bundle_requirements import provided_packages
from pants_triton.testing.bundle_sandbox import remove, write_sandbox, write_shared_trees
from pants_triton.testing.bundle_selection import NoSuchTestError, plan, select
from pants_triton.testing.command import HOME, needs_lease
from pants_triton.testing.junit import not_run_report
from pants_triton.testing.planning import NotRunnable, Plan, Runnable
from pants_triton.testing.run_summary import PlannedTest, summarize_not_run

EXIT_FAILED = 1
#: Wrong options, or a machine that lacks what no test can do without.
EXIT_CANT_RUN = 2

# pytest's own: some tests failed, none was collected.
_PYTEST_NO_TESTS = 5
_PYTEST_EXITS = (0, 1, _PYTEST_NO_TESTS)

# As under Pants: what a test leaves there is kept.
_EXTRA_OUTPUT = "extra-output"

# What the lease sets.
_DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def main(argv: Sequence[str]) -> int:
    """What the bundle starts for each test, with a wrapper's arguments (`command_of_test`)."""
    if argv[:1] != [RUN]:
        return agent.main(argv)
    split = list(argv).index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--timeout", type=float)
    args = parser.parse_args(argv[1:split])
    result = run_child(argv[split + 1 :], os.environ, timeout_s=args.timeout)
    if result.error:
        print(f"pants-triton: {result.error}", file=sys.stderr)
    if result.timed_out:
        print(f"pants-triton: timed out after {args.timeout:g} s", file=sys.stderr)
    return result.exit_code


def run_bundle(argv: Sequence[str], bundle: Path) -> int:
    """What a person starts. `bundle` is the folder that the bundle was unpacked to."""
    # A machine without a locale has no sign for a tick.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        manifest = manifest_from_json((bundle / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ManifestError) as e:
        print(f"This is no whole test bundle: {e}. Copy it again.", file=sys.stderr)
        return EXIT_CANT_RUN
    split = list(argv).index("--") if "--" in argv else len(argv)
    prog = os.environ.get("PEX") or sys.argv[0]
    parser = _parser(manifest, prog)
    args = parser.parse_args(argv[:split])
    reserved = [e for e in args.env if e.partition("=")[0] in _DEVICE_VARIABLES]
    if reserved:
        name = reserved[0].partition("=")[0]
        parser.error(
            f"--env can't set {name}, which is the lease's to set: set it in the environment of this "
            "command, and the tests share the devices that it names"
        )
    try:
        tests = select(manifest.tests, args.tests)
        return _Run(manifest, bundle, args, tuple(argv[split + 1 :]), prog).run(tests)
    except (BundleError, NoSuchTestError) as e:
        print(f"{os.path.basename(prog)}: {e}", file=sys.stderr)
        return EXIT_CANT_RUN
    except OSError as e:
        where = f"{e.filename}: " if e.filename else ""
        print(f"{os.path.basename(prog)}: {where}{e.strerror or e}", file=sys.stderr)
        return EXIT_CANT_RUN


def _parser(manifest: Manifest, prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=os.path.basename(prog),
        allow_abbrev=False,
        usage="%(prog)s [option …] [TEST …] [-- pytest argument …]",
        description=f"Runs the tests of {manifest.address}, each file in a pytest process of its own, "
        "on leased devices. Tests that can't run here are skipped, by name and with the reason.",
        epilog="Exits with 0 if no test failed, 1 if one did, 2 if none could be started. Its "
        "packages are unpacked below PEX_ROOT (by default ~/.cache/pex), and found there next time.",
    )
    parser.add_argument(
        "tests", nargs="*", metavar="TEST", help="addresses, files, folders or globs; default: all"
    )
    parser.add_argument(
        "--list", action="store_true", help="show the tests, and which can run here"
    )
    parser.add_argument("-k", dest="keyword", metavar="EXPRESSION", help="pytest's, for each file")
    parser.add_argument(
        "--missing",
        choices=("skip", "error"),
        default="skip",
        help="what to do with a test whose hardware is not here (default: %(default)s)",
    )
    parser.add_argument(
        "--report-dir", type=Path, metavar="DIR", help="write a JUnit XML report of each file there"
    )
    parser.add_argument(
        "--output",
        choices=("failed", "all", "none"),
        default="failed",
        help="whose output to show (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=_positive,
        metavar="N",
        default=_cores(),
        help="how many processes run at once (default: this machine's cores, %(default)s)",
    )
    parser.add_argument(
        "--tests-per-device",
        type=_positive,
        metavar="N",
        default=manifest.hardware.tests_per_device,
        help="how many test processes may share a device (default: %(default)s)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="give the tests this variable; without a value, that which it has here",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the Python that has what the bundle leaves to the machine: "
        f"{', '.join(provided_packages(manifest.provided)) or 'nothing'}",
    )
    parser.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="keep the tests' folders in a new one in DIR (default: a temporary one, removed at the "
        "end)",
    )
    parser.add_argument(
        "--lease-dir",
        type=Path,
        metavar="DIR",
        help="where processes queue for devices (default: where Pants' tests of this user do)",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class _Slots:
    """Numbered places for processes, of which some are taken at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = set(range(count))
        self._changed = threading.Condition()

    def take(self, wanted: int) -> tuple[int, ...]:
        """Waits for as many as are wanted, or all there are if that is less."""
        wanted = min(wanted, self.count)
        with self._changed:
            while len(self._free) < wanted:
                self._changed.wait()
            taken = tuple(sorted(self._free)[:wanted])
            self._free.difference_update(taken)
            return taken

    def give_back(self, taken: Sequence[int]) -> None:
        with self._changed:
            self._free.update(taken)
            self._changed.notify_all()


@dataclass(frozen=True)
class _Outcome:
    """Of a test file that was run. `problem` is why it failed, one line; "" if it passed."""

    test: BundledTest
    problem: str
    seconds: float
    output: str
    matched: bool = True
    cases: Mapping[str, int] = field(default_factory=dict)


class _Interrupted(Exception):
    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class _Run:
    """One run of a bundle."""

    def __init__(
        self,
        manifest: Manifest,
        bundle: Path,
        args: argparse.Namespace,
        typed: Sequence[str],
        prog: str,
    ) -> None:
        self._manifest = manifest
        self._bundle = bundle
        self._args = args
        self._typed = typed
        self._prog = prog
        self._slots = _Slots(args.jobs)
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_ending = False

    def run(self, tests: Sequence[BundledTest]) -> int:
        host = self._probe() if any(t.hardware != "cpu" for t in tests) else Host()
        plans = plan(tests, host)
        if self._args.list:
            for test in tests:
                print(_listed(test, plans[test.address]))
            return 0
        report_dir: Path | None = self._args.report_dir
        if report_dir is not None:
            report_dir.mkdir(parents=True, exist_ok=True)
        runnable = [test for test in tests if isinstance(plans[test.address], Runnable)]
        self._report_not_run(tests, plans)
        outcomes: list[_Outcome] = []
        signum = 0
        if runnable:
            with self._working_folder() as work:
                try:
                    self._run_all(runnable, plans, host, work, outcomes)
                except _Interrupted as e:
                    signum = e.signum
        not_run = [PlannedTest(t.address, t.hardware, _reason(plans[t.address])) for t in tests]
        return self._sum_up(not_run, outcomes, len(runnable), signum)

    # -- before the tests ---------------------------------------------------------------------

    def _probe(self) -> Host:
        settings = self._manifest.hardware
        observations = observe(
            search_path(settings.tool_search_path, os.environ),
            {k: v for k, v in os.environ.items() if not k.startswith("PEX")},
            tool_timeout_s=settings.tool_timeout_s,
            torch_pythons=settings.torch_pythons,
        )
        return parse_host(observations)

    def _lease_dir(self, host: Host) -> Path:
        """Where tests find their devices; the same for all runs of this user, of Pants too."""
        session = Session(host, self._args.tests_per_device)
        if self._args.lease_dir is not None:
            folder: Path = self._args.lease_dir.absolute()
            folder.mkdir(parents=True, exist_ok=True)
            save_session(folder, os.getpid(), session)
            return folder
        folder = _cache_folder() / "pants" / "named_caches" / "pants_triton_leases"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            save_session(folder, os.getpid(), session)
        except OSError:
            folder = Path(tempfile.gettempdir(), f"pants_triton_leases-{os.getuid()}")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid != os.getuid():
                raise BundleError(
                    f"{folder} is another user's: name a folder by --lease-dir"
                ) from None
            save_session(folder, os.getpid(), session)
        return folder

    @contextlib.contextmanager
    def _working_folder(self) -> Iterator[Path]:
        kept: Path | None = self._args.work
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="triton-tests-", dir=kept)).resolve()
        try:
            yield folder
        finally:
            if kept is None:
                remove(folder)
            else:
                print(f"The tests' folders are in {folder}.")

    def _test_python(self, work: Path) -> TestPython:
        pex_root = Path(os.environ.get("PEX_ROOT") or _cache_folder() / "pex").absolute()
        try:
            pex_root.mkdir(parents=True, exist_ok=True)
            is_writable = os.access(pex_root, os.W_OK | os.X_OK)
        except OSError:
            is_writable = False
        if not is_writable:
            print(f"{pex_root} can't be written: the packages are unpacked for this run alone.")
            pex_root = work / "pex_root"
        return unpack(self._manifest, self._bundle, sys.executable, pex_root, os.environ)

    def _provided_folders(self, version: str) -> tuple[str, ...]:
        packages = provided_packages(self._manifest.provided)
        if not packages:
            return ()
        settings = self._manifest.hardware
        pythons = [self._args.python] if self._args.python else [sys.executable]
        if not self._args.python:
            pythons += settings.torch_pythons
        return find_provided(packages, version, pythons, os.environ, 60.0)

    # -- the tests ----------------------------------------------------------------------------

    def _run_all(
        self,
        tests: Sequence[BundledTest],
        plans: Mapping[str, Plan],
        host: Host,
        work: Path,
        outcomes: list[_Outcome],
    ) -> None:
        with self._noting_signals():
            python = self._test_python(work)
            provided = self._provided_folders(python.version)
            lease_dir = (
                self._lease_dir(host) if any(needs_lease(t.hardware) for t in tests) else None
            )
            shared = write_shared_trees(self._manifest, tests, self._bundle, work / "trees")
            extra = entries_to_variables(self._args.env, os.environ)
            futures: list[Future[None]] = []
            with ThreadPoolExecutor(self._slots.count) as pool:
                try:
                    for test in tests:
                        slots = self._slots.take(max(1, test.workers))
                        test_plan = plans[test.address]
                        assert isinstance(test_plan, Runnable)

                        def run_one(test=test, slots=slots, test_plan=test_plan) -> None:
                            try:
                                outcome = self._run_test(
                                    test, test_plan, python, provided, lease_dir, shared, extra,
                                    slots, work,
                                )  # fmt: skip
                                with self._lock:
                                    outcomes.append(outcome)
                                    self._show(outcome)
                            finally:
                                self._slots.give_back(slots)

                        futures.append(pool.submit(run_one))
                    for future in futures:
                        future.result()
                except BaseException:
                    self._end_all()
                    raise

    def _run_test(
        self,
        test: BundledTest,
        test_plan: Runnable,
        python: TestPython,
        provided: Sequence[str],
        lease_dir: Path | None,
        shared: Mapping[str, Path],
        extra: Mapping[str, str],
        slots: Sequence[int],
        work: Path,
    ) -> _Outcome:
        sandbox = work / test.report
        write_sandbox(self._manifest, test, self._bundle, shared, (HOME, _EXTRA_OUTPUT), sandbox)
        if lease_dir is not None:
            (sandbox / SANDBOX_LEASE_DIR).symlink_to(lease_dir)
        command = command_of_test(
            self._manifest,
            test,
            program=(sys.executable, str(self._bundle / PROGRAM)),
            pytest=python.pytest,
            typed=self._typed,
            keyword=self._args.keyword,
            fingerprint=test_plan.fingerprint,
            processes=len(slots),
            color=sys.stdout.isatty(),
        )
        env = environment_of_test(
            self._manifest,
            test,
            sandbox=sandbox,
            fingerprint=test_plan.fingerprint,
            environ=os.environ,
            extra=extra,
            provided_folders=provided,
            slot=slots[0],
        )
        started = time.monotonic()
        log = sandbox.with_suffix(sandbox.suffix + ".log")
        with log.open("wb") as output:
            code = self._wait(command, env, sandbox, output)
        seconds = time.monotonic() - started
        nothing_matched = code == _PYTEST_NO_TESTS and self._args.keyword is not None
        problem = "" if code == 0 or nothing_matched else f"exit code {code}"
        if code == _PYTEST_NO_TESTS and problem:
            problem = "pytest found no test in it"
        report = sandbox / f"{test.report}.xml"
        if code not in _PYTEST_EXITS or not report.exists():
            # It was ended before it could say which test was at fault.
            report.write_bytes(
                not_run_report(
                    suite=test.address,
                    test=test.path,
                    reason=f"pytest did not end by itself: exit code {code}",
                    is_error=True,
                )
            )
        self._keep(test, report, sandbox / _EXTRA_OUTPUT)
        outcome = _Outcome(
            test,
            problem,
            seconds,
            log.read_text(encoding="utf-8", errors="replace"),
            matched=not nothing_matched,
            cases=_cases(report),
        )
        if self._args.work is None:
            remove(sandbox)
        return outcome

    def _wait(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, output) -> int:
        with self._lock:
            if self._is_ending:
                return 128 + signal.SIGTERM
            process = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            self._processes.add(process)
        code = process.wait()
        with self._lock:
            self._processes.discard(process)
        return code if code >= 0 else 128 - code

    def _end_all(self) -> None:
        # The wrapper of each passes it on to its test, and kills that if need be.
        with self._lock:
            self._is_ending = True
            for process in self._processes:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)

    @contextlib.contextmanager
    def _noting_signals(self) -> Iterator[None]:
        def handler(signum: int, frame: object) -> None:
            if not self._is_ending:
                raise _Interrupted(signum)

        signums = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        previous = {signum: signal.signal(signum, handler) for signum in signums}
        try:
            yield
        finally:
            for signum, old in previous.items():
                signal.signal(signum, old)

    # -- what is said and kept ----------------------------------------------------------------

    def _keep(self, test: BundledTest, report: Path, extra_output: Path) -> None:
        folder: Path | None = self._args.report_dir
        if folder is None:
            return
        shutil.copyfile(report, folder / f"{test.report}.xml")
        if extra_output.is_dir() and any(extra_output.iterdir()):
            kept = folder / test.report
            if kept.exists():
                remove(kept)
            shutil.copytree(extra_output, kept, symlinks=True)

    def _report_not_run(self, tests: Sequence[BundledTest], plans: Mapping[str, Plan]) -> None:
        is_error = self._args.missing == "error"
        for test in tests:
            reason = _reason(plans[test.address])
            if reason is None:
                continue
            verb = "can't run" if is_error else "skipped"
            print(f"{test.address} {verb}: {reason}.", flush=True)
            if self._args.report_dir is not None:
                (self._args.report_dir / f"{test.report}.xml").write_bytes(
                    not_run_report(
                        suite=test.address, test=test.path, reason=reason, is_error=is_error
                    )
                )

    def _show(self, outcome: _Outcome) -> None:
        show = self._args.output
        if outcome.output and (show == "all" or (show == "failed" and outcome.problem)):
            print(outcome.output, end="" if outcome.output.endswith("\n") else "\n")
        if outcome.problem:
            line = f"✕ {outcome.test.address} failed in {outcome.seconds:.2f}s: {outcome.problem}."
        elif not outcome.matched:
            line = f"- {outcome.test.address}: no test matches -k."
        else:
            line = f"✓ {outcome.test.address} succeeded in {outcome.seconds:.2f}s."
        print(line, flush=True)

    def _sum_up(
        self,
        planned: Sequence[PlannedTest],
        outcomes: Sequence[_Outcome],
        started: int,
        signum: int,
    ) -> int:
        is_error = self._args.missing == "error"
        failed = sorted(o.test.address for o in outcomes if o.problem)
        not_run = sum(1 for test in planned if test.not_run_reason is not None)
        print()
        summary = summarize_not_run(planned)
        if summary:
            print(summary)
        ran = [o for o in outcomes if o.matched]
        parts = [f"{len(ran) - len(failed)} passed", f"{len(failed)} failed"]
        if not_run:
            parts.append(f"{not_run} {'could not run' if is_error else 'skipped'}")
        if len(outcomes) < started:
            parts.append(f"{started - len(outcomes)} not finished")
        cases: Counter[str] = Counter()
        for outcome in ran:
            cases.update(outcome.cases)
        within = ", ".join(f"{count} {what}" for what, count in cases.items() if count)
        print(f"Test files: {', '.join(parts)}.{f' Tests in them: {within}.' if within else ''}")
        if self._args.report_dir is not None:
            print(f"JUnit reports are in {self._args.report_dir}.")
        for address in failed:
            print(f"Run it again: {shlex.quote(self._prog)} {shlex.quote(address)}")
        if signum:
            return 128 + signum
        if self._args.keyword is not None and outcomes and not ran:
            print(f"-k {shlex.quote(self._args.keyword)} matches no test.", file=sys.stderr)
            return EXIT_FAILED
        return EXIT_FAILED if failed or (is_error and not_run) else 0


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _reason(test_plan: Plan) -> str | None:
    return test_plan.reason if isinstance(test_plan, NotRunnable) else None


def _listed(test: BundledTest, test_plan: Plan) -> str:
    reason = _reason(test_plan)
    if reason is not None:
        return f"{test.address}: can't run here: {reason}"
    fingerprint = test_plan.fingerprint if isinstance(test_plan, Runnable) else ""
    return f"{test.address}: runs here{f', on {fingerprint}' if fingerprint else ''}"


def _cases(report: Path) -> dict[str, int]:
    """How many tests of a JUnit report passed, and so on."""
    try:
        suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
        total, failed, errors, skipped = (
            sum(int(suite.get(name, "0")) for suite in suites)
            for name in ("tests", "failures", "errors", "skipped")
        )
    except (OSError, ElementTree.ParseError, ValueError):
        return {}
    return {
        "passed": total - failed - errors - skipped,
        "failed": failed,
        "errors": errors,
        "skipped": skipped,
    }

"""The program that runs outside Pants: it probes the host, and runs tests on leased devices.

    agent probe --search-path=/usr/bin:/opt/rocm/bin --lease-dir=D --tests-per-device=1
    agent lease --lease-dir=D --hardware=cuda --fingerprint=F -- pytest …

It runs with whatever Python 3.8 or newer the host has, and imports nothing but its siblings.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Sequence

from pants_triton.hardware.device import VENDORS
from pants_triton.hardware.lease import EXIT_NO_LEASE, run_leased
from pants_triton.hardware.parse import parse_host
from pants_triton.hardware.probe import observe
from pants_triton.hardware.session import Session, load_session, save_session

#: The modules of this package that make up the program, to be copied into a sandbox.
AGENT_MODULES = (
    *("device", "probe", "parse", "session"),
    *("admission", "visibility", "child", "lease", "agent"),
)

#: Where Pants' rules put this program and the lease folder in a sandbox.
SANDBOX_DIR = ".pants_triton_agent"
SANDBOX_LEASE_DIR = ".pants_triton_leases"


def main(argv: Sequence[str]) -> int:
    """Run the agent; returns the exit code. `probe` always succeeds: what is wrong is in its
    JSON."""
    # Split by hand: whatever follows belongs to the command, another `--` included.
    split = list(argv).index("--") if "--" in argv else len(argv)
    parser = _parser()
    args = parser.parse_args(list(argv[:split]))
    command = list(argv[split + 1 :])
    if args.command == "probe":
        return _probe(args)
    if not command:
        parser.error("lease needs a command after `--`")
    return _lease(args, command)


def _probe(args: argparse.Namespace) -> int:
    try:
        observations = observe(
            args.search_path,
            os.environ,
            tool_timeout_s=args.timeout,
            torch_pythons=args.torch_pythons,
        )
    except Exception as e:
        # `observe` doesn't raise; but if it does, the cpu tests of this host must still run.
        observations = {"version": 1, "error": f"{type(e).__name__}: {e}"}
    host = parse_host(observations)
    record_error = None
    if args.lease_dir is not None:
        try:
            save_session(args.lease_dir, os.getppid(), Session(host, args.tests_per_device))
        except OSError as e:
            record_error = f"can't record this host's devices in {args.lease_dir}: {e}"
    print(
        json.dumps(
            {
                "observations": observations,
                "host": host.to_json(),
                "record_error": record_error,
            }
        )
    )
    return 0


def _lease(args: argparse.Namespace, command: Sequence[str]) -> int:
    session = load_session(args.lease_dir, os.getppid())
    if session is None:
        # Probing again here would find devices that the user has narrowed away: this process
        # doesn't have the user's environment.
        print(
            f"pants-triton: {args.lease_dir} has no record of the devices that this run of Pants "
            "found. Run it again; if that doesn't help, see whether Pants' `named_caches_dir` can "
            "be written.",
            file=sys.stderr,
        )
        return EXIT_NO_LEASE
    return run_leased(
        command,
        lease_dir=args.lease_dir,
        hardware=args.hardware,
        fingerprint=args.fingerprint,
        devices=args.devices,
        exclusive=args.exclusive,
        tests_per_device=args.tests_per_device or session.tests_per_device,
        timeout_s=args.timeout,
        host=session.host,
        environ=os.environ,
        interactive=args.interactive,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)

    probe = commands.add_parser("probe", help="print what this host has, as JSON")
    probe.add_argument("--search-path", type=_paths, default=[], help="folders with the tools")
    probe.add_argument("--timeout", type=float, default=20.0, help="seconds for each tool")
    probe.add_argument("--torch-pythons", type=_paths, default=["python3"])
    probe.add_argument("--lease-dir", type=Path, help="record the host here for our siblings")
    probe.add_argument("--tests-per-device", type=_positive, default=1, help="for the record")

    lease = commands.add_parser("lease", help="run a command on leased devices")
    lease.add_argument("--lease-dir", type=Path, required=True)
    lease.add_argument("--hardware", choices=tuple(VENDORS), required=True)
    lease.add_argument("--fingerprint", required=True, help="of the device class planned for")
    lease.add_argument("--devices", type=_positive, default=1)
    lease.add_argument("--exclusive", action="store_true", help="share the devices with nobody")
    lease.add_argument(
        "--tests-per-device", type=_positive, help="instead of what the probe recorded"
    )
    lease.add_argument("--timeout", type=float, help="seconds for the command, once it has devices")
    lease.add_argument(
        "--interactive", action="store_true", help="leave the terminal to the command"
    )
    return parser


def _paths(text: str) -> list[str]:
    return [path for path in text.split(os.pathsep) if path]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The program that makes a wheel of a package's files.

    wheel --tree=DIR --dist-info=NAME --python-tag=TAG --abi-tag=TAG --output=DIR
          [--platform-tag=TAG] [--auditwheel=DIR] [--libraries=DIR…] [--exclude=SONAME…]

It runs in the root of a sandbox. `DIR` has the package, and in the folder `NAME.dist-info` what is
told about it; WHEEL and RECORD are written here. The same files make the same bytes: members are
sorted, and all of one time.

Where there is native code, auditwheel puts the shared libraries that it needs and that no system has
by itself into the wheel, and finds out which systems run it. They are taken from `--libraries` and
the package alone. Runs with whatever Python 3.9 or newer the host has.

The format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import argparse
import base64
import csv
import fnmatch
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

#: The modules of this program, itself included.
PROGRAM_MODULES = ("wheel",)

# The earliest that a zip file can tell.
_TIME = (1980, 1, 1, 0, 0, 0)
_EPOCH = "315532800"

_CHUNK = 1 << 20


class WheelError(Exception):
    """No wheel can be made. The message says why, and what to do."""


def main(argv: Sequence[str]) -> int:
    """Run the program; what goes wrong is said on stderr."""
    parser = argparse.ArgumentParser(prog="wheel")
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--dist-info", required=True, help="NAME-VERSION")
    parser.add_argument("--python-tag", required=True)
    parser.add_argument("--abi-tag", required=True)
    parser.add_argument("--platform-tag", default="")
    parser.add_argument("--auditwheel", type=Path, help="auditwheel's folder")
    parser.add_argument("--libraries", type=Path, action="append", default=[])
    parser.add_argument("--exclude", action="append", default=[])
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(list(argv))
    try:
        files = find_files(args.tree)
        native = sorted(name for name, path in files.items() if is_elf(path))
        args.output.mkdir(parents=True, exist_ok=True)
        if not native:
            tag = f"{args.python_tag}-{args.abi_tag}-{args.platform_tag or 'any'}"
            write_wheel(args.output, args.dist_info, tag, files)
        elif args.platform_tag.startswith("linux_"):
            # As it is, for this machine and its like.
            tag = f"{args.python_tag}-{args.abi_tag}-{args.platform_tag}"
            write_wheel(args.output, args.dist_info, tag, files)
        else:
            with tempfile.TemporaryDirectory(dir=".") as folder:
                tag = f"{args.python_tag}-{args.abi_tag}-linux_{platform.machine()}"
                wheel = write_wheel(Path(folder), args.dist_info, tag, files, compress=False)
                folders = sorted({str((args.tree / name).parent) for name in native})
                repair(args, wheel, [*args.libraries, *map(Path, folders)])
    except WheelError as e:
        print(e, file=sys.stderr)
        return 1
    return 0


# --- files -------------------------------------------------------------------------------------


def find_files(tree: Path) -> Dict[str, Path]:
    """The files of `tree` by their names in the wheel. There are no links in wheels: what they lead
    to is in their place. Raises WheelError for one that leads nowhere, or round in a circle."""
    return dict(sorted(_walk(tree, "", ())))


def _walk(folder: Path, prefix: str, above: Tuple[str, ...]) -> Iterator[Tuple[str, Path]]:
    above = (*above, os.path.realpath(folder))
    for name in os.listdir(folder):
        path, inside = folder / name, prefix + name
        if path.is_dir():
            if os.path.realpath(path) in above:
                raise WheelError(
                    f"{inside} is a link that leads to a folder which it is in itself."
                )
            yield from _walk(path, f"{inside}/", above)
        elif path.is_file():
            yield inside, path
        else:
            raise WheelError(f"{inside} is a link that leads to nothing in the package.")


def is_elf(path: Path) -> bool:
    """Whether it is a program or library for Linux."""
    with open(path, "rb") as file:
        # An object or a core is neither: https://refspecs.linuxfoundation.org/elf/elf.pdf
        start = file.read(18)
    return start[:4] == b"\x7fELF" and start[16:18] in (b"\2\0", b"\3\0")


# --- the wheel ---------------------------------------------------------------------------------


def write_wheel(
    folder: Path, name: str, tag: str, files: Dict[str, Path], compress: bool = True
) -> Path:
    """Write the wheel of `files` for the systems `tag`; `name` is the distribution's and its version."""
    info = f"{name}.dist-info"
    pure = tag.endswith("-none-any")
    wheel = (
        "Wheel-Version: 1.0\nGenerator: pants-triton\n"
        f"Root-Is-Purelib: {str(pure).lower()}\nTag: {tag}\n"
    )
    path = folder / f"{name}-{tag}.whl"
    record: List[Tuple[str, str, object]] = []
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    # What tells about the rest is to be last.
    ordered = sorted(files, key=lambda member: (member.startswith(f"{info}/"), member))
    with zipfile.ZipFile(path, "w") as archive:
        for member in ordered:
            record.append((member, *_add(archive, member, files[member], kind)))
        record.append((f"{info}/WHEEL", *_add_text(archive, f"{info}/WHEEL", wheel, kind)))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*record, (f"{info}/RECORD", "", "")])
        _add_text(archive, f"{info}/RECORD", text.getvalue(), kind)
    return path


def _add(archive: zipfile.ZipFile, member: str, path: Path, kind: int) -> Tuple[str, int]:
    executable = path.stat().st_mode & 0o111
    size = path.stat().st_size
    sha256 = hashlib.sha256()
    entry = _entry(member, 0o755 if executable else 0o644, kind)
    with open(path, "rb") as source:
        with archive.open(entry, "w", force_zip64=size >= 1 << 31) as target:
            for chunk in iter(lambda: source.read(_CHUNK), b""):
                sha256.update(chunk)
                target.write(chunk)
    return _hash(sha256.digest()), size


def _add_text(archive: zipfile.ZipFile, member: str, text: str, kind: int) -> Tuple[str, int]:
    content = text.encode()
    archive.writestr(_entry(member, 0o644, kind), content)
    return _hash(hashlib.sha256(content).digest()), len(content)


def _entry(member: str, mode: int, kind: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(member, _TIME)
    entry.create_system = 3  # Unix, whose modes these are.
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = kind
    return entry


def _hash(digest: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


# --- native code -------------------------------------------------------------------------------


def repair(args: argparse.Namespace, wheel: Path, libraries: Sequence[Path]) -> None:
    """Let auditwheel make the wheel that runs elsewhere of `wheel`, with what it needs of the folders
    `libraries`, in the folder `args.output`."""
    if sys.version_info < (3, 9):
        raise WheelError(
            f"auditwheel needs Python 3.9 or newer, but {sys.executable}, which Pants runs on, is "
            f"{platform.python_version()}: let Pants run on a CPython 3.9."
        )
    tool = args.auditwheel.resolve()
    env = {
        **os.environ,
        "PYTHONPATH": str(tool),
        "PATH": f"{tool}/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": ":".join(str(path.absolute()) for path in libraries),
        "SOURCE_DATE_EPOCH": _EPOCH,
    }
    platform_tag = _platform(args, wheel, env)
    repaired = wheel.parent / "repaired"
    command = [
        *(sys.executable, "-m", "auditwheel", "-v", "repair"),
        *(f"--plat={platform_tag}", "--only-plat", "--no-update-tags"),
        *(f"--wheel-dir={repaired}", "--zip-compression-level=0"),
        *(f"--exclude={soname}" for soname in args.exclude),
        str(wheel),
    ]
    result = _run(command, env)
    if result.returncode != 0:
        raise WheelError(_explained(result.stdout))
    _refuse_libraries_of_the_host(result.stdout, libraries)
    # It writes none if it has nothing to add.
    found = next(repaired.glob("*.whl"), wheel)
    tree = wheel.parent / "tree"
    _unpack(found, tree)
    for library in tree.glob("*.libs/*"):
        # auditwheel leaves a search path whose folder isn't there, as LLVM has one. A library with
        # that isn't looked for where its user is told to look, and finds nothing of its own.
        path = _run(["patchelf", "--print-rpath", str(library)], env).stdout.strip()
        if path and path != "$ORIGIN":
            set_path = ["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", str(library)]
            if _run(set_path, env).returncode != 0:
                raise WheelError(f"patchelf can't change {library.name}.")
    info = f"{args.dist_info}.dist-info/"
    written = (f"{info}WHEEL", f"{info}RECORD")
    files = {name: path for name, path in find_files(tree).items() if name not in written}
    tag = f"{args.python_tag}-{args.abi_tag}-{platform_tag}"
    final = write_wheel(args.output, args.dist_info, tag, files)
    # What came with the libraries may need more than what needs them.
    needed = _platform(args, final, env)
    if _age(needed) > _age(platform_tag):
        final.unlink()
        write_wheel(
            args.output, args.dist_info, f"{args.python_tag}-{args.abi_tag}-{needed}", files
        )


def _platform(args: argparse.Namespace, wheel: Path, env: Dict[str, str]) -> str:
    """The platform of the wheel's tag, by what is in it."""
    needed = _oldest_platform(wheel, env, args.exclude)
    if args.platform_tag and _age(needed) > _age(args.platform_tag):
        raise WheelError(
            f"What is in it needs newer systems than those of `platform_tag`, {args.platform_tag}: "
            f"{needed}."
        )
    return args.platform_tag or needed


def _age(platform_tag: str) -> Tuple[int, ...]:
    """Of the C library that it tells."""
    aliases = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    for name, version in aliases.items():
        if platform_tag.startswith(f"{name}_"):
            return version
    found = re.match(r"[a-z]+_(\d+)_(\d+)_", platform_tag)
    # What isn't understood needs the newest.
    return (int(found[1]), int(found[2])) if found else (sys.maxsize,)


def _unpack(wheel: Path, tree: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, tree))
            if not entry.is_dir():
                path.chmod(0o755 if (entry.external_attr >> 16) & 0o111 else 0o644)


def _run(command: Sequence[str], env: Dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def _oldest_platform(wheel: Path, env: Dict[str, str], exclude: Sequence[str]) -> str:
    """The oldest systems on which the symbols are that `wheel` needs, with its libraries in it."""
    result = _run([sys.executable, "-m", "auditwheel", "show", str(wheel)], env)
    if result.returncode != 0:
        raise WheelError(f"auditwheel: {result.stdout.strip()}")
    return read_platform(result.stdout, exclude)


def read_platform(output: str, exclude: Sequence[str]) -> str:
    """What `auditwheel show` says of the platform. Raises WheelError where a library is missing that
    isn't one of `exclude`."""
    for soname in re.findall(r'"([^"]+)": null', output):
        if not any(fnmatch.fnmatchcase(soname, pattern) for pattern in exclude):
            raise WheelError(_missing(soname))
    # It breaks lines wherever one gets long.
    text = " ".join(output.split())
    constrained = re.search(r'constrains the platform tag to "(\w+)"', text)
    consistent = re.search(r'following platform tag: "((?!linux_)\w+)"', text)
    if constrained or consistent:
        return (constrained or consistent)[1]  # type: ignore[index]
    # Not without more libraries: from new to old, those that it has the symbols for.
    achievable = re.findall(r"achieve the tag platform tag '(\w+)'", text)
    if not achievable:
        raise WheelError(f"auditwheel can't tell which systems the wheel is for:\n{output.strip()}")
    return achievable[-1]


def _missing(soname: str) -> str:
    return (
        f"It needs {soname}, which is in no artifact that `libraries` names: add the one that has it, "
        "or name it in `system_libraries` if it is on every machine."
    )


def _explained(output: str) -> str:
    missing = re.search(r'required library "([^"]+)" could not be located', output)
    if missing:
        return _missing(missing.group(1))
    # The last words of argparse's, without how the command is to be called.
    errors = re.findall(r"^.*(?:error: |Error: )(.*)$", output, re.MULTILINE)
    return f"auditwheel: {errors[-1] if errors else output.strip()}"


def _refuse_libraries_of_the_host(output: str, libraries: Sequence[Path]) -> None:
    folders = [os.path.realpath(folder) for folder in libraries]
    # A folder of links has its libraries elsewhere in the same tree.
    trees = [os.path.dirname(f) if f.endswith("/.libraries") else f for f in folders]
    for source in re.findall(r"Grafting: (.+) -> ", output):
        real = os.path.realpath(source)
        if not any(real.startswith(f"{tree}/") for tree in trees):
            raise WheelError(
                f"It needs {os.path.basename(source)}, which only this host has ({source}): add an "
                "artifact that has it to `libraries`, or name it in `system_libraries` if it is on "
                "every machine."
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

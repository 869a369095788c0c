"""What a command of CMake's Ninja generator compiles, or feeds to TableGen, and where it searches.

A command that isn't understood for certain is None, so its edge gets all inputs: pipes, redirects,
variables, globs, two sources, modules, a compiler of an unknown name, a response file whose content
isn't known.

Paths stay as they are spelled until `at` makes them relative to the root.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from pants_triton.native.includes import Search


@dataclass(frozen=True)
class CompileCommand:
    """One source compiled. `language` is `c`, `c++`, `cuda`, `hip`, `objc`, `objc++`, `asm` or
    `asm-cpp`; `output` and `depfile` are "" where the command names none (then a compiler that is
    told to write a depfile derives its name from the output's).

    `directory` is where the command runs, "" for the build folder. Folders are in the command's
    order: `-iquote`, `-I`, `-isystem` and the like, `-idirafter`. `forced` are `-include` and
    `-imacros`. `mentioned` are other words that may name a file, such as the value of
    `-include-pch`, `-fplugin=` or `-fsanitize-ignorelist=`. `defines` are `NAME` or `NAME=VALUE`.
    """

    compiler: str
    language: str
    source: str
    output: str = ""
    directory: str = ""
    quote_dirs: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    system_dirs: tuple[str, ...] = ()
    after_dirs: tuple[str, ...] = ()
    framework_dirs: tuple[str, ...] = ()
    embed_dirs: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    mentioned: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    sysroot: str = ""
    depfile: str = ""

    @property
    def search(self) -> Search:
        """For `Resolver.compile_closure`; take it of what `at` gives."""
        return Search(
            directory=self.directory,
            quote=self.quote_dirs,
            include=self.include_dirs,
            system=self.system_dirs,
            after=self.after_dirs,
            frameworks=self.framework_dirs,
            embed=self.embed_dirs,
            forced=self.forced,
            mentioned=self.mentioned,
            defines=self.defines,
        )

    def at(self, root: str, build: str) -> CompileCommand:
        """The same with all paths relative to the folder `root` (absolute, or a token such as
        `{chroot}`) in which the build folder is `build`. What isn't in `root` stays absolute.

        The paths are not made normal: a `..` in them matters to who provides the folders. `forced`
        stays as it is, since those are looked for; give the Resolver the same root.
        """
        directory = _at(root, build, self.directory)

        def one(path: str) -> str:
            return _at(root, directory, path) if path else ""

        def many(paths: Iterable[str]) -> tuple[str, ...]:
            return tuple(map(one, paths))

        return replace(
            self,
            directory=directory,
            source=one(self.source),
            output=one(self.output),
            depfile=one(self.depfile),
            sysroot=one(self.sysroot),
            quote_dirs=many(self.quote_dirs),
            include_dirs=many(self.include_dirs),
            system_dirs=many(self.system_dirs),
            after_dirs=many(self.after_dirs),
            framework_dirs=many(self.framework_dirs),
            embed_dirs=many(self.embed_dirs),
            mentioned=many(self.mentioned),
        )


@dataclass(frozen=True)
class TableGenCommand:
    """One run of a TableGen tool: `llvm-tblgen`, `mlir-tblgen`, or any other `*-tblgen`. Of `output`
    and `depfile` see CompileCommand. `mentioned` are values of other options."""

    tool: str
    source: str
    output: str = ""
    directory: str = ""
    include_dirs: tuple[str, ...] = ()
    mentioned: tuple[str, ...] = ()
    depfile: str = ""

    @property
    def search(self) -> Search:
        """For `Resolver.tablegen_closure`; take it of what `at` gives."""
        return Search(self.directory, include=self.include_dirs, mentioned=self.mentioned)

    def at(self, root: str, build: str) -> TableGenCommand:
        """As `CompileCommand.at`."""
        directory = _at(root, build, self.directory)

        def one(path: str) -> str:
            return _at(root, directory, path) if path else ""

        return replace(
            self,
            directory=directory,
            source=one(self.source),
            output=one(self.output),
            depfile=one(self.depfile),
            include_dirs=tuple(map(one, self.include_dirs)),
            mentioned=tuple(map(one, self.mentioned)),
        )


def parse_compile(command: str, rsp: Mapping[str, str] = {}) -> CompileCommand | None:  # noqa: B006
    """The compile that `command` is, or None. `rsp` is from the names of response files, as the
    command spells them, to their content.

    A command may compile one source twice, as nvcc does for the depfile.
    """
    found = []
    for simple in _simple_commands(command) or ():
        words = _expanded(simple.words, rsp)
        compile = _compile(words, simple) if words else None
        if compile is None:
            return None
        found.append(compile)
    if not found or any(_same_inputs(c) != _same_inputs(found[0]) for c in found):
        return None
    return found[-1]


def parse_tablegen(
    command: str, rsp: Mapping[str, str] = {}
) -> TableGenCommand | None:  # noqa: B006
    """The run of TableGen that `command` is, or None. `rsp` is as in `parse_compile`."""
    simple_commands = _simple_commands(command) or []
    if len(simple_commands) != 1:
        return None
    simple = simple_commands[0]
    words = _expanded(simple.words, rsp)
    return _tablegen(words, simple.directory) if words else None


# --- the shell --------------------------------------------------------------------------------


class _Simple(NamedTuple):
    """One program's run: what `&&` stands between."""

    words: Tuple[str, ...]
    directory: str
    env: Tuple[Tuple[str, str], ...]


_PIECE = re.compile(
    r"""
    (?P<space>[ \t]+)
    | (?P<and>&&)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\$`]|\\.|\$(?![\w({]))*)"
    | \\(?P<escaped>[^\n])
    | (?P<plain>(?:[^\s'"\\$`&|;<>()]|\$(?![\w({'"]))+)
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_DOUBLE = re.compile(r'\\([$`"\\])|\\\n')

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")

# Programs that run the compiler that comes after them.
_LAUNCHERS = {"ccache", "sccache", "distcc", "icecc", "buildcache"}

# Of `cmake -E`: they open nothing of the project's.
_HARMLESS = {
    "cmake_transform_depfile",
    "echo",
    "make_directory",
    "remove",
    "rm",
    "touch",
    "true",
}


def _simple_commands(command: str) -> list[_Simple] | None:
    """The programs that a command runs; None where it isn't simple. CMake's own helpers, that open
    nothing of the project's, are left out."""
    found: list[_Simple] = []
    directory = ""
    for words in _split(command) or ():
        env: Dict[str, str] = {}
        words = _without_env(words, env)
        while words and _base(words[0]) in _LAUNCHERS:
            words = _without_env(words[1:], env)
        if words[:1] == ["cd"] and len(words) == 2 and not env:
            directory = words[1] if words[1].startswith("/") else _joined(directory, words[1])
        elif words in ([":"], ["true"]):
            continue
        elif words and _base(words[0]) == "cmake" and words[1:2] == ["-E"]:
            if words[2:3] == ["env"]:
                words = _without_env(words[3:], env)
                if not words or words[0].startswith("-"):
                    return None
                found.append(_Simple(tuple(words), directory, tuple(env.items())))
            elif len(words) < 3 or words[2] not in _HARMLESS:
                return None
        elif words:
            found.append(_Simple(tuple(words), directory, tuple(env.items())))
        else:
            return None
    return found


def _without_env(words: List[str], env: Dict[str, str]) -> list[str]:
    while words and _ASSIGNMENT.match(words[0]):
        name, _, env[name] = words[0].partition("=")
        words = words[1:]
    return words


def _split(command: str) -> list[list[str]] | None:
    """The words of each command between `&&`, as a POSIX shell would have them."""
    commands: list[list[str]] = [[]]
    word: str | None = None
    pattern = False
    position = 0
    command = command.strip(" \t\n")
    while position < len(command):
        match = _PIECE.match(command, position)
        if match is None:
            return None
        position = match.end()
        kind = match.lastgroup
        text = match[kind or 0]
        if kind in ("space", "and"):
            if word is not None:
                # A flag such as `code=[sm_80]` is no file's name, so it stays as it is.
                if pattern and not word.startswith("-"):
                    return None
                commands[-1].append(word)
            word, pattern = None, False
            if kind == "and":
                commands.append([])
            continue
        if kind == "plain":
            if word is None and text[0] in "#~!":
                return None
            pattern = pattern or any(char in text for char in "*?[")
        elif kind == "double":
            text = _IN_DOUBLE.sub(lambda m: m[1] or "", text)
        word = (word or "") + text
    if word is not None:
        if pattern and not word.startswith("-"):
            return None
        commands[-1].append(word)
    return commands


def _expanded(words: Sequence[str], rsp: Mapping[str, str], depth: int = 0) -> list[str] | None:
    """`words` with the content of response files in their place."""
    found: list[str] = []
    todo = list(words)
    while todo:
        word = todo.pop(0)
        if word in ("--options-file", "-optf") and todo:
            word = "@" + todo.pop(0)
        elif word.startswith("--options-file="):
            word = "@" + word.partition("=")[2]
        if not word.startswith("@"):
            found.append(word)
            continue
        content = rsp.get(word[1:])
        inner = None
        if content is not None and depth < 10:
            inner = _expanded(_response_words(content), rsp, depth + 1)
        if inner is None:
            return None
        found += inner
    return found


_RESPONSE_PIECE = re.compile(
    r"""\s+|'((?:[^'\\]|\\.)*)'?|"((?:[^"\\]|\\.)*)"?|((?:[^\s'"\\]|\\.)+)|\\""",
    re.DOTALL,
)


def _response_words(content: str) -> list[str]:
    # As GCC and LLVM split them: a backslash stands before any character, also in quotes.
    words: list[str] = []
    within = False
    for match in _RESPONSE_PIECE.finditer(content):
        if match[0].isspace():
            within = False
            continue
        text = re.sub(r"\\(.)", r"\1", match[1] or match[2] or match[3] or "", flags=re.DOTALL)
        if within:
            words[-1] += text
        else:
            words.append(text)
        within = True
    return words


# --- compilers --------------------------------------------------------------------------------

_COMPILER = re.compile(
    r"(?:.*-)?(?:cc|c\+\+|gcc|g\+\+|clang|clang\+\+|clang-cpp|nvcc|hipcc|icx|icpx|dpcpp)(?:-\d[\d.]*)?"
)

_EXTENSIONS = {
    ".c": "c",
    ".cc": "c++",
    ".cp": "c++",
    ".cpp": "c++",
    ".cxx": "c++",
    ".c++": "c++",
    ".CPP": "c++",
    ".C": "c++",
    ".h": "c",
    ".hh": "c++",
    ".hpp": "c++",
    ".hxx": "c++",
    ".cu": "cuda",
    ".hip": "hip",
    ".m": "objc",
    ".mm": "objc++",
    ".M": "objc++",
    ".s": "asm",
    ".S": "asm-cpp",
    ".sx": "asm-cpp",
}

# The names after `-x` that differ from ours.
_LANGUAGES = {
    "cu": "cuda",
    "objective-c": "objc",
    "objective-c++": "objc++",
    "assembler": "asm",
    "assembler-with-cpp": "asm-cpp",
    "c-header": "c",
    "c++-header": "c++",
    "objective-c-header": "objc",
    "objective-c++-header": "objc++",
}

_COMPILES = {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--compile"}
_NVCC_COMPILES = {
    *_COMPILES,
    "-dc",
    "-dw",
    "-ptx",
    "-cubin",
    "-fatbin",
    "--device-c",
    "--device-w",
    "--ptx",
    "--cubin",
    "--fatbin",
}

# Where the value of an option goes: a field of CompileCommand, or one of these.
_NOTHING, _LANGUAGE, _UNDEFINE = "nothing", "language", "undefine"
_OPTION, _OPTIONS = "option", "options"

# Options whose value is the next word, or else is joined to the name.
_JOINED_OR_NEXT = {
    "-I": "include_dirs",
    "-isystem": "system_dirs",
    "-iquote": "quote_dirs",
    "-idirafter": "after_dirs",
    "-F": "framework_dirs",
    "-iframework": "framework_dirs",
    "-include": "forced",
    "-imacros": "forced",
    "-D": "defines",
    "-U": _UNDEFINE,
    "-o": "output",
    "-x": _LANGUAGE,
    "-isysroot": "sysroot",
    "-MF": "depfile",
    "-MT": _NOTHING,
    "-MQ": _NOTHING,
    "-MJ": _NOTHING,
    "-B": "mentioned",
    "-T": "mentioned",
    "-L": _NOTHING,
    "-l": _NOTHING,
    "-u": _NOTHING,
    "-z": _NOTHING,
}

# Options whose value is the next word or, for those that begin with `--`, comes after a `=`.
_NEXT = {
    "-include-pch": "mentioned",
    "-include-pth": "mentioned",
    "--include": "forced",
    "--imacros": "forced",
    "--include-directory": "include_dirs",
    "--include-directory-after": "after_dirs",
    "--embed-dir": "embed_dirs",
    "--define-macro": "defines",
    "--undefine-macro": _UNDEFINE,
    "--output": "output",
    "--language": _LANGUAGE,
    "--sysroot": "sysroot",
    "--config": "mentioned",
    "--param": _NOTHING,
    "-arch": _NOTHING,
    "-target": _NOTHING,
    "-mllvm": _NOTHING,
    "-dumpbase": _NOTHING,
    "-dumpbase-ext": _NOTHING,
    "-dumpdir": _NOTHING,
    "-aux-info": _NOTHING,
    "-wrapper": "mentioned",
    "-specs": "mentioned",
    "-load": "mentioned",
    "-plugin": _NOTHING,
    "-install_name": _NOTHING,
    "-current_version": _NOTHING,
    "-compatibility_version": _NOTHING,
    "-framework": _NOTHING,
    "-Xlinker": _NOTHING,
    "-Xclang": _OPTION,
    "-Xpreprocessor": _OPTION,
    "-Xassembler": _OPTION,
}

_NVCC_NEXT = {
    **_NEXT,
    "--include-path": "include_dirs",
    "--system-include": "system_dirs",
    "--pre-include": "forced",
    "--output-file": "output",
    "--x": _LANGUAGE,
    "--dependency-output": "depfile",
    "--dependency-target-name": _NOTHING,
    "--compiler-bindir": _NOTHING,
    "-ccbin": _NOTHING,
    "-Xcompiler": _OPTIONS,
    "--compiler-options": _OPTIONS,
    **{
        name: _NOTHING
        for name in (
            *("-gencode", "--generate-code", "-code", "--gpu-code", "--gpu-architecture"),
            *("-Xptxas", "--ptxas-options", "-Xcudafe", "-Xfatbin", "-Xnvlink", "-Xarchive"),
            *("--linker-options", "-std", "--std", "-t", "--threads", "-rdc", "-m", "--machine"),
            *("--relocatable-device-code", "-maxrregcount", "--maxrregcount", "-cudart"),
            *("--cudart", "-diag-suppress", "--diag-suppress", "-odir", "--optimize", "-O"),
            *("-default-stream", "--default-stream", "-split-compile", "--split-compile"),
        )
    },
}

# With one of these, more is read than `#include` says, or the folders' order isn't the command's.
_NOT_UNDERSTOOD = re.compile(
    r"-|-I-|--include-barrier|-remap|.*\.hmap|-ivfsoverlay.*|--?traditional(?:-cpp)?"
    r"|-f(?:implicit-)?modules?\b.*|-fprebuilt-module.*|-fms-(?:extensions|compatibility).*"
    r"|-fprofile-(?:instr-|sample-)?use.*|-fauto-profile.*|-fbranch-probabilities|-fthinlto-index=.*"
    r"|-finput-charset=(?!(?:utf|UTF)-?8$).*|-iwithsysroot.*|-i(?:with)?prefix.*|-isystem-after.*"
    r"|-(?:c|cxx|objc|objcxx|stdlib\+\+|internal|internal-externc)-isystem.*"
)

# They name folders of headers like options do.
_ENV_DIRS = {
    "c": "C_INCLUDE_PATH",
    "c++": "CPLUS_INCLUDE_PATH",
    "objc": "OBJC_INCLUDE_PATH",
    "objc++": "OBJCPLUS_INCLUDE_PATH",
}
_ENV_NOT_UNDERSTOOD = re.compile(
    r"CCC_.*|GCC_EXEC_PREFIX|COMPILER_PATH|NVCC_(?:PRE|AP)PEND_FLAGS|CL|_CL_"
    r"|DEPENDENCIES_OUTPUT|SUNPRO_DEPENDENCIES"
)


@dataclass
class _Reading:
    """What is known of a command while its words are read."""

    fields: Dict[str, List[str]] = field(default_factory=dict)
    inputs: List[str] = field(default_factory=list)
    compiles: bool = False

    def add(self, name: str, value: str) -> None:
        self.fields.setdefault(name, []).append(value)

    def last(self, name: str) -> str:
        return self.fields.get(name, [""])[-1]


def _compile(words: Sequence[str], simple: _Simple) -> CompileCommand | None:
    compiler = words[0]
    if not _COMPILER.fullmatch(_base(compiler)):
        return None
    if any(_ENV_NOT_UNDERSTOOD.fullmatch(name) for name, _ in simple.env):
        return None
    reading = _Reading()
    is_nvcc = _base(compiler).startswith("nvcc")
    if not _read_options(list(words[1:]), reading, is_nvcc):
        return None
    if len(reading.inputs) != 1 or not reading.compiles:
        return None
    (source,) = reading.inputs
    spelled = reading.last(_LANGUAGE)
    language = _EXTENSIONS.get(_extension(source)) if spelled in ("", "none") else spelled
    if language is None:
        return None
    language = _LANGUAGES.get(language, language)
    for name, value in simple.env:
        if name == "CPATH":
            target = "include_dirs"
        elif name in _ENV_DIRS.values():
            if language not in _ENV_DIRS:
                return None
            target = "system_dirs" if name == _ENV_DIRS[language] else _NOTHING
        else:
            continue
        for path in value.split(":"):
            # An empty one is the working folder.
            reading.add(target, path or ".")
    sysroot = reading.last("sysroot")

    def dirs(name: str) -> tuple[str, ...]:
        paths: Sequence[str] = reading.fields.get(name, ())
        if is_nvcc:
            paths = [part for path in paths for part in path.split(",")]
        # nvcc takes `-isystem=dir`, and has no sysroot; for others `=` stands for that.
        return tuple(sysroot + p[1:] if p.startswith("=") else p for p in paths)

    return CompileCommand(
        compiler=compiler,
        language=language,
        source=source,
        output=reading.last("output"),
        directory=simple.directory,
        quote_dirs=dirs("quote_dirs"),
        include_dirs=dirs("include_dirs"),
        system_dirs=dirs("system_dirs"),
        after_dirs=dirs("after_dirs"),
        framework_dirs=dirs("framework_dirs"),
        embed_dirs=dirs("embed_dirs"),
        forced=tuple(reading.fields.get("forced", ())),
        mentioned=tuple(reading.fields.get("mentioned", ())),
        defines=tuple(reading.fields.get("defines", ())),
        sysroot=sysroot,
        depfile=reading.last("depfile"),
    )


def _read_options(words: List[str], reading: _Reading, is_nvcc: bool) -> bool:
    """Whether all is understood."""
    following = _NVCC_NEXT if is_nvcc else _NEXT
    compiles = _NVCC_COMPILES if is_nvcc else _COMPILES
    # What stands behind -Xclang and the like is a command line of its own.
    passed: list[str] = []
    while words:
        word = words.pop(0)
        if _NOT_UNDERSTOOD.fullmatch(word):
            return False
        if word == "--":
            reading.inputs += words
            break
        if not word.startswith("-"):
            reading.inputs.append(word)
            continue
        if word.startswith("-Xarch_"):
            continue
        if word.startswith(("-Wp,", "-Wa,")):
            passed += word.split(",")[1:]
            continue
        reading.compiles = reading.compiles or word in compiles
        name, value = _option(word, following)
        if name is None:
            _mention(word, reading)
            continue
        if value is None:
            if not words:
                return False
            value = words.pop(0)
        target = following.get(name) or _JOINED_OR_NEXT[name]
        if target == _OPTION:
            passed.append(value)
        elif target == _OPTIONS:
            passed += value.split(",")
        elif target == "forced" and is_nvcc:
            for path in value.split(","):
                reading.add(target, path)
        else:
            reading.add(target, value)
    if not passed:
        return True
    inner = _Reading()
    # As in `-Wp,-MD,x.d`.
    for index, word in enumerate(passed):
        if word in ("-MD", "-MMD") and index + 1 < len(passed) and passed[index + 1][:1] != "-":
            passed[index] = "-MF"
    if not _read_options(passed, inner, False):
        return False
    # Where the compiler puts these folders among its own is its affair.
    if any(name.endswith("_dirs") for name in inner.fields):
        return False
    reading.fields.setdefault("mentioned", []).extend(inner.inputs)
    for name, values in inner.fields.items():
        reading.fields.setdefault(name, []).extend(values)
    return True


def _option(word: str, following: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The option that `word` is, and the value in it; None for the value that is the next word."""
    if word in following or word in _JOINED_OR_NEXT:
        return word, None
    name, equals, value = word.partition("=")
    if equals and name in following:
        return name, value
    if word.startswith("--"):
        return None, None
    for length in range(len(word) - 1, 1, -1):
        if word[:length] in _JOINED_OR_NEXT:
            return word[:length], word[length:]
    return None, None


def _mention(word: str, reading: _Reading) -> None:
    # -fplugin=x.so, -fplugin-arg-name-key=x, -fsanitize-ignorelist=x, -fprofile-use=x
    if "=" in word:
        reading.add("mentioned", word.partition("=")[2])


def _same_inputs(command: CompileCommand) -> CompileCommand:
    return replace(command, output="", depfile="")


# --- TableGen ---------------------------------------------------------------------------------

_TABLEGEN = re.compile(r".*-tblgen(?:-\d[\d.]*)?")
_TABLEGEN_OPTION = re.compile(r"--?(?:(I)=?|(o|d)(?:=|$))(.*)", re.DOTALL)


def _tablegen(words: Sequence[str], directory: str) -> TableGenCommand | None:
    if not _TABLEGEN.fullmatch(_base(words[0])):
        return None
    include_dirs: list[str] = []
    mentioned: list[str] = []
    inputs: list[str] = []
    outputs = {"o": "", "d": ""}
    todo = list(words[1:])
    while todo:
        word = todo.pop(0)
        if word == "-":
            return None
        if not word.startswith("-"):
            inputs.append(word)
            continue
        match = _TABLEGEN_OPTION.fullmatch(word)
        if match is None:
            if "=" in word:
                mentioned.append(word.partition("=")[2])
            continue
        value = match[3]
        if not value:
            if not todo:
                return None
            value = todo.pop(0)
        if match[1]:
            include_dirs.append(value)
        else:
            outputs[match[2]] = value
    # `-dialect name` has its value in the next word, which then seems to be an input.
    sources = [path for path in inputs if path.endswith(".td")]
    if len(sources) != 1:
        return None
    return TableGenCommand(
        tool=words[0],
        source=sources[0],
        output=outputs["o"],
        directory=directory,
        include_dirs=tuple(include_dirs),
        mentioned=tuple(mentioned) + tuple(path for path in inputs if path not in sources),
        depfile=outputs["d"],
    )


# --- paths ------------------------------------------------------------------------------------


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _extension(path: str) -> str:
    name = _base(path)
    return name[name.rfind(".") :] if "." in name else ""


def _joined(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _at(root: str, folder: str, path: str) -> str:
    if path == root:
        return ""
    if path.startswith(f"{root}/"):
        return path[len(root) + 1 :]
    if path.startswith("/") or not path:
        return path or folder
    return _joined(folder, path)

"""How a process of Pants' gets the client of the kernel cache, with no server in its key."""

from __future__ import annotations

import dataclasses
import logging
import os
import pkgutil
from dataclasses import dataclass
from pathlib import Path

from pants.engine.fs import CreateDigest, Digest, FileContent
from pants.engine.process import Process
from pants.engine.rules import Get, collect_rules, rule
from pants.option.global_options import GlobalOptions
from pants.util.frozendict import FrozenDict

from pants_triton.kernel_cache.settings import FILE_VARIABLE
from pants_triton.kernel_cache.settings_file import leave_settings
from pants_triton.kernel_cache.subsystem import KernelCacheSubsystem

logger = logging.getLogger(__name__)

_CACHE_NAME = "pants_triton_kernel_cache"
_SANDBOX_CACHE = ".pants_triton_kernel_cache_settings"
_SANDBOX_CLIENT = ".pants_triton_kernel_cache"
_START = "start.sh"

_MODULES = (
    *("__init__", "client", "entry", "errors", "manager"),
    *("reapi", "rpc", "settings", "store"),
)
_MANAGER = "pants_triton.kernel_cache.manager:KernelCacheManager"

# Runs what follows it. The process that started it is Pants, which left its settings under its number;
# where there is none, as on another machine, the cache is off.
_START_SCRIPT = f"""\
#!/bin/sh
{FILE_VARIABLE}="$PWD/{_SANDBOX_CACHE}/settings-$PPID.json"
export {FILE_VARIABLE}
exec "$@"
"""


@dataclass(frozen=True)
class KernelCacheClient:
    """The client, for processes that compile kernels. `settings` is None where the cache is off."""

    digest: Digest
    settings: FrozenDict[str, str] | None
    folder: str

    def added_to(self, process: Process) -> Process:
        """The process with the client in its sandbox and its environment. It must have the packages
        h2 and protobuf. Where the cache is off, the process as it was."""
        if self.settings is None:
            return process
        try:
            leave_settings(Path(self.folder), os.getpid(), self.settings)
        except OSError as e:
            logger.warning(
                f"Tests compile without the kernel cache, for they can't be told about it: "
                f"{e.filename or self.folder}: {e.strerror}. Correct that, or name another folder in "
                "`[GLOBAL].named_caches_dir`."
            )
        sys_path = process.env.get("PEX_EXTRA_SYS_PATH", "")
        return dataclasses.replace(
            process,
            argv=(f"{_SANDBOX_CLIENT}/{_START}", *process.argv),
            env=FrozenDict(
                {
                    "TRITON_CACHE_MANAGER": _MANAGER,
                    **process.env,
                    "PEX_EXTRA_SYS_PATH": ":".join(filter(None, [sys_path, _SANDBOX_CLIENT])),
                }
            ),
            append_only_caches=FrozenDict(
                {**process.append_only_caches, _CACHE_NAME: _SANDBOX_CACHE}
            ),
            immutable_input_digests=FrozenDict(
                {**process.immutable_input_digests, _SANDBOX_CLIENT: self.digest}
            ),
        )


@rule
async def pack_kernel_cache_client(
    kernel_cache: KernelCacheSubsystem, global_options: GlobalOptions
) -> KernelCacheClient:
    def module(name: str) -> FileContent:
        assert __package__ is not None
        content = pkgutil.get_data(__package__, f"{name}.py")
        assert content is not None
        return FileContent(f"{__package__.replace('.', '/')}/{name}.py", content)

    digest = await Get(
        Digest,
        CreateDigest(
            [
                FileContent(_START, _START_SCRIPT.encode(), is_executable=True),
                FileContent("pants_triton/__init__.py", b""),
                *(module(name) for name in _MODULES),
            ]
        ),
    )
    return KernelCacheClient(
        digest,
        kernel_cache.client_settings(global_options),
        os.path.abspath(os.path.join(global_options.named_caches_dir, _CACHE_NAME)),
    )


def rules():
    return collect_rules()

"""What Triton is told to use: `TRITON_CACHE_MANAGER` or `TRITON_REMOTE_CACHE_BACKEND` names a class here.

    TRITON_CACHE_MANAGER=pants_triton.kernel_cache.manager:KernelCacheManager

is the better one. It looks into the local cache first, asks the server once a kernel, and a local cache that
it leaves can be used without it.

    TRITON_CACHE_MANAGER=triton.runtime.cache:RemoteCacheManager
    TRITON_REMOTE_CACHE_BACKEND=pants_triton.kernel_cache.manager:KernelCacheBackend

is Triton's own way to a remote cache. Both have the same entries on the server.

Only compiled kernels are shared. What Triton keeps beside them stays on the machine: the libraries that it
builds for the host, which the process would run, and the results of autotuning.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterable

from triton.runtime.cache import FileCacheManager, RemoteCacheBackend  # pants: no-infer-dep

from pants_triton.kernel_cache.store import the_store

_GROUP_PREFIX = "__grp__"


class KernelCacheManager(FileCacheManager):
    """Triton's local cache, with a server behind it."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override=override, dump=dump)
        # What people put in and take out by hand is none of the server's business.
        self._is_shared = not override and not dump

    def get_group(self, filename: str) -> dict[str, str] | None:
        found = self._local_group(filename)
        if not self._is_shared or (found and filename in found):
            return found
        files = the_store().load(self.key, filename)
        if files is None:
            return found
        try:
            # The metadata last, as when Triton compiles.
            group = {
                name: super(KernelCacheManager, self).put(data, name)
                for name, data in sorted(files.items(), key=lambda item: item[0] == filename)
            }
            super().put_group(filename, group)
        except OSError:
            # Triton can't write there either, and says so when it has compiled.
            return found
        return group

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        path = super().put_group(filename, group)
        if self._is_shared:
            try:
                files = {name: Path(path).read_bytes() for name, path in group.items()}
            except OSError:
                # Somebody clears the local cache just now.
                return path
            the_store().save(self.key, filename, files)
        return path

    def _local_group(self, filename: str) -> dict[str, str] | None:
        try:
            return super().get_group(filename)
        except AttributeError:
            # Triton's own RemoteCacheManager was here: it writes a list where this one wants paths.
            return None


class KernelCacheBackend(RemoteCacheBackend):
    """A server for Triton's RemoteCacheManager. That one asks for a group, then for the files of the
    group; and stores files, then their group. An object is for one key, and remembers what came first.

    Where the server has nothing or is not there, the local cache is used, at which RemoteCacheManager
    doesn't look itself.
    """

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self._key = key
        self._local = FileCacheManager(key)
        self._files: dict[str, bytes] = {}

    def get(self, filenames: Iterable[str]) -> dict[str, bytes]:
        found = {}
        for filename in filenames:
            data = self._get(filename)
            if data is not None:
                found[filename] = data
        return found

    def put(self, filename: str, data: bytes) -> None:
        if not filename.startswith(_GROUP_PREFIX):
            self._files[filename] = data
            return
        group = json.loads(data)["child_paths"]
        if all(name in self._files for name in group):
            the_store().save(
                self._key,
                filename[len(_GROUP_PREFIX) :],
                {name: self._files[name] for name in group},
            )

    def _get(self, filename: str) -> bytes | None:
        if filename in self._files:
            return self._files[filename]
        if not filename.startswith(_GROUP_PREFIX):
            return self._local_content(filename)
        group = self._local_content(filename)
        if group is not None and self._is_complete(group):
            return group
        files = the_store().load(self._key, filename[len(_GROUP_PREFIX) :])
        if files is None:
            return None
        self._files.update(files)
        return json.dumps({"child_paths": sorted(files)}).encode()

    def _local_content(self, filename: str) -> bytes | None:
        path = self._local.get_file(filename)
        try:
            return None if path is None else Path(path).read_bytes()
        except OSError:
            return None

    def _is_complete(self, group: bytes) -> bool:
        try:
            names = json.loads(group)["child_paths"]
        except (ValueError, LookupError, TypeError):
            return False
        # Paths by name if FileCacheManager was here, else names.
        return all(self._local.has_file(name) for name in names)

"""The kernel cache as a compiler sees it: entries come and go, and nothing ever fails.

What goes wrong is said once, and after it the process works as if there were no cache.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Mapping

from pants_triton.kernel_cache.entry import check_content, entry_name, is_private
from pants_triton.kernel_cache.errors import CallFailed, Refused, SettingsError, WriteDenied
from pants_triton.kernel_cache.settings import PREFIX, Settings, parse_settings

if TYPE_CHECKING:
    from pants_triton.kernel_cache.client import CacheClient

logger = logging.getLogger("pants_triton.kernel_cache")

# A server may fail now and then; one that does so again and again costs more than it saves.
_FAILURES_IN_A_ROW = 3


@dataclass
class Statistics:
    """What this process had of the cache."""

    hits: int = 0
    misses: int = 0
    refused: int = 0
    stored: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class KernelStore:
    """Entries on a server, for all threads of this process and of those forked from it."""

    def __init__(self, settings: Settings | None) -> None:
        """`settings` None: there is no server."""
        self.statistics = Statistics()
        self._settings = settings
        self._is_off = settings is None
        self._writes = settings is not None and settings.writes
        # In a row, by what was done: a server may well do the one and not the other.
        self._load_failures = 0
        self._save_failures = 0
        self._warned: set[str] = set()
        self._make_lock()
        self._client: CacheClient | None = None
        os.register_at_fork(after_in_child=self._make_lock)

    def load(self, key: str, group: str) -> dict[str, bytes] | None:
        """The files of a compiled kernel by name, or None. Never raises.

        :param key: Triton's.
        :param group: Triton's name of the group.
        """
        if self._is_off or is_private(os.environ):
            return None
        try:
            client = self._connected()
            if client is None:
                return None
            files = client.load(entry_name(key, group, os.environ), group)
            if files is not None:
                check_content(key, group, files)
        except Refused as e:
            self.statistics.refused += 1
            self._load_failures = 0
            self._warn("refused", f"refused an entry, and compiles the kernel instead: {e}")
            return None
        # Whatever it is, the kernel is compiled.
        except Exception as e:
            self._load_failures += 1
            # A server that does not answer costs a timeout each time, and what is no error of the
            # server's has come to stay.
            if not isinstance(e, CallFailed) or self._load_failures >= _FAILURES_IN_A_ROW:
                self._turn_off(e)
            return None
        self._load_failures = 0
        if files is None:
            self.statistics.misses += 1
            return None
        self.statistics.hits += 1
        self.statistics.bytes_read += sum(map(len, files.values()))
        return files

    def save(self, key: str, group: str, files: Mapping[str, bytes]) -> None:
        """Store the files of a compiled kernel, where the settings and the server allow it. Never
        raises. Done when it returns: a process may end without further notice."""
        if self._is_off or not self._writes or is_private(os.environ):
            return
        try:
            check_content(key, group, files)
        except Refused as e:
            logger.debug("%s is not stored: %s", group, e)
            return
        try:
            client = self._connected()
            if client is None:
                return
            written = client.save(entry_name(key, group, os.environ), files)
        except WriteDenied as e:
            self._writes = False
            self._warn("writes", f"stores nothing, for the server does not allow it: {e}")
            return
        except CallFailed as e:
            self._save_failures += 1
            if self._save_failures >= _FAILURES_IN_A_ROW:
                self._writes = False
                self._warn("writes", f"stores nothing more in this process: {e}")
            return
        # Whatever it is, the kernel is compiled.
        except Exception as e:
            self._turn_off(e)
            return
        self._save_failures = 0
        self.statistics.stored += 1
        self.statistics.bytes_written += written

    def _make_lock(self) -> None:
        # A child has not the parent's thread that held it.
        self._lock = threading.Lock()

    def _connected(self) -> CacheClient | None:
        with self._lock:
            if self._is_off:
                return None
            if self._client is not None:
                return self._client
            assert self._settings is not None
            try:
                from pants_triton.kernel_cache.client import CacheClient
            except ImportError as e:
                raise SettingsError(
                    f"{e}: install the packages h2 and protobuf beside Triton"
                ) from None
            self._client = CacheClient(self._settings)
            return self._client

    def _turn_off(self, error: Exception) -> None:
        self._is_off = True
        self._warn("off", f"is off in this process: {error}")

    def _warn(self, about: str, message: str) -> None:
        """Say something once. By `logging`: a warning of Python's could be made an error."""
        with self._lock:
            if about in self._warned:
                return
            self._warned.add(about)
        server = self._settings.host_port if self._settings is not None else ""
        logger.warning("The kernel cache %s %s", server, message)


_the_store: KernelStore | None = None
_the_store_lock = threading.Lock()


def the_store() -> KernelStore:
    """That of this process, by its environment when it was first asked for. Never raises."""
    global _the_store
    with _the_store_lock:
        if _the_store is None:
            settings = None
            try:
                settings = parse_settings(os.environ)
            except SettingsError as e:
                logger.warning("The kernel cache is off: %s. See %s*.", e, PREFIX)
            _the_store = KernelStore(settings)
        return _the_store

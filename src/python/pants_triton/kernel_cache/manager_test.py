from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Iterator

import pytest
from triton.runtime.cache import FileCacheManager

from pants_triton.kernel_cache import manager, store
from pants_triton.kernel_cache.faulty_server import FaultyServer, running
from pants_triton.kernel_cache.manager import KernelCacheBackend, KernelCacheManager
from pants_triton.kernel_cache.settings import Settings
from pants_triton.kernel_cache.store import KernelStore

HASH = "0123456789abcdef" * 4
KEY = base64.b32encode(bytes.fromhex(HASH)).decode().rstrip("=")
GROUP = "add.json"
FILES = {
    GROUP: json.dumps(
        {"hash": HASH, "target": {"backend": "cuda", "arch": 90, "warp_size": 32}}
    ).encode(),
    "add.cubin": b"\x7fELF\xff\r\n",
}


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture(autouse=True)
def the_store(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelStore]:
    with running(server) as port:
        made = KernelStore(Settings(f"localhost:{port}", writes=True))
        monkeypatch.setattr(manager, "the_store", lambda: made)
        yield made


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def move(name: str) -> None:
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / name))

    move("1")
    return move


def put_all(made: FileCacheManager) -> dict[str, str]:
    group = {name: made.put(data, name) for name, data in FILES.items()}
    made.put_group(GROUP, group)
    return group


def contents(group: dict[str, str] | None) -> dict[str, bytes] | None:
    if group is None:
        return None
    return {name: Path(path).read_bytes() for name, path in group.items()}


def test_another_home_gets_the_same_bytes_at_its_own_paths(homes, tmp_path: Path) -> None:
    assert KernelCacheManager(KEY).get_group(GROUP) is None
    put_all(KernelCacheManager(KEY))
    homes("2")
    group = KernelCacheManager(KEY).get_group(GROUP)
    assert contents(group) == FILES
    assert all(path.startswith(str(tmp_path / "2")) for path in (group or {}).values())
    # Triton's own manager reads what ours left.
    assert contents(FileCacheManager(KEY).get_group(GROUP)) == FILES


def test_what_the_local_cache_has_is_not_asked_for(homes, server: FaultyServer) -> None:
    put_all(FileCacheManager(KEY))
    assert contents(KernelCacheManager(KEY).get_group(GROUP)) == FILES
    assert server.calls == []


def test_a_local_cache_that_lost_a_file_is_filled_up(homes) -> None:
    group = put_all(KernelCacheManager(KEY))
    Path(group[GROUP]).unlink()
    assert contents(KernelCacheManager(KEY).get_group(GROUP)) == FILES


@pytest.mark.parametrize("kind", ["override", "dump"])
def test_what_people_put_in_by_hand_is_not_shared(
    homes, server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    monkeypatch.setenv("TRITON_OVERRIDE_DIR", str(tmp_path / "override"))
    made = KernelCacheManager(KEY, **{kind: True})
    assert made.get_group(GROUP) is None
    if kind == "dump":
        put_all(made)
    assert server.calls == []


@pytest.mark.parametrize("kind", [KernelCacheManager, None], ids=["manager", "backend"])
def test_libraries_for_the_host_stay_here(homes, server: FaultyServer, kind) -> None:
    if kind is None:
        KernelCacheBackend(KEY).put("launcher.so", b"\x7fELF")
        assert KernelCacheBackend(KEY).get(["launcher.so"]) == {}
    else:
        kind(KEY).put(b"\x7fELF", "launcher.so")
        homes("2")
        assert kind(KEY).get_file("launcher.so") is None
    assert server.calls == []


def test_a_group_whose_files_are_gone_is_not_stored(homes, server: FaultyServer) -> None:
    KernelCacheManager(KEY).put_group(GROUP, {GROUP: "/nowhere/add.json"})
    assert server.calls == []


def test_a_full_disk_is_a_miss(homes, monkeypatch: pytest.MonkeyPatch) -> None:
    put_all(KernelCacheManager(KEY))
    homes("2")
    made = KernelCacheManager(KEY)

    def fail(self, data, filename, binary=True):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileCacheManager, "put", fail)
    assert made.get_group(GROUP) is None


def test_the_backend_gives_a_group_and_its_files(homes) -> None:
    stored = KernelCacheBackend(KEY)
    for name, data in FILES.items():
        stored.put(name, data)
    stored.put(f"__grp__{GROUP}", json.dumps({"child_paths": sorted(FILES)}).encode())

    homes("2")
    loaded = KernelCacheBackend(KEY)
    group = loaded.get([f"__grp__{GROUP}"])
    assert json.loads(group[f"__grp__{GROUP}"]) == {"child_paths": sorted(FILES)}
    assert loaded.get(sorted(FILES)) == FILES
    assert loaded.get(["add.other", "__grp__other.json"]) == {}


def test_a_group_without_its_files_is_not_stored(homes, server: FaultyServer) -> None:
    KernelCacheBackend(KEY).put(f"__grp__{GROUP}", b'{"child_paths": ["add.json"]}')
    assert server.calls == []


def test_the_process_has_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_the_store", None)
    assert store.the_store() is store.the_store()

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import pytest

from pants_triton.artifact import misbehaving
from pants_triton.artifact.errors import EXIT_UNREACHABLE, EXIT_WRONG_BYTES, TARGET, FetchError
from pants_triton.artifact.misbehaving import Server
from pants_triton.artifact.settings import Settings
from pants_triton.artifact.wheel_index import IndexFile, list_wheels, locate, parse_page

NAME = "nvidia-cuda-nvcc-cu12"
VERSION = "12.8.93"
X64 = "nvidia_cuda_nvcc_cu12-12.8.93-py3-none-manylinux_2_17_x86_64.whl"
ARM = "nvidia_cuda_nvcc_cu12-12.8.93-py3-none-manylinux_2_17_aarch64.whl"
OLD = "nvidia_cuda_nvcc_cu12-12.1.105-py3-none-manylinux_2_17_x86_64.whl"
A, B = "a" * 64, "b" * 64
JSON = "application/vnd.pypi.simple.v1+json"

FILES: list[dict[str, Any]] = [
    {"filename": X64, "url": f"../../f/{X64}", "hashes": {"sha256": A}, "size": 40},
    {"filename": ARM, "url": f"https://files.example/{ARM}#sha256={B}", "hashes": {"sha256": B}},
    {"filename": OLD, "url": f"/f/{OLD}", "hashes": {}, "yanked": "bad"},
    {"filename": "nvidia-cuda-nvcc-cu12-12.8.93.tar.gz", "url": "x", "hashes": {}},
]
HTML = f"""<!DOCTYPE html><html><body>
<a href="../../f/{X64}#sha256={A}" data-requires-python="&gt;=3">{X64}</a><br>
<A HREF='https://files.example/{ARM}#sha256={B.upper()}'>arm</A>
<a href="/f/{OLD}" data-yanked>{OLD}</a>
<a name="none">no file</a>
<a href="nvidia-cuda-nvcc-cu12-12.8.93.tar.gz">sdist</a>
</body></html>"""


def page(text: str, media_type: str) -> misbehaving.Behaviour:
    return misbehaving.file(text.encode(), headers={"Content-Type": media_type})


def json_page(files: Any = FILES) -> misbehaving.Behaviour:
    return page(json.dumps({"meta": {"api-version": "1.0"}, "files": files}), JSON)


@pytest.fixture
def server() -> Iterator[Server]:
    with misbehaving.running() as running:
        yield running


def quiet(line: str) -> None:
    pass


def on_index(server: Server, *behaviours: misbehaving.Behaviour, index: str = "simple") -> str:
    server.on(f"/{index}/{NAME}/", *behaviours)
    return f"{server.url}/{index}"


def quick(*indexes: str) -> Settings:
    return Settings(indexes=indexes, tries=2, backoff_s=0.01, stall_timeout_s=0.5)


@pytest.mark.parametrize(
    "text, media_type",
    [
        pytest.param(json.dumps({"files": FILES}), JSON, id="json"),
        pytest.param(HTML, "text/html", id="html"),
        pytest.param(HTML, "application/vnd.pypi.simple.v1+html", id="html v1"),
    ],
)
def test_both_forms_say_the_same(text: str, media_type: str) -> None:
    files = parse_page("https://index.example/simple/x/", media_type, text)
    sizes = (40, None) if media_type == JSON else (None, None)
    assert files == (
        IndexFile(X64, f"https://index.example/f/{X64}", A, sizes[0]),
        IndexFile(ARM, f"https://files.example/{ARM}", B, None),
        IndexFile(OLD, f"https://index.example/f/{OLD}", None, None, yanked=True),
    )


@pytest.mark.parametrize(
    "text", ["<html>", "[]", "{}", '{"files": [{}]}', '{"files": [1]}', "[" * 100_000]
)
def test_pages_that_are_none(text: str) -> None:
    with pytest.raises(FetchError, match="isn't a package index's page"):
        parse_page("https://index.example/simple/x/", JSON, text)


def test_a_base_in_html() -> None:
    html = f'<base href="https://cdn.example/w/"><a href="{X64}">'
    (file,) = parse_page("https://index.example/simple/x/", "text/html", html)
    assert file.url == f"https://cdn.example/w/{X64}"


@pytest.mark.parametrize("name", [NAME, "NVIDIA.cuda__nvcc-cu12"])
def test_the_wheels_of_a_version(server: Server, name: str) -> None:
    index = on_index(server, json_page())
    files = list_wheels(name, VERSION, quick(f"{server.url}/empty", index + "/"), quiet)
    assert [(f.filename, f.sha256, f.size) for f in files] == [(ARM, B, None), (X64, A, 40)]
    assert server.log[-1].headers["accept"].startswith(JSON)


@pytest.mark.parametrize(
    "version, filename",
    [("1.0", "x-1-py3-none-any.whl"), ("1!2.0rc1+cu12.8", "x-1!2rc1+cu12.8-py3-none-any.whl")],
)
def test_versions_that_are_spelled_otherwise(server: Server, version: str, filename: str) -> None:
    index = on_index(server, json_page([{"filename": filename, "url": filename}]))
    assert [f.filename for f in list_wheels(NAME, version, quick(index), quiet)] == [filename]


def test_a_wheel_is_found_on_every_index_that_has_it(server: Server) -> None:
    first = on_index(server, misbehaving.status(404), index="first")
    second = on_index(server, page(HTML, "text/html"), index="second")
    third = on_index(server, json_page(), index="third")
    found = locate(NAME, X64, A, quick(first, second, third), quiet)
    # Resolved against their own page's address.
    assert found == (f"{server.url}/f/{X64}", f"{server.url}/f/{X64}")


def test_an_index_that_knows_no_digest_may_have_it(server: Server) -> None:
    index = on_index(server, json_page())
    assert locate(NAME, OLD, A, quick(index), quiet) == (f"{server.url}/f/{OLD}",)


def test_an_index_that_is_busy_is_asked_again(server: Server) -> None:
    index = on_index(server, misbehaving.status(503), json_page())
    assert len(locate(NAME, X64, A, quick(index), quiet)) == 1


def test_another_index_may_have_what_a_broken_one_can_not_tell(server: Server) -> None:
    broken = on_index(server, misbehaving.status(500), index="broken")
    good = on_index(server, json_page(), index="good")
    assert len(locate(NAME, X64, A, quick(broken, good), quiet)) == 1
    # But a lock isn't made while an index that comes first may have other wheels.
    with pytest.raises(FetchError, match="500 Internal Server Error"):
        list_wheels(NAME, VERSION, quick(broken, good), quiet)


def test_other_bytes_under_the_same_name(server: Server) -> None:
    index = on_index(server, json_page())
    with pytest.raises(FetchError) as e:
        locate(NAME, X64, B, quick(index), quiet)
    assert f"has it with sha256 {A}, but locked is {B}" in str(e.value)
    assert f"`./pants lock-artifacts --refresh {TARGET}`" in str(e.value)
    assert e.value.exit_code == EXIT_WRONG_BYTES


def test_without_an_index(server: Server) -> None:
    for look in (
        lambda: locate(NAME, X64, A, Settings(), quiet),
        lambda: list_wheels(NAME, VERSION, Settings(), quiet),
    ):
        with pytest.raises(
            FetchError, match=r"\[python-repos\].indexes.*\[artifact\].mirrors"
        ) as e:
            look()
        assert e.value.exit_code == EXIT_UNREACHABLE


def test_nobody_has_it(server: Server) -> None:
    index = on_index(server, json_page()).replace("//", "//user:s3cr3t@")
    with pytest.raises(
        FetchError, match=f"None of the package indexes has other.whl: {server.url}"
    ):
        locate(NAME, "other.whl", A, quick(index), quiet)
    with pytest.raises(FetchError, match="has the wheels of .* 99: ") as e:
        list_wheels(NAME, "99", quick(index), quiet)
    assert "s3cr3t" not in str(e.value)


def test_the_password_of_an_index_is_for_its_own_host_only(server: Server) -> None:
    index = on_index(server, json_page()).replace("//", "//user:s3cr3t@")
    own = locate(NAME, X64, A, quick(index), quiet)
    assert own == (f"{server.url}/f/{X64}".replace("//", "//user:s3cr3t@"),)
    assert locate(NAME, ARM, B, quick(index), quiet) == (f"https://files.example/{ARM}",)
    assert server.log[0].headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "name, text", [("index.html", HTML), ("index.json", json.dumps({"files": FILES}))]
)
def test_an_index_of_files(tmp_path: Path, name: str, text: str) -> None:
    folder = tmp_path / "simple" / NAME
    folder.mkdir(parents=True)
    (folder / name).write_text(text)
    index = (tmp_path / "simple").as_uri()
    assert locate(NAME, X64, A, quick(index), quiet) == ((tmp_path / "f" / X64).as_uri(),)
    with pytest.raises(FetchError, match="None of the package indexes"):
        locate("other", X64, A, quick(index), quiet)

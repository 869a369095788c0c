from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from pants.engine.internals.scheduler import ExecutionError
from pants.engine.process import Process, ProcessCacheScope, ProcessResult
from pants.testutil.rule_runner import QueryRule, RuleRunner

from pants_triton.kernel_cache import rules as kernel_cache_rules
from pants_triton.kernel_cache.rules import KernelCacheClient
from pants_triton.kernel_cache.settings import FILE_VARIABLE

ADDRESS = "--kernel-cache-address=grpc://cache:8980"

# Says what a test process would see, and what the client's settings are there.
PROGRAM = """\
echo "manager=$TRITON_CACHE_MANAGER path=$PEX_EXTRA_SYS_PATH settings=$PANTS_TRITON_KERNEL_CACHE_SETTINGS"
for module in .pants_triton_kernel_cache/pants_triton/kernel_cache/*.py; do echo "$module"; done
cat "$PANTS_TRITON_KERNEL_CACHE_SETTINGS"
"""


class Runner:
    """A RuleRunner with named caches of its own, of which the rules know, too."""

    def __init__(self, caches: Path) -> None:
        self._options = [f"--named-caches-dir={caches}"]
        self._runner = RuleRunner(
            rules=[
                *kernel_cache_rules.rules(),
                QueryRule(KernelCacheClient, ()),
                QueryRule(ProcessResult, (Process,)),
            ],
            bootstrap_args=self._options,
        )

    def client(self, *options: str) -> KernelCacheClient:
        self._runner.set_options([*self._options, *options])
        return self._runner.request(KernelCacheClient, [])

    def output(self, process: Process) -> list[str]:
        # The settings are in no key, so another test's output would be this one's.
        fresh = dataclasses.replace(process, cache_scope=ProcessCacheScope.PER_SESSION)
        return self._runner.request(ProcessResult, [fresh]).stdout.decode().splitlines()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path / "caches")


def process(**env: str) -> Process:
    return Process(
        ("/bin/sh", "-c", PROGRAM),
        description="as a test",
        env={"PATH": "/usr/bin:/bin", "PEX_EXTRA_SYS_PATH": "src", **env},
    )


def test_off_unless_asked_for(runner: Runner) -> None:
    assert runner.client().added_to(process()) == process()
    assert runner.client(ADDRESS, "--kernel-cache-mode=off").added_to(process()) == process()


def test_a_process_finds_client_and_settings(runner: Runner) -> None:
    added = runner.client(
        ADDRESS, "--kernel-cache-mode=write", "--kernel-cache-instance=main"
    ).added_to(process())
    lines = runner.output(added)
    assert re.fullmatch(
        "manager=pants_triton.kernel_cache.manager:KernelCacheManager "
        r"path=src:.pants_triton_kernel_cache settings=/.*/settings-\d+\.json",
        lines[0],
    )
    assert ".pants_triton_kernel_cache/pants_triton/kernel_cache/manager.py" in lines
    assert json.loads(lines[-1]) == {
        "address": "grpc://cache:8980",
        "instance": "main",
        "ca": "",
        "token_file": "",
        "mode": "write",
        "timeout": "10",
    }


def test_the_server_is_in_no_key(runner: Runner) -> None:
    one = runner.client(ADDRESS, "--kernel-cache-mode=read").added_to(process())
    other = runner.client(
        "--kernel-cache-address=grpc://other:1", "--kernel-cache-mode=write"
    ).added_to(process())
    assert one == other
    assert FILE_VARIABLE not in one.env


def test_the_clients_modules_are_all_there(runner: Runner) -> None:
    added = runner.client(ADDRESS, "--kernel-cache-mode=read").added_to(process())
    modules = runner.output(added)[1:-1]
    names = {Path(module).stem for module in modules}
    for name in names:
        source = Path(kernel_cache_rules.__file__).with_name(f"{name}.py").read_text()
        imported = re.findall(r"from pants_triton\.kernel_cache\.(\w+) import", source)
        assert set(imported) <= names
        assert not re.search(r"^(from|import) pants\b", source, re.MULTILINE)


def test_a_targets_own_manager_stays(runner: Runner) -> None:
    added = runner.client(ADDRESS, "--kernel-cache-mode=read").added_to(
        process(TRITON_CACHE_MANAGER="mine:Manager")
    )
    assert added.env["TRITON_CACHE_MANAGER"] == "mine:Manager"


def test_by_default_the_server_is_pants_own(runner: Runner) -> None:
    settings = runner.client(
        "--kernel-cache-mode=read",
        "--remote-store-address=grpcs://remote:443",
        "--remote-instance-name=main",
    ).settings
    assert settings is not None
    assert (settings["address"], settings["instance"]) == ("grpcs://remote:443", "main")


@pytest.mark.parametrize(
    ("own", "counts"), [([], "/pants"), (["--kernel-cache-token-file=/own"], "/own")]
)
def test_a_token_of_its_own_for_pants_own_server(
    runner: Runner, own: list[str], counts: str
) -> None:
    """As where Pants sends a password in a header (`remote_store_headers`)."""
    settings = runner.client(
        "--kernel-cache-mode=read",
        "--remote-store-address=grpcs://remote:443",
        "--remote-oauth-bearer-token-path=/pants",
        *own,
    ).settings
    assert settings is not None
    assert settings["token_file"] == counts


@pytest.mark.parametrize(
    "options, message",
    [
        ([], r"no server is named. Set `\[kernel-cache\].address` or `\[GLOBAL\].remote_store"),
        (["--kernel-cache-address=cache:1"], "must be like grpc://host:port"),
        ([ADDRESS, "--kernel-cache-token-file=t"], "use grpcs://.*--kernel-cache-mode=off"),
        ([ADDRESS, "--kernel-cache-timeout=soon"], "must be seconds.*`.kernel-cache.`"),
    ],
)
def test_wrong_options(runner: Runner, options: list[str], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        runner.client("--kernel-cache-mode=read", *options)


def test_settings_that_cant_be_left_are_a_warning(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    made = runner.client(ADDRESS, "--kernel-cache-mode=read")
    Path(made.folder).parent.mkdir(parents=True, exist_ok=True)
    Path(made.folder).write_text("a file is in the way")
    assert made.added_to(process()) != process()
    assert "Tests compile without the kernel cache" in caplog.text

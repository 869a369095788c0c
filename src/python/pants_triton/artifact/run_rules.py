"""`pants run 3rdparty/nvidia:nvidia -- ptxas --version`: a tool out of an artifact's tree."""

from __future__ import annotations

from dataclasses import dataclass

from pants.core.goals.run import RunFieldSet, RunInSandboxBehavior, RunRequest
from pants.engine.fs import CreateDigest, Digest, FileContent
from pants.engine.rules import Get, collect_rules, rule
from pants.util.logging import LogLevel

from pants_triton.artifact.rules import ArtifactTree, ArtifactTreeRequest
from pants_triton.artifact.target_types import ArtifactSourceField

_SCRIPT = ".pants_triton_run_tool.sh"

# Debian's trees have LLVM's tools below `usr/lib/llvm-19/bin`. A path with a slash is taken from the
# tree's root. The shared libraries of a tree that has some are its own, but for libc's, which must
# be the host's: see `libraries.py`.
_RUN_TOOL = r"""#!/bin/sh
# usage: run_tool.sh ADDRESS TREE TOOL ARGUMENT...
address=$1
tree=$2
shift 2
tell_tools() {
  tools=$(
    for folder in "$tree/bin" "$tree/usr/bin" "$tree"/usr/lib/llvm-*/bin "$tree"/*/bin; do
      for tool in "$folder"/*; do
        if [ -f "$tool" ] && [ -x "$tool" ]; then echo "  ${tool##*/}"; fi
      done
    done | sort -u
  )
  if [ -n "$tools" ]; then
    printf 'It has:\n%s\n' "$tools" >&2
  else
    echo "It has no tools." >&2
  fi
}
if [ $# -eq 0 ]; then
  echo "Say which tool of $address to run: ./pants run $address -- TOOL ARGUMENT..." >&2
  tell_tools
  exit 2
fi
name=$1
shift
found=
case $name in
  */*) [ -x "$tree/$name" ] && [ ! -d "$tree/$name" ] && found=$tree/$name ;;
  *)
    for folder in "$tree/bin" "$tree/usr/bin" "$tree"/usr/lib/llvm-*/bin "$tree"/*/bin; do
      if [ -x "$folder/$name" ] && [ ! -d "$folder/$name" ]; then
        found=$folder/$name
        break
      fi
    done
    ;;
esac
if [ -z "$found" ]; then
  echo "$address has no tool \`$name\`." >&2
  tell_tools
  exit 127
fi
if [ -d "$tree/.libraries" ]; then
  export LD_LIBRARY_PATH="$tree/.libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
exec "$found" "$@"
"""


@dataclass(frozen=True)
class ArtifactRunFieldSet(RunFieldSet):
    required_fields = (ArtifactSourceField,)
    run_in_sandbox_behavior = RunInSandboxBehavior.RUN_REQUEST_HERMETIC

    source: ArtifactSourceField


@rule(desc="Set up a tool of an artifact", level=LogLevel.DEBUG)
async def run_tool(field_set: ArtifactRunFieldSet) -> RunRequest:
    tree = await Get(ArtifactTree, ArtifactTreeRequest(field_set.address))
    script = await Get(Digest, CreateDigest([FileContent(_SCRIPT, _RUN_TOOL.encode())]))
    return RunRequest(
        digest=script,
        args=(
            "/bin/sh",
            f"{{chroot}}/{_SCRIPT}",
            field_set.address.spec,
            f"{{chroot}}/{tree.path}",
        ),
        immutable_input_digests={tree.path: tree.digest},
    )


def rules():
    return [*collect_rules(), *ArtifactRunFieldSet.rules()]

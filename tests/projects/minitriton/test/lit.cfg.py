# How lit finds and runs these tests. lit.site.cfg.py in the build's folder sets the paths, then loads
# this; `config` and `lit_config` are lit's.
# ruff: noqa: F821

import os
import shutil

import lit.formats
from lit.llvm import llvm_config

config.name = "minitriton"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
# Modules that several tests read.
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.minitriton_build_root, "test")

tools_dir = os.path.join(config.minitriton_build_root, "bin")
llvm_config.with_environment("PATH", [tools_dir, config.llvm_tools_dir], append_path=True)
llvm_config.use_default_substitutions()
llvm_config.add_tool_substitutions(["minitriton-opt", "minitriton-translate"], [tools_dir])
config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "Target", "Inputs")))

config.available_features.add(f"llvm-{config.llvm_version_major}")
for target in config.targets_to_build.split():
    config.available_features.add(f"{target.lower()}-registered-target")

# Not parts of LLVM's build: an environment variable names them, or they are on PATH.
for tool, variable in [("ptxas", "MINITRITON_PTXAS"), ("ld.lld", "MINITRITON_LLD")]:
    path = shutil.which(
        os.environ.get(variable) or tool, path=config.environment.get("PATH", os.defpath)
    )
    if path is not None:
        config.available_features.add(tool)
        config.substitutions.append((f"%{tool}", path))

// RUN: not minitriton-translate --mini-to-asm --mini-arch=H100 %inputs/add.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FORM
// RUN: not minitriton-translate --mini-to-asm --mini-arch=sm_12345 %inputs/add.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN
// RUN: not minitriton-translate --mini-to-object --mini-arch=sm_90 %inputs/add.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OBJECT

// FORM: error: unknown architecture 'H100': expected host, sm_<number> or gfx<number>
// UNKNOWN: error: this LLVM doesn't know the architecture sm_12345
// OBJECT: error: LLVM makes no objects for sm_90: its driver takes PTX

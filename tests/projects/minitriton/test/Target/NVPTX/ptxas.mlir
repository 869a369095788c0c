// NVIDIA's assembler takes what LLVM writes.
// REQUIRES: ptxas
// RUN: minitriton-translate --mini-to-asm --mini-arch=sm_90 %inputs/add.mlir -o %t.ptx
// RUN: %ptxas --gpu-name=sm_90 --verbose %t.ptx -o %t.cubin 2>&1 | FileCheck %s

// CHECK: Compiling entry function 'add' for 'sm_90'
// CHECK: 0 bytes spill stores, 0 bytes spill loads

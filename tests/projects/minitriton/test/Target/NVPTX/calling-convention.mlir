// Newer LLVMs say by the calling convention what is a kernel; annotations.mlir has LLVM 19's way.
// UNSUPPORTED: llvm-19
// RUN: minitriton-translate --mini-to-llvmir --mini-arch=sm_90 %inputs/add.mlir | FileCheck %s

// CHECK: define {{.*}}ptx_kernel {{.*}}@add

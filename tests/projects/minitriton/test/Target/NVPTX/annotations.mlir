// LLVM 19 says by metadata what is a kernel; calling-convention.mlir has the newer way.
// REQUIRES: llvm-19
// RUN: minitriton-translate --mini-to-llvmir --mini-arch=sm_90 %inputs/add.mlir | FileCheck %s

// CHECK: target triple = "nvptx64-nvidia-cuda"
// CHECK: define void @add(ptr addrspace(1)
// CHECK: !{ptr @add, !"kernel", i32 1}
// CHECK: !{ptr @add, !"maxntidx", i32 128}

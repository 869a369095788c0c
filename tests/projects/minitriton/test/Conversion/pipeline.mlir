// The whole way down leaves nothing of the dialects above.
// RUN: minitriton-opt %inputs/add.mlir --mini-lower="platform=cuda threads=64" \
// RUN:   | FileCheck %s --implicit-check-not="= mini." --implicit-check-not="arith." \
// RUN:       --implicit-check-not=tensor

// CHECK: module attributes {mini.threads = 64 : i32}
// CHECK: llvm.func @add
// CHECK: llvm.intr.masked.gather
// CHECK: llvm.intr.masked.scatter

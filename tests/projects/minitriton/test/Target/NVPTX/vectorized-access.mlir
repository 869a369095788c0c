// A thread should move neighbouring elements 16 bytes at a time, but gets its elements from all over
// the block (mini-distribute): each access is of one element.
// XFAIL: *
// RUN: minitriton-translate --mini-to-asm --mini-arch=sm_90 --mini-threads=64 %inputs/add.mlir \
// RUN:   | FileCheck %s

// CHECK: ld.global.v4.f32

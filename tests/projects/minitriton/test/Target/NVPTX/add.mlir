// RUN: minitriton-translate --mini-to-asm --mini-arch=sm_80 %inputs/add.mlir \
// RUN:   | FileCheck %s -DARCH=sm_80
// RUN: minitriton-translate --mini-to-asm --mini-arch=sm_90 %inputs/add.mlir \
// RUN:   | FileCheck %s -DARCH=sm_90

// Two elements a thread: 256 a program, 128 threads.
// CHECK: .target [[ARCH]]
// CHECK: .visible .entry add(
// CHECK: .maxntid 128, 1, 1
// CHECK-DAG: %ctaid.x
// CHECK-DAG: %tid.x
// CHECK-COUNT-4: ld.global.f32
// CHECK-NOT: ld.global
// CHECK: add.rn.f32
// CHECK: st.global.f32
// CHECK: add.rn.f32
// CHECK: st.global.f32
// CHECK-NOT: st.global
// CHECK: ret;

// What the HIP library loads is a shared object with a descriptor of each kernel.
// REQUIRES: ld.lld
// RUN: minitriton-translate --mini-to-object --mini-arch=gfx942 %inputs/add.mlir -o %t.o
// RUN: %ld.lld -shared %t.o -o %t.hsaco
// RUN: llvm-readelf --file-header --dyn-syms %t.hsaco | FileCheck %s

// CHECK: Type: DYN
// CHECK: Machine: EM_AMDGPU
// CHECK: Flags: {{.*}}gfx942
// CHECK-DAG: FUNC {{.*}} add{{$}}
// CHECK-DAG: OBJECT {{.*}} add.kd{{$}}

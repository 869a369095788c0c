// RUN: minitriton-translate --mini-to-asm --mini-arch=gfx90a %inputs/add.mlir \
// RUN:   | FileCheck %s -DARCH=gfx90a
// RUN: minitriton-translate --mini-to-asm --mini-arch=gfx942 %inputs/add.mlir \
// RUN:   | FileCheck %s -DARCH=gfx942

// CHECK: .amdgcn_target "amdgcn-amd-amdhsa--[[ARCH]]
// CHECK-LABEL: add:
// CHECK-COUNT-4: global_load_dword v
// CHECK-NOT: global_load
// One instruction adds both elements of a thread.
// CHECK: v_pk_add_f32
// CHECK-COUNT-2: global_store_dword v
// CHECK-NOT: global_store
// CHECK: s_endpgm
// CHECK: .amdhsa_kernel add
// CHECK: .amdhsa_kernarg_size 28
// CHECK: .max_flat_workgroup_size: 128

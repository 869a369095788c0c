// RUN: minitriton-opt %s --convert-mini-to-llvm=platform=cuda \
// RUN:   | FileCheck %s --check-prefixes=CHECK,GPU,CUDA
// RUN: minitriton-opt %s --convert-mini-to-llvm=platform=rocm \
// RUN:   | FileCheck %s --check-prefixes=CHECK,GPU,ROCM
// RUN: minitriton-opt %s --convert-mini-to-llvm=platform=cpu \
// RUN:   | FileCheck %s --check-prefixes=CHECK,CPU

module attributes {mini.threads = 64 : i32} {

// CUDA-LABEL: llvm.func @positions() attributes {nvvm.kernel, nvvm.maxntid = array<i32: 64>}
// ROCM-LABEL: llvm.func @positions() attributes {
// ROCM-SAME: rocdl.flat_work_group_size = "64,64", rocdl.kernel
// CPU-LABEL: llvm.func @positions
// CPU-SAME: (%{{.*}}: i32, %[[Y:.*]]: i32, %{{.*}}: i32, %[[THREAD:.*]]: i32) {
func.func @positions() {
  // CUDA: nvvm.read.ptx.sreg.ctaid.y : i32
  // ROCM: rocdl.workgroup.id.y : i32
  %0 = mini.program_id y : i32
  // CUDA: nvvm.read.ptx.sreg.tid.x : i32
  // ROCM: rocdl.workitem.id.x : i32
  %1 = mini.thread_id : i32
  // CPU: llvm.add %[[Y]], %[[THREAD]] : i32
  %2 = arith.addi %0, %1 : i32
  return
}

// GPU-LABEL: llvm.func @memory
// GPU-SAME: (%[[P:.*]]: !llvm.ptr<1>, %[[X:.*]]: f16)
// CPU-LABEL: llvm.func @memory
// CPU-SAME: (%[[P:.*]]: !llvm.ptr, %[[X:.*]]: f16,
func.func @memory(%pointer: !mini.ptr<f16>, %x: f16) {
  // GPU: llvm.insertelement %[[P]], %{{.*}} : !llvm.vec<2 x ptr<1>>
  // GPU: llvm.shufflevector %{{.*}}, %{{.*}} [0, 0] : !llvm.vec<2 x ptr<1>>
  // CPU: llvm.shufflevector %{{.*}}, %{{.*}} [0, 0] : !llvm.vec<2 x ptr>
  %pointers = mini.splat %pointer : tensor<2x!mini.ptr<f16>>
  // CHECK: %[[STEPS:.*]] = llvm.mlir.constant(dense<[0, 64]> : vector<2xi32>) : vector<2xi32>
  %steps = arith.constant dense<[0, 64]> : tensor<2xi32>
  // CHECK: %[[EACH:.*]] = llvm.getelementptr %{{.*}}[%[[STEPS]]]
  // CHECK-SAME: f16
  %each = mini.addptr %pointers, %steps : tensor<2x!mini.ptr<f16>>, tensor<2xi32>
  // CHECK: %[[ALL:.*]] = llvm.mlir.constant(dense<true> : vector<2xi1>)
  // CHECK: llvm.intr.masked.gather %[[EACH]], %[[ALL]] {alignment = 2 : i32}
  %value = mini.load %each : tensor<2x!mini.ptr<f16>>
  %limit = mini.splat %x : tensor<2xf16>
  // CHECK: %[[MASK:.*]] = llvm.fcmp "olt" %{{.*}}, %{{.*}} : vector<2xf16>
  %mask = arith.cmpf olt, %value, %limit : tensor<2xf16>
  // CHECK: llvm.intr.masked.gather %[[EACH]], %[[MASK]], %{{.*}} {alignment = 2 : i32}
  %other = mini.load %each, %mask, %limit : tensor<2x!mini.ptr<f16>>
  // CHECK: llvm.intr.masked.scatter %{{.*}}, %[[EACH]], %[[MASK]] {alignment = 2 : i32}
  mini.store %each, %other, %mask : tensor<2x!mini.ptr<f16>>
  return
}

// Private functions are no kernels.
// CUDA-LABEL: llvm.func @helper() attributes {sym_visibility = "private"} {
func.func private @helper() {
  return
}

}

// What is read is written again, in both of MLIR's forms.
// RUN: minitriton-opt %s | FileCheck %s
// RUN: minitriton-opt %s | minitriton-opt | FileCheck %s
// RUN: minitriton-opt %s --mlir-print-op-generic | minitriton-opt | FileCheck %s

// CHECK-LABEL: func.func @positions
func.func @positions() {
  // CHECK-NEXT: mini.program_id x : i32
  %x = mini.program_id x : i32
  // CHECK-NEXT: mini.program_id y : i32
  %y = mini.program_id y : i32
  // CHECK-NEXT: mini.program_id z : i32
  %z = mini.program_id z : i32
  // CHECK-NEXT: mini.thread_id : i32
  %thread = mini.thread_id : i32
  return
}

// CHECK-LABEL: func.func @blocks
func.func @blocks(%scalar: f16, %pointer: !mini.ptr<f16>) {
  // CHECK-NEXT: mini.range -2 to 6 : tensor<8xi32>
  %range = mini.range -2 to 6 : tensor<8xi32>
  // CHECK-NEXT: mini.splat %{{.*}} : tensor<8xf16>
  %scalars = mini.splat %scalar : tensor<8xf16>
  // CHECK-NEXT: mini.splat %{{.*}} : tensor<8x!mini.ptr<f16>>
  %pointers = mini.splat %pointer : tensor<8x!mini.ptr<f16>>
  return
}

// CHECK-LABEL: func.func @pointers
func.func @pointers(%pointer: !mini.ptr<i64>, %offset: i64) {
  // CHECK-NEXT: mini.addptr %{{.*}}, %{{.*}} : !mini.ptr<i64>, i64
  %moved = mini.addptr %pointer, %offset : !mini.ptr<i64>, i64
  %range = mini.range 0 to 8 : tensor<8xi32>
  %pointers = mini.splat %moved : tensor<8x!mini.ptr<i64>>
  // CHECK: mini.addptr %{{.*}}, %{{.*}} : tensor<8x!mini.ptr<i64>>, tensor<8xi32>
  %each = mini.addptr %pointers, %range : tensor<8x!mini.ptr<i64>>, tensor<8xi32>
  return
}

// CHECK-LABEL: func.func @memory
// CHECK-SAME: (%[[P:.*]]: !mini.ptr<f32>, %[[M:.*]]: i1, %[[O:.*]]: f32)
func.func @memory(%pointer: !mini.ptr<f32>, %bit: i1, %number: f32) {
  // CHECK-NEXT: %[[PS:.*]] = mini.splat %[[P]]
  %pointers = mini.splat %pointer : tensor<8x!mini.ptr<f32>>
  // CHECK-NEXT: %[[MS:.*]] = mini.splat %[[M]]
  %mask = mini.splat %bit : tensor<8xi1>
  // CHECK-NEXT: %[[OS:.*]] = mini.splat %[[O]]
  %other = mini.splat %number : tensor<8xf32>
  // CHECK-NEXT: %[[L:.*]] = mini.load %[[PS]] : tensor<8x!mini.ptr<f32>>
  %0 = mini.load %pointers : tensor<8x!mini.ptr<f32>>
  // CHECK-NEXT: mini.load %[[PS]], %[[MS]] : tensor<8x!mini.ptr<f32>>
  %1 = mini.load %pointers, %mask : tensor<8x!mini.ptr<f32>>
  // CHECK-NEXT: mini.load %[[PS]], %[[MS]], %[[OS]] : tensor<8x!mini.ptr<f32>>
  %2 = mini.load %pointers, %mask, %other : tensor<8x!mini.ptr<f32>>
  // CHECK-NEXT: mini.store %[[PS]], %[[L]] : tensor<8x!mini.ptr<f32>>
  mini.store %pointers, %0 : tensor<8x!mini.ptr<f32>>
  // CHECK-NEXT: mini.store %[[PS]], %[[L]], %[[MS]] : tensor<8x!mini.ptr<f32>>
  mini.store %pointers, %0, %mask : tensor<8x!mini.ptr<f32>>
  return
}

// RUN: minitriton-opt %s --mini-scalarize-uniform | FileCheck %s

// CHECK-LABEL: func.func @all_uniform
// CHECK-SAME: (%[[P:.*]]: !mini.ptr<f32>, %[[X:.*]]: i32)
func.func @all_uniform(%pointer: !mini.ptr<f32>, %x: i32) -> tensor<64x!mini.ptr<f32>> {
  // CHECK-DAG: %[[THREE:.*]] = arith.constant 3 : i32
  // CHECK-DAG: %[[OFFSET:.*]] = arith.muli %[[X]], %[[THREE]] overflow<nsw> : i32
  // CHECK-DAG: %[[MOVED:.*]] = mini.addptr %[[P]], %[[OFFSET]] : !mini.ptr<f32>, i32
  // CHECK: %[[BLOCK:.*]] = mini.splat %[[MOVED]] : tensor<64x!mini.ptr<f32>>
  // CHECK-NEXT: return %[[BLOCK]]
  %three = arith.constant dense<3> : tensor<64xi32>
  %xs = mini.splat %x : tensor<64xi32>
  %offsets = arith.muli %xs, %three overflow<nsw> : tensor<64xi32>
  %pointers = mini.splat %pointer : tensor<64x!mini.ptr<f32>>
  %moved = mini.addptr %pointers, %offsets : tensor<64x!mini.ptr<f32>>, tensor<64xi32>
  return %moved : tensor<64x!mini.ptr<f32>>
}

// CHECK-LABEL: func.func @one_differs
func.func @one_differs(%x: i32) -> tensor<64xi32> {
  // CHECK: arith.addi %{{.*}}, %{{.*}} : tensor<64xi32>
  %range = mini.range 0 to 64 : tensor<64xi32>
  %xs = mini.splat %x : tensor<64xi32>
  %0 = arith.addi %xs, %range : tensor<64xi32>
  return %0 : tensor<64xi32>
}

// A scalar among the operands is the same for all elements as well.
// CHECK-LABEL: func.func @scalar_condition
func.func @scalar_condition(%condition: i1, %x: f32, %y: f32) -> tensor<64xf32> {
  // CHECK-NEXT: %[[S:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
  // CHECK-NEXT: mini.splat %[[S]]
  %xs = mini.splat %x : tensor<64xf32>
  %ys = mini.splat %y : tensor<64xf32>
  %0 = arith.select %condition, %xs, %ys : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// Memory may change between two loads: they aren't arithmetic.
// CHECK-LABEL: func.func @memory
func.func @memory(%pointer: !mini.ptr<f32>) {
  // CHECK: mini.load %{{.*}} : tensor<64x!mini.ptr<f32>>
  %pointers = mini.splat %pointer : tensor<64x!mini.ptr<f32>>
  %0 = mini.load %pointers : tensor<64x!mini.ptr<f32>>
  // CHECK: mini.store
  mini.store %pointers, %0 : tensor<64x!mini.ptr<f32>>
  return
}

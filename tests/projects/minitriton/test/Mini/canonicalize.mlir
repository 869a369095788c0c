// RUN: minitriton-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @splat_of_a_constant
func.func @splat_of_a_constant() -> tensor<4xi32> {
  %seven = arith.constant 7 : i32
  // CHECK-NEXT: %[[C:.*]] = arith.constant dense<7> : tensor<4xi32>
  %0 = mini.splat %seven : tensor<4xi32>
  // CHECK-NEXT: return %[[C]]
  return %0 : tensor<4xi32>
}

// CHECK-LABEL: func.func @moved_by_nothing
// CHECK-SAME: (%[[P:.*]]: tensor<4x!mini.ptr<f32>>)
func.func @moved_by_nothing(%pointers: tensor<4x!mini.ptr<f32>>) -> tensor<4x!mini.ptr<f32>> {
  %zero = arith.constant dense<0> : tensor<4xi64>
  %0 = mini.addptr %pointers, %zero : tensor<4x!mini.ptr<f32>>, tensor<4xi64>
  // CHECK-NEXT: return %[[P]]
  return %0 : tensor<4x!mini.ptr<f32>>
}

// CHECK-LABEL: func.func @masks_that_let_all_through
func.func @masks_that_let_all_through(%pointers: tensor<4x!mini.ptr<f32>>, %other: tensor<4xf32>) {
  %mask = arith.constant dense<true> : tensor<4xi1>
  // CHECK-NEXT: %[[L:.*]] = mini.load %{{[^,]*}} :
  %0 = mini.load %pointers, %mask, %other : tensor<4x!mini.ptr<f32>>
  // CHECK-NEXT: mini.store %{{.*}}, %[[L]] :
  mini.store %pointers, %0, %mask : tensor<4x!mini.ptr<f32>>
  return
}

// CHECK-LABEL: func.func @masks_that_let_none_through
// CHECK-SAME: %[[OTHER:[^:]*]]: tensor<4xf32>
func.func @masks_that_let_none_through(%pointers: tensor<4x!mini.ptr<f32>>,
                                       %other: tensor<4xf32>) -> tensor<4xf32> {
  %mask = arith.constant dense<false> : tensor<4xi1>
  %0 = mini.load %pointers, %mask, %other : tensor<4x!mini.ptr<f32>>
  // CHECK-NOT: mini.store
  mini.store %pointers, %0, %mask : tensor<4x!mini.ptr<f32>>
  // CHECK: return %{{.*}} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// What isn't loaded for anyone may go.
// CHECK-LABEL: func.func @unused_positions
func.func @unused_positions() {
  // CHECK-NEXT: return
  %0 = mini.program_id x : i32
  %1 = mini.thread_id : i32
  %2 = mini.range 0 to 4 : tensor<4xi32>
  return
}

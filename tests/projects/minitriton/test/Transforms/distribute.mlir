// RUN: minitriton-opt %s --mini-distribute=threads=32 | FileCheck %s --check-prefixes=CHECK,SHARED
// RUN: minitriton-opt %s --mini-distribute=threads=128 | FileCheck %s --check-prefixes=CHECK,SINGLE

// SHARED: module attributes {mini.threads = 32 : i32}
// SINGLE: module attributes {mini.threads = 128 : i32}

// CHECK-LABEL: func.func @fill
func.func @fill(%pointer: !mini.ptr<i32>) {
  // Thread t has the elements t, t + 32, t + 64, t + 96.
  // SHARED: %[[T:.*]] = mini.thread_id : i32
  // SHARED: %[[TS:.*]] = mini.splat %[[T]] : tensor<4xi32>
  // SHARED: %[[STEPS:.*]] = arith.constant dense<[5, 37, 69, 101]> : tensor<4xi32>
  // SHARED: %[[RANGE:.*]] = arith.addi %[[TS]], %[[STEPS]] : tensor<4xi32>
  // SINGLE: arith.constant dense<5> : tensor<1xi32>
  %range = mini.range 5 to 133 : tensor<128xi32>
  // SHARED: %[[TEN:.*]] = arith.constant dense<10> : tensor<4xi32>
  %ten = arith.constant dense<10> : tensor<128xi32>
  // SHARED: %[[VALUES:.*]] = arith.muli %[[RANGE]], %[[TEN]] : tensor<4xi32>
  // SINGLE: arith.muli %{{.*}}, %{{.*}} : tensor<1xi32>
  %values = arith.muli %range, %ten : tensor<128xi32>
  // SHARED: %[[PS:.*]] = mini.splat %{{.*}} : tensor<4x!mini.ptr<i32>>
  %pointers = mini.splat %pointer : tensor<128x!mini.ptr<i32>>
  // SHARED: mini.addptr %[[PS]], %[[RANGE]]
  %each = mini.addptr %pointers, %range : tensor<128x!mini.ptr<i32>>, tensor<128xi32>
  // SHARED: mini.store %{{.*}}, %[[VALUES]] : tensor<4x!mini.ptr<i32>>
  mini.store %each, %values : tensor<128x!mini.ptr<i32>>
  return
}

// CHECK-LABEL: func.func @negative_start
func.func @negative_start() {
  // SHARED: arith.constant dense<[-64, -32, 0, 32]> : tensor<4xi32>
  %0 = mini.range -64 to 64 : tensor<128xi32>
  return
}

// Blocks of one kernel may differ in length.
// CHECK-LABEL: func.func @two_lengths
func.func @two_lengths() {
  // SHARED: arith.constant dense<[0, 32, 64, 96, 128, 160, 192, 224]> : tensor<8xi32>
  // SINGLE: arith.constant dense<[0, 128]> : tensor<2xi32>
  %0 = mini.range 0 to 256 : tensor<256xi32>
  // SHARED: arith.constant dense<[0, 32, 64, 96]> : tensor<4xi32>
  // SINGLE: arith.constant dense<0> : tensor<1xi32>
  %1 = mini.range 0 to 128 : tensor<128xi32>
  return
}

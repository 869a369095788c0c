// RUN: minitriton-opt %s --split-input-file --verify-diagnostics

func.func @empty_range() {
  // expected-error @below {{counts from 4 to 4: there is nothing between them}}
  %0 = mini.range 4 to 4 : tensor<1xi32>
  return
}

// -----

func.func @range_of_another_length() {
  // expected-error @below {{has 8 elements, but its type is 'tensor<4xi32>'}}
  %0 = mini.range 0 to 8 : tensor<4xi32>
  return
}

// -----

func.func @matrix(%x: f32) {
  // expected-error @below {{must be block of}}
  %0 = mini.splat %x : tensor<4x4xf32>
  return
}

// -----

// expected-error @below {{expected a pointer to a float or an i8, i16, i32 or i64, got 'i1'}}
func.func @pointer_to_bits(%x: !mini.ptr<i1>) {
  return
}

// -----

func.func @one_offset_for_many(%pointers: tensor<4x!mini.ptr<f32>>, %offset: i32) {
  // expected-error @below {{needs one offset for each pointer, got 'i32'}}
  %0 = mini.addptr %pointers, %offset : tensor<4x!mini.ptr<f32>>, i32
  return
}

// -----

func.func @other_without_a_mask(%pointers: tensor<4x!mini.ptr<f32>>, %other: tensor<4xf32>) {
  // expected-error @below {{has a value for masked elements, but no mask}}
  %0 = "mini.load"(%pointers, %other) <{operandSegmentSizes = array<i32: 1, 0, 1>}>
      : (tensor<4x!mini.ptr<f32>>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @mask_of_another_length(%pointers: tensor<4x!mini.ptr<f32>>, %mask: tensor<8xi1>) {
  // expected-error @below {{the mask has the pointers' shape}}
  %0 = "mini.load"(%pointers, %mask) <{operandSegmentSizes = array<i32: 1, 1, 0>}>
      : (tensor<4x!mini.ptr<f32>>, tensor<8xi1>) -> tensor<4xf32>
  return
}

// -----

func.func @value_of_another_type(%pointers: tensor<4x!mini.ptr<f32>>, %value: tensor<4xi32>) {
  // expected-error @below {{the value holds what the pointers point to}}
  "mini.store"(%pointers, %value) : (tensor<4x!mini.ptr<f32>>, tensor<4xi32>) -> ()
  return
}

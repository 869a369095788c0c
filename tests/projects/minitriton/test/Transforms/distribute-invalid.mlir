// RUN: minitriton-opt %s --split-input-file --verify-diagnostics --mini-distribute=threads=32

func.func @unequal_shares() {
  // expected-error @below {{has a block that 32 threads can't share equally: 'tensor<40xi32>'}}
  %0 = mini.range 0 to 40 : tensor<40xi32>
  return
}

// -----

func.func @elements_differ() {
  // expected-error @below {{can't be distributed: its elements differ}}
  %0 = arith.constant dense<"0x000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"> : tensor<32xi8>
  return
}

// -----

// expected-error @below {{takes a 'tensor<32xf32>': kernels take scalars and pointers}}
func.func @takes_a_block(%block: tensor<32xf32>) {
  return
}

// -----

// expected-error @below {{is distributed already}}
module attributes {mini.threads = 32 : i32} {
}

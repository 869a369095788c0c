// RUN: minitriton-opt %s --split-input-file --verify-diagnostics --convert-mini-to-llvm

// expected-error @below {{isn't distributed: run mini-distribute first}}
module {
}

// -----

module attributes {mini.threads = 32 : i32} {
  // expected-error @below {{returns a value: a kernel has nobody to return it to}}
  func.func @returns(%x: i32) -> i32 {
    return %x : i32
  }
}

// -----

module attributes {mini.threads = 32 : i32} {
  // expected-error @below {{has no body: a kernel can't call others}}
  func.func private @elsewhere()
}

// RUN: minitriton-translate --mini-to-metadata --mini-arch=gfx942 --mini-threads=64 \
// RUN:   %inputs/add.mlir | FileCheck %s

// CHECK:      "name": "add",
// CHECK-NEXT: "arch": "gfx942",
// CHECK-NEXT: "threads": 64,
// CHECK-NEXT: "arguments": [
// CHECK-NEXT:   "*f32",
// CHECK-NEXT:   "*f32",
// CHECK-NEXT:   "*f32",
// CHECK-NEXT:   "i32"
// CHECK-NEXT: ]

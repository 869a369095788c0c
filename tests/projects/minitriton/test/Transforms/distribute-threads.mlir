// RUN: not minitriton-opt %s --mini-distribute=threads=0 2>&1 | FileCheck %s
// CHECK: error: threads must be positive, got 0
module {
}

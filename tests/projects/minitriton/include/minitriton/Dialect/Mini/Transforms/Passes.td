#ifndef MINITRITON_MINI_TRANSFORMS_PASSES_TD
#define MINITRITON_MINI_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def MiniScalarizeUniform : Pass<"mini-scalarize-uniform"> {
  let summary = "Compute once what is the same for all elements of a block";
  let description = [{
    An element-wise operation whose operands are all splats becomes a scalar
    operation and a splat of its result. The address of a program's block, say,
    is then computed once and not once an element.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def MiniDistribute : Pass<"mini-distribute", "::mlir::ModuleOp"> {
  let summary = "Share each block out among the threads of a program";
  let description = [{
    Of a block of N elements each of T threads gets N / T: thread t those
    numbered t, t + T, t + 2T and so on, so that neighbouring threads touch
    neighbouring memory. A tensor of N elements becomes one of N / T, and
    `mini.range` counts from `mini.thread_id`.

    Every block's length must be a multiple of T.
  }];
  let options = [
    Option<"threads", "threads", "int32_t", "128", "Threads of one program">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // MINITRITON_MINI_TRANSFORMS_PASSES_TD

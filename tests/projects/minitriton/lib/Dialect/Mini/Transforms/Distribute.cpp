//===- Distribute.cpp - Share blocks out among threads --------------------===//

#include "minitriton/Dialect/Mini/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace mlir::mini {
#define GEN_PASS_DEF_MINIDISTRIBUTE
#include "minitriton/Dialect/Mini/Transforms/Passes.h.inc"
} // namespace mlir::mini

using namespace mlir;
using namespace mlir::mini;

namespace {

/// What one of `threads` threads holds of `block`; null if they can't have
/// equally much.
RankedTensorType getShare(RankedTensorType block, int64_t threads) {
  if (block.getRank() != 1 || block.getDimSize(0) % threads != 0)
    return {};
  return RankedTensorType::get({block.getDimSize(0) / threads},
                               block.getElementType());
}

/// start + thread + {0, T, 2T, ...}
void distributeRange(RangeOp range, RankedTensorType share, int64_t threads) {
  OpBuilder builder(range);
  Location loc = range.getLoc();
  SmallVector<int32_t> steps;
  for (int64_t i = 0; i < share.getDimSize(0); ++i)
    steps.push_back(static_cast<int32_t>(range.getStart() + i * threads));
  Value thread = builder.create<ThreadIdOp>(loc, builder.getI32Type());
  Value first = builder.create<SplatOp>(loc, share, thread);
  Value offsets = builder.create<arith::ConstantOp>(
      loc, DenseElementsAttr::get(share, ArrayRef(steps)));
  Value sum = builder.create<arith::AddIOp>(loc, first, offsets);
  range.getResult().replaceAllUsesWith(sum);
  range.erase();
}

LogicalResult distributeConstant(arith::ConstantOp constant,
                                 RankedTensorType share) {
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  // Which of the elements a thread holds is known only when it runs.
  if (!elements || !elements.isSplat())
    return constant.emitOpError("can't be distributed: its elements differ");
  constant.setValueAttr(elements.resizeSplat(share));
  constant.getResult().setType(share);
  return success();
}

struct Distribute : mini::impl::MiniDistributeBase<Distribute> {
  using MiniDistributeBase::MiniDistributeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (threads <= 0) {
      module.emitError("threads must be positive, got ") << threads.getValue();
      return signalPassFailure();
    }
    if (module->hasAttr(MiniDialect::getThreadsAttrName())) {
      module.emitError("is distributed already");
      return signalPassFailure();
    }
    for (auto kernel : module.getOps<func::FuncOp>())
      if (failed(distributeKernel(kernel)))
        return signalPassFailure();
    Builder builder(module);
    module->setAttr(MiniDialect::getThreadsAttrName(),
                    builder.getI32IntegerAttr(threads));
  }

private:
  LogicalResult distributeKernel(func::FuncOp kernel) {
    for (Type argument : kernel.getArgumentTypes())
      if (isa<ShapedType>(argument))
        return kernel.emitOpError("takes a ")
               << argument << ": kernels take scalars and pointers";
    // Collected first: distributing an operation adds others, which are
    // distributed already.
    SmallVector<Operation *> operations;
    kernel.walk([&](Operation *op) { operations.push_back(op); });
    for (Operation *op : operations)
      if (failed(distributeResults(op)))
        return failure();
    return success();
  }

  LogicalResult distributeResults(Operation *op) {
    for (Value result : op->getResults()) {
      auto block = dyn_cast<RankedTensorType>(result.getType());
      if (!block)
        continue;
      RankedTensorType share = getShare(block, threads);
      if (!share)
        return op->emitOpError("has a block that ")
               << threads.getValue()
               << " threads can't share equally: " << block;
      if (auto range = dyn_cast<RangeOp>(op)) {
        distributeRange(range, share, threads);
        return success();
      }
      if (auto constant = dyn_cast<arith::ConstantOp>(op))
        return distributeConstant(constant, share);
      result.setType(share);
    }
    return success();
  }
};

} // namespace

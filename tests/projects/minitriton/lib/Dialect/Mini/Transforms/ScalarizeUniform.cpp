//===- ScalarizeUniform.cpp - Compute uniform values once -----------------===//

#include "minitriton/Dialect/Mini/Transforms/Passes.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::mini {
#define GEN_PASS_DEF_MINISCALARIZEUNIFORM
#include "minitriton/Dialect/Mini/Transforms/Passes.h.inc"
} // namespace mlir::mini

using namespace mlir;
using namespace mlir::mini;

namespace {

/// The scalar that all elements of `value` are, a constant one as an attribute.
/// Null where elements may differ.
OpFoldResult getUniformScalar(Value value) {
  if (!isa<ShapedType>(value.getType()))
    return value;
  if (auto splat = value.getDefiningOp<SplatOp>())
    return splat.getScalar();
  DenseElementsAttr elements;
  if (matchPattern(value, m_Constant(&elements)) && elements.isSplat())
    return elements.getSplatValue<Attribute>();
  return {};
}

struct ScalarizeElementwise : RewritePattern {
  explicit ScalarizeElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!op->hasTrait<OpTrait::Elementwise>() || !isPure(op) ||
        op->getNumResults() != 1 || op->getNumOperands() == 0)
      return failure();
    auto block = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!block)
      return failure();
    SmallVector<OpFoldResult> scalars;
    for (Value operand : op->getOperands()) {
      scalars.push_back(getUniformScalar(operand));
      if (scalars.back().isNull())
        return failure();
    }

    SmallVector<Value> operands;
    for (OpFoldResult scalar : scalars) {
      auto constant = dyn_cast<Attribute>(scalar);
      operands.push_back(constant ? rewriter.create<arith::ConstantOp>(
                                        op->getLoc(), cast<TypedAttr>(constant))
                                  : cast<Value>(scalar));
    }
    OperationState state(op->getLoc(), op->getName(), operands,
                         block.getElementType(), op->getAttrs());
    Operation *scalar = rewriter.create(state);
    rewriter.replaceOpWithNewOp<SplatOp>(op, block, scalar->getResult(0));
    return success();
  }
};

struct ScalarizeUniform
    : mini::impl::MiniScalarizeUniformBase<ScalarizeUniform> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ScalarizeElementwise>(&getContext());
    if (failed(
            applyPatternsAndFoldGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

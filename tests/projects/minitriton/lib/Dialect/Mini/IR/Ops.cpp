//===- Ops.cpp - Verifiers and folders of the mini dialect ----------------===//

#include "minitriton/Dialect/Mini/IR/Dialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::mini;

Type mini::getPointedToType(Type pointers) {
  auto block = cast<RankedTensorType>(pointers);
  return block.clone(cast<PtrType>(block.getElementType()).getPointee());
}

Type mini::getMaskType(Type block) {
  return cast<RankedTensorType>(block).clone(
      IntegerType::get(block.getContext(), 1));
}

#define GET_OP_CLASSES
#include "minitriton/Dialect/Mini/IR/Ops.cpp.inc"

namespace {

enum class MaskKind { AllTrue, AllFalse, Unknown };

/// What is known of a mask at compile time. No mask at all lets all through.
MaskKind classifyMask(Value mask) {
  DenseElementsAttr elements;
  if (!mask)
    return MaskKind::AllTrue;
  if (!matchPattern(mask, m_Constant(&elements)) || !elements.isSplat())
    return MaskKind::Unknown;
  return elements.getSplatValue<bool>() ? MaskKind::AllTrue
                                        : MaskKind::AllFalse;
}

} // namespace

LogicalResult RangeOp::verify() {
  // The attributes are signed, their accessors not. As 64-bit numbers: the
  // difference of two i32 needn't be one.
  int64_t start = static_cast<int32_t>(getStart());
  int64_t end = static_cast<int32_t>(getEnd());
  int64_t length = end - start;
  if (length <= 0)
    return emitOpError("counts from ")
           << start << " to " << end << ": there is nothing between them";
  if (length != getType().getNumElements())
    return emitOpError("has ")
           << length << " elements, but its type is " << getType();
  return success();
}

OpFoldResult SplatOp::fold(FoldAdaptor adaptor) {
  // Pointers have no attribute that a constant could be made of.
  if (isa_and_present<IntegerAttr, FloatAttr>(adaptor.getScalar()))
    return DenseElementsAttr::get(getType(), adaptor.getScalar());
  return {};
}

LogicalResult AddPtrOp::verify() {
  auto pointers = dyn_cast<RankedTensorType>(getPtr().getType());
  auto offsets = dyn_cast<RankedTensorType>(getOffset().getType());
  bool sameShape = pointers && offsets
                       ? pointers.getShape() == offsets.getShape()
                       : !pointers && !offsets;
  if (!sameShape)
    return emitOpError("needs one offset for each pointer, got ")
           << getOffset().getType() << " for " << getPtr().getType();
  return success();
}

OpFoldResult AddPtrOp::fold(FoldAdaptor) {
  if (matchPattern(getOffset(), m_Zero()))
    return getPtr();
  return {};
}

LogicalResult LoadOp::verify() {
  if (getOther() && !getMask())
    return emitOpError("has a value for masked elements, but no mask");
  return success();
}

LogicalResult LoadOp::canonicalize(LoadOp op, PatternRewriter &rewriter) {
  if (!op.getMask())
    return failure();
  switch (classifyMask(op.getMask())) {
  case MaskKind::AllTrue:
    rewriter.replaceOpWithNewOp<LoadOp>(op, op.getType(), op.getPtr(),
                                        /*mask=*/Value(), /*other=*/Value());
    return success();
  case MaskKind::AllFalse:
    // Without `other` the result may be anything; there is no constant that
    // says so, and nobody writes this.
    if (!op.getOther())
      return failure();
    rewriter.replaceOp(op, op.getOther());
    return success();
  case MaskKind::Unknown:
    return failure();
  }
  llvm_unreachable("all kinds of masks are handled");
}

LogicalResult StoreOp::canonicalize(StoreOp op, PatternRewriter &rewriter) {
  if (!op.getMask())
    return failure();
  switch (classifyMask(op.getMask())) {
  case MaskKind::AllTrue:
    rewriter.replaceOpWithNewOp<StoreOp>(op, op.getPtr(), op.getValue(),
                                         /*mask=*/Value());
    return success();
  case MaskKind::AllFalse:
    rewriter.eraseOp(op);
    return success();
  case MaskKind::Unknown:
    return failure();
  }
  llvm_unreachable("all kinds of masks are handled");
}

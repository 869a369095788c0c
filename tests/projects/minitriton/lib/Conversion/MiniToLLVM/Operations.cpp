//===- Operations.cpp - Each operation in LLVM's dialect ------------------===//

#include "Steps.h"

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::mini;

namespace {

/// A position that the hardware knows. `X`, `Y` and `Z` are its operations.
template <typename X, typename Y, typename Z>
Value createPosition(OpBuilder &builder, Location loc, Axis axis) {
  Type i32 = builder.getI32Type();
  switch (axis) {
  case Axis::X:
    return builder.create<X>(loc, i32);
  case Axis::Y:
    return builder.create<Y>(loc, i32);
  case Axis::Z:
    return builder.create<Z>(loc, i32);
  }
  llvm_unreachable("a grid has three dimensions");
}

struct ProgramIdLowering : ConvertOpToLLVMPattern<ProgramIdOp> {
  ProgramIdLowering(const MiniTypeConverter &converter, Platform platform)
      : ConvertOpToLLVMPattern(converter), platform(platform) {}

  LogicalResult
  matchAndRewrite(ProgramIdOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    switch (platform) {
    case Platform::CPU:
      return failure(); // an argument by now
    case Platform::CUDA:
      rewriter.replaceOp(
          op,
          createPosition<NVVM::BlockIdXOp, NVVM::BlockIdYOp, NVVM::BlockIdZOp>(
              rewriter, op.getLoc(), op.getAxis()));
      return success();
    case Platform::ROCm:
      rewriter.replaceOp(
          op, createPosition<ROCDL::BlockIdXOp, ROCDL::BlockIdYOp,
                             ROCDL::BlockIdZOp>(rewriter, op.getLoc(),
                                                op.getAxis()));
      return success();
    }
    llvm_unreachable("all platforms are handled");
  }

private:
  Platform platform;
};

struct ThreadIdLowering : ConvertOpToLLVMPattern<ThreadIdOp> {
  ThreadIdLowering(const MiniTypeConverter &converter, Platform platform)
      : ConvertOpToLLVMPattern(converter), platform(platform) {}

  LogicalResult
  matchAndRewrite(ThreadIdOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    switch (platform) {
    case Platform::CPU:
      return failure(); // an argument by now
    case Platform::CUDA:
      rewriter.replaceOpWithNewOp<NVVM::ThreadIdXOp>(op, op.getType());
      return success();
    case Platform::ROCm:
      rewriter.replaceOpWithNewOp<ROCDL::ThreadIdXOp>(op, op.getType());
      return success();
    }
    llvm_unreachable("all platforms are handled");
  }

private:
  Platform platform;
};

/// arith's own lowering would leave the value a tensor.
struct ConstantBlockLowering : ConvertOpToLLVMPattern<arith::ConstantOp> {
  explicit ConstantBlockLowering(const MiniTypeConverter &converter)
      : ConvertOpToLLVMPattern(converter, /*benefit=*/2) {}

  LogicalResult
  matchAndRewrite(arith::ConstantOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!elements)
      return failure();
    auto vector = dyn_cast_if_present<VectorType>(
        typeConverter->convertType(op.getType()));
    if (!vector)
      return failure();
    rewriter.replaceOpWithNewOp<LLVM::ConstantOp>(op, vector,
                                                  elements.reshape(vector));
    return success();
  }
};

struct SplatLowering : ConvertOpToLLVMPattern<SplatOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(SplatOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Type vector = typeConverter->convertType(op.getType());
    if (!vector)
      return failure();
    Value undefined = rewriter.create<LLVM::UndefOp>(loc, vector);
    Value zero = rewriter.create<LLVM::ConstantOp>(
        loc, rewriter.getI32Type(), rewriter.getI32IntegerAttr(0));
    Value first = rewriter.create<LLVM::InsertElementOp>(
        loc, vector, undefined, adaptor.getScalar(), zero);
    SmallVector<int32_t> allFromFirst(op.getType().getNumElements(), 0);
    rewriter.replaceOpWithNewOp<LLVM::ShuffleVectorOp>(op, first, undefined,
                                                       allFromFirst);
    return success();
  }
};

struct AddPtrLowering : ConvertOpToLLVMPattern<AddPtrOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(AddPtrOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto pointer = cast<PtrType>(getElementTypeOrSelf(op.getType()));
    Type element = typeConverter->convertType(pointer.getPointee());
    Type result = typeConverter->convertType(op.getType());
    if (!element || !result)
      return failure();
    rewriter.replaceOpWithNewOp<LLVM::GEPOp>(
        op, result, element, adaptor.getPtr(), adaptor.getOffset());
    return success();
  }
};

/// `mask`, or one that lets all elements of `block` through.
Value getOrCreateMask(Value mask, RankedTensorType block, Location loc,
                      OpBuilder &builder) {
  if (mask)
    return mask;
  auto type = VectorType::get(block.getShape(), builder.getI1Type());
  return builder.create<LLVM::ConstantOp>(loc, type,
                                          DenseElementsAttr::get(type, true));
}

/// Elements lie at multiples of their size.
IntegerAttr getAlignment(RankedTensorType block, Builder &builder) {
  return builder.getI32IntegerAttr(block.getElementTypeBitWidth() / 8);
}

struct LoadLowering : ConvertOpToLLVMPattern<LoadOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(LoadOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto block = cast<RankedTensorType>(op.getType());
    Value mask =
        getOrCreateMask(adaptor.getMask(), block, op.getLoc(), rewriter);
    SmallVector<Value, 1> other;
    if (adaptor.getOther())
      other.push_back(adaptor.getOther());
    rewriter.replaceOpWithNewOp<LLVM::masked_gather>(
        op, typeConverter->convertType(block), adaptor.getPtr(), mask, other,
        getAlignment(block, rewriter));
    return success();
  }
};

struct StoreLowering : ConvertOpToLLVMPattern<StoreOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(StoreOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto block = cast<RankedTensorType>(op.getValue().getType());
    Value mask =
        getOrCreateMask(adaptor.getMask(), block, op.getLoc(), rewriter);
    rewriter.replaceOpWithNewOp<LLVM::masked_scatter>(
        op, adaptor.getValue(), adaptor.getPtr(), mask,
        getAlignment(block, rewriter));
    return success();
  }
};

} // namespace

void mini::populateMiniToLLVMPatterns(const MiniTypeConverter &converter,
                                      Platform platform,
                                      RewritePatternSet &patterns) {
  patterns.add<ProgramIdLowering, ThreadIdLowering>(converter, platform);
  patterns.add<AddPtrLowering, ConstantBlockLowering, LoadLowering,
               SplatLowering, StoreLowering>(converter);
}

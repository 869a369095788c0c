//===- FoldTest.cpp - Operations that fold away ---------------------------===//

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::mini;

namespace {

class FoldTest : public ::testing::Test {
protected:
  FoldTest() : builder(&context), loc(builder.getUnknownLoc()) {
    context.loadDialect<MiniDialect, arith::ArithDialect>();
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
  }

  /// What `op` folds to: a value or an attribute, null if it doesn't.
  OpFoldResult fold(Operation *op) {
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands()) {
      Attribute constant;
      if (auto definition = operand.getDefiningOp<arith::ConstantOp>())
        constant = definition.getValue();
      operands.push_back(constant);
    }
    SmallVector<OpFoldResult> results;
    if (failed(op->fold(operands, results)) || results.empty())
      return {};
    return results.front();
  }

  Value constant(int32_t value) {
    return builder.create<arith::ConstantOp>(loc,
                                             builder.getI32IntegerAttr(value));
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OpBuilder builder;
  Location loc;
  OwningOpRef<ModuleOp> module;
};

TEST_F(FoldTest, SplatOfAConstantIsOne) {
  auto block = RankedTensorType::get({8}, builder.getI32Type());
  auto splat = builder.create<SplatOp>(loc, block, constant(7));
  EXPECT_EQ(dyn_cast_if_present<Attribute>(fold(splat)),
            DenseElementsAttr::get(block, 7));
}

TEST_F(FoldTest, SplatOfAnUnknownValueStays) {
  auto block = RankedTensorType::get({8}, builder.getI32Type());
  Value thread = builder.create<ThreadIdOp>(loc, builder.getI32Type());
  EXPECT_TRUE(fold(builder.create<SplatOp>(loc, block, thread)).isNull());
}

TEST_F(FoldTest, PointersMovedByNothingStayWhereTheyAre) {
  // Anything that has a pointer as its result will do.
  Value pointer =
      builder
          .create<UnrealizedConversionCastOp>(
              loc, PtrType::get(builder.getF32Type()), ValueRange(constant(0)))
          .getResult(0);
  auto byNothing =
      builder.create<AddPtrOp>(loc, pointer.getType(), pointer, constant(0));
  auto byOne =
      builder.create<AddPtrOp>(loc, pointer.getType(), pointer, constant(1));
  EXPECT_EQ(dyn_cast_if_present<Value>(fold(byNothing)), pointer);
  EXPECT_TRUE(fold(byOne).isNull());
}

} // namespace

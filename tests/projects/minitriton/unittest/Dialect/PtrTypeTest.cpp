//===- PtrTypeTest.cpp - Pointers and what they may point to --------------===//

#include "minitriton/Dialect/Mini/IR/Dialect.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::mini;

namespace {

class PtrTypeTest : public ::testing::Test {
protected:
  PtrTypeTest() : builder(&context) { context.loadDialect<MiniDialect>(); }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  Builder builder;
};

TEST_F(PtrTypeTest, ReadsAsItIsWritten) {
  Type type = PtrType::get(builder.getBF16Type());
  EXPECT_EQ(parseType("!mini.ptr<bf16>", &context), type);
}

TEST_F(PtrTypeTest, PointsToNumbersThatMemoryCanHold) {
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
  for (const char *pointee : {"f16", "f32", "f64", "i8", "i16", "i32", "i64"})
    EXPECT_TRUE(parseType("!mini.ptr<" + std::string(pointee) + ">", &context))
        << pointee;
  for (const char *pointee : {"i1", "i7", "index", "tensor<4xf32>"})
    EXPECT_FALSE(parseType("!mini.ptr<" + std::string(pointee) + ">", &context))
        << pointee;
}

TEST_F(PtrTypeTest, BlocksOfPointersPointToBlocks) {
  auto pointers =
      RankedTensorType::get({8}, PtrType::get(builder.getF32Type()));
  EXPECT_EQ(getPointedToType(pointers),
            RankedTensorType::get({8}, builder.getF32Type()));
  EXPECT_EQ(getMaskType(pointers),
            RankedTensorType::get({8}, builder.getI1Type()));
}

} // namespace

#ifndef MINITRITON_MINI_TYPES_TD
#define MINITRITON_MINI_TYPES_TD

include "minitriton/Dialect/Mini/IR/MiniDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/EnumAttr.td"

def Mini_Ptr : TypeDef<Mini_Dialect, "Ptr"> {
  let mnemonic = "ptr";
  let summary = "pointer into a device's memory";
  let parameters = (ins "::mlir::Type":$pointee);
  let assemblyFormat = "`<` $pointee `>`";
  let genVerifyDecl = 1;
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$pointee), [{
      return $_get(pointee.getContext(), pointee);
    }]>
  ];
}

// What memory holds. Booleans have no agreed size there.
def Mini_Element : AnyTypeOf<[AnyFloat, I8, I16, I32, I64]>;

// A block: one-dimensional, its length known.
class Mini_BlockOf<list<Type> elements>
    : RankedTensorOf<elements, [HasAnyRankOfPred<[1]>, HasStaticShapePred], "block">;
def Mini_PtrBlock : Mini_BlockOf<[Mini_Ptr]>;
def Mini_MaskBlock : Mini_BlockOf<[I1]>;
def Mini_ElementBlock : Mini_BlockOf<[Mini_Element]>;

def Mini_Scalar : AnyTypeOf<[Mini_Ptr, Mini_Element, I1]>;
def Mini_Block : Mini_BlockOf<[Mini_Scalar]>;
def Mini_PtrLike : AnyTypeOf<[Mini_Ptr, Mini_PtrBlock]>;
def Mini_OffsetLike : AnyTypeOf<[I32, I64, Mini_BlockOf<[I32, I64]>]>;

def Mini_Axis : I32EnumAttr<"Axis", "a dimension of the grid of programs", [
  I32EnumAttrCase<"X", 0, "x">,
  I32EnumAttrCase<"Y", 1, "y">,
  I32EnumAttrCase<"Z", 2, "z">,
]> {
  let cppNamespace = "::mlir::mini";
}

#endif // MINITRITON_MINI_TYPES_TD

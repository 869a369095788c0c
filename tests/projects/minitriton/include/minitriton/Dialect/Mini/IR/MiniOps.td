#ifndef MINITRITON_MINI_OPS_TD
#define MINITRITON_MINI_OPS_TD

include "minitriton/Dialect/Mini/IR/MiniTypes.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Mini_Op<string mnemonic, list<Trait> traits = []>
    : Op<Mini_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Where a program and a thread stand
//===----------------------------------------------------------------------===//

def Mini_ProgramIdOp : Mini_Op<"program_id", [Pure]> {
  let summary = "this program's position in the grid";
  let arguments = (ins Mini_Axis:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}

def Mini_ThreadIdOp : Mini_Op<"thread_id", [Pure]> {
  let summary = "this thread's number in its program";
  let description = "Only distributed modules have threads.";
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

def Mini_RangeOp : Mini_Op<"range", [Pure]> {
  let summary = "the integers from start up to, not including, end";
  let arguments = (ins I32Attr:$start, I32Attr:$end);
  let results = (outs Mini_BlockOf<[I32]>:$result);
  let assemblyFormat = "$start `to` $end attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Mini_SplatOp : Mini_Op<"splat", [Pure,
    TypesMatchWith<"the block holds the scalar's type", "result", "scalar",
                   "::mlir::getElementTypeOrSelf($_self)">]> {
  let summary = "a block of one and the same scalar";
  let arguments = (ins Mini_Scalar:$scalar);
  let results = (outs Mini_Block:$result);
  let assemblyFormat = "$scalar attr-dict `:` type($result)";
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Mini_AddPtrOp : Mini_Op<"addptr", [Pure, Elementwise, Scalarizable,
    Tensorizable, AllTypesMatch<["ptr", "result"]>]> {
  let summary = "pointers moved by a number of elements";
  let description = "Offsets are signed.";
  let arguments = (ins Mini_PtrLike:$ptr, Mini_OffsetLike:$offset);
  let results = (outs Mini_PtrLike:$result);
  let assemblyFormat = "$ptr `,` $offset attr-dict `:` type($ptr) `,` type($offset)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Mini_LoadOp : Mini_Op<"load", [
    AttrSizedOperandSegments,
    TypesMatchWith<"the result holds what the pointers point to", "ptr", "result",
                   "getPointedToType($_self)">,
    OptionalTypesMatchWith<"the mask has the pointers' shape", "ptr", "mask",
                           "getMaskType($_self)">,
    OptionalTypesMatchWith<"other has the result's type", "ptr", "other",
                           "getPointedToType($_self)">]> {
  let summary = "elements of memory";
  let description = [{
    Where `mask` is false memory isn't touched and the result is `other`, or
    anything where that isn't given.
  }];
  let arguments = (ins
    Arg<Mini_PtrBlock, "", [MemRead]>:$ptr,
    Optional<Mini_MaskBlock>:$mask,
    Optional<Mini_ElementBlock>:$other);
  let results = (outs Mini_ElementBlock:$result);
  let assemblyFormat = "$ptr (`,` $mask^ (`,` $other^)?)? attr-dict `:` type($ptr)";
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
}

def Mini_StoreOp : Mini_Op<"store", [
    TypesMatchWith<"the value holds what the pointers point to", "ptr", "value",
                   "getPointedToType($_self)">,
    OptionalTypesMatchWith<"the mask has the pointers' shape", "ptr", "mask",
                           "getMaskType($_self)">]> {
  let summary = "write elements to memory";
  let description = "Where `mask` is false memory isn't touched.";
  let arguments = (ins
    Arg<Mini_PtrBlock, "", [MemWrite]>:$ptr,
    Mini_ElementBlock:$value,
    Optional<Mini_MaskBlock>:$mask);
  let assemblyFormat = "$ptr `,` $value (`,` $mask^)? attr-dict `:` type($ptr)";
  let hasCanonicalizeMethod = 1;
}

#endif // MINITRITON_MINI_OPS_TD

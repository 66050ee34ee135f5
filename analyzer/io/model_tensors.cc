// "tensors" and "pins".
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/base/units.h"
#include "analyzer/io/model_sections.h"

namespace s2t {
namespace {

constexpr Word<bool> kUneven[] = {{"ceil", true}};
constexpr size_t kMostDims = 16;

std::vector<DimDecl> read_shape(const JsonCursor& at) {
  std::vector<DimDecl> shape;
  for (const JsonCursor& element : at.elements()) {
    const bool batch = element.is(JsonKind::string) && element.string() == "batch";
    if (element.is(JsonKind::string) && !batch)
      element.error(fmt::format("dim {}", element.excerpt()), "a positive integer or \"batch\"", "",
                    "wrong-type");
    else
      shape.push_back({batch ? 0 : element.integer(1, kMostSize).value_or(1), batch});
  }
  if (shape.size() > kMostDims)
    at.error(fmt::format("{} dims", shape.size()), fmt::format("at most {}", kMostDims), "",
             "too-many-dims");
  const auto batches = std::count_if(shape.begin(), shape.end(), [](auto& d) { return d.batch; });
  if (batches > 1)
    at.error(fmt::format("\"batch\" {} times", batches), "it once in a shape", "", "two-batches");
  return shape;
}

// Whole-tensor bytes must fit 64 bits; a batch dim is counted when its size is known.
void check_bytes(const JsonCursor& at, const TensorDecl& tensor) {
  try {
    Count bytes = size_of(tensor.dtype);
    for (const DimDecl& dim : tensor.shape)
      if (!dim.batch) bytes = checked_mul(bytes, static_cast<Count>(dim.size));
  } catch (const Overflow&) {
    at.error(fmt::format("a tensor of {} elements", at.excerpt()), "one whose bytes fit in 64 bits",
             "", "too-many-bytes");
  }
}

void read_leaf(JsonObject& object, TensorDecl& tensor) {
  const JsonCursor shape = object.required("shape");
  tensor.shape = read_shape(shape);
  tensor.dtype = read_dtype(object.optional("dtype")).value_or(DType::f32);
  tensor.parameter = object.optional("parameter").boolean().value_or(false);
  const JsonCursor grad = object.optional("requires_grad");
  tensor.requires_grad =
      grad.boolean().value_or(tensor.parameter && is_differentiable(tensor.dtype));
  if (tensor.requires_grad && !is_differentiable(tensor.dtype))
    grad.error(fmt::format("a gradient of {} elements", info(tensor.dtype).name),
               "a floating-point dtype", "", "integer-grad");
  if (shape) check_bytes(shape, tensor);
}

// An op's result: its shape, if stated, is compared with what the op says.
void read_result(JsonObject& object, TensorDecl& tensor) {
  tensor.shape = read_shape(object.optional("shape"));
  for (const char* key : {"dtype", "parameter", "requires_grad"})
    if (const JsonCursor stated = object.optional(key))
      stated.error(fmt::format("\"{}\" of {}, which an op produces", key, quoted(tensor.name)),
                   "only \"shape\", \"layout\", \"residual\" and \"uneven\"",
                   "The op decides the rest; if an input is meant, rename it or the op's output.",
                   "not-a-leaf");
}

TensorDecl read_tensor(const JsonCursor& at, const KnownAxes& known, bool produced) {
  TensorDecl tensor;
  tensor.name = at.key();
  tensor.pointer = at.pointer();
  JsonObject object = at.object();
  const bool shaped = object.optional("shape").is(JsonKind::array);
  if (produced)
    read_result(object, tensor);
  else
    read_leaf(object, tensor);
  const std::optional<size_t> rank = shaped ? std::optional(tensor.shape.size()) : std::nullopt;
  if (const JsonCursor layout = object.optional("layout"))
    tensor.layout = read_layout(layout, known, rank);
  tensor.uneven = object.optional("uneven").one_of<bool>(kUneven, "rounding").value_or(false);
  tensor.residual = read_residual(object.optional("residual"));
  return tensor;
}

}  // namespace

std::vector<TensorDecl> read_tensors(const JsonCursor& at, const KnownAxes& known,
                                     const std::set<std::string>& produced) {
  std::vector<TensorDecl> tensors;
  JsonObject object = at.object();
  for (const JsonCursor& member : object.members()) {
    if (member.key().empty()) member.error("an empty string", "a name", "", "empty-name");
    tensors.push_back(read_tensor(member, known, produced.count(member.key()) > 0));
  }
  return tensors;
}

std::vector<PinDecl> read_pins(const JsonCursor& at, const KnownAxes& known) {
  std::vector<PinDecl> pins;
  JsonObject object = at.object();
  for (const JsonCursor& member : object.members())
    pins.push_back({member.key(), read_layout(member, known, std::nullopt), member.pointer()});
  return pins;
}

}  // namespace s2t

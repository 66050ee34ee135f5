// The parts of a model file, one reader each. Only model_json.cc and its parts read this.
//
// A reader turns one value of the file into plain data and reports what is wrong with that value
// alone. What needs two parts to be seen (a name that nobody declares, a stage that goes
// backwards) is found afterwards, by `check_references` on the data.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/graph/model.h"
#include "analyzer/io/json_cursor.h"
#include "analyzer/mesh/mesh.h"

namespace s2t {

inline constexpr int64_t kMostRanks = int64_t{1} << 24;  // a mesh has at most 24 atoms then
inline constexpr int64_t kMostSize = int64_t{1} << 40;   // of a dim
inline constexpr int64_t kMostBatch = int64_t{1} << 32;  // so that times the ranks fits 64 bits
inline constexpr int64_t kMostMicrobatches = int64_t{1} << 20;
inline constexpr int64_t kMostExperts = int64_t{1} << 20;
inline constexpr int64_t kMostStages = int64_t{1} << 16;

// An axis that layouts, groups and sections may name: a dense or expert axis, or a part of one.
struct KnownAxis {
  std::string name;
  int64_t size = 1;
  AxisKind kind = AxisKind::model;
  AtomSet atoms = 0;  // 0 also while the mesh is wrong
};

struct KnownAxes {
  std::vector<KnownAxis> rows;
  bool complete = true;  // false: some could not be read, so an unknown one is no mistake

  const KnownAxis* find(const std::string& name) const;
  std::vector<std::string> names() const;
};

MeshDecl read_mesh(const JsonCursor& at, KnownAxes& known);

// A name of an axis, or nullptr after saying that there is none.
const KnownAxis* read_axis(const JsonCursor& at, const KnownAxes& known);
const KnownAxis* find_axis(const JsonCursor& at, const std::string& name, const KnownAxes& known);
std::vector<std::string> read_axes(const JsonCursor& at, const KnownAxes& known);
// Strings that are not empty and stand once.
std::vector<std::string> read_distinct_names(const JsonCursor& at);

// {"tp": "S(0)"}; `rank` is the number of dims if it is known.
LayoutDecl read_layout(const JsonCursor& at, const KnownAxes& known, std::optional<size_t> rank);

std::vector<OpDecl> read_ops(const JsonCursor& at, const KnownAxes& known);
// `produced`: outputs of ops, for which an entry only adds to what the op says.
std::vector<TensorDecl> read_tensors(const JsonCursor& at, const KnownAxes& known,
                                     const std::set<std::string>& produced);
std::vector<PinDecl> read_pins(const JsonCursor& at, const KnownAxes& known);
std::optional<DType> read_dtype(const JsonCursor& at);
std::optional<Residual> read_residual(const JsonCursor& at);

void read_convention(const JsonCursor& at, const KnownAxes& known, Model& model);
std::optional<BatchDecl> read_batch(const JsonCursor& at, const KnownAxes& known);
std::optional<PipelineDecl> read_pipeline(const JsonCursor& at, const KnownAxes& known);
// Whether a schedule runs several model chunks per rank; a test holds it against schedules().
bool takes_chunks(std::string_view schedule);
GradientSyncDecl read_gradient_sync(const JsonCursor& at, const KnownAxes& known);
std::vector<RoutingDecl> read_routing(const JsonCursor& at, const KnownAxes& known);
Switches read_switches(const JsonCursor& at);

}  // namespace s2t

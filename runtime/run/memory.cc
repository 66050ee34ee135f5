#include "runtime/run/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "analyzer/base/diagnostics.h"
#include "runtime/run/reference.h"

namespace s2t {
namespace {

// Sizes far beyond any machine must not wrap around: doubles are exact enough for an estimate.
double count(const Shape& shape) {
  double n = 1;
  for (const int64_t size : shape) n *= static_cast<double>(size);
  return n;
}

double bytes(const Shape& shape, DType dtype) {
  return count(shape) * static_cast<double>(size_of(dtype));
}

uint64_t whole(double x) {
  return x < 0x1p64 ? static_cast<uint64_t>(x) : UINT64_MAX;
}

// Sums over all values, in bytes; those of ranks over the ranks of one stage.
struct Sums {
  double parameters = 0;    // of all ranks that have them
  double activations = 0;   // of one microbatch, results of ops
  double conversions = 0;   // of one microbatch
  double largest_leaf = 0;  // unsharded, as it is made: in its type and as doubles
  double unsharded = 0;     // everything once, in float64
};

double ranks_of_a_stage(const Graph& graph) {
  const auto pipeline = graph.mesh.pipeline_atom();
  const auto world = static_cast<double>(graph.mesh.world());
  return pipeline ? world / static_cast<double>(graph.mesh.atom(*pipeline).size) : world;
}

double local_bytes(const Graph& graph, TensorId t, const Layout& layout) {
  return bytes(local_shape_of(graph, t, layout), graph.value(t).dtype);
}

Sums sums_of(const Graph& graph, const Forward& forward) {
  Sums sums;
  const double ranks = ranks_of_a_stage(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    sums.unsharded += 8 * count(value.shape);
    if (value.leaf())
      sums.largest_leaf =
          std::max(sums.largest_leaf, bytes(value.shape, value.dtype) + 8 * count(value.shape));
    if (value.leaf() && !value.parameter) continue;
    const Layout& layout = value.leaf() ? value.layout : forward.layouts[v];
    (value.leaf() ? sums.parameters : sums.activations) +=
        ranks * local_bytes(graph, TensorId(v), layout);
  }
  for (const Conversion& c : forward.conversions)
    sums.conversions += ranks * local_bytes(graph, c.value, c.to);
  return sums;
}

double number_in(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string word; in >> word;)
    if (double x = 0; key.empty() || word == key) {
      if (key.empty()) in.seekg(0);
      return in >> x ? x : -1;
    }
  return -1;  // absent, or "max"
}

double left_by_machine() {
  return 1024 * number_in("/proc/meminfo", "MemAvailable:");
}

double left_by_control_group() {
  const std::string folder = "/sys/fs/cgroup/memory.";
  const double most = number_in(folder + "max", ""), now = number_in(folder + "current", "");
  const double files = std::max(0.0, number_in(folder + "stat", "inactive_file"));  // given up
  return most < 0 || now < 0 ? -1 : std::max(0.0, most - now + files);
}

double left_by_ulimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  const double now = 1024 * number_in("/proc/self/status", "VmSize:");
  return std::max(0.0, static_cast<double>(limit.rlim_cur) - now);
}

std::string readable(uint64_t bytes) {
  const double giga = static_cast<double>(bytes) / 1e9;
  return giga < 1 ? fmt::format("{:.0f} MB", giga * 1e3) : fmt::format("{:.1f} GB", giga);
}

}  // namespace

uint64_t MemoryNeed::peak() const {
  const uint64_t after = reference > UINT64_MAX - results ? UINT64_MAX : reference + results;
  return std::max(ranks, after);
}

MemoryNeed memory_needed(const Graph& graph, const Forward& forward, bool processes) {
  const Sums sums = sums_of(graph, forward);
  const auto microbatches = static_cast<double>(graph.microbatches);
  const auto world = static_cast<double>(graph.mesh.world());
  const double kept = sums.activations * microbatches + 2 * sums.parameters;
  const double step = 2 * sums.parameters + sums.activations + 2 * sums.conversions;
  // In two precisions, if anybody tries whether the sums are exact.
  const double trial = may_sum_exactly(graph) ? 1.5 * sums.unsharded * (microbatches + 1) : 0;
  MemoryNeed need;
  need.ranks =
      whole(std::max(2 * kept + step + world * sums.largest_leaf, (processes ? world : 1) * trial));
  need.results = whole(2 * kept);
  need.reference = whole(sums.unsharded * (microbatches + 1));
  return need;
}

uint64_t memory_available() {
  double least = 0x1p64;
  for (const double left : {left_by_machine(), left_by_control_group(), left_by_ulimit()})
    if (left >= 0) least = std::min(least, left);
  return whole(least);
}

void require_memory(const Graph& graph, const MemoryNeed& need, uint64_t available) {
  if (need.peak() <= available) return;
  throw UserError(
      graph.file,
      {{"",
        fmt::format(
            "running this model takes about {} ({} for {} ranks, {} for the unsharded model "
            "beside {} of results)",
            readable(need.peak()), readable(need.ranks), graph.mesh.world(),
            readable(need.reference), readable(need.results)),
        fmt::format("no more than the {} that are free here", readable(available)),
        "Make the model smaller: fewer layers, shorter sequences. `predict` needs no such memory.",
        "too-little-memory"}});
}

}  // namespace s2t

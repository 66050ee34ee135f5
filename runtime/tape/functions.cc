#include "runtime/tape/functions.h"

#include <array>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

using enum Placement::Kind;
constexpr std::array<GradientFunction, 12> kFunctions{{
    // The value was a Partial sum: what reduced it passes a whole gradient on as it is (Megatron's
    // reduce_from_region) and adds up terms (torch.distributed.nn.functional.all_reduce).
    {partial, replicate, true, true, replicate, "reduce_from_tensor_model_parallel_region"},
    {partial, partial, true, true, replicate, "torch.distributed.nn.functional.all_reduce"},
    {partial, shard, true, true, replicate, "reduce_scatter_to_sequence_parallel_region"},
    // The value was sharded: what gathered it scatters, reducing if ranks hold terms.
    {shard, partial, true, true, shard, "gather_from_sequence_parallel_region"},
    {shard, replicate, true, true, shard, "gather_from_tensor_model_parallel_region"},
    {shard, shard, true, true, shard, "torch.distributed.nn.functional.all_to_all_single"},
    // The value was on every rank, and it is one value: copy_to_region, scatter_to_region.
    {replicate, partial, true, false, replicate, "copy_to_tensor_model_parallel_region"},
    {replicate, replicate, true, false, replicate, "nothing"},
    {replicate, shard, true, false, replicate, "scatter_to_tensor_model_parallel_region"},
    // The value was on every rank, and each rank has a loss of its own: nobody reduces.
    {replicate, partial, false, true, partial, "nothing"},
    {replicate, replicate, false, true, partial, "one rank keeps it"},
    {replicate, shard, false, true, partial, "slicing pads with zeros"},
}};

const GradientFunction& function_for(Placement produced, Placement held, bool per_rank) {
  for (const GradientFunction& f : kFunctions)
    if (f.produced == produced.kind && f.held == held.kind && (per_rank ? f.per_rank : f.global))
      return f;
  throw Fault("no gradient function for a value " + to_string(produced) + " with a gradient " +
              to_string(held));
}

Placement placed(Placement::Kind kind, Placement produced) {
  return kind == shard ? produced : kind == partial ? Placement::P() : Placement::R();
}

}  // namespace

std::span<const GradientFunction> gradient_functions() {
  return kFunctions;
}

Layout home_of(const Graph& graph, const Layout& produced, const Layout& held) {
  Layout home(graph.mesh);
  for (size_t i = 0; i < graph.atoms(); ++i) {
    const AtomIndex a(i);
    home[a] = placed(function_for(produced[a], held[a], graph.per_rank[i]).result, produced[a]);
  }
  return home;
}

Layout home_of_parameter(const Graph& graph, const Conversion& conversion, const Layout& held) {
  const Layout undone = home_of(graph, conversion.from, held);
  Layout home = held;
  for (size_t i = 0; i < graph.atoms(); ++i) {
    const AtomIndex a(i);
    if (conversion.from[a] != conversion.to[a]) home[a] = undone[a];
  }
  return home;
}

Layout kernel_tag(const Graph& graph, const Op& op, const OpPlan& plan, size_t operand,
                  const Layout& arrived) {
  if (op.redistributes()) return arrived;  // an identity
  Layout tag(graph.mesh);
  for (size_t i = 0; i < graph.atoms(); ++i) {
    const AtomIndex a(i);
    const Placement port = plan.operand_ports[operand][a];
    if (port.is_shard())
      tag[a] = port;
    else if (port.is_partial())
      tag[a] = Placement::R();
    else
      tag[a] = plan.modes[i].kind == Mode::Kind::redundant ? arrived[a] : Placement::P();
  }
  return tag;
}

}  // namespace s2t

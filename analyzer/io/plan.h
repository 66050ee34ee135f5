// How a training job is split and what it trains on, in the words of the frameworks, as plain data;
// and what is wrong with a plan for an architecture.
//
// Not known here: where the numbers come from (the command line), which collectives follow.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/dtype.h"
#include "analyzer/io/architecture.h"

namespace s2t {

// Activations computed again in the backward: of nothing, of the attention core, of whole layers.
enum class Recompute : uint8_t { none, selective, full };

struct Plan {
  int64_t tp = 1, pp = 1, cp = 1, ep = 1;
  int64_t dp = 0;   // 0: what `world` leaves, or 1
  int64_t etp = 0;  // tensor parallelism of experts; 0: as tp
  int64_t vpp = 0;  // model chunks per pipeline rank; 0: as layers_per_chunk says, or 1
  bool sp = false;  // sequence parallelism over the tp ranks; without effect if tp is 1
  int64_t seq = 0;  // tokens per sample; must be stated
  int64_t micro_batch = 1;
  int64_t global_batch = 0;  // 0: one microbatch per rank
  int64_t zero = 0;          // 1: sharded optimizer states
  DType dtype = DType::bf16;
  std::optional<DType> grad_dtype;  // of gradient reductions; default: the profile's
  std::string order;                // of ranks, leftmost fastest; "": the profile's
  // Layers of every stage, in stage order; or of the first and the last pipeline rank, the rest
  // equal. Empty and 0: equal shares.
  std::vector<int64_t> stage_layers;
  int64_t first_layers = 0, last_layers = 0;
  int64_t layers_per_chunk = 0;  // says how many chunks there are, as vpp does
  std::string schedule;          // of the pipeline; "": 1f1b, or with vpp > 1 the framework's
  Recompute recompute = Recompute::none;
  std::optional<int64_t> world;  // checked if stated

  // No more ranks than a mesh may have; products of sizes overflow where it is not.
  bool countable() const;
  // No more tokens in a microbatch of all ranks than a dim may have; likewise.
  bool tokens_countable() const;
  int64_t expert_tp() const { return etp > 0 ? etp : tp; }
  bool sequence_parallel() const { return sp && tp > 1; }
  int64_t microbatches() const { return global_batch == 0 ? 1 : global_batch / (dp * micro_batch); }
  int64_t ranks() const { return tp * pp * dp * cp; }
  int64_t expert_dp() const { return tp * dp * cp / (expert_tp() * ep); }
};

// The plan with what follows from other parts of it filled in: dp, vpp, the layers of each stage.
Plan resolved(Plan plan, const Architecture& architecture);

// What is wrong with a plan for any architecture, where that is not known: ranks, tokens, samples.
void check_job(const Plan& plan, Diagnostics& sink);
// Where a plan, as stated, says one thing twice and differently. `layers` of the model; 0: unknown.
void check_contradictions(const Plan& stated, int64_t layers, Diagnostics& sink);
// Everything that is wrong with a resolved `plan` for `architecture`, each with what would fit.
// Pointers are the flags: "--tp".
// `columns`: what tp must divide besides heads, for the numbers that would fit; 0: nothing.
void check_plan(const Architecture& architecture, const Plan& plan, Diagnostics& sink,
                int64_t columns = 0);
// What is legal and surprising about a plan for this model.
std::vector<Remark> plan_remarks(const Architecture& architecture, const Plan& plan);

}  // namespace s2t

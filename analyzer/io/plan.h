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

struct Plan {
  int64_t tp = 1, pp = 1, dp = 1, cp = 1, ep = 1;
  int64_t etp = 0;  // tensor parallelism of experts; 0: as tp
  int64_t vpp = 1;  // model chunks per pipeline rank
  bool sp = false;  // sequence parallelism over the tp ranks; without effect if tp is 1
  int64_t seq = 0;  // tokens per sample; must be stated
  int64_t micro_batch = 1;
  int64_t global_batch = 0;  // 0: one microbatch per rank
  int64_t zero = 0;          // 1: sharded optimizer states
  DType dtype = DType::bf16;
  std::optional<DType> grad_dtype;    // of gradient reductions; default: the profile's
  std::string order;                  // of ranks, leftmost fastest; "": the profile's
  std::vector<int64_t> stage_layers;  // per stage; empty: equal
  std::optional<int64_t> world;       // checked if stated

  int64_t expert_tp() const { return etp > 0 ? etp : tp; }
  bool sequence_parallel() const { return sp && tp > 1; }
  int64_t microbatches() const { return global_batch == 0 ? 1 : global_batch / (dp * micro_batch); }
  int64_t ranks() const { return tp * pp * dp * cp; }
  int64_t expert_dp() const { return tp * dp * cp / (expert_tp() * ep); }
};

// Tokens of `order`, leftmost first: "tp-cp-ep-dp-pp" -> tp cp ep dp pp.
std::vector<std::string> split_order(const std::string& order);

// Layers of every stage, in stage order; equal shares unless stated. Precondition: a checked plan.
std::vector<int64_t> layers_of_stages(const Architecture& architecture, const Plan& plan);

// Everything that is wrong with `plan` for `architecture`, each with what would fit. Pointers are
// the flags: "--tp".
void check_plan(const Architecture& architecture, const Plan& plan, Diagnostics& sink);

}  // namespace s2t

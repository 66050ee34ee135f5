// What every block of a transformer is built with: leaves, parameters and where they lie, ops,
// pins. Names are made from the module at hand: "layers.3.attn" + "q.weight".
//
// Not known here: which ops make up a block (blocks.h), the mesh and the job around (job.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/graph/model.h"
#include "analyzer/io/architecture.h"
#include "analyzer/io/plan.h"
#include "analyzer/io/profiles.h"

namespace s2t {

using Placements = std::vector<std::pair<std::string, std::string>>;  // axis, placement

class ModelBuilder {
 public:
  ModelBuilder(const Architecture& architecture, const Plan& plan, const Profile& framework)
      : a(architecture), p(plan), profile(framework) {}

  const Architecture& a;
  const Plan& p;
  const Profile& profile;
  Model model;
  std::string module;   // owner of what is added now
  int stage = 0;        // where it runs
  int recomputed = -1;  // number of what is computed again together with it
  int next_recomputed = 0;
  std::string table;               // the embedding's, which a tied head reads
  bool causal = true;              // of the attention that is added now
  std::string stack;               // of layers that share a bias of their scores; "": none
  std::string score_bias;          // it, once it is there
  bool rows_stay_partial = false;  // row linears leave the sum over tp to what reads them

  // Parameters as they are made, and again on another stage that reads one.
  struct Made {
    size_t tensor = 0;       // of the model
    size_t module_size = 0;  // letters of its name that are the module's
    int stage = 0;
  };
  std::vector<Made> made;

  // Padded as the profile pads.
  int64_t vocabulary() const;
  std::string_view activation() const {
    return !a.activation.empty() ? a.activation : a.gated ? "swiglu" : "gelu";
  }
  // Where the tokens between two blocks lie over tp: split under sequence parallelism.
  std::string tokens() const { return p.sequence_parallel() ? "S(0)" : "R"; }

  // Whether experts are no ordinary parameters, but reduced over expert data-parallel ranks with an
  // optimizer of their own.
  bool experts_apart() const {
    return a.experts.has_value() && (p.ep > 1 || p.expert_tp() != p.tp);
  }

  // Where ep is cut from dp, the ranks of tp are those of an expert's parts.
  std::string expert_tp_axis() const {
    return profile.is("expert_groups", "within_dp") ? "tp" : "etp";
  }

  // Entries for axes that the mesh does not have are left out.
  LayoutDecl layout(const Placements& placements, const std::string& of) const;

  std::string parameter(const std::string& suffix, const std::vector<int64_t>& shape,
                        const Placements& placements = {});
  std::string integers(const std::string& name, const std::vector<int64_t>& shape,
                       const Placements& placements = {});
  // The parameter `name` is read on the stage at hand as well as where it was made.
  void read_again(const std::string& name);
  // One integer per token of the microbatch.
  std::string ids(const std::string& name);

  OpDecl& add_op(std::string_view op, const std::string& suffix, std::vector<std::string> inputs);
  // The same; the name of its result.
  std::string op(std::string_view op, const std::string& suffix, std::vector<std::string> inputs);

  void pin(const std::string& tensor, const Placements& placements);
  // `x` in another layout, which the ops that follow see.
  std::string placed(const std::string& x, const std::string& suffix, const Placements& placements);
  // The op that was added last passes a sum of terms on over this axis, if the mesh has it.
  void linear_over(const std::string& axis);
  // The backward of a column linear gathers its input again where the forward did not keep it.
  void gathered_again(const std::string& tensor);
  // What a value was converted to is converted again in the backward.
  // `setting` asks for that, a literal as the user would write it.
  void not_kept(const std::string& tensor, std::string_view setting);

 private:
  bool has_axis(const std::string& name) const;
  TensorDecl& leaf(const std::string& name, const std::vector<int64_t>& shape, DType dtype,
                   const Placements& placements);
};

}  // namespace s2t

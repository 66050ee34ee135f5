// How gradients become whole and parameters move on: the layer that data-parallel wrappers are.
//
// Known here: gradients as the tape hands them over (hooks), and when each kind of synchronisation
// acts:
//   per_parameter  one all-reduce each, after the backward (or as each becomes ready)
//   bucketed       PyTorch DDP: buckets in ready order, closed at their limit, sent when complete
//   zero1, zero2   a reduce-scatter (or all-reduce) per bucket; after the step everybody gathers
//                  the parts
//   zero3          parameters gathered per module, gradients reduce-scattered per bucket
//   fsdp           parameters gathered per unit, gradients reduce-scattered per unit
// then what is still a sum of terms on model axes, then parameters shared by stages, then the step
// (SGD). Written from the frameworks' sources, not from any prediction: reducer.cpp,
// fully_shard, Megatron finalize_model_grads.py.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "runtime/run/buckets.h"
#include "runtime/run/parameters.h"

namespace s2t {

class GradientSync {
 public:
  GradientSync(const Graph& graph, const Forward& forward, Exchange& exchange,
               Parameters& parameters, const StepOptions& options)
      : graph_(graph),
        forward_(forward),
        exchange_(exchange),
        parameters_(parameters),
        options_(options) {}

  // One stage with one microbatch at a time.
  void begin_forward(int stage, const Tag& tag);
  void before_forward(OpId op);
  // `requires_grad`: of a value, as the tape of this microbatch found.
  using RequiresGrad = std::function<bool(TensorId)>;
  void begin_backward(int stage, const Tag& tag, const std::vector<OpId>& running,
                      const RequiresGrad& requires_grad);
  void before_backward(OpId op);
  void parameter_ready(TensorId p, std::vector<Gradient> arrived);
  void after_backward(OpId op);

  // After the last backward: everything that is left, then the step. `between` is told when the
  // model's own calls are due.
  void finish(const std::function<void(CallDecl::When)>& between);

  std::map<TensorId, Held> gradients() const;
  std::map<TensorId, Held> updated() const;

 private:
  using Bucket = GradientBucket;
  using Unit = Parameters::Unit;

  // A unit of this stage and the op that begins its backward, if any does.
  struct Turn {
    const Unit* unit;
    OpId start;
  };

  void begin(int stage, const Tag& tag);
  void fetch(const Unit& unit);
  void fetch_in_advance(const std::vector<size_t>& numbers);
  void plan_stage(int stage, const std::vector<OpId>& running);
  void plan_units(int stage, const std::vector<OpId>& running, const RequiresGrad& requires_grad);
  bool kept(const Unit& unit) const;
  void plan_reductions(const std::vector<const Unit*>& units, const std::vector<OpId>& running,
                       const RequiresGrad& requires_grad);
  bool entered_by_any(const Unit& unit, const RequiresGrad& requires_grad) const;
  Tag tag_for(const char* phase, const std::vector<size_t>& leaves) const;
  Family family_of(const std::vector<size_t>& leaves, AtomSet atoms) const;

  void now_whole(Leaf& leaf, AtomSet atoms);
  void reduced(const Bucket& bucket, AtomSet atoms);
  void reduce_alone(size_t leaf);
  void reduce(const Bucket& bucket);
  Tensor reduce_whole(const Bucket& bucket, const Tensor& terms, const Family& family);
  int64_t part_of(const Bucket& bucket, int64_t n) const;
  void reduce_scatter(const Bucket& bucket);
  void scatter_unit(const Unit& unit);
  void scatter_rows(const std::vector<size_t>& leaves);
  void whole_on_model_axes(size_t leaf);
  Tensor rows_of(const Tensor& t, const Leaf& leaf, int64_t n, int64_t r) const;
  void add_rows(Leaf& leaf, int64_t n, int64_t r, const Tensor& rows);
  void reduce_model_axes(const std::vector<size_t>& order);
  void reduce_tied(const std::vector<size_t>& order, Tensor Leaf::*held);
  void scale();
  std::map<TensorId, Held> sums() const;
  Held without_padding(TensorId p, Held held) const;
  void step();
  void gather_updates();
  void gather_updates(const Bucket& bucket, int64_t part);
  void gather_part(const Bucket& bucket, const std::vector<Leaf>& leaves, int64_t part, Tag tag);
  void plan_first_uses(int stage);
  void gather_before_use(OpId op);
  void in_order_of_stages(std::vector<std::vector<size_t>>& groups) const;
  void gather_updates_at_once();
  void gather_persistent();

  const Graph& graph_;
  const Forward& forward_;
  Exchange& exchange_;
  Parameters& parameters_;
  const StepOptions& options_;

  std::vector<Leaf> leaves_;
  std::vector<Bucket> buckets_;
  std::map<int, int64_t> backwards_;  // per stage, begun so far
  // Of the running forward: buckets whose parameters were updated by the step before, each with the
  // next one of its kind. Empty once a stage has run.
  struct Awaited {
    Bucket bucket;
    bool sent = false, used = false;
  };
  std::vector<Leaf> awaited_leaves_;
  std::vector<Awaited> awaited_;
  std::set<int> begun_;  // stages
  int stage_ = 0;
  Tag tag_;
  bool reduces_now_ = false;
  std::set<const Unit*> there_;  // gathered for the running forward or backward
  std::vector<Turn> chain_;      // of the running backward, in the order of their turns
  std::map<OpId, std::vector<const Unit*>> scatters_;  // of the running backward
};

}  // namespace s2t

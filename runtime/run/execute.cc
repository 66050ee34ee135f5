#include "runtime/run/execute.h"

#include <algorithm>
#include <memory>
#include <set>

#include "runtime/run/data.h"
#include "runtime/run/gradient_sync.h"
#include "runtime/run/schedule.h"

namespace s2t {
namespace {

class TrainingStep {
 public:
  TrainingStep(World& world, const Graph& graph, const Forward& forward, const StepOptions& options)
      : world_(world),
        graph_(graph),
        forward_(forward),
        options_(options),
        exchange_(world, graph, forward, options),
        place_(place_in_pipeline(graph, world.rank())),
        parameters_(graph, exchange_, local_parameters()),
        sync_(graph, forward, exchange_, parameters_, options),
        reached_(reached_from_loss(graph)) {}

  RankReport run() {
    const auto turns = graph_.pipeline ? turns_of(*graph_.pipeline, place_)
                                       : turns_of_one_stage(graph_.microbatches, place_.trains);
    for (const Turn& turn : turns) {
      const Deed& first = turn.deeds[0];
      if (first.doing == Doing::forward)
        forward(first);
      else if (first.doing == Doing::backward)
        backward(first);
      else
        exchange(turn);
    }
    if (place_.trains) sync_.finish([this](CallDecl::When when) { stated(when); });
    report_.rank = exchange_.rank();
    report_.kernels = kernels_of(world_.device()).where;
    report_.calls = exchange_.calls();
    report_.updated = sync_.updated();
    report_.gradients = sync_.gradients();
    return std::move(report_);
  }

 private:
  using Where = std::pair<int, int>;  // stage, microbatch
  using Border = std::map<OpId, Tensor>;

  static PipelinePlace place_in_pipeline(const Graph& graph, Rank rank) {
    PipelinePlace place;
    place.microbatches = static_cast<int>(graph.microbatches);
    place.trains = graph.loss.valid();
    if (!graph.pipeline) return place;
    place.chunks = static_cast<int>(graph.pipeline->chunks);
    place.batched = graph.pipeline->p2p == "batched";
    place.overlapped = graph.pipeline->p2p == "overlapped";
    place.warm_up_all = graph.pipeline->warm_up_all;
    const auto atom = graph.mesh.pipeline_atom();
    if (!atom) return place;
    place.rank = static_cast<int>(graph.mesh.coordinate(rank, *atom));
    place.ranks = static_cast<int>(graph.mesh.atom(*atom).size);
    return place;
  }

  bool here(int stage) const { return stage % place_.ranks == place_.rank; }

  std::map<TensorId, Tensor> local_parameters() const {
    std::map<TensorId, Tensor> local;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      const bool used = std::any_of(value.uses.begin(), value.uses.end(),
                                    [&](const Use& use) { return here(graph_.op(use.op).stage); });
      if (value.parameter && used) local[TensorId(v)] = leaf(TensorId(v), 0);
    }
    return local;
  }

  Tensor leaf(TensorId t, int64_t microbatch) const {
    return shard(leaf_data(graph_, t, microbatch, options_.integers), graph_.value(t).layout,
                 graph_.mesh, exchange_.rank());
  }

  // --- one stage, one microbatch -----------------------------------------------------------------

  Tape& tape(int stage, int microbatch) {
    std::unique_ptr<Tape>& at = tapes_[{stage, microbatch}];
    if (at) return *at;
    Tape::Surroundings around;
    around.leaf = [this, microbatch](TensorId t) {
      return graph_.value(t).parameter ? parameters_.whole(t) : leaf(t, microbatch);
    };
    around.convert = [this](TensorId t, Tensor data, std::span<const Step> steps, bool backward) {
      tag_.phase = backward ? "backward" : "forward";
      tag_.tensor = graph_.value(t).name;
      return exchange_.convert(t, std::move(data), steps, tag_);
    };
    around.op = [this, microbatch](OpId op) { return local_op(op, microbatch); };
    // An op may take long, and this rank may be the last one alive.
    around.before_forward = [this, microbatch](OpId op) {
      world_.check_alive();
      sync_.before_forward(op);
      stated_before(op, "forward", microbatch);
    };
    around.before_backward = [this, stage, microbatch](OpId op) {
      world_.check_alive();
      sync_.before_backward(op);
      stated_before(op, "backward", microbatch);
      recompute(op, stage, microbatch);
    };
    around.after_backward = [this](OpId op) { sync_.after_backward(op); };
    around.parameter_ready = [this](TensorId p, std::vector<Gradient> arrived) {
      sync_.parameter_ready(p, std::move(arrived));
    };
    at = std::make_unique<Tape>(graph_, forward_, std::move(around));
    return *at;
  }

  LocalOp local_op(OpId id, int64_t microbatch) {
    LocalOp local(graph_, forward_, id, exchange_.rank(), microbatch, world_.device());
    const AtomSet atoms = ring_atoms(forward_.ops[id.at()]);
    const int64_t n = graph_.mesh.size(atoms);
    if (n == 1) return local;
    const auto pass = [this, id, atoms](const Tensor& out, int64_t to, RingAttention::Cargo cargo) {
      return exchange_.pass(atoms, out, to, tag_of_ring(id, cargo));
    };
    const auto gather = [this, id, atoms](const Tensor& mine) {
      return exchange_.gather(atoms, mine, tag_of_ring(id, {true, false}));
    };
    local.pass_by(n, graph_.mesh.coordinate(exchange_.rank(), atoms), pass, graph_.switches.ring,
                  gather);
    return local;
  }

  Tag tag_of_ring(OpId id, RingAttention::Cargo cargo) const {
    Tag tag = tag_;
    tag.phase = again_ ? "recompute" : back_ ? "backward" : "forward";
    std::vector<std::string> names;
    for (const size_t i : passing_operands(graph_.op(id), forward_.ops[id.at()]))
      names.push_back(graph_.value(graph_.op(id).inputs[i]).name);
    tag.tensor = names.front();
    if (cargo.operands) tag.members = names;
    for (const std::string& name : names)
      if (cargo.gradients) tag.members.push_back(name + ".grad");
    return tag;
  }

  // Activations are kept here, so only the words are said again, with the values they had.
  void recompute(OpId first, int stage, int microbatch) {
    const int number = graph_.op(first).recomputed;
    if (number < 0 || !recomputed_.insert({number, microbatch}).second) return;
    Tape& t = tape(stage, microbatch);
    for (size_t o = 0; o < graph_.ops.size(); ++o) {
      if (graph_.ops[o].recomputed != number) continue;
      if (!graph_.switches.recompute_gathers) stated_before(OpId(o), "recompute", microbatch);
      std::set<int> done;
      for (const int c : forward_.ops[o].conversions) {
        if (c < 0 || !done.insert(c).second) continue;
        const Conversion& conversion = forward_.conversions[static_cast<size_t>(c)];
        if (conversion.consumer != OpId(o) || !sent_again(conversion)) continue;
        tag_.phase = "recompute";
        tag_.tensor = graph_.value(conversion.value).name;
        exchange_.convert(conversion.value, t.value(conversion.value), conversion.steps, tag_);
      }
      again_ = true;
      t.run_again(OpId(o));
      again_ = false;
    }
  }

  // torch.utils.checkpoint with a policy that keeps what reductions and exchanges returned.
  bool sent_again(const Conversion& conversion) const {
    const auto other = [](const Step& s) {
      return s.collective && *s.collective != Collective::all_gather;
    };
    return !graph_.switches.recompute_gathers ||
           std::none_of(conversion.steps.begin(), conversion.steps.end(), other);
  }

  // --- calls that the model states ---------------------------------------------------------------

  void stated_before(OpId op, const std::string& phase, int64_t microbatch) {
    const auto when = phase == "backward" ? CallDecl::When::backward : CallDecl::When::forward;
    for (const StatedCall& call : graph_.calls) {
      if (call.before != op || call.decl.when != when) continue;
      if (phase == "recompute" && !call.decl.again) continue;
      if (call.decl.once && microbatch > 0) continue;
      Tag tag = tag_;
      tag.phase = phase;
      tag.tensor = call.decl.name;
      exchange_.stated(call, tag);
    }
  }

  void stated(CallDecl::When when) {
    for (const StatedCall& call : graph_.calls) {
      if (call.decl.when != when || (call.decl.stage && !here(*call.decl.stage))) continue;
      Tag tag;
      tag.phase = when == CallDecl::When::synchronised ? "grad_sync" : "step";
      tag.tensor = call.decl.name;
      exchange_.stated(call, tag);
    }
  }

  Tag tag_of(const Deed& deed, const char* phase) const {
    return {phase, "", deed.chunk, deed.microbatch, {}, ""};
  }

  void forward(const Deed& deed) {
    const int stage = place_.stage(deed.chunk);
    const Where where{stage, deed.microbatch};
    Tape& t = tape(stage, deed.microbatch);
    tag_ = tag_of(deed, "forward");
    back_ = false;
    sync_.begin_forward(stage, tag_);
    for (size_t o = 0; o < graph_.ops.size(); ++o) {
      if (graph_.ops[o].stage != stage) continue;
      if (graph_.ops[o].is("transfer"))
        t.receive(OpId(o), activations_[where].at(OpId(o)));
      else
        t.run(OpId(o));
    }
    for (const OpId op : transfers_into(stage + 1))
      activations_[{stage + 1, deed.microbatch}][op] = t.outgoing(op);
    keep_values(t, deed.microbatch);
  }

  void backward(const Deed& deed) {
    const int stage = place_.stage(deed.chunk);
    Tape& t = tape(stage, deed.microbatch);
    std::vector<Tape::Root> roots;
    std::vector<OpId> sent = gradients_into(stage + 1);
    std::reverse(sent.begin(), sent.end());
    for (const OpId op : sent)
      roots.push_back(t.sent_root(op, gradients_[{stage + 1, deed.microbatch}].at(op)));
    if (t.has(graph_.loss)) roots.push_back(t.loss_root());
    tag_ = tag_of(deed, "backward");
    back_ = true;
    sync_.begin_backward(stage, tag_, t.plan_backward(roots),
                         [&t](TensorId v) { return t.requires_grad(v); });
    t.backward(std::move(roots));
    for (const auto& [value, gradient] : t.leaf_gradients()) {
      if (graph_.value(value).leaf())
        keep_input_gradient({deed.microbatch, value}, gradient);
      else
        gradients_[{stage, deed.microbatch}][graph_.value(value).producer] = gradient.data;
    }
    tapes_.erase({stage, deed.microbatch});
  }

  // An input that two stages of this rank read has two gradients.
  void keep_input_gradient(const RankReport::AtMicrobatch& at, const Gradient& gradient) {
    const auto [it, fresh] =
        report_.input_gradients.emplace(at, Held{gradient.data, gradient.held, {}});
    if (!fresh) it->second.data = add(it->second.data, gradient.data);
  }

  void keep_values(const Tape& t, int64_t microbatch) {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!value.leaf() && !value.routing && t.has(TensorId(v)))
        report_.values[{microbatch, TensorId(v)}] = {t.value(TensorId(v)), forward_.layouts[v], {}};
    }
  }

  // --- borders -----------------------------------------------------------------------------------

  std::vector<OpId> transfers_into(int stage) const {
    std::vector<OpId> ops;
    for (size_t o = 0; o < graph_.ops.size(); ++o)
      if (graph_.ops[o].stage == stage && graph_.ops[o].is("transfer")) ops.emplace_back(o);
    return ops;
  }

  // Those whose receiver will send a gradient back: both ends know it from the model.
  std::vector<OpId> gradients_into(int stage) const {
    std::vector<OpId> ops;
    for (const OpId op : transfers_into(stage)) {
      const TensorId value = graph_.op(op).outputs[0];
      if (reached_[value.at()] && is_differentiable(graph_.value(value).dtype)) ops.push_back(op);
    }
    return ops;
  }

  // The border that a message crosses is named by the later of its two stages.
  void exchange(const Turn& turn) {
    std::vector<Exchange::Message> list;
    std::vector<std::pair<OpId, Border*>> into;
    for (const Deed& deed : turn.deeds) {
      const int stage = place_.stage(deed.chunk);
      const bool gradient =
          deed.doing == Doing::send_backward || deed.doing == Doing::recv_backward;
      const bool send = deed.doing == Doing::send_forward || deed.doing == Doing::send_backward;
      const bool downstream = send != gradient;  // the other end is the next stage
      const int later = downstream ? stage + 1 : stage;
      Border& border = (gradient ? gradients_ : activations_)[{later, deed.microbatch}];
      for (const OpId op : gradient ? gradients_into(later) : transfers_into(later)) {
        Tag tag = tag_of(deed, gradient ? "backward" : "forward");
        const TensorId value = graph_.op(op).outputs[0];
        tag.tensor = graph_.value(value).name;
        const int peer = (downstream ? stage + 1 : stage - 1) % place_.ranks;
        if (const int64_t header = graph_.pipeline->header; header > 0) {
          Tag ahead = tag;
          ahead.tensor += ".header";
          list.push_back({send, TensorId(), peer, Tensor({header}, DType::i64), std::move(ahead)});
          into.emplace_back(op, nullptr);
        }
        list.push_back({send, value, peer, send ? border.at(op) : Tensor(), std::move(tag)});
        into.emplace_back(op, &border);
      }
    }
    exchange_.messages(list, place_.batched);
    for (size_t i = 0; i < list.size(); ++i)
      if (!list[i].send && into[i].second)
        (*into[i].second)[into[i].first] = std::move(list[i].data);
  }

  World& world_;
  const Graph& graph_;
  const Forward& forward_;
  const StepOptions& options_;
  Exchange exchange_;
  PipelinePlace place_;
  Parameters parameters_;
  GradientSync sync_;
  std::vector<bool> reached_;
  Tag tag_;             // of the stage and microbatch at hand
  bool back_ = false;   // the backward runs
  bool again_ = false;  // an op runs once more
  std::map<Where, std::unique_ptr<Tape>> tapes_;
  std::map<Where, Border> activations_, gradients_;  // at the border into that stage
  std::set<std::pair<int, int>> recomputed_;         // number, microbatch
  RankReport report_;
};

}  // namespace

RankReport run_step(World& world, const Graph& graph, const Forward& forward,
                    const StepOptions& options) {
  return TrainingStep(world, graph, forward, options).run();
}

StepResult run_step_on(const Backend& backend, RunOptions run, const Graph& graph,
                       const Forward& forward, const StepOptions& options) {
  run.world_size = static_cast<int>(graph.mesh.world());
  StepResult out{
      backend.run(run,
                  [&](World& world) { return pack(run_step(world, graph, forward, options)); }),
      {}};
  if (!out.result.reports || !out.result.ok()) return out;
  for (const std::string& bytes : out.result.results) out.reports.push_back(unpack_report(bytes));
  return out;
}

}  // namespace s2t

// What a framework sends besides activations and gradients: the batch of each microbatch, and the
// scalars of a step.
#include "analyzer/io/transformer/job.h"

namespace s2t {
namespace {

constexpr const char* kHandsOut = "the first rank of tp reads the batch and hands it to the others";

// Right before the first op of a stage.
CallDecl batch_part(const ModelBuilder& b, const std::string& name, DType dtype, Shape shape,
                    int stage) {
  CallDecl call;
  call.name = "batch." + name;
  call.module = stage == 0 ? "embed" : "loss";
  call.op = Collective::broadcast;
  call.axes = {"tp"};
  call.dtype = dtype;
  call.shape = std::move(shape);
  call.when = CallDecl::When::forward;
  call.again = false;
  for (const OpDecl& op : b.model.ops)
    if (op.stage == stage && call.before.empty()) call.before = op.name;
  call.why = kHandsOut;
  return call;
}

// What pretrain_bert.py and pretrain_t5.py hand out on every stage: all numbers of the batch in one
// go, behind their shapes (tensor_parallel/data.py, broadcast_data). Words, segments, labels, masks
// of loss and padding of each token and one number per sample; or words of encoder and decoder,
// labels and the masks of loss, encoder and decoder.
void hand_out_flat(ModelBuilder& b) {
  constexpr int64_t kTensors = 6, kMostDims = 5;
  const int64_t tokens = b.p.micro_batch * b.p.seq;
  const int64_t numbers = b.a.pretraining_heads ? 5 * tokens + b.p.micro_batch : 6 * tokens;
  for (int stage = 0; stage < static_cast<int>(b.p.pp * b.p.vpp); ++stage) {
    b.model.calls.push_back(batch_part(b, "shapes", DType::i64, {kTensors * kMostDims}, stage));
    b.model.calls.push_back(batch_part(b, "numbers", DType::i64, {numbers}, stage));
  }
}

// The first stage needs the tokens, the last one the labels, both the mask; whole samples, cut for
// cp afterwards. Those between read no batch.
void hand_out_batch(ModelBuilder& b) {
  if (!b.profile.is("batch_broadcast", "tp")) return;
  if (b.a.pretraining_heads || b.a.encoder_layers > 0) return hand_out_flat(b);
  const Shape tokens{b.p.micro_batch, b.p.seq}, mask{b.p.micro_batch, 1, b.p.seq, b.p.seq};
  const int last = static_cast<int>(b.p.pp * b.p.vpp) - 1;
  const bool with_mask = b.profile.is("attention_mask", "broadcast");
  for (int stage = 0; stage <= last; ++stage) {
    const auto add = [&](const char* name, DType dtype, const Shape& shape) {
      b.model.calls.push_back(batch_part(b, name, dtype, shape, stage));
    };
    if (stage == 0) add("tokens", DType::i64, tokens);
    if (stage == last) add("labels", DType::i64, tokens);
    if (stage == last) add("loss_mask", DType::f32, tokens);
    if (with_mask && (stage == 0 || stage == last)) add("attention_mask", DType::boolean, mask);
    if (stage == 0) add("position_ids", DType::i64, tokens);
  }
}

std::vector<std::string> all_axes(const ModelBuilder& b) {
  std::vector<std::string> axes;
  for (const AxisDecl& axis : b.model.mesh.axes) axes.push_back(axis.name);
  return axes;
}

// Dense and expert parameters have optimizers of their own. Each looks for overflows; the norm is
// taken once if sharded optimizers make both reduce over all ranks, in newer versions.
void gradient_statistics(ModelBuilder& b) {
  const auto when = CallDecl::When::before_update;
  const bool sharded = b.p.zero > 0;
  const std::vector<std::string> dense =
      sharded ? all_axes(b) : std::vector<std::string>{"tp", "pp"};
  const std::vector<std::string> of_experts =
      sharded ? dense : std::vector<std::string>{b.expert_tp_axis(), "ep", "pp"};
  const auto add = [&](const char* name, Combiner combiner, bool experts, const char* why) {
    add_scalar(b, name, dense, when, why).combiner = combiner;
    if (experts)
      add_scalar(b, std::string(name) + ".experts", of_experts, when, why).combiner = combiner;
  };
  if (b.p.dtype == DType::f16 && b.profile.is("loss_scaling", "fp16"))
    add("found_inf", Combiner::max, b.experts_apart(),
        "one overflow anywhere skips the step everywhere");
  const bool each = b.profile.is("grad_norm", "each_optimizer");
  if (each || b.profile.is("grad_norm", "step"))
    add("grad_norm", Combiner::sum, b.experts_apart() && (each || !sharded),
        "every rank has the squares of its own gradients; clipping needs all of them");
}

void step_statistics(ModelBuilder& b) {
  if (!b.profile.is("step_statistics", "step")) return;
  const auto when = CallDecl::When::after_update;
  CallDecl& success = add_scalar(b, "step_succeeded", {"tp", "pp"}, when,
                                 "a step counts if it succeeded on every rank of the model");
  success.combiner = Combiner::min;
  success.dtype = DType::i32;
  add_scalar(b, "grad_norm.max", {"tp", "pp"}, when,
             "ranks without a norm of their own get that of the others")
      .combiner = Combiner::max;
}

// What a rank's loss is divided by: all tokens of the step. Known on the last stage.
void count_tokens(ModelBuilder& b) {
  if (!b.profile.is("loss_divisor", "tokens")) return;
  const auto add = [&](const char* name, Collective op, std::vector<std::string> axes,
                       const char* why) {
    CallDecl& call = add_scalar(b, name, std::move(axes), CallDecl::When::synchronised, why);
    call.op = op;
    call.dtype = DType::i32;
    call.module = "loss";
  };
  add("tokens.counted", Collective::broadcast, {"pp"},
      "the last stage counted the tokens of the step and tells the others");
  const bool folded = !b.profile.is("expert_groups", "within_dp");
  add("tokens.all", Collective::all_reduce,
      folded ? std::vector<std::string>{"dp", "cp"} : std::vector<std::string>{"dp"},
      "gradients are divided by the tokens of all replicas");
}

// Sum and number of tokens. Up to core 0.12 for every microbatch: first of the ranks that share a
// sample, then of all (pretrain_gpt.py, loss_func; pretrain_t5.py takes the same function). BERT's
// two losses are always reduced so (pretrain_bert.py, loss_func).
void logged_loss(ModelBuilder& b) {
  const auto add = [&](const char* name, std::vector<std::string> axes, const char* why) -> auto& {
    CallDecl& loss = add_scalar(b, name, std::move(axes), CallDecl::When::after_update, why);
    loss.module = "loss";
    loss.shape = {2};
    return loss;
  };
  const auto in_forward = [&](CallDecl& loss) {
    loss.when = CallDecl::When::forward;
    loss.before = b.model.loss;
    loss.again = false;
  };
  constexpr const char* kMean = "the loss to print is the mean over all samples";
  const bool each = b.profile.is("loss_logging", "microbatch");
  if (!each && !b.profile.is("loss_logging", "step")) return;
  if (b.a.pretraining_heads) return in_forward(add("loss.logged", {"dp"}, kMean));
  if (!each) {
    add("loss.logged", {"dp", "cp"}, kMean).stage = static_cast<int>(b.p.pp * b.p.vpp) - 1;
    return;
  }
  in_forward(add("loss.of_samples", {"cp"}, "the loss of a sample is that of all its tokens"));
  in_forward(add("loss.logged", {"dp"}, kMean));
}

// Of the layers with experts on one pipeline rank.
void expert_bias(ModelBuilder& b) {
  if (!b.a.experts || !b.a.experts->balanced_by_bias || !b.profile.is("expert_bias", "counted"))
    return;
  for (int64_t rank = 0; rank < b.p.pp; ++rank) {
    int64_t number = 0, layers = 0;
    for (size_t s = 0; s < b.p.stage_layers.size(); ++s)
      for (int64_t i = 0; i < b.p.stage_layers[s]; ++i, ++number)
        if (static_cast<int64_t>(s) % b.p.pp == rank && number >= b.a.experts->first_dense)
          ++layers;
    if (layers == 0) continue;
    CallDecl& call =
        add_scalar(b, "expert_bias", {"tp", "dp", "cp"}, CallDecl::When::synchronised,
                   "the bias that balances the experts follows the tokens of all ranks");
    call.module = "moe";
    call.shape = {layers, b.a.experts->experts};
    call.stage = static_cast<int>(rank);
  }
}

}  // namespace

CallDecl& add_scalar(ModelBuilder& b, std::string name, std::vector<std::string> axes,
                     CallDecl::When when, std::string why) {
  CallDecl& call = b.model.calls.emplace_back();
  call.name = std::move(name);
  call.module = "optimizer";
  call.axes = std::move(axes);
  call.shape = {1};
  call.when = when;
  call.why = std::move(why);
  return call;
}

void add_calls(ModelBuilder& b) {
  hand_out_batch(b);
  expert_bias(b);
  count_tokens(b);
  gradient_statistics(b);
  step_statistics(b);
  logged_loss(b);
  add_torch_scalars(b);
}

}  // namespace s2t

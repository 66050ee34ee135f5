// The scalars of a step under torchtitan and DeepSpeed.
#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/io/transformer/job.h"

namespace s2t {
namespace {

CallDecl& add(ModelBuilder& b, std::string name, std::vector<std::string> axes, std::string why) {
  return add_scalar(b, std::move(name), std::move(axes), CallDecl::When::before_update,
                    std::move(why));
}

bool has_experts(const ModelBuilder& b, size_t stage) {
  int64_t first = 0;
  for (size_t s = 0; s < stage; ++s) first += b.p.stage_layers[s];
  return b.a.experts && first + b.p.stage_layers[stage] > b.a.experts->first_dense &&
         b.p.stage_layers[stage] > 0;
}

// A DTensor's norm is made whole axis by axis; that of experts, which lie on a mesh of their own,
// by itself. Stages add theirs up.
void norm_of_tensors(ModelBuilder& b) {
  const char* why =
      "the norm of parts becomes that of the whole gradients, one mesh axis at a time";
  const bool hybrid = b.profile.number("replicate") > 1;
  for (size_t s = 0; b.p.ep > 1 && s < b.p.stage_layers.size(); ++s)
    for (const char* axis : {hybrid ? "edp_shard" : "edp", "ep"})
      if (has_experts(b, s))
        add(b, std::string("grad_norm.experts.") + axis, {axis}, why).stage = static_cast<int>(s);
  add(b, "grad_norm.dp", {hybrid ? "dp_shard" : "dp", "cp"}, why);
  add(b, "grad_norm.tp", {"tp"}, why);
  add(b, "grad_norm.pp", {"pp"}, "stages add up the squares of their norms");
}

// Without FSDP the gradients of norms are still sums of terms over tp. Clipping adds them up for
// the norm and throws the result away, so the optimizer adds them up once more.
void norms_again(ModelBuilder& b) {
  if (b.p.dp * b.p.cp > 1 || b.p.tp == 1) return;
  for (const OpDecl& op : b.model.ops)
    for (const std::string& input : op.inputs) {
      const auto t = std::find_if(b.model.tensors.begin(), b.model.tensors.end(),
                                  [&](const TensorDecl& d) { return d.name == input; });
      if (t == b.model.tensors.end() || !t->parameter || t->shape.size() != 1) continue;
      CallDecl& call = add(b, t->name + ".again", {"tp"},
                           "AdamW reads a gradient that is a sum of terms still: clipping threw "
                           "away what it had added up for the norm");
      call.module = op.module;
      call.shape = {t->shape[0].size};
      call.dtype = b.model.gradient_sync.dtype.value_or(t->dtype);
      call.stage = op.stage;
    }
}

// The ranks over which ZeRO takes parameters apart: those of sequence parallelism too.
const std::vector<std::string> kZeroRanks{"dp", "cp"};

// Sub-groups of about sub_group_size elements of a rank's parts of its parameters.
int64_t sub_groups(const ModelBuilder& b) {
  constexpr int64_t kSize = 1'000'000'000;
  int64_t groups = 0, held = 0;
  for (const TensorDecl& t : b.model.tensors) {
    if (!t.parameter) continue;
    int64_t n = 1;
    for (const DimDecl& dim : t.shape) n *= dim.size;
    held += (n + b.p.dp * b.p.cp - 1) / (b.p.dp * b.p.cp);
    if (held < kSize) continue;
    ++groups;
    held = 0;
  }
  return groups + (held > 0 ? 1 : 0);
}

const std::vector<std::string> kModelRanks{"tp", "pp"};

// One byte. ZeRO asks the ranks of its parts; without it FP16_Optimizer asks those of experts.
void zero_overflow(ModelBuilder& b) {
  const bool half = b.p.dtype == DType::f16;
  if (!b.profile.is("overflow", "step") || !(b.p.zero == 3 || half)) return;
  const auto ask = [&](const char* name, const std::vector<std::string>& axes) {
    CallDecl& call = add(b, name, axes, "one overflow anywhere skips the step everywhere");
    call.combiner = Combiner::max;
    call.dtype = DType::boolean;
  };
  if (b.p.zero > 0) ask("overflow.dp", kZeroRanks);
  if (b.p.zero == 0 && b.experts_apart()) ask("overflow.experts", {"ep"});
  ask("overflow", kModelRanks);
}

// Of dense parameters, then of experts. Stage 0 in float32 needs none.
void zero_norm(ModelBuilder& b) {
  if (!b.profile.is("grad_norm", "zero")) return;
  const char* rest = "ranks that hold other parameters have the squares of their gradients";
  const bool apart = b.experts_apart();
  if (b.p.zero == 0 && b.p.dtype != DType::f32) {
    add(b, "grad_norm", kModelRanks, rest);
    if (apart) add(b, "grad_norm.experts", {"ep"}, "so have the ranks that hold other experts");
  }
  const int64_t groups = b.p.zero == 3 ? sub_groups(b) : b.p.zero > 0 ? 1 + apart : 0;
  for (int64_t i = 0; i < groups; ++i) {
    add(b, "grad_norm.dp", kZeroRanks,
        "ranks of dp have the squares of their parts of the gradients");
    add(b, "grad_norm", kModelRanks, rest);
  }
  if (apart && b.p.zero > 0)
    add(b, "grad_norm.experts", {"edp"},
        "the norm of experts is averaged over those that share them");
}

// One number per parameter: did this rank use it.
void used_map(ModelBuilder& b) {
  if (!b.profile.is("find_unused_parameters", "true")) return;
  int64_t parameters = 0;
  for (const TensorDecl& t : b.model.tensors) parameters += t.parameter;
  CallDecl& call = add(b, "used_parameters", {"dp"},
                       "a parameter that no rank used keeps the gradient that it had");
  call.shape = {parameters};
  call.dtype = DType::i32;
  call.when = CallDecl::When::synchronised;
}

// Before a forward that follows a synchronised one: the first of a step, or every one.
void buffers(ModelBuilder& b) {
  const int64_t numbers = b.profile.number("buffers");
  if (numbers == 0) return;
  CallDecl& call = add(b, "buffers", {"dp"}, "every rank begins with the buffers of the first one");
  call.op = Collective::broadcast;
  call.module = b.model.ops.front().module;
  call.shape = {numbers};
  call.when = CallDecl::When::forward;
  call.before = b.model.ops.front().name;
  call.again = false;
  call.once = !b.profile.is("every", "microbatch");
}

// Ulysses: everybody gets the loss of every token of the sample (as float32), and takes their mean.
void loss_of_sequence(ModelBuilder& b) {
  if (b.p.cp == 1 || !b.profile.is("sequence_loss", "gathered")) return;
  CallDecl& call =
      add(b, "loss.tokens", {"cp"},
          "the mean is over all tokens of a sample, and each rank has the loss of some");
  call.op = Collective::all_gather;
  call.module = "loss";
  call.shape = {b.p.micro_batch * b.p.seq / b.p.cp};
  call.when = CallDecl::When::forward;
  call.before = b.model.loss;
  call.again = false;
}

// The last stage tells all others its loss and the mean over dp.
void pipeline_loss(ModelBuilder& b) {
  if (b.p.pp == 1 || !b.profile.is("loss_logging", "pipeline")) return;
  CallDecl& mean = add(b, "loss.logged", {"dp"}, "train_batch returns the mean over all samples");
  mean.module = "loss";
  mean.when = CallDecl::When::after_update;
  mean.stage = static_cast<int>(b.p.pp) - 1;
  CallDecl& told = add(b, "loss.told", {"pp"}, "the last stage tells the others the loss");
  told.op = Collective::broadcast;
  told.module = "loss";
  told.when = CallDecl::When::after_update;
  told.shape = {2};
}

}  // namespace

void add_torch_scalars(ModelBuilder& b) {
  if (b.profile.is("grad_norm", "each_axis")) {
    norm_of_tensors(b);
    norms_again(b);
  }
  if (b.profile.is("gradient_sync", "zero")) {
    zero_overflow(b);
    zero_norm(b);
  }
  buffers(b);
  loss_of_sequence(b);
  pipeline_loss(b);
  used_map(b);
}

}  // namespace s2t

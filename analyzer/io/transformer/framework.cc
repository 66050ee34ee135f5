#include "analyzer/io/transformer/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "analyzer/base/text.h"
#include "analyzer/io/fit.h"

namespace s2t {
namespace {

// Embedding and head count as one layer each; what is left over goes to the first stages.
std::vector<int64_t> weighted_stages(const Architecture& a, int64_t stages) {
  const int64_t weight = a.layers + 2;
  std::vector<int64_t> layers;
  for (int64_t s = 0; s < stages; ++s) layers.push_back(weight / stages + (s < weight % stages));
  --layers.front();
  --layers.back();
  return layers;
}

// Under expert parallelism: where data-parallel ranks outnumber the experts, FSDP cuts each expert.
bool experts_cut_along_rows(const Architecture& a, const Plan& p) {
  return p.ep > 1 && p.expert_dp() * p.ep > a.experts->experts;
}

class Limits {
 public:
  Limits(const Architecture& a, const Plan& p, const Profile& profile, Diagnostics& sink,
         bool asks_others = true)
      : a_(a), p_(p), profile_(profile), sink_(sink), asks_others_(asks_others) {}

  void check() {
    parallelism();
    blocks();
    sharding();
    pipeline();
    experts();
    contexts();
    const auto refusing = [this](bool wrong, std::string flag, std::string found,
                                 std::string expected, std::string advice) {
      refuse(wrong, std::move(flag), std::move(found), std::move(expected), std::move(advice));
    };
    if (is("gradient_sync", "fsdp")) check_torchtitan(a_, p_, profile_, refusing);
    if (is("gradient_sync", "zero")) check_deepspeed(a_, p_, profile_, refusing);
  }

 private:
  void refuse(bool wrong, std::string flag, std::string found, std::string expected,
              std::string advice = "") {
    if (wrong)
      sink_.add({std::move(flag), fmt::format("{} under {}", found, profile_.name()),
                 std::move(expected), std::move(advice), "unsupported-plan"});
  }

  bool is(std::string_view name, std::string_view value) const { return profile_.is(name, value); }

  void parallelism() {
    refuse(is("tensor_parallel", "none") && p_.tp > 1, "--tp", "tensor parallelism", "1",
           "megatron and torchtitan have it.");
    refuse(is("tensor_parallel", "without_sequence") && p_.sequence_parallel(), "--sp",
           "sequence parallelism", "leave it out", "megatron and torchtitan have it.");
    refuse(is("pipeline", "none") && p_.pp > 1, "--pp", "a pipeline", "1",
           "megatron, torchtitan and deepspeed have one.");
    refuse(is("tensor_parallel", "none") && p_.ep > 1, "--ep", "expert parallelism", "1",
           "megatron, torchtitan and deepspeed have it.");
    refuse(a_.latent && p_.tp > 1 && profile_["latent_down"].empty(), "--tp",
           "latent attention over tp", "1", "megatron has it.");
    refuse(is("vocabulary_padding", "none") && a_.vocab % p_.tp != 0, "--tp",
           fmt::format("a vocabulary of {} over {} ranks", a_.vocab, p_.tp),
           divisors(std::gcd(a_.heads, a_.vocab)), "--set vocabulary_padding=128 pads it.");
  }

  // Profiles that take this model and plan as they are.
  std::string others() const {
    std::vector<std::string> names;
    for (const ProfileDef& def : profiles()) {
      if (!asks_others_ || def.name == profile_.name()) continue;
      const Profile other(def);
      Diagnostics wrong("");
      const Plan plan = resolved(as_framework_runs(p_, a_, other), a_);
      check_plan(a_, plan, wrong);
      Limits(a_, plan, other, wrong, false).check();
      if (!wrong.any()) names.emplace_back(def.name);
    }
    return names.empty() ? ""
                         : join(names, ", ") + (names.size() == 1 ? " takes" : " take") +
                               " this model and plan.";
  }

  void blocks() {
    const bool plain = is("blocks", "plain_scores"), rms = is("blocks", "rms_rotary");
    const auto no = [&](bool wrong, const char* what, const char* expected) {
      if (wrong)
        sink_.add({"", fmt::format("{} ({})", what, a_.family),
                   fmt::format("{}, as {} has them", expected, profile_.name()), others(),
                   "unsupported-config"});
    };
    const char* scores = "attention with plain scores";
    no(plain && a_.sinks, "attention sinks", scores);
    no((plain || rms) && a_.positions == Positions::relative, "relative positions",
       plain ? scores : "rotary positions");
    if (!rms) return;
    const char* model = "a model of RMS norms and rotary positions";
    const bool other = a_.positions != Positions::rotary && a_.positions != Positions::relative;
    no(other, "positions that are not rotary", model);
    no(a_.norm != Norm::rms, "norms that are not RMS norms", model);
    no(a_.norms != NormPlace::before, "norms elsewhere than before both blocks", model);
    no(a_.encoder_layers > 0, "an encoder", model);
  }

  void sharding() {
    const int64_t replicas = std::max<int64_t>(1, profile_.number("replicate"));
    refuse(replicas > 1 && (p_.dp % replicas != 0 || p_.dp == replicas), "--set",
           fmt::format("replicate={} of {} data-parallel ranks", replicas, p_.dp),
           divisors(
               p_.dp, [](int64_t n, int64_t all) { return n < all; }, p_.dp),
           "Several ranks must be left to each copy.");
    refuse(replicas > 1 && p_.ep > 1 && p_.expert_dp() % replicas != 0, "--ep",
           fmt::format("{} copies of {} expert data-parallel ranks", replicas, p_.expert_dp()),
           "ranks of ep within a copy");
    refuse(is("find_unused_parameters", "true") && is("every", "microbatch"), "--set",
           "find_unused_parameters=true with every=microbatch", "one of them");
    const int64_t most = is("gradient_sync", "zero") ? 3
                         : is("gradient_sync", "one_bucket") || is("gradient_sync", "overlapped")
                             ? 1
                             : 0;
    refuse(p_.zero > most, "--zero", fmt::format("ZeRO stage {}", p_.zero),
           most == 0 ? "0, or leave it out" : fmt::format("0 to {}", most),
           is("gradient_sync", "fsdp") ? "FSDP shards parameters, gradients and optimizer states."
           : most == 1                 ? "1 is the distributed optimizer."
                                       : "deepspeed has ZeRO 1 to 3.");
    refuse(is("parameter_gathers", "before_use") &&
               (p_.zero != 1 || !is("gradient_sync", "overlapped")),
           "--set", "parameter_gathers=before_use without overlapped reductions and sharded states",
           "--zero 1 and --set gradient_sync=overlapped too");
    refuse(is("reshard_after_forward", "always") && p_.pp > 1, "--set",
           "reshard_after_forward=always with a pipeline",
           "reshard_after_forward=default or never, or --pp 1",
           "How often it gathers depends on the order of microbatches; not modelled.");
  }

  // Each rank has a chunk from the front and its mirror image from the back, so that a causal mask
  // leaves all of them the same work.
  void contexts() {
    if (p_.cp == 1) return;
    refuse(profile_["context_parallel"].empty(), "--cp", "context parallelism", "1",
           "megatron, torchtitan and deepspeed have it.");
    if (is("gradient_sync", "zero")) return;
    const bool of_torch =
        is("context_parallel", "gathered_ring") || is("context_parallel", "exchanged_ring");
    refuse(!profile_["context_parallel"].empty() && of_torch != is("gradient_sync", "fsdp"),
           "--set", fmt::format("context_parallel={}", profile_["context_parallel"]),
           of_torch ? "p2p, all_gather or a2a" : "gathered_ring or exchanged_ring",
           of_torch ? "torchtitan has PyTorch's ring." : "megatron has the others.");
    if (is("context_parallel", "a2a")) exchanged_heads();
    refuse(a_.sinks && is("context_parallel", "p2p"), "--cp", "attention sinks in a ring", "1",
           "Transformer Engine has them with --set context_parallel=a2a only.");
    refuse(
        !profile_["context_parallel"].empty() && p_.seq % (2 * p_.cp) != 0 && p_.seq % p_.cp == 0,
        "--seq", fmt::format("{} tokens in two chunks for each of {} ranks of cp", p_.seq, p_.cp),
        neighbours(p_.seq, std::lcm(2 * p_.cp, p_.sequence_parallel() ? p_.tp * p_.cp : 1)));
  }

  // Each rank of cp gets its share of the heads of a rank of tp.
  void exchanged_heads() {
    const int64_t heads = a_.latent ? a_.heads : std::gcd(a_.heads, a_.kv_heads);
    const int64_t local = heads / std::gcd(heads, p_.tp);
    refuse(local % p_.cp != 0, "--cp",
           fmt::format("{} heads and {} of keys and values, exchanged over {} ranks", a_.heads,
                       a_.latent ? a_.heads : a_.kv_heads, p_.tp * p_.cp),
           fmt::format("a divisor of {}", local), "Or --set context_parallel=p2p or all_gather.");
    refuse(a_.sinks && p_.tp > 1, "--tp", "attention sinks with heads exchanged over cp", "1");
  }

  void pipeline() {
    const bool deepspeed = is("pipeline", "deepspeed"), torch = is("pipeline", "torch");
    refuse(!deepspeed && p_.schedule == "deepspeed", "--schedule", "the schedule of DeepSpeed",
           "another one, or leave it out");
    refuse(!deepspeed && !torch && p_.schedule == "interleaved_steps", "--schedule",
           "the schedule of torch.distributed.pipelining", "another one, or leave it out");
    refuse(torch && p_.schedule == "interleaved", "--schedule",
           "Megatron's order of interleaved chunks", "interleaved_steps, or leave it out");
    refuse(p_.vpp > 1 && p_.pp == 2 && is("interleaved_p2p", "batched"), "--pp",
           "2 pipeline ranks with model chunks and without overlapped messages", "more than 2",
           "Or leave out --no-overlap-p2p-communication (interleaved_p2p=batched).");
    refuse(
        torch && p_.pp > 1 && p_.schedule != "gpipe" && p_.microbatches() < p_.pp, "--global-batch",
        fmt::format("{} microbatches on {} pipeline ranks", p_.microbatches(), p_.pp),
        fmt::format("{} samples or more", p_.pp * p_.dp * p_.micro_batch), "Or --schedule gpipe.");
    if (!deepspeed || p_.pp == 1) return;
    refuse(p_.vpp > 1, "--vpp", "model chunks", "1", "megatron and torchtitan have them.");
    refuse(p_.zero > 1, "--zero", fmt::format("ZeRO stage {} with a pipeline", p_.zero), "0 or 1");
    refuse(p_.schedule != "deepspeed", "--schedule", p_.schedule, "deepspeed, or leave it out");
  }

  void experts() {
    if (!a_.experts) return;
    refuse(is("tensor_parallel", "optional_sequence") && p_.tp > 1 && !p_.sp, "--tp",
           "experts with tensor parallelism but without sequence parallelism", "--sp too");
    refuse(!is("tensor_parallel", "optional_sequence") && p_.tp > 1, "--tp",
           "experts with tensor parallelism", "1", "megatron has it.");
    if (is("expert_groups", "within_dp"))
      experts_within_dp();
    else
      folded_order();
    refuse(is("moe_dispatcher", "flex"), "--set", "moe_dispatcher=flex", "alltoall or allgather",
           "Its exchanges are kernels of DeepEP or HybridEP, no NCCL collectives.");
    if (is("moe_dispatcher", "allgather")) gathered_tokens();
    const int64_t edp = p_.expert_dp(), rows = std::gcd(a_.experts->ffn, a_.hidden);
    refuse(is("gradient_sync", "fsdp") && experts_cut_along_rows(a_, p_) && rows % edp != 0, "--dp",
           fmt::format("experts of {} x {} cut along their rows over {} ranks", a_.experts->ffn,
                       a_.hidden, edp),
           fmt::format("ranks per expert that divide {}", rows));
    if (is("expert_capacity", "none")) return;
    const double share = static_cast<double>(p_.seq * p_.micro_batch * a_.experts->top_k) /
                         static_cast<double>(a_.experts->experts);
    refuse(p_.seq > 0 && share * profile_.real("expert_capacity") <= 3, "--seq",
           "fewer than 4 rows for each expert", "4 or more, the least capacity");
  }

  int64_t place_of(const char* axis) const {
    const std::vector<std::string> words = split_order(p_.order);
    return std::find(words.begin(), words.end(), axis) - words.begin();
  }

  // Dense and expert ranks are laid out in one order, and both need the same pipeline groups
  // (parallel_state.py, initialize_model_parallel).
  void folded_order() {
    const std::vector<std::string> words = split_order(p_.order);
    if (p_.pp == 1 || words.back() == "pp") return;
    int64_t dense = 1, expert = 1;  // ranks between neighbours of pp
    for (const std::string& word : words) {
      if (word == "pp") break;
      dense *= word == "tp" ? p_.tp : word == "cp" ? p_.cp : word == "dp" ? p_.dp : 1;
      expert *= word == "tp"   ? p_.expert_tp()
                : word == "ep" ? p_.ep
                : word == "dp" ? p_.expert_dp()
                               : 1;
    }
    refuse(p_.expert_dp() != p_.dp || dense != expert, "--order",
           fmt::format("{} with tp {} x cp {}, of experts etp {} x ep {},", quoted(p_.order), p_.tp,
                       p_.cp, p_.expert_tp(), p_.ep),
           "an order that ends with pp",
           "Another one needs etp x ep = tp x cp, and as many ranks between neighbours of pp.");
  }

  void gathered_tokens() {
    refuse(is("shared_experts", "overlapped") && a_.experts->shared_ffn > 0, "--set",
           "shared_experts=overlapped with moe_dispatcher=allgather", "before");
    refuse(is("expert_groups", "within_dp"), "--set", "moe_dispatcher=allgather", "alltoall",
           "This version gathers indices, and the weights of these alone; not modelled.");
    refuse(a_.experts->bias, "--set", "moe_dispatcher=allgather with biases of experts",
           "alltoall");
    refuse(p_.ep > 1 && place_of("ep") > place_of("dp"), "--order",
           quoted(p_.order) + " with moe_dispatcher=allgather", "ep before dp");
  }

  void experts_within_dp() {
    refuse(p_.expert_tp() != p_.tp, "--etp",
           fmt::format("experts split over {} ranks", p_.expert_tp()), "leave it out");
    refuse(p_.dp % p_.ep != 0, "--ep",
           fmt::format("{} ranks of experts within dp {}", p_.ep, p_.dp),
           divisors(std::gcd(p_.dp, a_.experts->experts)));
    refuse(p_.ep > 1 && std::abs(place_of("ep") - place_of("dp")) != 1, "--order", quoted(p_.order),
           "ep next to dp");
  }

  const Architecture& a_;
  const Plan& p_;
  const Profile& profile_;
  Diagnostics& sink_;
  bool asks_others_;
};

// --- synchronisation -----------------------------------------------------------------------------

constexpr int64_t kMiB = int64_t{1} << 20;

// The module whose own parameter it is: "layers.0.attn.q" of "layers.0.attn.q.weight".
std::string own_module(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

// "embed", "layers.3", "head".
std::string block_of(const std::string& parameter) {
  const size_t dot = parameter.find('.');
  if (parameter.substr(0, dot) != "layers") return parameter.substr(0, dot);
  return parameter.substr(0, parameter.find('.', dot + 1));
}

// The routed experts of "layers.3": "layers.3.moe.experts".
std::string block_or_experts_of(const std::string& parameter) {
  const size_t at = parameter.find(".experts.");
  return at == std::string::npos ? block_of(parameter) : parameter.substr(0, at + 8);
}

using NamedUnits = std::vector<std::pair<std::string, ShardedUnitDecl>>;

NamedUnits units_by(const ModelBuilder& b, std::string (*module_of)(const std::string&)) {
  NamedUnits units;
  std::map<std::string, size_t> at;
  for (const TensorDecl& t : b.model.tensors) {
    if (!t.parameter) continue;
    const auto [unit, fresh] = at.emplace(module_of(t.name), units.size());
    if (fresh) units.emplace_back(unit->first, ShardedUnitDecl{});
    units[unit->second].second.parameters.push_back(t.name);
  }
  return units;
}

void set_ddp(ModelBuilder& b, GradientSyncDecl& sync) {
  sync.kind = SyncKind::bucketed;
  sync.every_microbatch = b.profile.is("every", "microbatch");
  sync.first_iteration = b.profile.is("ddp_step", "first");
  if (const int64_t cap = b.profile.number("bucket_cap_mb"))
    sync.first_bucket_bytes = sync.bucket_bytes = cap * kMiB;
  if (!b.profile.is("find_unused_parameters", "true")) return;
  sync.first_iteration = false;  // never rebuilt
  sync.parameter_order = sync.last_bucket_first = true;
}

// With expert parallelism every block has the next one and its experts gathered; the embedding and
// the head only the block, and what is not named waits for its turn.
void set_prefetch(const NamedUnits& units, bool again, GradientSyncDecl& sync) {
  std::vector<size_t> blocks;
  std::map<std::string, size_t> experts;  // by block
  for (size_t u = 0; u < units.size(); ++u) {
    const std::string block = block_of(units[u].first + ".");
    if (block == units[u].first)
      blocks.push_back(u);
    else
      experts[block] = u;
  }
  const auto with_experts = [&](size_t from, size_t to) {
    std::vector<size_t> next{to};
    const auto at = experts.find(units[to].first);
    if (at != experts.end() && units[from].first.rfind("layers.", 0) == 0)
      next.push_back(at->second);
    return next;
  };
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    const size_t u = blocks[i], v = blocks[i + 1];
    sync.units[u].forward_prefetch = with_experts(u, v);
    sync.units[v].backward_prefetch = with_experts(v, u);
  }
  // The head does not ask for the experts of the last block. Their own forward does, which comes
  // first if it is computed again.
  if (!again || blocks.size() < 2) return;
  const size_t last = blocks[blocks.size() - 2];
  const auto own = experts.find(units[last].first);
  if (own != experts.end()) sync.units[last].backward_prefetch.push_back(own->second);
}

// One unit per embedding, block, and norm with head. Under expert parallelism experts are a unit
// within their block, cut along their rows where ranks outnumber the experts.
void set_units(ModelBuilder& b, GradientSyncDecl& sync) {
  const bool apart = b.a.experts && b.p.ep > 1;
  const NamedUnits units = units_by(b, apart ? block_or_experts_of : block_of);
  for (const auto& [module, unit] : units) {
    // A tied table is in one unit with norm and head: gathered first, and kept.
    if (b.a.tied && (module == "embed" || module == "head")) continue;
    ShardedUnitDecl& decl = sync.units.emplace_back(unit);
    const bool experts = module != block_of(module + ".");
    if (!experts) decl.module = module;
    if (experts && experts_cut_along_rows(b.a, b.p)) decl.dim = 1;
  }
  if (apart) set_prefetch(units, b.p.recompute != Recompute::none, sync);
}

void set_fsdp(ModelBuilder& b, GradientSyncDecl& sync) {
  if (b.p.dp * b.p.cp == 1) return;  // nothing is wrapped
  const bool pipeline = b.p.pp > 1;
  const std::string_view policy = b.profile["reshard_after_forward"];
  sync.kind = SyncKind::fsdp;
  sync.every_microbatch = !pipeline && b.profile.is("every", "microbatch");
  sync.reshard_after_forward = policy == "always" || (policy == "default" && !pipeline);
  sync.reshard_last_unit = policy == "always";
  sync.reshard_after_backward = !pipeline;  // the schedule keeps them until the last microbatch
  sync.overlap = !pipeline;                 // and reduces behind its last backward
  if (b.profile.number("replicate") > 1) sync.replicated = {"dp_replicate"};
  set_units(b, sync);
}

// BF16_Optimizer: gradients are reduced as one padded flat tensor, and everybody gets the updated
// parameters.
void set_bf16_optimizer(GradientSyncDecl& sync) {
  sync.kind = SyncKind::zero1;
  sync.every_microbatch = sync.overlap = false;
  sync.parameter_order = sync.tied_first = sync.whole_gradients = true;
  sync.update_alignment = sync.bucket_multiple = 2;
  sync.bucket_bytes = sync.first_bucket_bytes = INT64_MAX;
}

void set_zero(ModelBuilder& b, GradientSyncDecl& sync) {
  const bool wraps = b.profile.is("bf16_optimizer", "flat");
  if (b.p.zero == 0 && b.p.dtype == DType::bf16 && wraps) return set_bf16_optimizer(sync);
  constexpr SyncKind kStages[] = {SyncKind::bucketed, SyncKind::zero1, SyncKind::zero2,
                                  SyncKind::zero3};
  sync.kind = kStages[b.p.zero];
  sync.every_microbatch = b.p.zero >= 2;
  sync.overlap = b.p.zero >= 2;
  sync.parameter_order = b.p.zero <= 1;
  sync.close_before = b.p.zero >= 1;
  sync.tied_first = true;
  sync.whole_gradients =
      (b.p.zero == 1 || b.p.zero == 2) && b.profile.is("zero_gradients", "whole");
  if (sync.whole_gradients) sync.update_alignment = 2;
  const auto size = static_cast<int64_t>(size_of(sync.dtype.value_or(b.p.dtype)));
  // Stage 0 closes a bucket that has exceeded the limit.
  sync.bucket_bytes = (b.profile.number("reduce_bucket_size") + (b.p.zero == 0 ? 1 : 0)) * size;
  sync.first_bucket_bytes = sync.bucket_bytes;
  if (b.p.zero < 3) return;
  sync.persistent_elements = b.profile.number("param_persistence_threshold");
  for (auto& [module, unit] : units_by(b, own_module)) sync.units.push_back(std::move(unit));
  if (!b.a.tied) return;
  // The head gathers the table once more, in both directions.
  for (ShardedUnitDecl& unit : sync.units)
    if (unit.parameters.front() == b.table) unit.module = "embed";
  sync.units.push_back({{b.table}, "head", 0, {}, {}});
}

// Buckets of elements; cp does not count for their size.
void set_megatron(ModelBuilder& b, GradientSyncDecl& sync) {
  sync.kind = b.p.zero == 1 ? SyncKind::zero1 : SyncKind::bucketed;
  sync.every_microbatch = false;
  sync.overlap = b.profile.is("gradient_sync", "overlapped");
  sync.tied_alone = b.p.zero > 0;
  sync.bucket_multiple = b.p.zero > 0 ? b.profile.number("bucket_multiple") : 1;
  sync.parameter_multiple = b.p.zero > 0 ? b.profile.number("parameter_multiple") : 1;
  sync.bucket_bytes = INT64_MAX;
  const int64_t stated = b.profile.number("bucket_size");
  const int64_t size = stated > 0 ? stated : std::max<int64_t>(40'000'000, 1'000'000 * b.p.dp);
  if (*sync.overlap)
    sync.bucket_bytes = size * static_cast<int64_t>(size_of(sync.dtype.value_or(b.p.dtype)));
  sync.first_bucket_bytes = sync.bucket_bytes;
  sync.first_stage_only = true;
  sync.registered = registered_parameters(b, *sync.overlap);
  if (b.profile.is("parameter_gathers", "each_optimizer") && b.experts_apart())
    sync.update_rounds = 2;
  sync.gather_before_use = b.profile.is("parameter_gathers", "before_use");
}

}  // namespace

Plan as_framework_runs(Plan plan, const Architecture& a, const Profile& profile) {
  if (profile.is("tensor_parallel", "always_sequence")) plan.sp = plan.tp > 1;
  if (profile.is("pipeline", "deepspeed") && plan.schedule.empty() && plan.pp > 1)
    plan.schedule = "deepspeed";
  const int64_t stages = plan.pp * std::max<int64_t>(1, plan.vpp);
  const bool stated = !plan.stage_layers.empty() || plan.first_layers > 0 || plan.last_layers > 0 ||
                      plan.layers_per_chunk > 0;
  if (profile.is("stage_split", "weighted_ends") && !stated && stages > 1 && a.layers + 2 >= stages)
    plan.stage_layers = weighted_stages(a, stages);
  // Mixed precision is FSDP's: without it parameters and activations stay as they were made.
  if (profile.is("mixed_precision", "fsdp") && plan.dp <= 1 && plan.cp == 1 &&
      plan.dtype == DType::bf16)
    plan.dtype = DType::f32;
  return plan;
}

void check_framework(const Architecture& a, const Plan& plan, const Profile& profile,
                     Diagnostics& sink) {
  Limits(a, plan, profile, sink).check();
}

void set_synchronisation(ModelBuilder& b) {
  GradientSyncDecl& sync = b.model.gradient_sync;
  sync.dtype = b.p.grad_dtype;
  const bool half = b.p.dtype == DType::f16 && !b.profile["fp16_gradient_dtype"].empty();
  const auto stated = b.profile[half ? "fp16_gradient_dtype" : "gradient_dtype"];
  if (const auto dtype = parse_dtype(stated); dtype && !sync.dtype) sync.dtype = dtype;
  const auto in_sequence = parse_dtype(b.profile["sequence_gradient_dtype"]);
  if (b.p.cp > 1 && in_sequence && !b.p.grad_dtype) sync.dtype = in_sequence;
  if (b.profile.is("gradient_sync", "ddp")) return set_ddp(b, sync);
  if (b.profile.is("gradient_sync", "fsdp")) return set_fsdp(b, sync);
  if (b.profile.is("gradient_sync", "zero")) return set_zero(b, sync);
  set_megatron(b, sync);
}

}  // namespace s2t

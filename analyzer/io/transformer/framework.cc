#include "analyzer/io/transformer/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/base/text.h"

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

bool experts_cut_along_rows(const Architecture& a, const Plan& p) {
  return p.ep > 1 && p.expert_dp() * p.ep > a.experts->experts;
}

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

#include "analyzer/io/transformer/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

// The order in which a framework creates its groups. Megatron: parallel_state.py,
// initialize_model_parallel, with the groups of embeddings behind those of pp. torchtitan: a
// DeviceMesh has one family per dim, the slowest first; what is flattened follows
// (parallel_dims.py). DeepSpeed: PipelineParallelGrid (runtime/pipe/topology.py); experts, of which
// the copies come first (utils/groups.py, _create_expert_and_data_parallel), follow.
std::vector<std::string> group_order(const Profile& profile, const Plan& plan) {
  if (profile.is("pipeline", "megatron"))
    return {"dp cp", "dp", "cp",  "tp pp",  "tp",    "pp",        "tp dp cp", "tp dp",
            "tp cp", "ep", "etp", "etp ep", "tp_ep", "etp ep pp", "tp_ep pp", "edp"};
  if (profile.is("pipeline", "megatron-0.8"))
    return {"dp",       "dp cp", "cp",    "tp pp", "tp ep pp", "tp",  "pp",
            "tp dp cp", "tp dp", "tp cp", "tp ep", "ep",       "edp", "edp cp"};
  if (profile.is("pipeline", "torch") && plan.ep > 1)
    return {"pp", "dp_replicate", "edp_shard", "edp",         "cp",  "tp",
            "dp", "dp_shard",     "dp cp",     "dp_shard cp", "etp", "ep"};
  if (profile.is("pipeline", "torch"))
    return {"pp", "dp_replicate", "dp_shard", "dp", "cp", "tp", "dp_shard cp", "dp cp"};
  if (profile.is("pipeline", "deepspeed")) {
    std::vector<std::string> order{"dp", "pp", "tp", "edp", "ep"};
    if (plan.tp > 1 && plan.pp > 1) order.insert(order.begin(), "tp pp");
    return order;
  }
  return {};
}

// A profile's words about ranks, as axes, the slowest first.
class MeshBuilder {
 public:
  MeshBuilder(const Architecture& a, const Plan& p, const Profile& profile)
      : a_(a),
        p_(p),
        folded_(!profile.is("expert_groups", "within_dp")),
        gathers_(profile.is("moe_dispatcher", "allgather")),
        replicas_(std::max<int64_t>(1, profile.number("replicate"))),
        order_(split(p.order, '-')) {
    std::reverse(order_.begin(), order_.end());
  }

  MeshDecl build() const {
    MeshDecl mesh;
    for (const std::string& word : order_) add(mesh.axes, dense(word));
    if (mesh.axes.empty()) mesh.axes.push_back({"dp", 1, AxisKind::data, {}, ""});
    if (!a_.experts) return mesh;
    for (const std::string& word : order_) add(mesh.expert_axes, expert(word));
    if (gathers_) join(mesh.expert_axes);
    return mesh;
  }

 private:
  // Tokens are gathered over both axes of experts at once.
  static void join(std::vector<AxisDecl>& axes) {
    for (size_t i = 0; i + 1 < axes.size(); ++i)
      if (axes[i].name == "ep" && axes[i + 1].name == "etp") {
        axes[i] = {"tp_ep",
                   axes[i].size * axes[i + 1].size,
                   AxisKind::model,
                   {axes[i], axes[i + 1]},
                   "--ep"};
        axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        return;
      }
  }

  static void add(std::vector<AxisDecl>& axes, AxisDecl axis) {
    if (axis.size > 1) axes.push_back(std::move(axis));
  }

  AxisDecl dense(const std::string& word) const {
    if (word == "pp") return {word, p_.pp, AxisKind::pipeline, {}, "--pp"};
    if (word == "tp") return {word, p_.tp, AxisKind::model, {}, "--tp"};
    if (word == "dp") return data();
    if (word == "cp") return {word, p_.cp, AxisKind::data, {}, "--cp"};
    return {word, 1, AxisKind::data, {}, ""};
  }

  AxisDecl data() const {
    AxisDecl dp{"dp", p_.dp, AxisKind::data, {}, "--dp"};
    if (replicas_ == 1) return dp;
    dp.parts.push_back({"dp_replicate", replicas_, AxisKind::data, {}, "--set"});
    dp.parts.push_back({"dp_shard", p_.dp / replicas_, AxisKind::data, {}, "--set"});
    return dp;
  }

  // Experts fold over the tp, cp and dp ranks of a stage; or they share those of a dp group, and
  // everything else is as it is for dense parameters.
  AxisDecl expert(const std::string& word) const {
    if (!folded_ && word == "dp") return {"edp", p_.dp / p_.ep, AxisKind::data, {}, "--dp"};
    if (!folded_ && word != "ep") return dense(word);
    if (word == "pp") return {word, p_.pp, AxisKind::pipeline, {}, "--pp"};
    if (word == "tp") return {"etp", p_.expert_tp(), AxisKind::model, {}, "--etp"};
    if (word == "ep") return {word, p_.ep, AxisKind::data, {}, "--ep"};
    if (word == "dp") return expert_data();
    return {word, 1, AxisKind::data, {}, ""};
  }

  // Copies of experts are those of everything else.
  AxisDecl expert_data() const {
    AxisDecl edp{"edp", p_.expert_dp(), AxisKind::data, {}, "--dp"};
    if (replicas_ == 1) return edp;
    edp.parts.push_back({"dp_replicate", replicas_, AxisKind::data, {}, "--set"});
    edp.parts.push_back({"edp_shard", edp.size / replicas_, AxisKind::data, {}, "--set"});
    return edp;
  }

  const Architecture& a_;
  const Plan& p_;
  const bool folded_, gathers_;
  int64_t replicas_;  // HSDP: of each part of the parameters
  std::vector<std::string> order_;
};

void set_switches(ModelBuilder& b) {
  if (b.profile.is("context_parallel", "gathered_ring")) b.model.switches.ring = RingKind::gathered;
  if (b.profile.is("context_parallel", "exchanged_ring"))
    b.model.switches.ring = RingKind::exchanged;
  if (b.profile.is("ring_launch", "single")) b.model.switches.ring_launch = RingLaunch::single;
  if (b.profile.is("ring_launch", "batched")) b.model.switches.ring_launch = RingLaunch::batched;
  b.model.switches.fused_column_linear = b.profile["column_input_gradient"] == "fused";
  b.model.switches.coalesce_model_sync = b.profile["norm_sync"] == "coalesced";
  b.model.switches.recompute_gathers =
      b.p.recompute == Recompute::selective && b.profile.is("recompute", "by_op");
}

void set_pipeline(ModelBuilder& b) {
  if (b.p.pp == 1) return;
  PipelineDecl pipeline;
  pipeline.axis = "pp";
  const bool torch = b.profile.is("pipeline", "torch");
  pipeline.schedule = !b.p.schedule.empty() ? b.p.schedule
                      : b.p.vpp == 1        ? "1f1b"
                      : torch               ? "interleaved_steps"
                                            : "interleaved";
  pipeline.chunks = b.p.vpp;
  pipeline.warm_up_all = b.p.vpp > 1 && b.profile.is("pipeline", "megatron-0.8");
  const bool interleaved = b.p.vpp > 1 && !b.profile["interleaved_p2p"].empty();
  pipeline.p2p = std::string(b.profile[interleaved ? "interleaved_p2p" : "p2p"]);
  if (torch && pipeline.schedule == "gpipe") pipeline.p2p = "single";
  // [dims, sizes of 3 dims, parts, rank, where the parts begin and the last one ends]
  if (b.p.tp > 1 && b.profile.is("borders", "cut")) pipeline.header = 1 + 3 + 2 + b.p.tp + 1;
  b.model.pipeline = pipeline;
}

void add_framework_remarks(ModelBuilder& b) {
  const auto remark = [&](bool due, const char* slug, std::string text) {
    if (due) b.model.remarks.push_back({slug, std::move(text)});
  };
  const bool zero = b.profile.is("gradient_sync", "zero");
  remark(
      zero && b.p.zero == 3, "zero3-prefetch",
      "parameters are gathered as with stage3_prefetch_bucket_size 0 and stage3_max_reuse_distance "
      "0; with DeepSpeed's defaults gathers of modules that follow each other come earlier and "
      "may be one call, and what is used again soon is not gathered again");
  remark(
      zero && b.experts_apart(), "experts-apart",
      "all experts of a rank are one tensor here: DeepSpeed's buckets end between two experts, and "
      "its optimizer has groups of experts of at most 178,956,971 elements, each with a gather and "
      "a norm of its own; the sums are the same");
  remark(b.model.pipeline && b.p.pp == 2 && b.model.pipeline->p2p != "batched" &&
             (b.profile.is("pipeline", "megatron") || b.profile.is("pipeline", "megatron-0.8")),
         "messages-over-world",
         "of two pipeline ranks the second one sends over the group of all ranks and the first one "
         "over pp, so that both directions overlap; all are listed over pp");
  remark(zero && b.a.experts && b.a.experts->top_k > 2, "top-k",
         fmt::format("DeepSpeed routes each token to {} experts from 0.15 on; 0.14 refuses more "
                     "than 2",
                     b.a.experts ? b.a.experts->top_k : 0));
  remark(b.profile.is("mixed_precision", "fsdp") && b.p.dp * b.p.cp == 1 && b.p.tp * b.p.pp > 1 &&
             b.p.dtype == DType::f32,
         "no-mixed-precision",
         "nothing is wrapped by FSDP, which is what converts to bf16 under torchtitan: parameters "
         "and activations are float32");
}

}  // namespace

void set_up_job(ModelBuilder& b) {
  b.model.name = b.a.name;
  b.model.mesh = MeshBuilder(b.a, b.p, b.profile).build();
  b.model.mesh.group_order = group_order(b.profile, b.p);
  b.model.microbatches = b.p.microbatches();
  b.model.published_parameters = parameter_count(b.a);
  set_switches(b);
  set_pipeline(b);
}

void add_remarks(ModelBuilder& b) {
  b.model.remarks = b.a.remarks;
  for (Remark& remark : plan_remarks(b.a, b.p)) b.model.remarks.push_back(std::move(remark));
  if (b.vocabulary() != b.a.vocab)
    b.model.remarks.push_back(
        {"vocabulary-padded",
         fmt::format("the vocabulary of {} is padded to {}, a multiple of {} x tp, as {} pads it",
                     b.a.vocab, b.vocabulary(), b.profile["vocabulary_padding"],
                     b.profile.name())});
  if (const Count heads = pretraining_head_count(b.a))
    b.model.remarks.push_back(
        {"pretraining-heads",
         fmt::format("the step is that of pretraining on hidden words and following sentences, "
                     "whose heads have {} parameters that the published count leaves out",
                     commas(heads))});
  if (b.a.parallel && b.p.tp > 1 && b.profile.is("parallel_blocks", "two_reductions"))
    b.model.remarks.push_back(
        {"parallel-blocks",
         "attention and MLP, side by side, each reduce their output; where a framework reduces "
         "their sum instead: --set parallel_blocks=one_reduction"});
  if (b.a.encoder_layers > 0)
    b.model.remarks.push_back({"two-sequences", fmt::format("encoder and decoder read {} tokens "
                                                            "of each sample each",
                                                            commas(b.p.seq))});
  if (b.a.experts && b.p.expert_tp() > 1 && !b.profile.is("moe_dispatcher", "allgather"))
    b.model.remarks.push_back(
        {"uneven-rows",
         "rows of experts are gathered and scattered over etp with a size per rank: "
         "where these differ, NCCL runs grouped Broadcast and Reduce kernels instead "
         "of AllGather and ReduceScatter; here the load is balanced"});
  add_framework_remarks(b);
  b.model.remarks.push_back(
      {"not-predicted", fmt::format("a real step under {} also has collectives that are not "
                                    "listed here: {}",
                                    b.profile.name(), b.profile.unlisted())});
}

void check_mesh(const Model& model, Diagnostics& sink) {
  std::vector<AxisShape> dense, expert;
  for (const AxisDecl& axis : model.mesh.axes)
    dense.push_back({axis.name, axis.size, axis.kind, {}});
  for (const AxisDecl& axis : model.mesh.expert_axes)
    expert.push_back({axis.name, axis.size, axis.kind, {}});
  if (const auto why = expert.empty() ? std::nullopt : Mesh::conflict(dense, expert))
    sink.add({"--ep", *why, "expert axes that nest with the others", "", "mesh-conflict"});
}

}  // namespace s2t

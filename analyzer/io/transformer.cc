#include "analyzer/io/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

using Sizes = std::map<std::string, int64_t>;
using Placements = std::vector<std::pair<std::string, std::string>>;  // axis, placement

// A profile's words about ranks, as axes, the slowest first.
class MeshBuilder {
 public:
  MeshBuilder(const Architecture& a, const Plan& p, const Profile& profile)
      : a_(a),
        p_(p),
        order_(split_order(p.order.empty() ? std::string(profile["rank_order"]) : p.order)) {
    std::reverse(order_.begin(), order_.end());
  }

  MeshDecl build() const {
    MeshDecl mesh;
    for (const std::string& word : order_) add(mesh.axes, dense(word));
    if (mesh.axes.empty()) mesh.axes.push_back({"dp", 1, AxisKind::data, {}, ""});
    if (!a_.experts) return mesh;
    for (const std::string& word : order_) add(mesh.expert_axes, expert(word));
    return mesh;
  }

 private:
  static void add(std::vector<AxisDecl>& axes, AxisDecl axis) {
    if (axis.size > 1) axes.push_back(std::move(axis));
  }

  AxisDecl dense(const std::string& word) const {
    if (word == "pp") return {word, p_.pp, AxisKind::pipeline, {}, "--pp"};
    if (word == "tp") return {word, p_.tp, AxisKind::model, {}, "--tp"};
    if (word == "dp") return {word, p_.dp, AxisKind::data, {}, "--dp"};
    if (word == "cp") return {word, p_.cp, AxisKind::data, {}, "--cp"};
    return {word, 1, AxisKind::data, {}, ""};
  }

  // Experts fold over the tp, cp and dp ranks of a stage.
  AxisDecl expert(const std::string& word) const {
    if (word == "pp") return {word, p_.pp, AxisKind::pipeline, {}, "--pp"};
    if (word == "tp") return {"etp", p_.expert_tp(), AxisKind::model, {}, "--etp"};
    if (word == "ep") return {word, p_.ep, AxisKind::data, {}, "--ep"};
    if (word == "dp") return {"edp", p_.expert_dp(), AxisKind::data, {}, "--dp"};
    return {word, 1, AxisKind::data, {}, ""};
  }

  const Architecture& a_;
  const Plan& p_;
  std::vector<std::string> order_;
};

class Builder {
 public:
  Builder(const Architecture& a, const Plan& p, const Profile& profile)
      : a_(a), p_(p), profile_(profile) {}

  Model build() {
    m_.name = a_.name;
    m_.mesh = MeshBuilder(a_, p_, profile_).build();
    m_.microbatches = p_.microbatches();
    switches();
    synchronisation();
    pipeline();
    std::string x = embed();
    int64_t layer = 0;
    const std::vector<int64_t> stages = layers_of_stages(a_, p_);
    for (const int64_t layers : stages) {
      for (int64_t i = 0; i < layers; ++i) x = block(x, layer++);
      if (++stage_ < static_cast<int>(stages.size())) continue;
      --stage_;  // the last stage also has the head
      head(x);
    }
    remarks();
    return std::move(m_);
  }

 private:
  // --- what surrounds the ops --------------------------------------------------------------------

  void switches() {
    m_.switches.fused_column_linear = profile_["column_input_gradient"] == "fused";
    m_.switches.coalesce_model_sync = profile_["norm_sync"] == "coalesced";
  }

  void synchronisation() {
    GradientSyncDecl& sync = m_.gradient_sync;
    sync.kind = p_.zero == 1 ? SyncKind::zero1 : SyncKind::bucketed;
    sync.every_microbatch = false;
    sync.overlap = false;
    sync.first_bucket_bytes = sync.bucket_bytes = INT64_MAX;
    sync.dtype = p_.grad_dtype.value_or(parse_dtype(profile_["gradient_dtype"]).value());
  }

  void pipeline() {
    if (p_.pp == 1) return;
    PipelineDecl pipeline;
    pipeline.axis = "pp";
    pipeline.schedule = p_.vpp > 1 ? "interleaved" : "1f1b";
    pipeline.chunks = p_.vpp;
    pipeline.p2p = std::string(profile_["p2p"]);
    m_.pipeline = pipeline;
  }

  void remarks() {
    m_.published_parameters = parameter_count(a_);
    m_.remarks = a_.remarks;
    if (vocab() != a_.vocab)
      m_.remarks.push_back(
          {"vocabulary-padded",
           fmt::format("the vocabulary of {} is padded to {}, a multiple of {} x tp, as {} pads it",
                       a_.vocab, vocab(), profile_["vocabulary_padding"], profile_.name)});
    m_.remarks.push_back(
        {"not-predicted", fmt::format("a real step under {} also has collectives that are not "
                                      "listed here: {}",
                                      profile_.name, profile_.unlisted)});
  }

  int64_t vocab() const {
    const int64_t multiple = 128 * p_.tp;
    return (a_.vocab + multiple - 1) / multiple * multiple;
  }

  // --- leaves, pins, ops -------------------------------------------------------------------------

  bool has_axis(const std::string& name) const {
    const auto in = [&](const std::vector<AxisDecl>& axes) {
      return std::any_of(axes.begin(), axes.end(),
                         [&](const AxisDecl& axis) { return axis.name == name; });
    };
    return in(m_.mesh.axes) || in(m_.mesh.expert_axes);
  }

  LayoutDecl layout(const Placements& placements, const std::string& of) const {
    LayoutDecl layout;
    layout.pointer = of;
    for (const auto& [axis, placement] : placements)
      if (has_axis(axis)) layout.entries.push_back({axis, placement, of});
    return layout;
  }

  TensorDecl& leaf(const std::string& name, const std::vector<int64_t>& shape, DType dtype,
                   const Placements& placements) {
    TensorDecl t;
    t.name = t.pointer = name;
    for (const int64_t size : shape) t.shape.push_back({size, false});
    t.dtype = dtype;
    t.layout = layout(placements, name);
    m_.tensors.push_back(std::move(t));
    return m_.tensors.back();
  }

  // A parameter of this module.
  std::string parameter(const std::string& suffix, const std::vector<int64_t>& shape,
                        const Placements& placements = {}) {
    const std::string name = module_ + "." + suffix;
    TensorDecl& t = leaf(name, shape, p_.dtype, placements);
    t.parameter = t.requires_grad = true;
    return name;
  }

  std::string ids(const std::string& name) {
    const int64_t tokens = p_.dp * p_.seq * p_.micro_batch;
    leaf(name, {tokens}, DType::i64, {{"dp", "S(0)"}, {"cp", "S(0)"}});
    return name;
  }

  OpDecl& add_op(std::string_view op, const std::string& suffix, std::vector<std::string> inputs) {
    OpDecl decl;
    decl.op = op;
    decl.name = decl.pointer = module_ + "." + suffix;
    decl.inputs = std::move(inputs);
    decl.outputs = {decl.name};
    decl.stage = stage_;
    decl.module = module_;
    m_.ops.push_back(std::move(decl));
    return m_.ops.back();
  }

  std::string op(std::string_view name, const std::string& suffix,
                 std::vector<std::string> inputs) {
    return add_op(name, suffix, std::move(inputs)).name;
  }

  void pin(const std::string& tensor, const Placements& placements) {
    LayoutDecl decl = layout(placements, tensor);
    if (!decl.entries.empty()) m_.pins.push_back({tensor, std::move(decl), tensor});
  }

  // Where the tokens between two blocks lie: split over tp under sequence parallelism.
  std::string tokens() const { return p_.sequence_parallel() ? "S(0)" : "R"; }

  // The backward of a column linear gathers its input again where the forward did not keep it.
  void gathered_again(const std::string& tensor) {
    if (!p_.sequence_parallel() || profile_["sequence_residual"] != "regather") return;
    TensorDecl note;
    note.name = note.pointer = tensor;
    note.residual = Residual::stored;
    m_.tensors.push_back(std::move(note));
  }

  // --- parts -------------------------------------------------------------------------------------

  std::string norm(const std::string& x, const std::string& suffix, int64_t width) {
    std::vector<std::string> inputs{x, parameter(suffix + ".weight", {width})};
    if (a_.norm == Norm::layer) inputs.push_back(parameter(suffix + ".bias", {width}));
    return op(a_.norm == Norm::layer ? "layer_norm" : "rms_norm", suffix, inputs);
  }

  std::string input_norm(const std::string& x, const std::string& suffix) {
    const std::string n = norm(x, suffix, a_.hidden);
    gathered_again(n);
    return n;
  }

  std::string column(const std::string& x, const std::string& suffix, int64_t out, bool bias) {
    const std::string w = parameter(suffix + ".weight", {out, a_.hidden}, {{"tp", "S(0)"}});
    if (!bias) return op("linear", suffix, {x, w});
    const std::string y = op("linear", suffix + ".product", {x, w});
    return op("bias_add", suffix, {y, parameter(suffix + ".bias", {out}, {{"tp", "S(0)"}})});
  }

  // The bias is added after the reduction, once.
  std::string row(const std::string& x, const std::string& suffix, int64_t in, bool bias) {
    const std::string w = parameter(suffix + ".weight", {a_.hidden, in}, {{"tp", "S(1)"}});
    const std::string y = op("linear", bias ? suffix + ".product" : suffix, {x, w});
    pin(y, {{"tp", tokens()}});
    if (!bias) return y;
    return op("bias_add", suffix, {y, parameter(suffix + ".bias", {a_.hidden})});
  }

  std::string reshaped(const std::string& x, const std::string& suffix, const char* rule,
                       int64_t heads) {
    OpDecl& decl = add_op("reshape", suffix, {x});
    decl.attributes["rule"] = {std::string(rule), decl.pointer};
    decl.attributes["sizes"] = {
        Sizes{{"p", p_.dp}, {"s", p_.seq}, {"b", p_.micro_batch}, {"h", heads}}, decl.pointer};
    return decl.name;
  }

  std::string split_heads(const std::string& x, const std::string& suffix, int64_t heads) {
    return reshaped(x, suffix, "x[(p s b) (h d)] -> y[(p b) h s d]", heads);
  }

  std::string heads_of(const std::string& n, const std::string& suffix, int64_t heads,
                       bool positioned) {
    const std::string x = column(n, suffix, heads * a_.head_dim, a_.qkv_bias);
    std::string y = split_heads(x, suffix + ".heads", heads);
    if (positioned && a_.qk_norm == QkNorm::per_head) y = norm(y, suffix + ".norm", a_.head_dim);
    if (positioned && a_.positions == Positions::rotary) y = op("rope", suffix + ".rope", {y});
    return y;
  }

  std::string attention(const std::string& x) {
    const std::string n = input_norm(x, "norm");
    const std::string q = heads_of(n, "q", a_.heads, true);
    const std::string k = heads_of(n, "k", a_.kv_heads, true);
    const std::string v = heads_of(n, "v", a_.kv_heads, false);
    OpDecl& decl = add_op("attention", "core", {q, k, v});
    decl.attributes["causal"] = {true, decl.pointer};
    const std::string o =
        reshaped(decl.name, "merge", "x[(p b) h s d] -> y[(p s b) (h d)]", a_.heads);
    return op("add", "out", {x, row(o, "proj", a_.heads * a_.head_dim, a_.out_bias)});
  }

  std::string feed_forward(const std::string& n, const std::string& prefix, int64_t ffn,
                           bool bias) {
    const std::string up = column(n, prefix + "up", ffn, bias);
    const std::string act =
        a_.gated ? op("swiglu", prefix + "act", {column(n, prefix + "gate", ffn, bias), up})
                 : op("gelu", prefix + "act", {up});
    return row(act, prefix + "down", ffn, bias);
  }

  std::string mlp(const std::string& x) {
    return op("add", "out", {x, feed_forward(input_norm(x, "norm"), "", a_.ffn, a_.mlp_bias)});
  }

  std::string expert(const std::string& x, const std::string& suffix, int64_t out, int64_t in,
                     const char* split) {
    const std::string w = parameter(suffix + ".weight", {a_.experts->experts, out, in},
                                    {{"ep", "S(0)"}, {"etp", split}});
    return op("moe_expert", suffix, {x, w});
  }

  std::string routed(std::string_view name, const std::string& suffix,
                     std::vector<std::string> inputs) {
    OpDecl& decl = add_op(name, suffix, std::move(inputs));
    decl.attributes["routing"] = {std::string("balanced"), decl.pointer};
    return decl.name;
  }

  std::string experts(const std::string& x) {
    const Experts& e = *a_.experts;
    if (m_.routing.empty()) {
      RoutingDecl routing;
      routing.name = "balanced";
      routing.axis = "ep";
      routing.experts = e.experts;
      routing.top_k = e.top_k;
      routing.pointer = "--ep";
      m_.routing.push_back(routing);
    }
    const std::string n = input_norm(x, "norm");
    const std::string route =
        op("moe_router", "router", {n, parameter("router.weight", {e.experts, a_.hidden})});
    const std::string rows = routed("moe_dispatch", "dispatch", {n, route});
    const std::string gate = expert(rows, "experts.gate", e.ffn, a_.hidden, "S(1)");
    const std::string up = expert(rows, "experts.up", e.ffn, a_.hidden, "S(1)");
    const std::string act = op("swiglu", "experts.act", {gate, up});
    const std::string down = expert(act, "experts.down", a_.hidden, e.ffn, "S(2)");
    pin(down, {{"etp", "S(1)"}});
    std::string y = routed("moe_combine", "combine", {down, route});
    if (e.shared_ffn > 0)
      y = op("add", "sum", {y, feed_forward(n, "shared.", e.shared_ffn, false)});
    return op("add", "out", {x, y});
  }

  // --- the model ---------------------------------------------------------------------------------

  std::string embed() {
    module_ = "embed";
    const std::string ids_name = ids("ids");
    table_ = parameter("weight", {vocab(), a_.hidden}, {{"tp", "S(0)"}});
    const std::string e = op("embedding", "tokens", {ids_name, table_});
    if (a_.positions != Positions::learned) {
      pin(e, {{"tp", tokens()}});
      return e;
    }
    pin(e, {{"tp", "R"}});  // the positions are added to whole tokens, then these are split
    const std::string rows = parameter("positions.weight", {a_.position_rows, a_.hidden});
    const std::string positions = op("embedding", "positions", {ids("position_ids"), rows});
    const std::string sum = op("add", "sum", {e, positions});
    if (p_.sequence_parallel()) pin(sum, {{"tp", "S(0)"}});
    return sum;
  }

  std::string block(const std::string& x, int64_t layer) {
    module_ = fmt::format("layers.{}.attn", layer);
    const std::string r = attention(x);
    const bool sparse = a_.experts && layer >= a_.experts->first_dense;
    module_ = fmt::format("layers.{}.{}", layer, sparse ? "moe" : "mlp");
    return sparse ? experts(r) : mlp(r);
  }

  void head(const std::string& x) {
    module_ = "head";
    const std::string n = input_norm(x, "norm");
    const std::string w =
        a_.tied ? table_ : parameter("weight", {vocab(), a_.hidden}, {{"tp", "S(0)"}});
    const std::string logits = op("linear", "logits", {n, w});
    module_ = "loss";
    OpDecl& loss = add_op("cross_entropy", "loss", {logits, ids("labels")});
    loss.name = "loss";
    loss.outputs = {"loss"};
    m_.loss = "loss";
  }

  const Architecture& a_;
  const Plan& p_;
  const Profile& profile_;
  Model m_;
  std::string module_;
  std::string table_;
  int stage_ = 0;
};

// Parts that a profile's framework does not have, or that are not modelled yet.
void check_parts(const Architecture& a, const Plan& p, const Profile& profile, Diagnostics& sink) {
  const std::string counted =
      fmt::format("Only its parameters are counted: {}.", commas(parameter_count(a)));
  const auto refuse = [&](bool present, std::string what) {
    if (present)
      sink.add({"", std::move(what) + " (" + a.family + ")",
                "an architecture that is modelled under " + std::string(profile.name), counted,
                "unsupported-config"});
  };
  refuse(a.encoder_layers > 0, "an encoder with cross-attention");
  refuse(a.post_norm || a.norms_per_layer != 2, "norms elsewhere than before the two blocks");
  refuse(a.parallel, "attention and MLP in parallel");
  refuse(a.embedding_norm || a.token_types > 0, "a norm or segments behind the embedding");
  refuse(a.latent.has_value(), "multi-head latent attention");
  refuse(a.norm == Norm::layer_without_bias, "layer norms without a bias");
  refuse(a.qk_norm == QkNorm::full, "norms over all queries at once");
  refuse(a.sinks, "attention sinks");
  refuse(a.positions == Positions::relative, "relative position buckets");
  refuse(a.experts && (a.experts->bias || a.experts->router_bias || a.experts->shared_gate),
         "experts with a bias, a router bias or a gate");
  if (p.cp > 1)
    sink.add({"--cp", "context parallelism", "1", "It is not modelled for config files yet.",
              "unsupported-plan"});
  if (p.zero > 1)
    sink.add({"--zero", fmt::format("ZeRO stage {}", p.zero), "0, or 1: the distributed optimizer",
              "", "unsupported-plan"});
  if (p.zero == 1 && a.tied && p.pp > 1)
    sink.add({"--zero", "a sharded optimizer with an embedding on two stages", "0",
              "Megatron puts this table into a bucket of its own, which is not modelled yet.",
              "unsupported-plan"});
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

}  // namespace

std::optional<Model> build_transformer(const Architecture& a, const Plan& plan,
                                       const Profile& profile, Diagnostics& sink) {
  check_plan(a, plan, sink);
  check_parts(a, plan, profile, sink);
  if (sink.any()) return std::nullopt;
  Model model = Builder(a, plan, profile).build();
  model.file = sink.file();
  check_mesh(model, sink);
  if (sink.any()) return std::nullopt;
  return model;
}

}  // namespace s2t

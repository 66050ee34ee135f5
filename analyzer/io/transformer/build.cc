#include <fmt/format.h>

#include "analyzer/base/text.h"
#include "analyzer/io/transformer.h"
#include "analyzer/io/transformer/blocks.h"
#include "analyzer/io/transformer/framework.h"
#include "analyzer/io/transformer/job.h"

namespace s2t {
namespace {

std::string layer(ModelBuilder& b, const std::string& x, int64_t number) {
  if (b.p.recompute == Recompute::full) b.recomputed = b.next_recomputed++;
  b.module = fmt::format("layers.{}.attn", number);
  const std::string y = attention(b, x);
  const bool sparse = b.a.experts && number >= b.a.experts->first_dense;
  b.module = fmt::format("layers.{}.{}", number, sparse ? "moe" : "mlp");
  return sparse ? experts(b, y) : mlp(b, y);
}

Model build(const Architecture& a, const Plan& plan, const Profile& profile) {
  ModelBuilder b(a, plan, profile);
  set_up_job(b);
  std::string x = embedding(b);
  int64_t number = 0;
  const std::vector<int64_t>& stages = plan.stage_layers;
  for (size_t s = 0; s < stages.size(); ++s) {
    b.stage = static_cast<int>(s);
    for (int64_t i = 0; i < stages[s]; ++i) x = layer(b, x, number++);
  }
  b.recomputed = -1;
  head(b, x);  // on the last stage too
  set_synchronisation(b);
  add_calls(b);
  add_remarks(b);
  return std::move(b.model);
}

// Parts that a profile's framework does not have, or that are not modelled yet.
void check_parts(const Architecture& a, const Plan& p, const Profile& profile, Diagnostics& sink) {
  const std::string counted =
      fmt::format("Only its parameters are counted: {}.", commas(parameter_count(a)));
  const auto refuse = [&](bool present, std::string what) {
    if (present)
      sink.add({"", std::move(what) + " (" + a.family + ")",
                "an architecture that is modelled under " + std::string(profile.name()), counted,
                "unsupported-config"});
  };
  refuse(a.encoder_layers > 0, "an encoder with cross-attention");
  refuse(a.post_norm || a.norms_per_layer != 2, "norms elsewhere than before the two blocks");
  refuse(a.parallel, "attention and MLP in parallel");
  refuse(a.embedding_norm || a.token_types > 0, "a norm or segments behind the embedding");
  refuse(a.norm == Norm::layer_without_bias, "layer norms without a bias");
  refuse(a.qk_norm == QkNorm::full, "norms over all queries at once");
  refuse(a.sinks, "attention sinks");
  refuse(a.positions == Positions::relative, "relative position buckets");
  refuse(a.experts && (a.experts->bias || a.experts->router_bias || a.experts->shared_gate),
         "experts with a bias, a router bias or a gate");
  const bool ring = profile.is("context_parallel", "p2p");
  if (p.cp > 1 && (ring || profile["context_parallel"].empty()))
    sink.add({"--cp",
              ring ? "context parallelism as a ring of messages inside attention"
                   : fmt::format("context parallelism under {}", profile.name()),
              ring ? "--set context_parallel=all_gather or =a2a" : "1",
              ring ? "The ring's messages are not modelled." : "", "unsupported-plan"});
  if (p.recompute != Recompute::none && profile["recompute"].empty())
    sink.add({"--recompute", fmt::format("recomputation under {}", profile.name()), "none", "",
              "unsupported-plan"});
  if (a.latent && p.tp > 1 && profile["latent_down"].empty())
    sink.add({"--tp", fmt::format("latent attention over tp under {}", profile.name()), "1",
              "megatron has it.", "unsupported-plan"});
}

}  // namespace

std::optional<Model> build_transformer(const Architecture& a, const Plan& stated,
                                       const Profile& profile, Diagnostics& sink) {
  Plan plan = resolved(as_framework_runs(stated, a, profile), a);
  if (plan.order.empty()) plan.order = profile["rank_order"];
  check_plan(a, plan, sink);
  check_framework(a, plan, profile, sink);
  check_parts(a, plan, profile, sink);
  if (sink.any()) return std::nullopt;
  Model model = build(a, plan, profile);
  model.file = sink.file();
  check_mesh(model, sink);
  if (sink.any()) return std::nullopt;
  return model;
}

}  // namespace s2t

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/io/transformer.h"
#include "analyzer/io/transformer/blocks.h"
#include "analyzer/io/transformer/framework.h"
#include "analyzer/io/transformer/job.h"

namespace s2t {
namespace {

Model build(const Architecture& a, const Plan& plan, const Profile& profile) {
  ModelBuilder b(a, plan, profile);
  set_up_job(b);
  const bool behind_encoder = a.encoder_layers > 0;
  const std::string memory = behind_encoder ? encoder(b) : "";
  std::string x = behind_encoder ? embedding_again(b) : embedding(b);
  b.causal = a.causal;
  begin_stack(b, "layers");
  int64_t number = 0;
  const std::vector<int64_t>& stages = plan.stage_layers;
  for (size_t s = 0; s < stages.size(); ++s) {
    b.stage = static_cast<int>(s);
    if (s > 0) x = border(b, x);
    for (int64_t i = 0; i < stages[s]; ++i, ++number)
      x = behind_encoder ? layer_with_memory(b, x, memory, number) : layer(b, x, number);
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
  const auto at_most_one = [&](std::string flag, bool wrong, std::string_view what,
                               std::string advice) {
    if (wrong)
      sink.add({std::move(flag), fmt::format("{} ({}) under {}", what, a.family, profile.name()),
                "1", std::move(advice), "unsupported-plan"});
  };
  const bool encodes = a.encoder_layers > 0 || !a.causal;
  at_most_one("--pp", a.encoder_layers > 0 && p.pp > 1, "a pipeline through encoder and decoder",
              "Every layer of the decoder reads what the encoder made; Megatron's pretrain_t5.py "
              "refuses it too.");
  at_most_one("--cp", encodes && p.cp > 1, "context parallelism of an encoder",
              "Only decoders are trained on parts of a sample.");
  at_most_one("--tp", a.qk_norm == QkNorm::full && p.tp > 1,
              "norms over all heads at once with tensor parallelism",
              "No rank has all heads then.");
  at_most_one("--etp",
              a.experts && a.experts->bias && p.expert_tp() > 1 &&
                  profile.is("tensor_parallel", "optional_sequence"),
              "experts with a bias, split over ranks", "Each rank would add the bias to its part.");
  if (p.recompute != Recompute::none && profile["recompute"].empty())
    sink.add({"--recompute", fmt::format("recomputation under {}", profile.name()), "none", "",
              "unsupported-plan"});
}

// Sizes of what a framework does not have at all need not fit.
void add_both(const Diagnostics& sizes, const Diagnostics& limits, Diagnostics& sink) {
  for (const Diagnostic& size : sizes.list()) {
    const auto none = [&](const Diagnostic& limit) {
      return limit.pointer == size.pointer && size.slug == "indivisible" &&
             (limit.expected == "1" || limit.expected == "leave it out");
    };
    if (std::none_of(limits.list().begin(), limits.list().end(), none)) sink.add(size);
  }
  for (const Diagnostic& limit : limits.list()) sink.add(limit);
}

}  // namespace

std::optional<Model> build_transformer(const Architecture& a, const Plan& stated,
                                       const Profile& profile, Diagnostics& sink) {
  Plan plan = resolved(as_framework_runs(stated, a, profile), a);
  if (plan.order.empty()) plan.order = profile["rank_order"];
  check_contradictions(stated, a.layers, sink);
  Diagnostics sizes(sink.file()), limits(sink.file());
  check_plan(a, plan, sizes, profile.is("vocabulary_padding", "none") ? a.vocab : 0);
  const bool countable = plan.countable() && plan.tokens_countable();
  if (countable) check_framework(a, plan, profile, limits);
  add_both(sizes, limits, sink);
  if (!countable) return std::nullopt;
  check_parts(a, plan, profile, sink);
  if (sink.any()) return std::nullopt;
  Model model = build(a, plan, profile);
  model.file = sink.file();
  check_mesh(model, sink);
  if (sink.any()) return std::nullopt;
  return model;
}

}  // namespace s2t

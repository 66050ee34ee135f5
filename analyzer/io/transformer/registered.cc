// The parameters that Megatron registers, in its order: what it fuses, and which comes first. With
// Transformer Engine's layers, its default: a norm before a column linear is part of that linear.
// Sources, below megatron/core: transformer/transformer_layer.py, attention.py (Attention has
// linear_proj before SelfAttention has linear_qkv), multi_latent_attention.py, mlp.py,
// moe/moe_layer.py, moe/experts.py, moe/shared_experts.py (a module's own parameter, the gate, comes
// before those of its parts), models/gpt/gpt_layer_specs.py, models/bert/bert_model.py,
// models/T5/t5_model.py; NeMo gemma2.py, whose norms behind a block are part of its row linear;
// Transformer Engine module/layernorm_linear.py.
#include <algorithm>
#include <array>
#include <span>

#include "analyzer/io/transformer/framework.h"

namespace s2t {
namespace {

// Suffixes of parameters that are one; rows in the order of registration.
using Row = std::array<std::string_view, 3>;

constexpr Row kEmbedding[] = {
    {"weight"}, {"positions.weight"}, {"segments.weight"}, {"norm.weight"}, {"norm.bias"}};
constexpr Row kAttention[] = {{"sinks"},
                              {"proj.weight"},
                              {"proj.bias"},
                              {"post_norm.weight"},
                              {"post_norm.bias"},
                              {"norm.weight"},
                              {"norm.bias"},
                              {"q.weight", "k.weight", "v.weight"},
                              {"q.bias", "k.bias", "v.bias"},
                              {"q.norm.weight"},
                              {"q.norm.bias"},
                              {"k.norm.weight"},
                              {"k.norm.bias"}};
constexpr Row kCrossAttention[] = {
    {"norm.weight"}, {"norm.bias"}, {"proj.weight"},          {"proj.bias"},
    {"q.weight"},    {"q.bias"},    {"k.weight", "v.weight"}, {"k.bias", "v.bias"}};
constexpr Row kLatentAttention[] = {{"norm.weight"},
                                    {"norm.bias"},
                                    {"proj.weight"},
                                    {"q_down.weight"},
                                    {"q_norm.weight"},
                                    {"q.weight"},
                                    {"kv_down.weight", "k_rope_down.weight"},
                                    {"kv_norm.weight"},
                                    {"k.weight", "v.weight"}};
constexpr Row kMlp[] = {{"norm.weight"},          {"norm.bias"},     {"gate.weight", "up.weight"},
                        {"gate.bias", "up.bias"}, {"down.weight"},   {"down.bias"},
                        {"post_norm.weight"},     {"post_norm.bias"}};
constexpr Row kExperts[] = {{"norm.weight"},
                            {"norm.bias"},
                            {"router.weight"},
                            {"router.bias"},
                            {"experts.gate.weight", "experts.up.weight"},
                            {"experts.gate.bias", "experts.up.bias"},
                            {"experts.down.weight"},
                            {"experts.down.bias"},
                            {"shared.scale.weight"},
                            {"shared.gate.weight", "shared.up.weight"},
                            {"shared.down.weight"}};
// The output layer behind the final norm; or BERT's, behind BertLMHead and before the head of
// sentences with its pooler.
constexpr Row kHead[] = {
    {"dense.weight"}, {"dense.bias"},       {"norm.weight"},    {"norm.bias"},     {"weight"},
    {"bias"},         {"sentences.weight"}, {"sentences.bias"}, {"pooler.weight"}, {"pooler.bias"}};

std::span<const Row> rows_of(const ModelBuilder& b, std::string_view module) {
  if (module.ends_with(".attn")) {
    if (b.a.latent) return kLatentAttention;
    return kAttention;
  }
  if (module.ends_with(".cross")) return kCrossAttention;
  if (module.ends_with(".mlp")) return kMlp;
  if (module.ends_with(".moe")) return kExperts;
  if (module == "embed") return kEmbedding;
  if (module == "head") return kHead;
  return {};
}

using Made = ModelBuilder::Made;

std::string_view name_of(const ModelBuilder& b, const Made& made) {
  return b.model.tensors[made.tensor].name;
}

// The row of a parameter; behind them all if it has none.
size_t row_of(const ModelBuilder& b, const Made& made, std::span<const Row> rows) {
  const std::string_view suffix = name_of(b, made).substr(made.module_size + 1);
  for (size_t r = 0; r < rows.size(); ++r)
    if (std::find(rows[r].begin(), rows[r].end(), suffix) != rows[r].end()) return r;
  return rows.size();
}

// Of one module; those of one row are one.
void register_module(const ModelBuilder& b, std::span<const Made> made,
                     std::vector<RegisteredDecl>& out) {
  const std::span<const Row> rows = rows_of(b, name_of(b, made[0]).substr(0, made[0].module_size));
  std::vector<std::pair<size_t, const Made*>> placed;
  for (const Made& m : made) placed.emplace_back(row_of(b, m, rows), &m);
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  for (size_t i = 0; i < placed.size(); ++i) {
    const auto& [row, m] = placed[i];
    if (i == 0 || row == rows.size() || row != placed[i - 1].first)
      out.push_back({{}, m->stage, 0, 1});
    out.back().members.emplace_back(name_of(b, *m));
  }
}

bool of_experts(const RegisteredDecl& r) {
  return r.members[0].find(".experts.") != std::string::npos;
}

// Every expert of a rank has parameters of its own: each expert's together, or all first linears
// before all second ones (grouped).
void part_experts(const ModelBuilder& b, std::vector<RegisteredDecl>& all, size_t from) {
  const auto begin = std::find_if(all.begin() + static_cast<long>(from), all.end(), of_experts);
  const auto end = std::find_if_not(begin, all.end(), of_experts);
  const int64_t experts = begin == end ? 1 : b.a.experts->experts / b.p.ep;
  if (experts == 1) return;
  const std::vector<RegisteredDecl> whole(begin, end);
  std::vector<RegisteredDecl> parts;
  const auto add = [&](RegisteredDecl r, int64_t part) {
    r.part = part;
    r.parts = experts;
    parts.push_back(std::move(r));
  };
  if (b.profile.is("expert_parameters", "grouped")) {
    for (const RegisteredDecl& r : whole)
      for (int64_t e = 0; e < experts; ++e) add(r, e);
  } else {
    for (int64_t e = 0; e < experts; ++e)
      for (const RegisteredDecl& r : whole) add(r, e);
  }
  all.insert(all.erase(begin, end), parts.begin(), parts.end());
}

// T5: relative positions stand behind the embedding, wherever they are first used.
std::vector<Made> in_modules(const ModelBuilder& b) {
  std::vector<Made> made = b.made;
  std::stable_partition(made.begin(), made.end(), [&](const Made& m) {
    const std::string_view name = name_of(b, m);
    return name.substr(0, m.module_size) == "embed" && m.stage == 0;
  });
  const auto behind = std::find_if(made.begin(), made.end(), [&](const Made& m) {
    return name_of(b, m).substr(0, m.module_size) != "embed" || m.stage > 0;
  });
  std::stable_partition(behind, made.end(), [&](const Made& m) {
    const std::string_view suffix = name_of(b, m).substr(m.module_size);
    return !b.stack.empty() && suffix == ".positions.weight";
  });
  return made;
}

}  // namespace

std::vector<RegisteredDecl> registered_parameters(const ModelBuilder& b, bool experts_apart) {
  const std::vector<Made> made = in_modules(b);
  std::vector<RegisteredDecl> all;
  for (size_t i = 0, end; i < made.size(); i = end) {
    const std::string_view module = name_of(b, made[i]).substr(0, made[i].module_size);
    end = i + 1;
    while (end < made.size() && made[end].stage == made[i].stage &&
           name_of(b, made[end]).substr(0, made[end].module_size) == module)
      ++end;
    const size_t from = all.size();
    register_module(b, std::span(made).subspan(i, end - i), all);
    if (experts_apart && made[i].stage == 0) part_experts(b, all, from);
  }
  return all;
}

}  // namespace s2t

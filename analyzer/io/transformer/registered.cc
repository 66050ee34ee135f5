// The parameters that Megatron registers, in its order: what it fuses, and which comes first. With
// Transformer Engine's layers, its default: a norm before a column linear is part of that linear.
// Sources, below megatron/core: transformer/transformer_layer.py, attention.py (Attention has
// linear_proj before SelfAttention has linear_qkv), multi_latent_attention.py, mlp.py,
// moe/moe_layer.py, moe/experts.py, models/gpt/gpt_layer_specs.py; Transformer Engine
// module/layernorm_linear.py.
#include <algorithm>
#include <array>
#include <span>

#include "analyzer/io/transformer/framework.h"

namespace s2t {
namespace {

// Suffixes of parameters that are one; rows in the order of registration.
using Row = std::array<std::string_view, 3>;

constexpr Row kAttention[] = {{"proj.weight"},
                              {"proj.bias"},
                              {"norm.weight"},
                              {"norm.bias"},
                              {"q.weight", "k.weight", "v.weight"},
                              {"q.bias", "k.bias", "v.bias"},
                              {"q.norm.weight"},
                              {"q.norm.bias"},
                              {"k.norm.weight"},
                              {"k.norm.bias"}};
constexpr Row kLatentAttention[] = {{"norm.weight"},
                                    {"norm.bias"},
                                    {"proj.weight"},
                                    {"q_down.weight"},
                                    {"q_norm.weight"},
                                    {"q.weight"},
                                    {"kv_down.weight", "k_rope_down.weight"},
                                    {"kv_norm.weight"},
                                    {"k.weight", "v.weight"}};
constexpr Row kMlp[] = {{"norm.weight"},          {"norm.bias"},   {"gate.weight", "up.weight"},
                        {"gate.bias", "up.bias"}, {"down.weight"}, {"down.bias"}};
constexpr Row kExperts[] = {{"norm.weight"},         {"norm.bias"},
                            {"router.weight"},       {"experts.gate.weight", "experts.up.weight"},
                            {"experts.down.weight"}, {"shared.gate.weight", "shared.up.weight"},
                            {"shared.down.weight"}};

std::span<const Row> rows_of(const ModelBuilder& b, std::string_view module) {
  if (module.ends_with(".attn")) {
    if (b.a.latent) return kLatentAttention;
    return kAttention;
  }
  if (module.ends_with(".mlp")) return kMlp;
  if (module.ends_with(".moe")) return kExperts;
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

}  // namespace

std::vector<RegisteredDecl> registered_parameters(const ModelBuilder& b, bool experts_apart) {
  std::vector<RegisteredDecl> all;
  for (size_t i = 0, end; i < b.made.size(); i = end) {
    const std::string_view module = name_of(b, b.made[i]).substr(0, b.made[i].module_size);
    end = i + 1;
    while (end < b.made.size() && b.made[end].stage == b.made[i].stage &&
           name_of(b, b.made[end]).substr(0, b.made[end].module_size) == module)
      ++end;
    const size_t from = all.size();
    register_module(b, std::span(b.made).subspan(i, end - i), all);
    if (experts_apart && b.made[i].stage == 0) part_experts(b, all, from);
  }
  return all;
}

}  // namespace s2t

#include "analyzer/io/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analyzer/base/dtype.h"
#include "analyzer/base/text.h"

namespace s2t {
namespace {

constexpr ProfileSwitch kSwitches[] = {
    {"rank_order", "ORDER", "axes of the ranks, the fastest first; --order overrides it"},
    {"expert_groups", "folded", "expert groups fold over the tp, cp and dp ranks of a stage"},
    {"column_input_gradient", "fused needed",
     "a column linear reduces its input gradient always, or only where one is needed"},
    {"sequence_residual", "regather kept",
     "under sequence parallelism the backward gathers the input again, or the forward kept it"},
    {"vocabulary", "parallel", "embedding, output layer and loss are split over tp"},
    {"vocabulary_padding", "N", "the vocabulary is padded to a multiple of N x tp"},
    {"gradient_sync", "one_bucket", "gradients of a stage are reduced together after the backward"},
    {"gradient_dtype", "TYPE", "gradients are reduced in it; --grad-dtype overrides it"},
    {"norm_sync", "coalesced per_parameter",
     "norm gradients under sequence parallelism: one all-reduce over tp, or one per parameter"},
    {"tied_embedding", "first_and_last_stage",
     "the gradient of a tied table is reduced between these stages, once per step"},
    {"p2p", "batched single", "a send and a receive that belong together are one launch, or two"},
};

// Megatron-LM, megatron/core, 0.10 and newer.
constexpr ProfileSetting kMegatron[] = {
    {"rank_order", "tp-cp-ep-dp-pp", "parallel_state.py, initialize_model_parallel"},
    {"expert_groups", "folded",
     "parallel_state.py: a second generator, ep folds over the tp, cp and dp ranks"},
    {"column_input_gradient", "fused",
     "tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication.backward"},
    {"sequence_residual", "regather",
     "tensor_parallel/layers.py: the gathered input is not saved, the backward gathers again"},
    {"vocabulary", "parallel",
     "tensor_parallel/layers.py VocabParallelEmbedding, tensor_parallel/cross_entropy.py"},
    {"vocabulary_padding", "128",
     "training/tokenizer, _vocab_size_with_padding: to a multiple of 128 x tp"},
    {"gradient_sync", "one_bucket",
     "distributed/param_and_grad_buffer.py: one bucket unless reductions overlap the backward"},
    {"gradient_dtype", "float32", "training/arguments.py: bf16 accumulates and reduces in fp32"},
    {"norm_sync", "coalesced",
     "distributed/finalize_model_grads.py, _allreduce_layernorm_grads: one call over tp"},
    {"tied_embedding", "first_and_last_stage",
     "distributed/finalize_model_grads.py, _allreduce_word_embedding_grads: once per step"},
    {"p2p", "batched", "pipeline_parallel/p2p_communication.py, batch_p2p_comm"},
};

constexpr ProfileDef kProfiles[] = {
    {"megatron", "Megatron-LM core 0.10 and newer", kMegatron,
     "the broadcast of each batch over tp, the scalars of a step (gradient norm, logged loss) and, "
     "of layers with experts, the exchanged token counts, probabilities and the load-balancing "
     "loss"},
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text)
    if (c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

int64_t positive(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && n <= INT32_MAX ? n : 0;
}

// What `values` of a switch asks for, if `value` is not it.
std::string expected_instead(std::string_view values, const std::string& value) {
  if (values == "N") return positive(value) > 0 ? "" : "a positive whole number";
  if (values == "TYPE") return parse_dtype(value) ? "" : "an element type: shape2trace list dtypes";
  if (values == "ORDER") return "";  // judged with the plan
  const std::vector<std::string> words = words_of(values);
  if (std::find(words.begin(), words.end(), value) != words.end()) return "";
  return (words.size() == 1 ? "" : "one of ") + quoted_list(words);
}

}  // namespace

std::string_view Profile::operator[](std::string_view name) const {
  if (const auto it = changed_.find(name); it != changed_.end()) return it->second;
  for (const ProfileSetting& s : def_->settings)
    if (s.name == name) return s.value;
  throw Fault(fmt::format("profile without a switch {}", name));
}

int64_t Profile::number(std::string_view name) const {
  return positive((*this)[name]);
}

std::optional<Diagnostic> Profile::set(const std::string& assignment) {
  const size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : assignment.substr(equals + 1);
  if (value.empty())
    return Diagnostic{"--set", quoted(assignment), "switch=value", "See shape2trace list switches.",
                      "bad-option"};
  std::vector<std::string> names;
  for (const ProfileSwitch& s : kSwitches) {
    names.emplace_back(s.name);
    if (s.name != name) continue;
    const std::string expected = expected_instead(s.values, value);
    if (!expected.empty())
      return Diagnostic{"--set", fmt::format("{}={}", name, value), expected,
                        did_you_mean(value, words_of(s.values)), "bad-option"};
    changed_[name] = value;
    return std::nullopt;
  }
  const std::string hint = did_you_mean(name, names);
  return Diagnostic{"--set", "no switch " + quoted(name), "one of " + quoted_list(names, 64),
                    hint.empty() ? "See shape2trace list switches." : hint, "bad-option"};
}

std::span<const ProfileSwitch> profile_switches() {
  return kSwitches;
}

std::span<const ProfileDef> profiles() {
  return kProfiles;
}

std::optional<Profile> find_profile(std::string_view name) {
  for (const ProfileDef& p : kProfiles)
    if (p.name == name) return Profile(p);
  return std::nullopt;
}

}  // namespace s2t

#include "analyzer/io/profiles.h"

#include <string>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

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

constexpr Profile kProfiles[] = {
    {"megatron", "Megatron-LM core 0.10 and newer", kMegatron,
     "the broadcast of each batch over tp, the scalars of a step (gradient norm, logged loss) and, "
     "of layers with experts, the exchanged token counts, probabilities and the load-balancing "
     "loss"},
};

}  // namespace

std::string_view Profile::operator[](std::string_view setting) const {
  for (const ProfileSetting& s : settings)
    if (s.name == setting) return s.value;
  throw Fault("profile without a setting " + std::string(setting));
}

std::span<const Profile> profiles() {
  return kProfiles;
}

const Profile* find_profile(std::string_view name) {
  for (const Profile& p : kProfiles)
    if (p.name == name) return &p;
  return nullptr;
}

}  // namespace s2t

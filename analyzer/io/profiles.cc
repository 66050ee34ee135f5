#include "analyzer/io/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "analyzer/base/dtype.h"
#include "analyzer/base/text.h"
#include "analyzer/io/profile_tables.h"

namespace s2t {
namespace {

constexpr ProfileSwitch kSwitches[] = {
    {"rank_order", "ORDER", "axes of the ranks, the fastest first; --order overrides it"},
    {"expert_groups", "folded within_dp",
     "expert groups fold over the tp, cp and dp ranks of a stage, or are cut from dp"},
    {"column_input_gradient", "fused needed",
     "a column linear reduces its input gradient always, or only where one is needed"},
    {"sequence_residual", "regather kept",
     "under sequence parallelism the backward gathers the input again, or the forward kept it"},
    {"vocabulary", "parallel", "embedding, output layer and loss are split over tp"},
    {"loss_order", "target_first sum_first",
     "the parallel loss reduces the target's logit before the sum of exponentials, or after it"},
    {"vocabulary_padding", "N none",
     "the vocabulary is padded to a multiple of N x tp, or must divide"},
    {"tensor_parallel", "optional_sequence always_sequence without_sequence none",
     "with --sp or without, always with sequence parallelism, never with it, or not at all"},
    {"blocks", "any plain_scores rms_rotary",
     "what its models are made of: anything, no biases of scores and no sinks, or RMS norms before "
     "both blocks and rotary positions without tied embeddings"},
    {"parallel_blocks", "two_reductions one_reduction",
     "attention and MLP side by side reduce their outputs over tp each, or the sum of both"},
    {"pipeline", "megatron megatron-0.8 torch deepspeed none", "whose schedules run the stages"},
    {"borders", "whole cut",
     "every rank of tp sends all of what the next stage reads, or its part, which that one "
     "gathers; "
     "gradients likewise"},
    {"stage_split", "equal weighted_ends",
     "layers of stages where --stage-layers does not say: equal, or embedding and head count as "
     "one "
     "each"},
    {"gradient_sync", "one_bucket overlapped ddp fsdp zero",
     "one reduction per stage after the backward, or buckets inside the last; PyTorch DDP's "
     "buckets; FSDP2's units; ZeRO"},
    {"every", "step microbatch", "gradients are reduced once per step, or for each microbatch"},
    {"bucket_cap_mb", "N default",
     "ddp: limit of a bucket in MiB; default: 25, and 1 for the first one"},
    {"ddp_step", "later first", "ddp: buckets of later steps, or the single one of the first step"},
    {"reshard_after_forward", "default always never",
     "fsdp: which units are gathered again in the backward; default: all but the last, none with a "
     "pipeline"},
    {"bf16_optimizer", "flat none",
     "zero: bf16 gradients of stage 0 are one flat tensor, and parameters are gathered after the "
     "step"},
    {"reduce_bucket_size", "N", "zero: elements of gradients that are reduced together"},
    {"param_persistence_threshold", "0 N", "zero: of stage 3, elements of what is not taken apart"},
    {"zero_gradients", "whole scattered",
     "zero: of stages 1 and 2, all-reduced, or reduce-scattered as the ZeRO paper counts"},
    {"expert_capacity", "none X",
     "every expert gets its rows, or exactly X times its share of them (padded)"},
    {"gradient_dtype", "TYPE", "gradients are reduced in it, as --grad-dtype says too"},
    {"fp16_gradient_dtype", "TYPE", "the same, if parameters are float16"},
    {"sequence_gradient_dtype", "TYPE", "zero: the same, with --cp"},
    {"norm_sync", "coalesced per_parameter",
     "norm gradients under sequence parallelism: one all-reduce over tp, or one per parameter"},
    {"tied_embedding", "first_and_last_stage",
     "the gradient of a tied table is reduced between these stages, once per step"},
    {"bucket_size", "N default",
     "overlapped: elements at which a bucket closes; default: max(40,000,000, 1,000,000 x dp)"},
    {"bucket_multiple", "N",
     "a sharded optimizer pads its buckets to a multiple of N elements and of the ranks"},
    {"parameter_multiple", "N",
     "a sharded optimizer lets every parameter begin at a multiple of N elements in its bucket"},
    {"parameter_gathers", "each_optimizer once before_use",
     "a sharded optimizer gathers all it updated, and that of experts all once more; or its own; "
     "or "
     "the next step does so bucket by bucket"},
    {"expert_parameters", "one_by_one grouped",
     "order of the parameters of a rank's experts: expert by expert, or all first linears first"},
    {"context_parallel", "p2p all_gather a2a gathered_ring exchanged_ring",
     "over cp, keys and values go round in a ring of messages, are gathered, or heads are "
     "exchanged for tokens; or PyTorch's ring, which gathers them or passes them on by "
     "all-to-alls"},
    {"exchanged_kv_heads", "own repeated",
     "where heads are exchanged over cp, those of keys and values are as they are, or repeated to "
     "one for each query head first"},
    {"sequence_loss", "gathered none",
     "over cp, the loss of every token is gathered before the mean, or each rank has its own mean"},
    {"ring_launch", "pairs single batched",
     "a ring's send and receive are one launch in rings of two ranks, never, or always"},
    {"recompute", "whole_layers by_op",
     "--recompute full repeats all that a layer sent forward; selective nothing, or by_op its "
     "all-gathers, as the results of other collectives are kept"},
    {"replicate", "N",
     "fsdp: copies of the sharded parameters within dp, whose gradients are all-reduced (HSDP)"},
    {"loss_parallel", "on off", "the loss is split over tp, or its logits are gathered"},
    {"buffers", "none N",
     "ddp: float32 numbers of buffers that rank 0 broadcasts before a forward that is "
     "synchronised"},
    {"find_unused_parameters", "false true",
     "ddp: buckets are cut from the front of the model, and ranks tell which parameters they used"},
    {"latent_down", "duplicated",
     "the down-projections of latent attention are whole on every rank of tp"},
    {"cross_entropy", "unfused fused",
     "the loss over a split vocabulary is three small all-reduces, or two"},
    {"batch_broadcast", "tp none",
     "the first rank of tp hands each microbatch to the others, or everybody reads it"},
    {"attention_mask", "none broadcast", "a mask of sequence x sequence is handed out with it"},
    {"moe_dispatcher", "alltoall allgather flex",
     "rows travel to the ranks of their experts, or all ranks get all tokens; flex (kernels of "
     "DeepEP) is not predicted"},
    {"moe_counts", "all_gather all_to_all none",
     "ranks tell each other how many rows each expert gets: all of them, or those that get rows"},
    {"moe_probs", "all_to_all none",
     "weights of routed rows travel to the experts, or stay and weigh what comes back"},
    {"moe_balancing", "none aux_loss seq_aux_loss global_aux_loss",
     "a balancing loss adds up the tokens per expert over the ranks that share a sample, for each "
     "sample of the microbatch apart, or over all ranks"},
    {"shared_experts", "before between behind overlapped",
     "shared experts run before the router, between the dispatch of rows and the experts, behind "
     "all "
     "that, or beside the exchanges"},
    {"router_dtype", "activations float32",
     "weights of routed rows travel in the type of activations or in float32, and so do the terms "
     "of "
     "the ranks of an expert"},
    {"loss_divisor", "samples tokens",
     "gradients are divided by replicas and microbatches, or by all tokens, which ranks count"},
    {"grad_norm", "step each_optimizer each_axis zero none",
     "the norm of all gradients is added up over the ranks, in one call, in one for the dense and "
     "one for the expert parameters, axis by axis, or for each flat group of ZeRO"},
    {"overflow", "step none", "ranks of ZeRO agree whether any gradient overflowed"},
    {"mixed_precision", "fsdp",
     "parameters are converted as FSDP gathers them; without it they and activations are float32"},
    {"loss_scaling", "fp16 none", "ranks agree whether any fp16 gradient overflowed"},
    {"step_statistics", "step none", "stages agree that the step succeeded, and on its norm"},
    {"loss_logging", "step microbatch pipeline none",
     "the last stage averages the loss over dp and cp to print it, once per step or for each "
     "microbatch (cp, then dp), and tells the other stages (pipeline)"},
    {"expert_bias", "counted none",
     "a router that is balanced by a bias adds up the tokens of all ranks once per step"},
    {"p2p", "batched single", "a send and a receive that belong together are one launch, or two"},
    {"interleaved_p2p", "batched overlapped",
     "the same of the interleaved schedule, where what is overlapped is sent at once, one by one"},
};

// Megatron-LM, megatron/core, 0.13 and newer.
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
    {"loss_order", "target_first",
     "tensor_parallel/cross_entropy.py, VocabParallelCrossEntropy.forward"},
    {"vocabulary_padding", "128",
     "training/tokenizer, _vocab_size_with_padding: to a multiple of 128 x tp"},
    {"gradient_sync", "one_bucket",
     "distributed/param_and_grad_buffer.py: one bucket unless reductions overlap the backward",
     "one_bucket overlapped"},
    {"gradient_dtype", "float32", "training/arguments.py: bf16 accumulates and reduces in fp32"},
    {"tensor_parallel", "optional_sequence", "tensor_parallel/mappings.py", kOwn},
    {"blocks", "any", "transformer/transformer_config.py", "any plain_scores"},
    {"parallel_blocks", "two_reductions",
     "tensor_parallel/layers.py, RowParallelLinear; NeMo falcon_decoder_layer.py on top of it"},
    {"pipeline", "megatron", "pipeline_parallel/schedules.py", "megatron megatron-0.8"},
    {"stage_split", "equal", "transformer/transformer_block.py, get_num_layers_to_build", kOwn},
    {"expert_capacity", "none", "transformer/moe/token_dispatcher.py: drop-less"},
    {"fp16_gradient_dtype", "float16",
     "training/arguments.py: fp16 does so only with accumulate_allreduce_grads_in_fp32"},
    {"norm_sync", "coalesced",
     "distributed/finalize_model_grads.py, _allreduce_layernorm_grads: one call over tp"},
    {"tied_embedding", "first_and_last_stage",
     "distributed/finalize_model_grads.py, _allreduce_word_embedding_grads: once per step"},
    {"bucket_size", "default", "distributed/distributed_data_parallel.py: bucket_size"},
    {"bucket_multiple", "128",
     "distributed/param_and_grad_buffer.py, _pad_end_of_bucket_if_needed"},
    {"parameter_multiple", "64",
     "distributed/param_and_grad_buffer.py, _pad_start_of_param_if_needed"},
    {"parameter_gathers", "each_optimizer",
     "optimizer/distrib_optimizer.py, step_with_ready_grads: start_param_sync of all buckets"},
    {"expert_parameters", "one_by_one",
     "transformer/moe/experts.py: SequentialMLP, unless moe_grouped_gemm"},
    {"context_parallel", "p2p",
     "training/arguments.py, cp_comm_type; Transformer Engine "
     "attention/dot_product_attention/context_parallel.py",
     "p2p all_gather a2a"},
    {"ring_launch", "pairs",
     "Transformer Engine context_parallel.py, batch_p2p_comm: of two ranks on GPUs before "
     "Blackwell, "
     "and with NVTE_BATCH_MHA_P2P_COMM=1"},
    {"recompute", "whole_layers",
     "tensor_parallel/random.py, CheckpointFunction: the whole segment runs again", kOwn},
    {"latent_down", "duplicated",
     "transformer/multi_latent_attention.py: linear_q_down_proj, linear_kv_down_proj"},
    {"cross_entropy", "unfused", "tensor_parallel/cross_entropy.py, _VocabParallelCrossEntropy"},
    {"batch_broadcast", "tp", "training/utils.py, get_batch_on_this_tp_rank"},
    {"attention_mask", "broadcast",
     "training/arguments.py: the data loader makes one unless "
     "--no-create-attention-mask-in-dataloader"},
    {"moe_dispatcher", "alltoall",
     "transformer/moe/token_dispatcher.py: MoEAlltoAllTokenDispatcher; training/arguments.py has "
     "allgather by default"},
    {"moe_counts", "all_gather",
     "transformer/moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher.preprocess: over ep x etp",
     "all_gather none"},
    {"moe_probs", "all_to_all",
     "transformer/moe/token_dispatcher.py: permuted probabilities are dispatched too"},
    {"shared_experts", "before",
     "transformer/moe/moe_layer.py: shared_experts_compute comes first; not in 0.14 and older"},
    {"router_dtype", "activations", "transformer/moe/router.py: moe_router_dtype is not set"},
    {"loss_divisor", "samples",
     "distributed/finalize_model_grads.py: num_tokens only with calculate_per_token_loss"},
    {"moe_balancing", "none",
     "transformer/moe/router.py, apply_load_balancing_loss: only if moe_aux_loss_coeff is not 0"},
    {"grad_norm", "step",
     "optimizer/clip_grads.py, get_grad_norm_fp32; clip_grad is 1.0 by default",
     "step each_optimizer none"},
    {"loss_scaling", "fp16", "optimizer/optimizer.py, _unscale_main_grads_and_check_for_nan"},
    {"step_statistics", "step",
     "training/training.py, train_step: logical_and_ and reduce_max_across_model_parallel_group"},
    {"loss_logging", "step",
     "training/training.py, train_step, since 0.13: one average per step over dp x cp; before, "
     "pretrain_gpt.py, loss_func",
     "step microbatch none"},
    {"expert_bias", "counted",
     "distributed/finalize_model_grads.py, _update_router_expert_bias: over tp x dp x cp"},
    {"p2p", "batched", "pipeline_parallel/p2p_communication.py, batch_p2p_comm"},
    {"interleaved_p2p", "overlapped",
     "training/arguments.py: overlap_p2p_comm is on unless --no-overlap-p2p-communication"},
};

constexpr ProfileDef kProfiles[] = {
    {"megatron", "Megatron-LM core 0.13 and newer; 0.10 to 0.12 with other switches", kMegatron,
     "one int32 that all ranks add up behind the backward, unless --rerun-mode is disabled; what "
     "happens every few steps (evaluation, checkpoints, logged statistics of experts)"},
    {"megatron-0.8", "Megatron-LM core 0.8", kMegatron08, kMegatron08Unlisted, "megatron"},
    {"torchtitan", "torchtitan: DTensor, FSDP2, loss parallel", kTorchtitan, kTorchtitanUnlisted},
    {"ddp", "PyTorch DistributedDataParallel alone", kDdp, kDdpUnlisted},
    {"deepspeed", "DeepSpeed: ZeRO 0 to 3, its pipeline, its experts", kDeepspeed,
     kDeepspeedUnlisted},
};

int64_t positive(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && n <= INT32_MAX ? n : 0;
}

double positive_real(const std::string& text) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && x > 0 && x <= 1e6 ? x : 0;
}

// Of numbers that are added up.
bool is_sum_type(const std::string& value) {
  const auto dtype = parse_dtype(value);
  return dtype && is_differentiable(*dtype) && *dtype != DType::f8;
}

// Axes, each once; whether all of a plan's are there is judged with the plan.
bool is_order(const std::string& value) {
  const std::vector<std::string> words = split(value, '-');
  std::set<std::string> left{"tp", "cp", "ep", "dp", "pp"};
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return left.erase(word) == 1; });
}

bool stands_for(const std::string& word, const std::string& value) {
  if (word == "N") return positive(value) > 0;
  if (word == "X") return positive_real(value) > 0;
  if (word == "TYPE") return is_sum_type(value);
  if (word == "ORDER") return is_order(value);
  return word == value;
}

std::string in_words(const std::string& word) {
  if (word == "N") return "a positive whole number";
  if (word == "X") return "a positive number";
  if (word == "TYPE") return "float32, bfloat16, float16 or float64";
  if (word == "ORDER") return "axes, each once, the fastest first: \"tp-cp-ep-dp-pp\"";
  return quoted(word);
}

// What `values` of a switch asks for, if `value` is not it.
std::string expected_instead(std::string_view values, const std::string& value) {
  std::vector<std::string> words = words_of(values);
  for (std::string& word : words) {
    if (stands_for(word, value)) return "";
    word = in_words(word);
  }
  return (words.size() == 1 ? "" : "one of ") + join(words, ", ");
}

const ProfileSwitch* find_switch(std::string_view name) {
  for (const ProfileSwitch& s : kSwitches)
    if (s.name == name) return &s;
  return nullptr;
}

const ProfileSetting* find_setting(const ProfileDef& def, std::string_view name) {
  for (const ProfileSetting& s : def.settings)
    if (s.name == name) return &s;
  for (const ProfileDef& base : kProfiles)
    if (base.name == def.base) return find_setting(base, name);
  return nullptr;
}

}  // namespace

std::string_view Profile::operator[](std::string_view name) const {
  if (!find_switch(name)) throw Fault(fmt::format("no switch {}", name));
  if (const auto it = changed_.find(name); it != changed_.end()) return it->second;
  const ProfileSetting* setting = find_setting(*def_, name);
  return setting ? setting->value : "";
}

bool Profile::is(std::string_view name, std::string_view value) const {
  const ProfileSwitch* s = find_switch(name);
  if (!s || !among(value, s->values))
    throw Fault(fmt::format("no switch {} with a value {}", name, value));
  return (*this)[name] == value;
}

std::string_view Profile::values(std::string_view name) const {
  const ProfileSetting* setting = find_setting(*def_, name);
  if (!setting) return "";
  if (setting->values == kOwn) return setting->value;
  return setting->values.empty() ? find_switch(name)->values : setting->values;
}

std::vector<ProfileSetting> Profile::settings() const {
  std::vector<ProfileSetting> all;
  for (const ProfileSwitch& s : kSwitches)
    if (const ProfileSetting* setting = find_setting(*def_, s.name)) all.push_back(*setting);
  return all;
}

int64_t Profile::number(std::string_view name) const {
  return positive((*this)[name]);
}

double Profile::real(std::string_view name) const {
  return positive_real(std::string((*this)[name]));
}

// A word of the switch that means nothing here, or none at all.
Diagnostic Profile::refused(const std::string& name, const std::string& value,
                            const std::string& expected) const {
  const bool known = expected_instead(find_switch(name)->values, value).empty();
  const std::string what = fmt::format("{}={}", name, value);
  return {"--set", known ? fmt::format("{} under {}", what, def_->name) : what, expected,
          known ? "The others are of other frameworks: shape2trace list profiles."
                : did_you_mean(value, words_of(values(name))),
          "bad-option"};
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
    if (!find_setting(*def_, s.name)) continue;
    names.emplace_back(s.name);
    if (s.name != name) continue;
    const std::string expected = expected_instead(values(name), value);
    if (!expected.empty()) return refused(name, value, expected);
    changed_[name] = value;
    return std::nullopt;
  }
  std::vector<std::string> others;  // that have it
  for (const ProfileDef& def : kProfiles)
    if (find_switch(name) && find_setting(def, name)) others.emplace_back(def.name);
  const std::string hint =
      others.empty() ? did_you_mean(name, names) : "A switch of " + join(others, ", ") + ".";
  return Diagnostic{"--set", fmt::format("{} has no switch {}", def_->name, quoted(name)),
                    "one of " + quoted_list(names, 64),
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

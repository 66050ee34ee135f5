// Flags of Megatron's training scripts (training/arguments.py), of torchtitan (config/job_config.py,
// under the names of launch_sizes.h) and DeepSpeed's settings, by what they mean here. Included by
// launch_table.cc alone.
#pragma once

#include <string_view>

#include "analyzer/io/architecture.h"

namespace s2t {

// A flag that stands for an option with a value of ours; in rows with `own` only if that is its
// value.
struct LaunchMeaning {
  std::string_view flag, option, value, own = "";
};
inline constexpr LaunchMeaning kMeanings[] = {
    {"--bf16", "--dtype", "bf16"},
    {"--fp16", "--dtype", "f16"},
    {"--grad-reduce-in-bf16", "--grad-dtype", "bf16"},
    {"--main-grads-dtype", "--grad-dtype", "bf16", "bf16"},
    {"--main-grads-dtype", "--grad-dtype", "f16", "fp16"},
    {"--main-grads-dtype", "--grad-dtype", "f32", "fp32"},
    {"--accumulate-allreduce-grads-in-fp32", "--grad-dtype", "f32"},
    {"--use-distributed-optimizer", "--zero", "1"},
    {"--recompute-activations", "--recompute", "selective"},
    {"--checkpoint-activations", "--recompute", "full"},
    {"--use-tp-pp-dp-mapping", "--order", "tp-cp-ep-pp-dp"},
    // torchtitan
    {"--training.mixed_precision_param", "--dtype", "bf16", "bfloat16"},
    {"--training.mixed_precision_param", "--dtype", "f32", "float32"},
    {"--training.mixed_precision_reduce", "--grad-dtype", "bf16", "bfloat16"},
    {"--training.mixed_precision_reduce", "--grad-dtype", "f32", "float32"},
    {"--activation_checkpoint.mode", "--recompute", "none", "none"},
    {"--activation_checkpoint.mode", "--recompute", "full", "full"},
    {"--activation_checkpoint.mode", "--recompute", "selective", "selective"},
    {"--parallelism.pipeline_parallel_schedule", "--schedule", "1f1b", "1F1B"},
    {"--parallelism.pipeline_parallel_schedule", "--schedule", "gpipe", "GPipe"},
    {"--parallelism.pipeline_parallel_schedule", "--schedule", "interleaved_steps",
     "Interleaved1F1B"},
    {"--parallelism.pipeline_parallel_schedule", "--vpp", "2", "Interleaved1F1B"},
    // DeepSpeed's own file
    {"--communication_data_type", "--grad-dtype", "f32", "fp32"},
    {"--communication_data_type", "--grad-dtype", "f16", "fp16"},
    {"--communication_data_type", "--grad-dtype", "bf16", "bf16"},
    {"--communication_data_type", "--grad-dtype", "bf16", "bfp16"},
};

// A flag that changes a switch to `value`, or to its own; in rows with `own` only if that is its
// value, in rows with `from` only where the profile has that value.
struct LaunchChange {
  std::string_view flag, name, value, own = "", from = "";
};
inline constexpr LaunchChange kChanges[] = {
    {"--make-vocab-size-divisible-by", "vocabulary_padding", ""},
    {"--overlap-grad-reduce", "gradient_sync", "overlapped", "", "one_bucket"},
    {"--overlap-param-gather", "parameter_gathers", "before_use"},
    {"--ddp-bucket-size", "bucket_size", ""},
    {"--ddp-pad-buckets-for-high-nccl-busbw", "bucket_multiple", "65536"},
    {"--cross-entropy-loss-fusion", "cross_entropy", "fused"},
    {"--no-create-attention-mask-in-dataloader", "attention_mask", "none"},
    {"--no-overlap-p2p-communication", "interleaved_p2p", "batched"},
    {"--moe-grouped-gemm", "expert_parameters", "grouped"},
    {"--cp-comm-type", "context_parallel", "p2p", "p2p"},
    {"--cp-comm-type", "context_parallel", "a2a", "a2a"},
    {"--cp-comm-type", "context_parallel", "all_gather", "allgather"},
    {"--cp-comm-type", "context_parallel", "all_gather", "all_gather"},
    {"--cp-comm-type", "context_parallel", "a2a+p2p", "a2a+p2p"},  // refused by name
    {"--calculate-per-token-loss", "loss_divisor", "tokens"},
    {"--moe-router-dtype", "router_dtype", "float32", "fp32"},
    {"--moe-shared-expert-overlap", "shared_experts", "overlapped"},
    {"--clip-grad", "grad_norm", "none", "0"},
    // torchtitan
    {"--parallelism.data_parallel_replicate_degree", "replicate", ""},
    {"--parallelism.fsdp_reshard_after_forward", "reshard_after_forward", ""},
    {"--parallelism.disable_loss_parallel", "loss_parallel", "off"},
    {"--parallelism.context_parallel_rotate_method", "context_parallel", "gathered_ring",
     "allgather"},
    {"--parallelism.context_parallel_rotate_method", "context_parallel", "exchanged_ring",
     "alltoall"},
    // DeepSpeed's own file
    {"--reduce_bucket_size", "reduce_bucket_size", ""},
    {"--param_persistence_threshold", "param_persistence_threshold", ""},
};

// What a flag states of the model's shape, and what the config says.
struct LaunchShape {
  std::string_view flag;
  int64_t (*of)(const Architecture&);
};
inline constexpr LaunchShape kShapes[] = {
    {"--num-layers", [](const Architecture& a) { return a.layers; }},
    {"--hidden-size", [](const Architecture& a) { return a.hidden; }},
    {"--ffn-hidden-size", [](const Architecture& a) { return a.ffn; }},
    {"--num-attention-heads", [](const Architecture& a) { return a.heads; }},
    {"--num-query-groups", [](const Architecture& a) { return a.kv_heads; }},
    {"--kv-channels", [](const Architecture& a) { return a.head_dim; }},
    {"--vocab-size", [](const Architecture& a) { return a.vocab; }},
    {"--num-experts", [](const Architecture& a) { return a.experts ? a.experts->experts : 0; }},
    {"--moe-router-topk", [](const Architecture& a) { return a.experts ? a.experts->top_k : 0; }},
    {"--moe-ffn-hidden-size", [](const Architecture& a) { return a.experts ? a.experts->ffn : 0; }},
    {"--moe-shared-expert-intermediate-size",
     [](const Architecture& a) { return a.experts ? a.experts->shared_ffn : 0; }},
};

// Parts that a flag, or one value of it, says the model has.
struct LaunchPart {
  std::string_view flag;
  bool (*present)(const Architecture&);
  std::string_view what;
  std::string_view own = "";
};
inline constexpr LaunchPart kParts[] = {
    {"--swiglu", [](const Architecture& a) { return a.gated; }, "gated feed-forward layers"},
    {"--untie-embeddings-and-output-weights", [](const Architecture& a) { return !a.tied; },
     "an output layer of its own"},
    {"--multi-latent-attention", [](const Architecture& a) { return a.latent.has_value(); },
     "multi-head latent attention"},
    {"--disable-bias-linear", [](const Architecture& a) { return !a.mlp_bias && !a.out_bias; },
     "linears without a bias"},
    {"--add-qkv-bias", [](const Architecture& a) { return a.qkv_bias; },
     "a bias of queries, keys and values"},
    {"--qk-layernorm", [](const Architecture& a) { return a.latent || a.qk_norm != QkNorm::none; },
     "norms of queries and keys"},
    {"--normalization", [](const Architecture& a) { return a.norm == Norm::rms; }, "RMS norms",
     "RMSNorm"},
    {"--normalization", [](const Architecture& a) { return a.norm != Norm::rms; }, "layer norms",
     "LayerNorm"},
    {"--position-embedding-type",
     [](const Architecture& a) { return a.positions == Positions::rotary; }, "rotary positions",
     "rope"},
    {"--position-embedding-type",
     [](const Architecture& a) { return a.positions == Positions::learned; }, "learned positions",
     "learned_absolute"},
};

// Flags that change collectives in a way that is not predicted, unless their value is one of
// `harmless`.
struct LaunchNotPredicted {
  std::string_view flag, what, harmless = "";
};
inline constexpr std::string_view kNoValue = "-";  // harmless
inline constexpr LaunchNotPredicted kNotPredicted[] = {
    {"--use-checkpoint-args", "what the checkpoint says, which is not read"},
    {"--use-mp-args-from-checkpoint-args", "degrees that the checkpoint says, which is not read"},
    {"--yaml-cfg", "what the file says, which is not read"},
    {"--config_file", "what the file says, which is not read"},
    {"--encoder-tensor-model-parallel-size", "an encoder with ranks of its own", "0"},
    {"--encoder-pipeline-model-parallel-size", "an encoder with stages of its own", "0"},
    {"--fp8-format", "one-byte gathers and the reductions of FP8 scales"},
    {"--fp8-param-gather", "parameters gathered in one byte"},
    {"--fp4-format", "gathers of half a byte and the reductions of FP4 scales"},
    {"--fp4-param-gather", "parameters gathered in half a byte"},
    {"--overlap-param-gather-with-optimizer-step",
     "parameters gathered bucket by bucket as they are updated"},
    {"--overlap-p2p-communication-warmup-flush",
     "messages of the warm-up and the drain launched earlier"},
    {"--tp-comm-overlap", "copies by user buffers instead of NCCL kernels"},
    {"--use-nccl-ub", "other kernels, on registered buffers"},
    {"--use-ring-exchange-p2p", "messages exchanged in a ring"},
    {"--num-distributed-optimizer-instances", "reductions inside and between optimizer instances",
     "1"},
    {"--ddp-num-buckets", "another number of buckets"},
    {"--ddp-reduce-scatter-with-fp32-accumulation", "all-to-alls instead of reduce-scatters"},
    {"--defer-embedding-wgrad-compute",
     "with sequence parallelism, the output layer's gathers for its weight gradient wait for the "
     "end of the pipeline"},
    {"--delay-wgrad-compute", "weight gradients, and what they gather, later"},
    {"--overlap-moe-expert-parallel-comm", "microbatches that overlap"},
    {"--microbatch-group-size-per-virtual-pipeline-stage", "another order of microbatches"},
    {"--rampup-batch-size", "smaller batches in the first steps"},
    {"--step-batch-size-schedule", "other batches in some steps"},
    {"--mtp-num-layers", "extra prediction layers", "0"},
    {"--use-torch-fsdp2", "FSDP instead of Megatron's data parallelism"},
    {"--use-custom-fsdp", "FSDP instead of Megatron's data parallelism"},
    {"--use-megatron-fsdp", "FSDP instead of Megatron's data parallelism"},
    {"--pp-partition-method", "another cut into stages; see --stage-layers"},
    {"--account-for-embedding-in-pipeline-split", "stages that count the embedding as a layer"},
    {"--account-for-loss-in-pipeline-split", "stages that count the loss as a layer"},
    {"--pipeline-model-parallel-layout", "another cut into stages; see --stage-layers"},
    {"--standalone-embedding-stage", "a stage of the embedding alone"},
    {"--embed-layernorm", "a norm behind the embedding"},
    {"--pad-vocab-size-to", "another padding of the vocabulary; see vocabulary_padding"},
    {"--padded-vocab-size", "another padding of the vocabulary; see vocabulary_padding"},
    {"--transformer-impl", "norms that are registered before attention: other borders of buckets",
     "transformer_engine"},
    {"--optimizer", "an optimizer that may gather gradients or weights", "adam sgd"},
    {"--log-num-zeros-in-grad", "the number of zeros in the gradients"},
    {"--log-params-norm", "the norm of the parameters, added up once per step"},
    {"--log-max-attention-logit", "the largest attention scores, layer by layer"},
    {"--qk-clip", "the largest attention scores, layer by layer"},
    {"--decoder-seq-length", "samples of another length in the decoder"},
    {"--ds-sequence-parallel-size", "heads exchanged over sequence ranks; see --cp"},
    {"--deepspeed_config", "what DeepSpeed's own file says; give it to --args-file too"},
    {"--deepspeed-config", "what DeepSpeed's own file says; give it to --args-file too"},
    {"--deepspeed", "what DeepSpeed's own file says; give it to --args-file too", kNoValue},
    {"--cp-comm-type", "another way of context parallelism",
     "p2p a2a allgather all_gather a2a+p2p"},
    {"--hierarchical-context-parallel-sizes", "context parallelism in two levels"},
    {"--hybrid-context-parallel", "samples of different context-parallel sizes"},
    {"--sft", "packed samples, whose lengths are handed out"},
    {"--distribute-saved-activations", "inputs of recomputed layers gathered over tp"},
    {"--variable-seq-lengths", "shapes sent before every message between stages"},
    {"--recompute-method", "only some layers are computed again", "uniform"},
    {"--recompute-num-layers", "groups of layers are computed again together", "1"},
    {"--moe-layer-recompute", "the exchanges of experts, issued again by the backward"},
    {"--recompute-modules", "other parts of a layer are computed again", "core_attn"},
    {"--cross-entropy-fusion-impl", "the loss of Transformer Engine", "native"},
    {"--moe-token-dispatcher-type", "another dispatcher of tokens", "alltoall allgather flex"},
    {"--moe-enable-deepep", "exchanges of experts that are no NCCL kernels"},
    {"--moe-router-dtype", "weights of rows that travel in this type", "fp32"},
    {"--moe-router-load-balancing-type", "another balancing of experts",
     "aux_loss seq_aux_loss global_aux_loss none"},
    // torchtitan
    {"--job.config_file", "what the job's own file says; give it to --args-file too"},
    {"--parallelism.enable_async_tensor_parallel",
     "copies by symmetric memory instead of NCCL kernels"},
    {"--parallelism.pipeline_parallel_schedule", "another schedule", "1F1B GPipe Interleaved1F1B"},
    {"--parallelism.pipeline_parallel_schedule_csv", "another schedule"},
    {"--parallelism.pipeline_parallel_microbatches", "another number of microbatches"},
    {"--parallelism.pipeline_parallel_split_points", "another cut into stages; see --stage-layers"},
    {"--parallelism.module_fqns_per_model_part", "another cut into stages; see --stage-layers"},
    {"--parallelism.pipeline_parallel_layers_per_stage",
     "another cut into stages; see --layers-per-chunk"},
    {"--parallelism.pipeline_parallel_first_stage_less_layers",
     "another cut into stages; see --stage-layers", "1"},
    {"--parallelism.pipeline_parallel_last_stage_less_layers",
     "another cut into stages; see --stage-layers", "1"},
    {"--activation_checkpoint.mode", "another choice of what is computed again",
     "none full selective"},
    {"--training.dtype", "parameters of another type", "float32"},
    {"--float8.enable_fsdp_float8_all_gather", "parameters gathered in one byte"},
    {"--model.converters", "linears in FP8, with the reductions of their scales"},
    {"--fault_tolerance.enable", "replicas that are synchronised elsewhere"},
    // DeepSpeed's own file
    {"--zero_hpz_partition_size", "a second copy of parameters within a node", "1"},
    {"--mics_shard_size", "parameters sharded within groups", "-1"},
    {"--zero_quantized_weights", "parameters gathered in fewer bits"},
    {"--zero_quantized_gradients", "gradients exchanged in fewer bits"},
    {"--moe-layer-freq", "which layers have experts, here as the config says", "1"},
};

// Read otherwise: what several flags decide together.
inline constexpr std::string_view kElsewhere =
    "--moe-aux-loss-coeff --gradient_accumulation_steps --training.local_batch_size "
    "--activation_checkpoint.selective_ac_option "
    "--moe-router-enable-expert-bias --moe-expert-capacity-factor "
    "--moe-pad-expert-input-to-capacity";

// Flags that take a word for all layers, or one for each.
inline constexpr std::string_view kPerLayer = "--cp-comm-type";

// Options that say one thing in several ways: one on the command line wins over all in a file.
inline constexpr std::string_view kOneOf[] = {
    "--vpp --layers-per-chunk",
    "--stage-layers --first-layers --last-layers",
};

}  // namespace s2t

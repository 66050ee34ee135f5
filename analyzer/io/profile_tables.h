// The settings of every profile but Megatron's newest, with the places in the frameworks' sources.
// Included by profiles.cc alone.
#pragma once

#include "analyzer/io/profiles.h"

namespace s2t {

// Megatron-LM core 0.8.0, below megatron/core; what is not stated is as in 0.10.
inline constexpr ProfileSetting kMegatron08[] = {
    {"expert_groups", "within_dp", "parallel_state.py, RankGenerator: ep is cut from dp"},
    {"blocks", "plain_scores", "models/T5/t5_model.py, transformer/dot_product_attention.py",
     "any plain_scores"},
    {"pipeline", "megatron-0.8",
     "pipeline_parallel/schedules.py: as many microbatches as ranks are all warm-up",
     "megatron megatron-0.8"},
    {"moe_probs", "none", "transformer/moe/token_dispatcher.py: weights are applied at the source"},
    {"moe_counts", "all_gather", "transformer/moe/token_dispatcher.py, preprocess: over ep",
     "all_gather none"},
    {"shared_experts", "behind", "transformer/moe/: there are none yet"},
    {"parameter_gathers", "once",
     "optimizer/distrib_optimizer.py: an optimizer gathers the buckets of its own parameters"},
    {"grad_norm", "each_optimizer", "optimizer/optimizer.py, ChainedOptimizer.step",
     "step each_optimizer none"},
    {"expert_bias", "none", "transformer/moe/router.py: not in 0.8"},
    {"step_statistics", "none", "training/training.py: not in 0.8"},
    {"loss_logging", "microbatch",
     "pretrain_gpt.py, loss_func: for each microbatch, over cp and then over dp",
     "step microbatch none"},
};
inline constexpr std::string_view kMegatron08Unlisted =
    "what happens every few steps (evaluation, checkpoints, logged statistics of experts)";

// torchtitan, with PyTorch 2.6 below it.
inline constexpr ProfileSetting kTorchtitan[] = {
    {"rank_order", "tp-cp-ep-dp-pp", "distributed/parallel_dims.py: a mesh (pp, dp, cp, tp)"},
    {"expert_groups", "folded", "distributed/parallel_dims.py: ep neighbours within dp", kOwn},
    {"column_input_gradient", "needed", "DTensor: a redistribution is a node of its own", kOwn},
    {"sequence_residual", "kept", "DTensor: what the gather returned is saved for the backward",
     kOwn},
    {"vocabulary", "parallel",
     "models/llama3, apply_tp: embedding by rows, head by columns, loss "
     "parallel"},
    {"loss_order", "sum_first", "torch/distributed/tensor/parallel/loss.py", kOwn},
    {"replicate", "1", "config: parallelism.data_parallel_replicate_degree"},
    {"context_parallel", "gathered_ring",
     "config: parallelism.context_parallel_rotate_method is allgather; torch/distributed/tensor/"
     "experimental/_attention.py, _templated_ring_attention",
     "gathered_ring exchanged_ring"},
    {"loss_parallel", "on", "config: parallelism.disable_loss_parallel"},
    {"recompute", "by_op",
     "distributed/activation_checkpoint.py: blocks without early stop; the policy keeps "
     "reduce-scatters and all-to-alls",
     kOwn},
    {"vocabulary_padding", "none", "nothing is padded"},
    {"tensor_parallel", "always_sequence", "models/llama3, apply_tp: SequenceParallel norms", kOwn},
    {"blocks", "rms_rotary", "models/llama3, qwen3, deepseek_v3", kOwn},
    {"pipeline", "torch", "torch.distributed.pipelining", kOwn},
    {"stage_split", "weighted_ends", "distributed/pipeline.py, generate_llm_fqn_per_model_part"},
    {"gradient_sync", "fsdp",
     "models/llama3, apply_fsdp: one unit per embedding, block, norm and "
     "head",
     kOwn},
    {"every", "microbatch",
     "torch fully_shard: every backward reduces; the last one of a pipeline"},
    {"reshard_after_forward", "default", "models/llama3, apply_fsdp"},
    {"mixed_precision", "fsdp", "distributed/utils.py, maybe_enable_amp"},
    {"gradient_dtype", "float32", "config: training.mixed_precision_reduce"},
    {"norm_sync", "per_parameter",
     "torch fully_shard: a Partial gradient is reduced as its unit is", kOwn},
    {"expert_capacity", "none", "models/moe: drop-less", kOwn},
    {"moe_counts", "all_to_all", "distributed/expert_parallel.py, _token_dispatch", kOwn},
    {"grad_norm", "each_axis",
     "distributed/utils.py, clip_grad_norm_: full_tensor of the norm, then its sum over pp",
     "each_axis none"},
    {"loss_logging", "none", "config: metrics.log_freq is 10 steps", kOwn},
    {"p2p", "batched", "torch.distributed.pipelining: a batch per peer (1F1B)", kOwn},
};
inline constexpr std::string_view kTorchtitanUnlisted =
    "the loss that is logged every few steps and, of layers with experts, the load-balancing bias";

// torch.nn.parallel.DistributedDataParallel, PyTorch 2.6.
inline constexpr ProfileSetting kDdp[] = {
    {"rank_order", "tp-cp-ep-dp-pp", "one group: all ranks"},
    {"column_input_gradient", "needed", "autograd", kOwn},
    {"sequence_residual", "kept", "autograd", kOwn},
    {"vocabulary", "parallel", "no tensor parallelism: whole on every rank"},
    {"vocabulary_padding", "none", "nothing is padded"},
    {"tensor_parallel", "none", "nn/parallel/distributed.py", kOwn},
    {"blocks", "any", "any module", kOwn},
    {"pipeline", "none", "nn/parallel/distributed.py", kOwn},
    {"gradient_sync", "ddp", "csrc/distributed/c10d/reducer.cpp", kOwn},
    {"every", "step", "nn/parallel/distributed.py, no_sync for all microbatches but the last"},
    {"buffers", "none", "nn/parallel/distributed.py, _sync_buffers; of most models none is needed"},
    {"find_unused_parameters", "false", "nn/parallel/distributed.py"},
    {"recompute", "whole_layers", "a whole layer sends nothing", kOwn},
    {"bucket_cap_mb", "default", "nn/parallel/distributed.py: 1 MiB first, then 25 MiB"},
    {"ddp_step", "later", "csrc/distributed/c10d/reducer.cpp: rebuilt in the second step"},
    {"expert_capacity", "none", "any module", kOwn},
};
inline constexpr std::string_view kDdpUnlisted =
    "the average of the loss that most training loops log, broadcasts of buffers unless buffers=N "
    "states them, and the two small broadcasts of the second step";

// DeepSpeed 0.14, below deepspeed/.
inline constexpr ProfileSetting kDeepspeed[] = {
    {"rank_order", "tp-cp-ep-dp-pp",
     "runtime/pipe/topology.py: pipe, data, model, the last fastest"},
    {"expert_groups", "folded", "utils/groups.py: consecutive ranks of a data-parallel group",
     kOwn},
    {"column_input_gradient", "fused", "tensor parallelism is Megatron's", kOwn},
    {"vocabulary", "parallel", "tensor parallelism is Megatron's"},
    {"loss_order", "target_first", "tensor parallelism is Megatron's", kOwn},
    {"vocabulary_padding", "none", "nothing is padded"},
    {"tensor_parallel", "without_sequence", "tensor parallelism is Megatron's", kOwn},
    {"blocks", "any", "any module", kOwn},
    {"parallel_blocks", "one_reduction",
     "GPT-NeoX megatron/model/transformer.py, gpt_j_residual: self.reduce"},
    {"pipeline", "deepspeed", "runtime/pipe/schedule.py, TrainSchedule", kOwn},
    {"borders", "cut", "runtime/pipe/engine.py, PartitionedTensor: pipe_partitioned"},
    {"stage_split", "equal",
     "runtime/pipe/module.py, partition_method type:transformer, which Megatron-DeepSpeed asks "
     "for; "
     "the default is parameters",
     kOwn},
    {"gradient_sync", "zero", "runtime/zero/stage_1_and_2.py, stage3.py; runtime/engine.py", kOwn},
    {"recompute", "whole_layers",
     "runtime/activation_checkpointing/checkpointing.py, CheckpointFunction", kOwn},
    {"bf16_optimizer", "flat",
     "runtime/bf16_optimizer.py, update_lp_params; runtime/engine.py, _configure_bf16_optimizer"},
    {"reduce_bucket_size", "500000000", "runtime/zero/config.py"},
    {"zero_gradients", "whole",
     "runtime/zero/stage_1_and_2.py, allreduce_and_scatter: use_multi_rank_bucket_allreduce"},
    {"param_persistence_threshold", "100000", "runtime/zero/config.py"},
    {"context_parallel", "a2a", "sequence/layer.py, DistributedAttention (Ulysses)", kOwn},
    {"exchanged_kv_heads", "repeated",
     "Megatron-DeepSpeed megatron/model/transformer.py, repeat_kv before dist_attn"},
    {"sequence_loss", "gathered",
     "Megatron-DeepSpeed megatron/core/sequence_parallel/cross_entropy.py"},
    {"sequence_gradient_dtype", "float32",
     "runtime/engine.py: seq_parallel_communication_data_type is fp32"},
    {"tied_embedding", "first_and_last_stage", "runtime/pipe/engine.py, ReduceTiedGrads"},
    {"expert_capacity", "1", "moe/sharded_moe.py: equal splits, padded to the capacity"},
    {"grad_norm", "zero",
     "runtime/zero/stage_1_and_2.py, stage3.py, get_grad_norm_direct; runtime/bf16_optimizer.py",
     "zero none"},
    {"overflow", "step",
     "runtime/zero/stage_1_and_2.py, step: of fp16; runtime/zero/stage3.py, has_overflow: always"},
    {"loss_logging", "pipeline", "runtime/pipe/engine.py, _aggregate_total_loss", "pipeline none"},
    {"p2p", "single", "runtime/pipe/p2p.py: every send and receive by itself", kOwn},
};
inline constexpr std::string_view kDeepspeedUnlisted =
    "clipping under ZeRO 0 in float32, meta messages and other things that the first step adds";

}  // namespace s2t

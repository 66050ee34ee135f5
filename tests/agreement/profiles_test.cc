// Small llamas, mixtrals and gpt2s under every profile that can train them: each runs on the host
// as it is predicted, and computes what the unsharded model computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "analyzer/io/transformer.h"
#include "tests/agreement/on_host.h"
#include "tests/analyzer/io/architectures.h"

namespace s2t {
namespace {

struct Case {
  std::string name;  // "torchtitan_llama_tp2_dp2"
  std::function<Architecture()> architecture;
  std::function<void(Plan&)> plan;
  std::vector<std::string> changes;

  std::string profile() const {
    const std::string word = name.substr(0, name.find('_'));
    return word == "megatron08" ? "megatron-0.8" : word;
  }
};

Architecture llama() {
  Architecture a = dense(2, 16, 4);
  a.kv_heads = 2;
  a.ffn = 24;
  a.vocab = 24;
  return a;
}

Architecture mixtral() {
  Architecture a = llama();
  a.family = a.name = "mixtral";
  a.experts = Experts{4, 2, 24};
  return a;
}

// Latents, a dense layer, a shared expert.
Architecture deepseek() {
  Architecture a = mixtral();
  a.family = a.name = "deepseek_v3";
  a.kv_heads = 4;
  a.experts->first_dense = 1;
  a.experts->shared_ffn = 24;
  a.latent = LatentAttention{8, 8, 2, 4, 4};
  return a;
}

Architecture gpt2() {
  Architecture a = gpt(2, 16, 4);
  a.family = a.name = "gpt2";
  a.ffn = 24;
  a.vocab = 24;
  a.position_rows = 16;
  return a;
}

void two_microbatches(Plan& p) {
  p.global_batch = 2 * p.dp;
}

const std::vector<Case> kCases{
    {"torchtitan_llama_fsdp4", llama, [](Plan& p) { p.dp = 4; }, {}},
    {"torchtitan_llama_fsdp3_accumulated",
     llama,
     [](Plan& p) {
       p.dp = 3;
       two_microbatches(p);
     },
     {}},
    {"torchtitan_llama_tp2_dp2", llama, [](Plan& p) { p.tp = p.dp = 2; }, {}},
    {"torchtitan_llama_tp2_bf16",
     llama,
     [](Plan& p) {
       p.tp = p.dp = 2;
       p.dtype = DType::bf16;
     },
     {}},
    {"torchtitan_llama_tp2_alone", llama, [](Plan& p) { p.tp = 2; }, {}},
    {"torchtitan_llama_always",
     llama,
     [](Plan& p) { p.tp = p.dp = 2; },
     {"reshard_after_forward=always"}},
    {"torchtitan_llama_never", llama, [](Plan& p) { p.dp = 2; }, {"reshard_after_forward=never"}},
    {"torchtitan_llama_tp2_pp2_dp2",
     llama,
     [](Plan& p) {
       p.tp = p.pp = p.dp = 2;
       p.global_batch = 8;
     },
     {}},
    {"torchtitan_llama_gpipe",
     llama,
     [](Plan& p) {
       p.pp = p.dp = 2;
       p.schedule = "gpipe";
       two_microbatches(p);
     },
     {}},
    {"torchtitan_mixtral_dp4", mixtral, [](Plan& p) { p.dp = 4; }, {}},
    {"torchtitan_mixtral_ep2_dp4", mixtral, [](Plan& p) { p.dp = 4, p.ep = 2; }, {}},
    {"torchtitan_mixtral_ep2_dp8_accumulated",
     mixtral,
     [](Plan& p) {
       p.dp = 8, p.ep = 2;
       two_microbatches(p);
     },
     {}},
    {"torchtitan_mixtral_ep2_pp2",
     mixtral,
     [](Plan& p) {
       p.dp = 4, p.ep = p.pp = 2;
       two_microbatches(p);
     },
     {}},
    {"torchtitan_mixtral_hybrid",
     mixtral,
     [](Plan& p) {
       p.dp = 8, p.ep = 2;
       two_microbatches(p);
     },
     {"replicate=2"}},
    {"torchtitan_mixtral_ep2_full",
     mixtral,
     [](Plan& p) {
       p.dp = 4, p.ep = 2;
       p.recompute = Recompute::full;
     },
     {}},
    {"torchtitan_mixtral_ep2_selective",
     mixtral,
     [](Plan& p) {
       p.dp = 4, p.ep = 2;
       p.recompute = Recompute::selective;
     },
     {}},
    {"torchtitan_llama_tied",
     [] {
       Architecture a = llama();
       a.tied = true;
       return a;
     },
     [](Plan& p) {
       p.tp = p.dp = 2;
       two_microbatches(p);
     },
     {}},
    {"torchtitan_llama_ring",
     llama,
     [](Plan& p) {
       p.tp = p.cp = p.dp = 2;
       two_microbatches(p);
     },
     {}},
    {"torchtitan_llama_ring_exchanged",
     llama,
     [](Plan& p) {
       p.cp = 4;
       p.dtype = DType::bf16;
       p.recompute = Recompute::full;
     },
     {"context_parallel=exchanged_ring"}},
    {"torchtitan_mixtral_ring_ep", mixtral, [](Plan& p) { p.cp = p.dp = 2, p.ep = 4; }, {}},
    {"torchtitan_llama_chunks",
     [] {
       Architecture a = llama();
       a.layers = 4;
       return a;
     },
     [](Plan& p) {
       p.pp = p.vpp = p.dp = 2;
       p.global_batch = 8;
     },
     {}},
    {"torchtitan_llama_chunks_of_three",
     [] {
       Architecture a = llama();
       a.layers = 4;
       return a;
     },
     [](Plan& p) {
       p.pp = 3, p.vpp = 2, p.tp = 2;
       p.global_batch = 6;
     },
     {}},
    {"torchtitan_llama_tp2_pp2_alone",
     llama,
     [](Plan& p) {
       p.tp = p.pp = 2;
       two_microbatches(p);
     },
     {}},
    {"ddp_llama", llama, [](Plan& p) { p.dp = 4; }, {}},
    {"ddp_llama_first_step",
     llama,
     [](Plan& p) {
       p.dp = 2;
       two_microbatches(p);
     },
     {"ddp_step=first"}},
    {"ddp_gpt2_every_microbatch",
     gpt2,
     [](Plan& p) {
       p.dp = 2;
       two_microbatches(p);
     },
     {"every=microbatch"}},
    {"ddp_llama_buffers",
     llama,
     [](Plan& p) {
       p.dp = 2;
       two_microbatches(p);
     },
     {"buffers=64"}},
    {"ddp_llama_unused",
     llama,
     [](Plan& p) {
       p.dp = 2;
       p.recompute = Recompute::full;
       two_microbatches(p);
     },
     {"find_unused_parameters=true"}},
    {"torchtitan_llama_hybrid",
     llama,
     [](Plan& p) {
       p.dp = 4, p.tp = 2;
       two_microbatches(p);
     },
     {"replicate=2"}},
    {"torchtitan_llama_tp2_full",
     llama,
     [](Plan& p) {
       p.tp = p.dp = 2;
       p.recompute = Recompute::full;
     },
     {}},
    {"torchtitan_llama_tp2_selective",
     llama,
     [](Plan& p) {
       p.tp = p.dp = 2;
       p.recompute = Recompute::selective;
     },
     {"loss_parallel=off"}},
    {"deepspeed_llama_tp2_full",
     llama,
     [](Plan& p) {
       p.tp = p.dp = 2;
       p.recompute = Recompute::full;
     },
     {}},
    {"ddp_mixtral", mixtral, [](Plan& p) { p.dp = 2; }, {}},
    {"deepspeed_llama_zero0", llama, [](Plan& p) { p.dp = 4; }, {"reduce_bucket_size=800"}},
    {"deepspeed_llama_zero0_bf16",
     llama,
     [](Plan& p) {
       p.dp = 3;
       p.dtype = DType::bf16;
     },
     {}},
    {"deepspeed_llama_zero1_beyond_the_bucket",
     llama,
     [](Plan& p) { p.dp = 4, p.zero = 1; },
     {"reduce_bucket_size=100"}},
    {"deepspeed_llama_zero2_beyond_the_bucket",
     llama,
     [](Plan& p) { p.dp = 3, p.zero = 2; },
     {"reduce_bucket_size=250"}},
    {"deepspeed_llama_fp16_zero1",
     llama,
     [](Plan& p) {
       p.dp = 2, p.zero = 1;
       p.dtype = DType::f16;
     },
     {}},
    {"deepspeed_gpt2_tied_zero3",
     gpt2,
     [](Plan& p) {
       p.dp = 3, p.zero = 3;
       two_microbatches(p);
     },
     {"param_persistence_threshold=16"}},
    {"deepspeed_llama_ulysses_zero2",
     llama,
     [](Plan& p) {
       p.cp = p.dp = 2, p.zero = 2;
       two_microbatches(p);
     },
     {"reduce_bucket_size=800"}},
    {"deepspeed_gpt2_ulysses_zero3",
     gpt2,
     [](Plan& p) { p.cp = p.dp = 2, p.zero = 3; },
     {"param_persistence_threshold=16"}},
    {"deepspeed_llama_ulysses_full",
     llama,
     [](Plan& p) {
       p.cp = 2;
       p.recompute = Recompute::full;
       p.dtype = DType::bf16;
     },
     {"exchanged_kv_heads=own"}},
    {"deepspeed_gpt2_zero1",
     gpt2,
     [](Plan& p) {
       p.dp = 4, p.zero = 1;
       two_microbatches(p);
     },
     {"reduce_bucket_size=800"}},
    {"deepspeed_llama_zero1_scattered",
     llama,
     [](Plan& p) { p.dp = 4, p.zero = 1; },
     {"zero_gradients=scattered", "reduce_bucket_size=800"}},
    {"deepspeed_llama_zero2",
     llama,
     [](Plan& p) {
       p.dp = 3, p.zero = 2;
       two_microbatches(p);
     },
     {"reduce_bucket_size=800"}},
    {"deepspeed_llama_zero3",
     llama,
     [](Plan& p) {
       p.dp = 3, p.zero = 3;
       two_microbatches(p);
     },
     {"reduce_bucket_size=800", "param_persistence_threshold=16"}},
    {"deepspeed_gpt2_pp2_dp2",
     gpt2,
     [](Plan& p) {
       p.pp = p.dp = 2;
       two_microbatches(p);
     },
     {}},
    {"deepspeed_llama_tp2_pp2_dp2",
     llama,
     [](Plan& p) {
       p.tp = p.pp = p.dp = 2, p.zero = 1;
       two_microbatches(p);
     },
     {}},
    {"deepspeed_gpt2_tp2_pp2_full",
     gpt2,
     [](Plan& p) {
       p.tp = p.pp = 2;
       p.recompute = Recompute::full;
       p.global_batch = 4;
     },
     {}},
    {"deepspeed_llama_tp2_zero1", llama, [](Plan& p) { p.tp = p.dp = 2, p.zero = 1; }, {}},
    {"deepspeed_mixtral_ep2_zero1",
     mixtral,
     [](Plan& p) { p.dp = 4, p.ep = 2, p.zero = 1; },
     {"reduce_bucket_size=2000"}},
    {"deepspeed_mixtral_ep2_zero2", mixtral, [](Plan& p) { p.dp = p.ep = 2, p.zero = 2; }, {}},
    {"megatron_llama_buckets",
     llama,
     [](Plan& p) {
       p.tp = p.dp = 2, p.sp = true, p.zero = 1;
       two_microbatches(p);
     },
     {"gradient_sync=overlapped", "bucket_size=900"}},
    {"megatron_llama_buckets_whole",
     llama,
     [](Plan& p) { p.dp = 3; },
     {"gradient_sync=overlapped", "bucket_size=500"}},
    {"megatron_gpt2_tied_buckets",
     gpt2,
     [](Plan& p) {
       p.tp = p.pp = p.dp = 2, p.zero = 1;
       two_microbatches(p);
     },
     {"gradient_sync=overlapped", "bucket_size=700"}},
    {"megatron_llama_loss_of_each_microbatch",
     llama,
     [](Plan& p) {
       p.tp = p.pp = p.dp = 2, p.sp = true;
       two_microbatches(p);
     },
     {"loss_logging=microbatch"}},
    {"megatron08_gpt2_loss_over_cp",
     gpt2,
     [](Plan& p) {
       p.cp = p.dp = 2, p.zero = 1, p.dtype = DType::f16;
       two_microbatches(p);
     },
     {"cross_entropy=fused", "context_parallel=all_gather"}},
    {"megatron_llama_chunks",
     [] {
       Architecture a = llama();
       a.layers = 4;
       return a;
     },
     [](Plan& p) {
       p.tp = p.pp = p.vpp = p.dp = 2, p.sp = true, p.zero = 1;
       two_microbatches(p);
     },
     {"gradient_sync=overlapped"}},
    {"megatron_mixtral_buckets",
     mixtral,
     [](Plan& p) { p.dp = 4, p.ep = 2, p.zero = 1; },
     {"gradient_sync=overlapped", "bucket_size=900"}},
    {"megatron_mixtral_grouped_buckets",
     mixtral,
     [](Plan& p) {
       p.dp = 4, p.ep = 2;
       two_microbatches(p);
     },
     {"gradient_sync=overlapped", "bucket_size=500", "expert_parameters=grouped"}},
    {"megatron_mixtral_one_bucket", mixtral, [](Plan& p) { p.dp = 4, p.ep = 2, p.zero = 1; }, {}},
    // Experts over ranks of tp: their data-parallel groups hold the same ranks as the dense ones.
    {"megatron_mixtral_experts_over_tp",
     mixtral,
     [](Plan& p) {
       p.tp = p.dp = p.ep = 2, p.etp = 1, p.sp = true;
       two_microbatches(p);
     },
     {}},
    {"megatron_mixtral_experts_over_tp_zero1",
     mixtral,
     [](Plan& p) { p.tp = p.dp = p.ep = 2, p.etp = 1, p.sp = true, p.zero = 1; },
     {"gradient_sync=overlapped", "bucket_size=900"}},
    {"megatron_mixtral_whole_experts",
     mixtral,
     [](Plan& p) { p.tp = p.dp = 2, p.etp = 1, p.sp = true; },
     {}},
    {"megatron_mixtral_ordinary_experts",
     mixtral,
     [](Plan& p) { p.tp = p.dp = 2, p.sp = true; },
     {}},
    {"megatron_mixtral_split_experts",
     mixtral,
     [](Plan& p) {
       p.tp = p.dp = p.ep = 2, p.sp = true, p.micro_batch = 2;
       two_microbatches(p);
     },
     {"moe_balancing=seq_aux_loss"}},
    {"megatron_mixtral_fewer_rows_than_ranks",
     mixtral,
     [](Plan& p) { p.tp = 2, p.dp = p.ep = 4, p.sp = true, p.seq = 2; },
     {}},
    {"megatron_mixtral_gathered_tokens",
     mixtral,
     [](Plan& p) {
       p.dp = 4, p.ep = 2;
       two_microbatches(p);
     },
     {"moe_dispatcher=allgather", "moe_balancing=global_aux_loss"}},
    {"megatron_mixtral_gathered_split_experts",
     mixtral,
     [](Plan& p) { p.tp = p.dp = p.ep = 2, p.sp = true; },
     {"moe_dispatcher=allgather"}},
    {"megatron_mixtral_gathered_ordinary_experts",
     mixtral,
     [](Plan& p) { p.tp = p.dp = 2, p.sp = true, p.zero = 1; },
     {"moe_dispatcher=allgather"}},
    {"megatron_mixtral_gathered_experts_over_tp",
     mixtral,
     [](Plan& p) { p.tp = p.dp = p.ep = 2, p.etp = 1, p.sp = true; },
     {"moe_dispatcher=allgather"}},
    {"megatron_mixtral_capacity", mixtral, [](Plan& p) { p.dp = p.ep = 2; }, {"expert_capacity=1"}},
    {"megatron_deepseek_shared",
     deepseek,
     [](Plan& p) { p.tp = p.dp = p.ep = 2, p.sp = true; },
     {}},
    {"megatron_llama_gathers_before_use",
     llama,
     [](Plan& p) {
       p.tp = p.dp = p.pp = 2, p.sp = true, p.zero = 1;
       two_microbatches(p);
     },
     {"gradient_sync=overlapped", "bucket_size=500", "parameter_gathers=before_use"}},
    {"megatron_mixtral_gathers_before_use",
     mixtral,
     [](Plan& p) { p.dp = 4, p.ep = 2, p.zero = 1; },
     {"gradient_sync=overlapped", "bucket_size=500", "parameter_gathers=before_use"}},
    {"megatron_deepseek_shared_beside",
     deepseek,
     [](Plan& p) { p.tp = p.dp = p.ep = 2, p.sp = true; },
     {"shared_experts=overlapped"}},
    {"megatron_deepseek_shared_between",
     deepseek,
     [](Plan& p) { p.tp = p.dp = p.ep = 2, p.sp = true, p.etp = 1; },
     {"shared_experts=between"}},
    {"megatron08_mixtral_cp2_ep2",
     mixtral,
     [](Plan& p) { p.cp = 2, p.dp = 4, p.ep = 2; },
     {"context_parallel=all_gather"}},
    {"megatron08_llama_tp2_pp2_dp2",
     llama,
     [](Plan& p) {
       p.tp = p.pp = p.dp = 2, p.sp = true;
       two_microbatches(p);
     },
     {}},
    {"megatron08_gpt2_tp2_dp2",
     gpt2,
     [](Plan& p) {
       p.tp = p.dp = 2;
       p.dtype = DType::f64;
       p.grad_dtype = DType::f64;
     },
     {}},
    {"megatron08_mixtral_ep2_dp4", mixtral, [](Plan& p) { p.dp = 4, p.ep = 2; }, {}},
    {"megatron08_mixtral_tp2_ep2_dp4",
     mixtral,
     [](Plan& p) { p.tp = p.ep = 2, p.dp = 4, p.sp = true, p.recompute = Recompute::full; },
     {"loss_divisor=tokens"}},
    {"megatron_mixtral_wide_router",
     mixtral,
     [](Plan& p) { p.tp = p.dp = p.ep = 2, p.sp = true, p.dtype = DType::bf16; },
     {"router_dtype=float32"}},
    {"megatron_mixtral_gathered_wide_router",
     mixtral,
     [](Plan& p) { p.tp = p.dp = p.ep = 2, p.sp = true, p.dtype = DType::bf16; },
     {"router_dtype=float32", "moe_dispatcher=allgather"}},
};

class EveryProfile : public testing::TestWithParam<Case> {};

TEST_P(EveryProfile, RunsAsPredicted) {
  Plan plan;
  plan.seq = 8;
  plan.micro_batch = 1;
  plan.dp = 1;
  plan.dtype = DType::f32;
  GetParam().plan(plan);
  Profile profile = find_profile(GetParam().profile()).value();
  for (const std::string& change : GetParam().changes) ASSERT_FALSE(profile.set(change));
  Diagnostics sink("config.json");
  const auto model = build_transformer(GetParam().architecture(), plan, profile, sink);
  sink.throw_if_any();
  expect_as_predicted(*model);
}

INSTANTIATE_TEST_SUITE_P(Small, EveryProfile, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& of) { return of.param.name; });

}  // namespace
}  // namespace s2t

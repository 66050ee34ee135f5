// What torchtitan and DeepSpeed cannot do of a plan, or what is not modelled of them.
#include <fmt/format.h>

#include "analyzer/io/transformer/framework.h"

namespace s2t {
namespace {

// DeepSpeed-Ulysses, deepspeed/sequence/layer.py; mpu/initialize.py of Megatron-DeepSpeed.
void check_ulysses(const Architecture& a, const Plan& p, const Profile& profile,
                   const Refuse& refuse) {
  if (p.cp == 1) return;
  refuse(!profile.is("context_parallel", "a2a"), "--set",
         fmt::format("context_parallel={}", profile["context_parallel"]), "a2a",
         "It exchanges heads for tokens (Ulysses); megatron has the others.");
  refuse(p.tp * p.pp > 1, "--cp", "sequence parallelism beside tensor parallelism or a pipeline",
         "--tp 1 and --pp 1", "Megatron-DeepSpeed asserts the same.");
  refuse(a.experts.has_value(), "--cp", "sequence parallelism with experts", "1",
         "Groups of experts that know of sequence-parallel ranks are not modelled.");
  refuse(a.sinks, "--cp", "attention sinks with exchanged heads", "1", "");
  const bool repeated = profile.is("exchanged_kv_heads", "repeated") || a.latent;
  const int64_t heads = repeated ? a.heads : a.kv_heads;
  refuse(a.heads % p.cp != 0 || heads % p.cp != 0, "--cp",
         fmt::format("{} {}heads over {} ranks", heads, repeated ? "" : "key-value ", p.cp),
         "a divisor of the heads", "");
}

}  // namespace

void check_torchtitan(const Architecture&, const Plan&, const Profile&, const Refuse&) {}

void check_deepspeed(const Architecture& a, const Plan& p, const Profile& profile,
                     const Refuse& refuse) {
  check_ulysses(a, p, profile, refuse);
  if (p.zero != 3) return;
  refuse(a.tied, "--zero", "ZeRO stage 3 with a tied embedding", "0, 1 or 2",
         "The table is gathered by two modules, which is not modelled.");
  refuse(a.experts.has_value(), "--zero", "ZeRO stage 3 with experts", "0, 1 or 2",
         "DeepSpeed asserts the same (runtime/engine.py: MoE not supported with Stage 3).");
  refuse(p.recompute != Recompute::none, "--recompute", "recomputation with ZeRO stage 3", "none",
         "Its gathers come a third time, which is not modelled.");
}

}  // namespace s2t

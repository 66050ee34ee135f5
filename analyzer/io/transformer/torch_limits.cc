// What torchtitan and DeepSpeed cannot do of a plan, or what is not modelled of them.
#include <fmt/format.h>

#include <numeric>

#include "analyzer/io/fit.h"
#include "analyzer/io/transformer/framework.h"

namespace s2t {
namespace {

// DeepSpeed-Ulysses, deepspeed/sequence/layer.py; mpu/initialize.py of Megatron-DeepSpeed.
void check_ulysses(const Architecture& a, const Plan& p, const Profile& profile,
                   const Refuse& refuse) {
  if (p.cp == 1) return;
  refuse(p.tp * p.pp > 1, "--cp", "sequence parallelism beside tensor parallelism or a pipeline",
         "--tp 1 and --pp 1", "Megatron-DeepSpeed asserts the same.");
  refuse(a.experts.has_value(), "--cp", "sequence parallelism with experts", "1",
         "Groups of experts that know of sequence-parallel ranks are not modelled.");
  refuse(a.sinks, "--cp", "attention sinks with exchanged heads", "1", "");
  const bool repeated = profile.is("exchanged_kv_heads", "repeated") || a.latent;
  const int64_t heads = repeated ? a.heads : a.kv_heads;
  refuse(a.heads % p.cp != 0 || heads % p.cp != 0, "--cp",
         fmt::format("{} {}heads over {} ranks", heads, repeated ? "" : "key-value ", p.cp),
         divisors(std::gcd(a.heads, heads)), "");
}

}  // namespace

void check_torchtitan(const Architecture& a, const Plan& p, const Profile& profile,
                      const Refuse& refuse) {
  refuse(a.tied && p.pp > 1, "--pp", "a tied embedding with a pipeline", "1",
         "torchtitan refuses it too (models/common/decoder.py).");
  refuse(a.tied && p.ep > 1, "--ep", "a tied embedding with expert parallelism", "1",
         "What is gathered ahead of the table's unit is not modelled.");
  refuse(a.tied && profile.is("reshard_after_forward", "always"), "--set",
         "reshard_after_forward=always with a tied embedding", "default or never",
         "A unit that begins and ends a step would be gathered twice, which is not modelled.");
  refuse(a.experts && p.cp > 1 && p.ep > 1 && p.recompute != Recompute::none, "--recompute",
         "recomputation with context and expert parallelism", "none",
         "Whether experts are gathered before keys and values is not certain.");
  if (p.cp == 1) return;
  refuse(a.latent.has_value(), "--cp", "context parallelism of latent attention", "1",
         "PyTorch's ring takes keys and values for equally wide.");
  refuse(p.recompute == Recompute::selective, "--recompute",
         "selective recomputation with context parallelism", "none or full",
         "Which results the policy keeps within a ring is not certain.");
}

void check_deepspeed(const Architecture& a, const Plan& p, const Profile& profile,
                     const Refuse& refuse) {
  check_ulysses(a, p, profile, refuse);
  refuse(p.tp > 1 && p.pp > 1 && a.hidden % p.tp != 0, "--tp",
         fmt::format("a border of {} numbers per token cut over {} ranks", a.hidden, p.tp),
         "a divisor of them", "Uneven parts are broadcast one by one, which is not modelled.");
  if (p.zero != 3) return;
  refuse(a.tied && a.encoder_layers > 0, "--zero", "ZeRO stage 3 with a table of three readers",
         "0, 1 or 2", "That encoder and decoder each gather it is not modelled.");
  refuse(a.experts.has_value(), "--zero", "ZeRO stage 3 with experts", "0, 1 or 2",
         "DeepSpeed asserts the same (runtime/engine.py: MoE not supported with Stage 3).");
  refuse(p.recompute != Recompute::none, "--recompute", "recomputation with ZeRO stage 3", "none",
         "Its gathers come a third time, which is not modelled.");
}

}  // namespace s2t

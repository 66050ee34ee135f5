// What a framework cannot do of a plan for a model, or what is not modelled of it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/fit.h"
#include "analyzer/io/transformer/framework.h"

namespace s2t {
namespace {

class Limits {
 public:
  Limits(const Architecture& a, const Plan& p, const Profile& profile, Diagnostics& sink,
         bool asks_others = true)
      : a_(a), p_(p), profile_(profile), sink_(sink), asks_others_(asks_others) {}

  void check() {
    parallelism();
    blocks();
    sharding();
    pipeline();
    experts();
    contexts();
    const auto refusing = [this](bool wrong, std::string flag, std::string found,
                                 std::string expected, std::string advice) {
      refuse(wrong, std::move(flag), std::move(found), std::move(expected), std::move(advice));
    };
    if (is("gradient_sync", "fsdp")) check_torchtitan(a_, p_, profile_, refusing);
    if (is("gradient_sync", "zero")) check_deepspeed(a_, p_, profile_, refusing);
  }

 private:
  void refuse(bool wrong, std::string flag, std::string found, std::string expected,
              std::string advice = "") {
    if (wrong)
      sink_.add({std::move(flag), fmt::format("{} under {}", found, profile_.name()),
                 std::move(expected), std::move(advice), "unsupported-plan"});
  }

  bool is(std::string_view name, std::string_view value) const { return profile_.is(name, value); }

  void parallelism() {
    refuse(is("tensor_parallel", "none") && p_.tp > 1, "--tp", "tensor parallelism", "1",
           "megatron and torchtitan have it.");
    refuse(is("tensor_parallel", "without_sequence") && p_.sequence_parallel(), "--sp",
           "sequence parallelism", "leave it out", "megatron and torchtitan have it.");
    refuse(is("pipeline", "none") && p_.pp > 1, "--pp", "a pipeline", "1",
           "megatron, torchtitan and deepspeed have one.");
    refuse(is("tensor_parallel", "none") && p_.ep > 1, "--ep", "expert parallelism", "1",
           "megatron, torchtitan and deepspeed have it.");
    refuse(a_.latent && p_.tp > 1 && profile_["latent_down"].empty(), "--tp",
           "latent attention over tp", "1", "megatron has it.");
    refuse(is("vocabulary_padding", "none") && a_.vocab % p_.tp != 0, "--tp",
           fmt::format("a vocabulary of {} over {} ranks", a_.vocab, p_.tp),
           divisors(
               std::gcd(std::gcd(a_.heads, a_.latent ? a_.heads : a_.kv_heads), a_.vocab),
               [](int64_t tp, int64_t ffn) { return ffn % tp == 0; }, a_.ffn),
           "--set vocabulary_padding=128 pads it.");
  }

  // Profiles that take this model and plan as they are.
  std::string others() const {
    std::vector<std::string> names;
    for (const ProfileDef& def : profiles()) {
      if (!asks_others_ || def.name == profile_.name()) continue;
      const Profile other(def);
      Diagnostics wrong("");
      const Plan plan = resolved(as_framework_runs(p_, a_, other), a_);
      check_plan(a_, plan, wrong);
      Limits(a_, plan, other, wrong, false).check();
      if (!wrong.any()) names.emplace_back(def.name);
    }
    return names.empty() ? ""
                         : join(names, ", ") + (names.size() == 1 ? " takes" : " take") +
                               " this model and plan.";
  }

  void blocks() {
    const bool plain = is("blocks", "plain_scores"), rms = is("blocks", "rms_rotary");
    const auto no = [&](bool wrong, const char* what, const char* expected) {
      if (wrong)
        sink_.add({"", fmt::format("{} ({})", what, a_.family),
                   fmt::format("{}, as {} has them", expected, profile_.name()), others(),
                   "unsupported-config"});
    };
    const char* scores = "attention with plain scores";
    no(plain && a_.sinks, "attention sinks", scores);
    no((plain || rms) && a_.positions == Positions::relative, "relative positions",
       plain ? scores : "rotary positions");
    if (!rms) return;
    const char* model = "a model of RMS norms and rotary positions";
    const bool other = a_.positions != Positions::rotary && a_.positions != Positions::relative;
    no(other, "positions that are not rotary", model);
    no(a_.norm != Norm::rms, "norms that are not RMS norms", model);
    no(a_.norms != NormPlace::before, "norms elsewhere than before both blocks", model);
    no(a_.encoder_layers > 0, "an encoder", model);
  }

  void sharding() {
    const int64_t replicas = std::max<int64_t>(1, profile_.number("replicate"));
    refuse(replicas > 1 && (p_.dp % replicas != 0 || p_.dp == replicas), "--set",
           fmt::format("replicate={} of {} data-parallel ranks", replicas, p_.dp),
           divisors(
               p_.dp, [](int64_t n, int64_t all) { return n < all; }, p_.dp),
           "Several ranks must be left to each copy.");
    refuse(replicas > 1 && p_.ep > 1 && p_.expert_dp() % replicas != 0, "--ep",
           fmt::format("{} copies of {} expert data-parallel ranks", replicas, p_.expert_dp()),
           "ranks of ep within a copy");
    refuse(is("find_unused_parameters", "true") && is("every", "microbatch"), "--set",
           "find_unused_parameters=true with every=microbatch", "one of them");
    const int64_t most = is("gradient_sync", "zero") ? 3
                         : is("gradient_sync", "one_bucket") || is("gradient_sync", "overlapped")
                             ? 1
                             : 0;
    refuse(p_.zero > most, "--zero", fmt::format("ZeRO stage {}", p_.zero),
           most == 0 ? "0, or leave it out" : fmt::format("0 to {}", most),
           is("gradient_sync", "fsdp") ? "FSDP shards parameters, gradients and optimizer states."
           : most == 1                 ? "1 is the distributed optimizer."
                                       : "deepspeed has ZeRO 1 to 3.");
    refuse(is("parameter_gathers", "before_use") &&
               (p_.zero != 1 || !is("gradient_sync", "overlapped")),
           "--set", "parameter_gathers=before_use without overlapped reductions and sharded states",
           "--zero 1 and --set gradient_sync=overlapped too");
    refuse(is("reshard_after_forward", "always") && p_.pp > 1, "--set",
           "reshard_after_forward=always with a pipeline",
           "reshard_after_forward=default or never, or --pp 1",
           "How often it gathers depends on the order of microbatches; not modelled.");
  }

  // Each rank has a chunk from the front and its mirror image from the back, so that a causal mask
  // leaves all of them the same work.
  void contexts() {
    if (p_.cp == 1) return;
    refuse(profile_["context_parallel"].empty(), "--cp", "context parallelism", "1",
           "megatron, torchtitan and deepspeed have it.");
    if (is("gradient_sync", "zero")) return;
    if (is("context_parallel", "a2a")) exchanged_heads();
    refuse(a_.sinks && !profile_["context_parallel"].empty() && !is("context_parallel", "a2a"),
           "--cp",
           is("context_parallel", "all_gather") ? "attention sinks with gathered keys and values"
                                                : "attention sinks in a ring",
           "1",
           is("gradient_sync", "fsdp")
               ? "PyTorch's ring has none."
               : "Transformer Engine has them with --set context_parallel=a2a only.");
    refuse(
        !profile_["context_parallel"].empty() && p_.seq % (2 * p_.cp) != 0 && p_.seq % p_.cp == 0,
        "--seq", fmt::format("{} tokens in two chunks for each of {} ranks of cp", p_.seq, p_.cp),
        neighbours(p_.seq, std::lcm(2 * p_.cp, p_.sequence_parallel() ? p_.tp * p_.cp : 1)));
  }

  // Each rank of cp gets its share of the heads of a rank of tp.
  void exchanged_heads() {
    const int64_t heads = a_.latent ? a_.heads : std::gcd(a_.heads, a_.kv_heads);
    const int64_t local = heads / std::gcd(heads, p_.tp);
    refuse(local % p_.cp != 0, "--cp",
           fmt::format("{} heads and {} of keys and values, exchanged over {} ranks", a_.heads,
                       a_.latent ? a_.heads : a_.kv_heads, p_.tp * p_.cp),
           divisors(local), "Or --set context_parallel=p2p or all_gather.");
    refuse(a_.sinks && p_.tp > 1, "--tp", "attention sinks with heads exchanged over cp", "1");
  }

  void pipeline() {
    const bool deepspeed = is("pipeline", "deepspeed"), torch = is("pipeline", "torch");
    refuse(!deepspeed && p_.schedule == "deepspeed", "--schedule", "the schedule of DeepSpeed",
           "another one, or leave it out");
    refuse(!deepspeed && !torch && p_.schedule == "interleaved_steps", "--schedule",
           "the schedule of torch.distributed.pipelining", "another one, or leave it out");
    refuse(torch && p_.schedule == "interleaved", "--schedule",
           "Megatron's order of interleaved chunks", "interleaved_steps, or leave it out");
    refuse(p_.vpp > 1 && p_.pp == 2 && is("interleaved_p2p", "batched"), "--pp",
           "2 pipeline ranks with model chunks and without overlapped messages", "more than 2",
           "Or leave out --no-overlap-p2p-communication (interleaved_p2p=batched).");
    refuse(
        torch && p_.pp > 1 && p_.schedule != "gpipe" && p_.microbatches() < p_.pp, "--global-batch",
        fmt::format("{} microbatches on {} pipeline ranks", p_.microbatches(), p_.pp),
        fmt::format("{} samples or more", p_.pp * p_.dp * p_.micro_batch), "Or --schedule gpipe.");
    if (!deepspeed || p_.pp == 1) return;
    refuse(p_.vpp > 1, "--vpp", "model chunks", "1", "megatron and torchtitan have them.");
    refuse(p_.zero > 1, "--zero", fmt::format("ZeRO stage {} with a pipeline", p_.zero), "0 or 1");
    refuse(p_.schedule != "deepspeed", "--schedule", p_.schedule, "deepspeed, or leave it out");
  }

  void experts() {
    if (!a_.experts) return;
    refuse(is("tensor_parallel", "optional_sequence") && p_.tp > 1 && !p_.sp, "--tp",
           "experts with tensor parallelism but without sequence parallelism", "--sp too");
    refuse(!is("tensor_parallel", "optional_sequence") && p_.tp > 1, "--tp",
           "experts with tensor parallelism", "1", "megatron has it.");
    if (is("expert_groups", "within_dp"))
      experts_within_dp();
    else
      folded_order();
    refuse(is("moe_dispatcher", "flex"), "--set", "moe_dispatcher=flex", "alltoall or allgather",
           "Its exchanges are kernels of DeepEP or HybridEP, no NCCL collectives.");
    if (is("moe_dispatcher", "allgather")) gathered_tokens();
    const int64_t edp = p_.expert_dp(), rows = std::gcd(a_.experts->ffn, a_.hidden);
    refuse(is("gradient_sync", "fsdp") && experts_cut_along_rows(a_, p_) && rows % edp != 0, "--dp",
           fmt::format("experts of {} x {} cut along their rows over {} ranks", a_.experts->ffn,
                       a_.hidden, edp),
           fmt::format("ranks per expert that divide {}", rows));
    if (is("expert_capacity", "none") || is("gradient_sync", "zero")) return;
    const double share = static_cast<double>(p_.seq * p_.micro_batch * a_.experts->top_k) /
                         static_cast<double>(a_.experts->experts);
    refuse(p_.seq > 0 && share * profile_.real("expert_capacity") <= 3, "--seq",
           "fewer than 4 rows for each expert", "4 or more, the least capacity");
  }

  int64_t place_of(const char* axis) const {
    const std::vector<std::string> words = split(p_.order, '-');
    return std::find(words.begin(), words.end(), axis) - words.begin();
  }

  // Dense and expert ranks are laid out in one order, and both need the same pipeline groups
  // (parallel_state.py, initialize_model_parallel).
  void folded_order() {
    const std::vector<std::string> words = split(p_.order, '-');
    if (p_.pp == 1 || words.back() == "pp") return;
    int64_t dense = 1, expert = 1;  // ranks between neighbours of pp
    for (const std::string& word : words) {
      if (word == "pp") break;
      dense *= word == "tp" ? p_.tp : word == "cp" ? p_.cp : word == "dp" ? p_.dp : 1;
      expert *= word == "tp"   ? p_.expert_tp()
                : word == "ep" ? p_.ep
                : word == "dp" ? p_.expert_dp()
                               : 1;
    }
    refuse(p_.expert_dp() != p_.dp || dense != expert, "--order",
           fmt::format("{} with tp {} x cp {}, of experts etp {} x ep {},", quoted(p_.order), p_.tp,
                       p_.cp, p_.expert_tp(), p_.ep),
           "an order that ends with pp",
           "Another one needs etp x ep = tp x cp, and as many ranks between neighbours of pp.");
  }

  void gathered_tokens() {
    refuse(is("shared_experts", "overlapped") && a_.experts->shared_ffn > 0, "--set",
           "shared_experts=overlapped with moe_dispatcher=allgather", "before");
    refuse(is("expert_groups", "within_dp"), "--set", "moe_dispatcher=allgather", "alltoall",
           "This version gathers indices, and the weights of these alone; not modelled.");
    refuse(a_.experts->bias, "--set", "moe_dispatcher=allgather with biases of experts",
           "alltoall");
    refuse(p_.ep > 1 && place_of("ep") > place_of("dp"), "--order",
           quoted(p_.order) + " with moe_dispatcher=allgather", "ep before dp");
  }

  void experts_within_dp() {
    refuse(p_.expert_tp() != p_.tp, "--etp",
           fmt::format("experts split over {} ranks", p_.expert_tp()), "leave it out");
    refuse(p_.dp % p_.ep != 0, "--ep",
           fmt::format("{} ranks of experts within dp {}", p_.ep, p_.dp),
           divisors(std::gcd(p_.dp, a_.experts->experts)));
    refuse(p_.ep > 1 && std::abs(place_of("ep") - place_of("dp")) != 1, "--order", quoted(p_.order),
           "ep next to dp");
  }

  const Architecture& a_;
  const Plan& p_;
  const Profile& profile_;
  Diagnostics& sink_;
  bool asks_others_;
};

}  // namespace

void check_framework(const Architecture& a, const Plan& plan, const Profile& profile,
                     Diagnostics& sink) {
  Limits(a, plan, profile, sink).check();
}

}  // namespace s2t

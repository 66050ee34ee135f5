#include "analyzer/cli/plan_table.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "analyzer/base/text.h"
#include "analyzer/schedule/pipeline.h"

namespace s2t {
namespace {

constexpr int64_t kMostRanksAlong = int64_t{1} << 24;
constexpr int64_t kMostSamples = int64_t{1} << 32;

template <int64_t Plan::*field, int64_t least, int64_t most>
void number(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.*field = *arguments.integer(flag, least, most);
}

void read_sp(const Arguments&, std::string_view, Plan& plan) {
  plan.sp = true;
}

void read_world(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.world = arguments.integer(flag, 1, kMostRanksAlong);
}

[[noreturn]] void refuse(std::string_view flag, std::string found, std::string expected,
                         std::string advice = "") {
  throw UserError("shape2trace", {{std::string(flag), std::move(found), std::move(expected),
                                   std::move(advice), "bad-option"}});
}

void read_order(const Arguments& arguments, std::string_view flag, Plan& plan) {
  for (const char c : arguments.text(flag))  // Megatron takes TP-DP-PP too
    plan.order += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (plan.order.empty()) refuse(flag, "no axes", "axes, the fastest first: \"tp-cp-ep-dp-pp\"");
}

DType dtype_of(const Arguments& arguments, std::string_view flag, const char* why_not_f8) {
  const std::string word = arguments.text(flag);
  const auto dtype = parse_dtype(word);
  if (!dtype || !is_differentiable(*dtype))
    refuse(flag, "no floating-point type " + s2t::quoted(word), "f32, bf16, f16 or f64");
  if (*dtype == DType::f8) refuse(flag, "numbers of one byte", "f32, bf16, f16 or f64", why_not_f8);
  return *dtype;
}

void read_dtype(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.dtype = dtype_of(arguments, flag,
                        "FP8 training (--fp8-format of Megatron) keeps parameters and activations "
                        "in bf16 and casts inside the linears; its one-byte gathers are not "
                        "predicted.");
}

void read_grad_dtype(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.grad_dtype = dtype_of(arguments, flag, "No framework adds gradients up in FP8.");
}

// A positive number at the front of `text`, which is shortened; 0 if there is
// none.
int64_t take_number(std::string_view& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || n < 1) return 0;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return n;
}

// "7,14x8,7": one stage of 7 layers, 14 of 8, one of 7.
void read_stage_layers(const Arguments& arguments, std::string_view flag, Plan& plan) {
  const std::string all = arguments.text(flag);
  const auto bad = [&] {
    refuse(flag, s2t::quoted(all),
           "layers of each stage: \"7,8,8,7\", or \"7,14x8,7\" for 14 of 8");
  };
  std::string_view rest = all;
  while (true) {
    int64_t times = 1, layers = take_number(rest);
    if (layers > 0 && rest.starts_with("x")) {
      rest.remove_prefix(1);
      times = layers;
      layers = take_number(rest);
    }
    if (layers == 0 || layers > 10'000 || times > 10'000 || plan.stage_layers.size() > 10'000)
      bad();
    plan.stage_layers.insert(plan.stage_layers.end(), static_cast<size_t>(times), layers);
    if (rest.empty()) return;
    if (!rest.starts_with(",")) bad();
    rest.remove_prefix(1);
  }
}

void read_recompute(const Arguments& arguments, std::string_view flag, Plan& plan) {
  const std::vector<std::string> words{"none", "selective", "full"};
  const std::string word = arguments.text(flag);
  const auto it = std::find(words.begin(), words.end(), word);
  if (it == words.end())
    refuse(flag, "unknown word " + s2t::quoted(word), "one of " + quoted_list(words),
           did_you_mean(word, words));
  plan.recompute = static_cast<Recompute>(it - words.begin());
}

void read_schedule(const Arguments& arguments, std::string_view flag, Plan& plan) {
  std::vector<std::string> names;
  for (const ScheduleDef& s : schedules()) names.emplace_back(s.name);
  plan.schedule = arguments.text(flag);
  if (std::find(names.begin(), names.end(), plan.schedule) == names.end())
    refuse(flag, "unknown schedule " + s2t::quoted(plan.schedule), "one of " + quoted_list(names),
           did_you_mean(plan.schedule, names));
}

constexpr PlanOption kOptions[] = {
    {{"--tp", "N", "config: tensor-parallel ranks",
      "--tensor-model-parallel-size --parallelism.tensor_parallel_degree"},
     number<&Plan::tp, 1, kMostRanksAlong>},
    {{"--pp", "N", "config: pipeline ranks",
      "--pipeline-model-parallel-size --parallelism.pipeline_parallel_degree"},
     number<&Plan::pp, 1, kMostRanksAlong>},
    {{"--dp", "N", "config: data-parallel ranks; default: what --world leaves, or 1",
      "--data-parallel-size"},
     number<&Plan::dp, 1, kMostRanksAlong>},
    {{"--cp", "N", "config: context-parallel ranks",
      "--context-parallel-size --parallelism.context_parallel_degree"},
     number<&Plan::cp, 1, kMostRanksAlong>},
    {{"--ep", "N", "config: expert-parallel ranks",
      "--expert-model-parallel-size --moe-expert-parallel-size "
      "--parallelism.expert_parallel_degree"},
     number<&Plan::ep, 1, kMostRanksAlong>},
    {{"--etp", "N", "config: tensor-parallel ranks of an expert; default: as --tp",
      "--expert-tensor-parallel-size --parallelism.expert_tensor_parallel_degree"},
     number<&Plan::etp, 1, kMostRanksAlong>},
    {{"--sp", "", "config: sequence parallelism over the tensor-parallel ranks",
      "--sequence-parallel"},
     read_sp},
    {{"--vpp", "N", "config: model chunks per pipeline rank (interleaved schedule)",
      "--num-virtual-stages-per-pipeline-rank --virtual-pipeline-model-parallel-size"},
     number<&Plan::vpp, 1, 10'000>},
    {{"--layers-per-chunk", "N", "config: layers of a model chunk, instead of --vpp",
      "--num-layers-per-virtual-pipeline-stage"},
     number<&Plan::layers_per_chunk, 1, 10'000>},
    {{"--stage-layers", "LIST", "config: layers of each stage, 7,14x8,7; default: equal"},
     read_stage_layers},
    {{"--first-layers", "N", "config: layers of the first pipeline rank; the rest equal",
      "--decoder-first-pipeline-num-layers"},
     number<&Plan::first_layers, 1, 10'000>},
    {{"--last-layers", "N", "config: layers of the last pipeline rank; the rest equal",
      "--decoder-last-pipeline-num-layers"},
     number<&Plan::last_layers, 1, 10'000>},
    {{"--schedule", "S", "config: of the pipeline; default: 1f1b, or interleaved with --vpp"},
     read_schedule},
    {{"--seq", "N", "config: tokens per sample",
      "--seq-length --encoder-seq-length --training.seq_len"},
     number<&Plan::seq, 1, kMostSamples>},
    {{"--micro-batch", "N", "config: samples per microbatch and rank, default 1",
      "--micro-batch-size --per_device_train_batch_size "
      "--parallelism.pipeline_parallel_microbatch_size"},
     number<&Plan::micro_batch, 1, kMostSamples>},
    {{"--global-batch", "N", "config: samples of a step; default: one microbatch per rank",
      "--global-batch-size --training.global_batch_size"},
     number<&Plan::global_batch, 1, kMostSamples>},
    {{"--zero", "N", "config: 1: sharded optimizer states; default 0", "--zero-stage --zero_stage"},
     number<&Plan::zero, 0, 3>},
    {{"--recompute", "WHAT", "config: none, selective or full; default none",
      "--recompute-granularity"},
     read_recompute},
    {{"--dtype", "T", "config: of parameters and activations, default bf16"}, read_dtype},
    {{"--grad-dtype", "T", "config: of gradient reductions; default: the profile's"},
     read_grad_dtype,
     "gradient_dtype fp16_gradient_dtype"},
    {{"--order", "O", "config: ranks, fastest first: tp-cp-ep-dp-pp; default: the profile's"},
     read_order,
     "rank_order"},
    {{"--world", "N", "config: the number of ranks; it must be tp x pp x cp x dp"}, read_world},
};

}  // namespace

std::span<const PlanOption> plan_options() {
  return kOptions;
}

}  // namespace s2t

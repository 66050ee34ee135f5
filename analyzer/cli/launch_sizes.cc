#include "analyzer/cli/launch_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "analyzer/cli/launch_words.h"

namespace s2t {
namespace {

constexpr std::string_view kSections[] = {
    "--parallelism.",           "--training.",     "--job.",        "--activation_checkpoint.",
    "--activation-checkpoint.", "--experimental.", "--checkpoint.", "--float8."};

int64_t whole_or(const std::string& text, int64_t otherwise) {
  const auto n = whole(text);
  return n && *n < (1 << 24) ? *n : otherwise;
}

// What was once in [training] or [experimental], and words that dashes part.
std::string newest_name(std::string name) {
  if (name.find('.') == std::string::npos) return name;
  std::replace(name.begin() + 2, name.end(), '-', '_');
  const bool plan = name.find("parallel") != std::string::npos;
  for (const std::string_view old : {"--training.", "--experimental."})
    if (plan && name.starts_with(old)) name.replace(0, old.size(), "--parallelism.");
  return name == "--training.batch_size" ? "--training.local_batch_size" : name;
}

class Translation {
 public:
  Translation(const Launch& launch, const Arguments& given) : out_{launch}, given_(given) {}

  TorchtitanLaunch read() {
    std::vector<LaunchFlag>& flags = out_.launch.flags;
    for (LaunchFlag& flag : flags) {
      flag.written = flag.name;
      flag.name = newest_name(flag.name);
      if (flag.value == "True" || flag.value == "true") flag.value.clear();
    }
    std::set<std::string> launched;
    for (const LaunchFlag& flag : flags)
      if (!flag.gives_way) launched.insert(flag.name);
    std::erase_if(flags, [&](const LaunchFlag& flag) {
      return flag.gives_way && launched.contains(flag.name);
    });
    std::erase_if(flags, [this](const LaunchFlag& flag) { return says_nothing(flag); });
    replicas();
    batches();
    return std::move(out_);
  }

 private:
  LaunchFlag* find(std::string_view name) {
    for (LaunchFlag& flag : out_.launch.flags)
      if (flag.name == name) return &flag;
    return nullptr;
  }

  bool has_pipeline() {
    if (given_.has("--pp")) return whole_or(given_.text("--pp"), 2) > 1;
    const LaunchFlag* flag = find("--parallelism.pipeline_parallel_degree");
    return flag && whole_or(flag->value, 2) > 1;
  }

  // Off, or left to torchtitan: the rest of the ranks, no accumulation; of a pipeline that is none.
  bool says_nothing(const LaunchFlag& flag) {
    if (flag.value == "False" || flag.value == "false") return true;
    const bool rest = flag.name == "--parallelism.data_parallel_shard_degree" ||
                      flag.name == "--training.global_batch_size";
    const bool of_pipeline = flag.name.starts_with("--parallelism.pipeline_parallel_") &&
                             flag.name != "--parallelism.pipeline_parallel_degree";
    return (rest && flag.value == "-1") || (of_pipeline && !has_pipeline());
  }

  // Sharding ranks of each copy are stated; a plan has all that see other samples.
  void replicas() {
    const LaunchFlag* copies = find("--parallelism.data_parallel_replicate_degree");
    const int64_t times = copies ? whole_or(copies->value, 1) : 1;
    for (LaunchFlag& flag : out_.launch.flags) {
      if (flag.name != "--parallelism.data_parallel_shard_degree") continue;
      flag.name = "--dp";
      if (const int64_t n = whole_or(flag.value, 0); n > 0) flag.value = std::to_string(n * times);
    }
  }

  void batches() {
    const bool pipeline = has_pipeline();
    const bool cut = pipeline && find("--parallelism.pipeline_parallel_microbatch_size");
    for (LaunchFlag& flag : out_.launch.flags) {
      if (flag.name != "--training.local_batch_size") continue;
      if (pipeline) out_.local_batch = flag;
      if (cut) continue;
      flag.name = "--micro-batch";
      if (pipeline) flag.value = "1";
    }
  }

  TorchtitanLaunch out_;
  const Arguments& given_;
};

}  // namespace

bool is_torchtitan(const Launch& launch) {
  return std::any_of(launch.flags.begin(), launch.flags.end(), [](const LaunchFlag& flag) {
    return std::any_of(std::begin(kSections), std::end(kSections),
                       [&](std::string_view section) { return flag.name.starts_with(section); });
  });
}

TorchtitanLaunch in_plan_words(const Launch& launch, const Arguments& given) {
  return is_torchtitan(launch) ? Translation(launch, given).read() : TorchtitanLaunch{launch};
}

void take_autos_from_launch(Launch& launch, const Architecture* architecture) {
  std::vector<LaunchFlag>& flags = launch.flags;
  const auto is_auto = [](const LaunchFlag& flag) {
    return flag.value == "auto" && !flag.written.empty();
  };
  const auto says = [&](std::string_view name) {
    return std::any_of(flags.begin(), flags.end(),
                       [&](const LaunchFlag& flag) { return flag.name == name && !is_auto(flag); });
  };
  const bool launched = std::any_of(flags.begin(), flags.end(),
                                    [](const LaunchFlag& flag) { return flag.written.empty(); });
  const bool micro = says("--micro-batch-size") || says("--per_device_train_batch_size");
  const auto said = [&](const LaunchFlag& flag) {
    if (!is_auto(flag)) return false;
    if (flag.name == "--micro-batch-size" || flag.name == "--global-batch-size") return micro;
    return says(flag.name) ||
           (launched && (flag.name == "--dtype" || flag.name == "--gradient_accumulation_steps"));
  };
  std::vector<LaunchFlag> kept;
  for (const LaunchFlag& flag : flags)
    if (!said(flag)) kept.push_back(flag);
  flags = std::move(kept);
  if (!architecture) return;
  const int64_t hidden = architecture->hidden;
  for (LaunchFlag& flag : flags) {
    const bool bucket = flag.name == "--reduce_bucket_size";
    if (!is_auto(flag) || (!bucket && flag.name != "--param_persistence_threshold")) continue;
    flag.value = std::to_string(bucket ? hidden * hidden : 10 * hidden);
    flag.why_open.clear();
  }
}

int64_t replicas_of(const std::map<std::string, std::string>& options, const Arguments& given) {
  const auto number = [&](const char* option) -> int64_t {
    if (given.has(option)) return whole_or(given.text(option), 1);
    const auto it = options.find(option);
    return it == options.end() ? 0 : whole_or(it->second, 1);
  };
  const int64_t others = std::max<int64_t>(1, number("--tp")) *
                         std::max<int64_t>(1, number("--pp")) *
                         std::max<int64_t>(1, number("--cp"));
  if (const int64_t dp = number("--dp"); dp > 0) return dp;
  return std::max<int64_t>(1, number("--world") / others);
}

StepBatch torchtitan_batch(StepBatch stated, int64_t local, int64_t replicas) {
  if (stated.total && *stated.total != local * replicas)
    stated.wrong = fmt::format("{} samples of each of {} replicas, but {} samples of a step", local,
                               replicas, *stated.total);
  stated.total = local * replicas;
  return stated;
}

StepBatch deepspeed_batch(StepBatch stated, std::optional<int64_t> accumulated, int64_t replicas) {
  const int64_t rounds = accumulated.value_or(1) * replicas;
  if (stated.total && !stated.micro && rounds > 0 && *stated.total >= rounds)
    stated.micro = *stated.total / rounds;
  if (stated.micro && !stated.total) stated.total = *stated.micro * rounds;
  const bool even =
      !stated.micro ||
      (accumulated ? *stated.total == *stated.micro * rounds
                   : *stated.micro > 0 && *stated.total % (*stated.micro * replicas) == 0);
  if (!even)
    stated.wrong =
        fmt::format("{} samples of a step, but microbatches of {} x {} accumulated x {} replicas",
                    *stated.total, *stated.micro, accumulated.value_or(1), replicas);
  return stated;
}

}  // namespace s2t

// Sizes of a launch that follow from several of its words: torchtitan's degrees of data parallelism
// and batches (torchtitan/config/job_config.py; its flags get their newest names here), DeepSpeed's
// batches (deepspeed/runtime/config.py, _set_batch_related_parameters).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "analyzer/cli/command.h"
#include "analyzer/io/architecture.h"
#include "analyzer/io/launch_file.h"

namespace s2t {

bool is_torchtitan(const Launch& launch);

struct TorchtitanLaunch {
  Launch launch;
  // With a pipeline: what a rank reads for a step, which its microbatches are cut from.
  std::optional<LaunchFlag> local_batch = {};
};
TorchtitanLaunch in_plan_words(const Launch& launch, const Arguments& given);

// "auto" in DeepSpeed's own file is what the launch says, and else follows from the model
// (transformers/integrations/deepspeed.py, trainer_config_process and _finalize).
void take_autos_from_launch(Launch& launch, const Architecture* architecture);

// Data-parallel ranks, by the options that are stated; 1 if that is not known.
int64_t replicas_of(const std::map<std::string, std::string>& options, const Arguments& given);

// Samples of a microbatch and of a step, as far as they are stated, and what is wrong with them.
struct StepBatch {
  std::optional<int64_t> micro = {}, total = {};
  std::string wrong = {};
};
// A pipeline runs once per step: what all ranks read for it.
StepBatch torchtitan_batch(StepBatch stated, int64_t local, int64_t replicas);
// train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x replicas.
StepBatch deepspeed_batch(StepBatch stated, std::optional<int64_t> accumulated, int64_t replicas);

}  // namespace s2t

// The rows of the schedule table, each defined in a file of its own.
#pragma once

#include "analyzer/schedule/pipeline.h"

namespace s2t {

ScheduleDef gpipe_schedule();
ScheduleDef one_f_one_b_schedule();
ScheduleDef interleaved_schedule();
ScheduleDef interleaved_steps_schedule();
ScheduleDef deepspeed_schedule();

}  // namespace s2t

// Three accounts of one run, which must be one: the prediction, the runtime's own record, and what
// a witness outside of it wrote.
//
// A witness sees less than the runtime and in its own way: NCCL's plan turns an all-to-all into
// sends and receives and a gather into bytes, a GPU knows only kernels. So the other two accounts
// are first put as the witness would have seen them. Not known here: who loads a witness, files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/program/program.h"
#include "analyzer/trace/observation.h"
#include "analyzer/trace/witness_record.h"

namespace s2t {

// Where a witness disagrees: at most one place per rank and account.
struct Disagreement {
  Rank rank;
  std::optional<int64_t> event;  // predicted, by its id in the listing
  std::string text;              // one sentence, beginning with the rank

  bool operator==(const Disagreement&) const = default;
};

// `recorded`: the runtime's own record, by rank. Throws Fault for a witness that is not known here.
std::vector<Disagreement> compare_with_witness(
    const Program& program, const std::vector<std::vector<Observation>>& recorded,
    const std::string& witness, const WitnessRecords& seen);

// A predicted event as somebody who sees everything would note it on that rank.
Observation observation_of(const Program& program, const Event& event, Rank rank);

}  // namespace s2t

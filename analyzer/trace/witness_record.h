// Reads what witness libraries wrote beside a run (runtime/witness/record.h has the format).
//
// Known here: files, frames, JSON. A record that is cut short, that tells of an error or of a call
// which its witness cannot describe, or that is there twice, is kept with that complaint. Not known
// here: predictions, and how a witness sees a call (compare/witness.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/units.h"

namespace s2t {

// One call, in the words of the witness.
struct WitnessedCall {
  std::string op, call;  // "all_reduce", "ncclAllReduce"
  std::string comm;      // name of the communicator, "tp0"
  int64_t comm_rank = -1, comm_size = -1;
  std::string dtype;  // "" if the witness knows no name for it
  Count bytes = 0;    // of the count argument
  std::optional<int64_t> peer;
  std::vector<Count> send_bytes, recv_bytes;  // all_to_all, per member

  bool operator==(const WitnessedCall&) const = default;
};

// What one witness wrote about one rank.
struct WitnessRecord {
  std::vector<WitnessedCall> calls;   // in order
  std::vector<std::string> launches;  // kernels in order: the operation that its name says, or ""
  std::vector<std::string> complaints;

  bool operator==(const WitnessRecord&) const = default;
};

// By rank. A witness that was not there has no records.
using WitnessRecords = std::map<Rank, WitnessRecord>;
WitnessRecords read_witness_records(const std::string& folder, const std::string& witness);

}  // namespace s2t

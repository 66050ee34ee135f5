// The witnesses of one run: loaded into its ranks before they start, heard when they have ended.
//
// Where we start the ranks, we set their environment and read what they wrote from a folder of its
// own (S2T_WITNESS_DIR if that is set: then the records are kept). Under mpirun, torchrun or srun
// it is up to the user to load witnesses (docs/evidence.md); the rank that reports reads the folder
// that S2T_WITNESS_DIR names. Not known here: what agrees with what.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/cli/scratch.h"
#include "analyzer/trace/witness_record.h"
#include "runtime/comm/backend.h"

namespace s2t {

struct Heard {
  std::string witness;
  bool took_part = false;
  std::string why_not;
  WitnessRecords records;
};

class Watch {
 public:
  Watch(const Backend& backend, bool stand_in);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void load_into(std::map<std::string, std::string>& environment) const;
  std::vector<Heard> hear() const;  // after the run, in the process that reports

 private:
  std::string backend_;
  bool stand_in_;
  bool starts_ranks_;   // this process does
  std::string folder_;  // "" if nobody writes anywhere
  Scratch temporary_;
};

}  // namespace s2t

// Puts a prediction beside a run of the same model: the place where analyzer and runtime meet.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/watch.h"
#include "analyzer/compare/compare.h"
#include "analyzer/compare/witness.h"
#include "analyzer/graph/model.h"
#include "runtime/comm/backend.h"
#include "runtime/run/checks.h"
#include "runtime/run/options.h"

namespace s2t {

struct VerifyOptions {
  const Backend* backend = nullptr;
  RunOptions run;
  RunHooks hooks;  // for negative controls
  std::function<void(const std::string& doing)> progress = [](const std::string&) {};
  std::function<void(bool running)> ranks_are_processes = [](bool) {};
};

struct Verification {
  std::string model;
  std::string backend;
  bool stand_in = false;
  std::string kernels;  // what computed the ops: "host", "cuda"; empty if the run failed
  bool reports = true;  // false in a process that is one rank of a run somebody else reports
  bool exact = false;   // numbers were chosen so that nothing rounds
  std::vector<RankFailure> failures;    // the run did not come to its end
  std::string output;                   // what ranks that are processes wrote
  std::vector<Difference> differences;  // between prediction and the runtime's own record
  std::vector<Heard> witnesses;         // of this backend, those that took no part included
  std::map<std::string, std::vector<Disagreement>> disagreements;  // by witness
  std::vector<Check> checks;
  double max_abs_error = 0;
  std::vector<std::vector<Observation>> observed;  // by rank

  bool match() const;
};

Verification verify(const Model& model, const VerifyOptions& options);

// What is said of a run that a signal ended.
Verification cancelled(const std::string& model, const std::string& backend);

// What one rank recorded, as observations.
std::vector<Observation> observations_of(const RankReport& report);

void write_text(const Verification& v, std::ostream& out);
void write_json(const Verification& v, std::ostream& out);

}  // namespace s2t

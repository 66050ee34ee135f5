// What flags of a launch mean here, as tables: those that are options of a plan or
// switches of a profile, those that state the model's shape and must agree with its config, and
// those that change the collectives in a way that is not predicted. Every other flag is named in
// one remark, so that nothing is passed over in silence.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/cli/command.h"
#include "analyzer/io/architecture.h"
#include "analyzer/io/launch_file.h"

namespace s2t {

struct LaunchReading {
  struct Change {
    std::string assignment;   // "switch=value"
    std::string flag;         // that implies it
    std::string from = {};    // only where the switch has this value
    std::string origin = {};  // "line 3: --clip-grad"
  };
  std::map<std::string, std::string> options;  // of a plan, as on the command line
  std::map<std::string, std::string> origins;  // of options: "line 3: --seq-length"
  std::set<std::string> refused;               // options that could not be read
  std::vector<Change> changes;
  std::vector<Remark> remarks;
};

// Options in `given` win over the file. `architecture` may be null: then shapes are not compared.
LaunchReading read_launch_flags(const Launch& launch, const Arguments& given,
                                const Architecture* architecture, Diagnostics& sink);

}  // namespace s2t

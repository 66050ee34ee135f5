// Running other programs in tests, and reading what witnesses wrote.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace s2t::test {

struct Outcome {
  int exit_code;       // 128 + signal when it was killed
  std::string output;  // stdout and stderr together
};

using Environment = std::map<std::string, std::string>;

// Runs a program with these variables added; an empty value removes the variable.
Outcome run(const std::vector<std::string>& arguments, const Environment& environment = {});

// A folder of its own, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The lines of one witness between `start` and the last `end`, per rank. Checks the frame: a file
// that is cut short, or that counts its lines wrongly, throws.
using Witnessed = std::map<int, std::vector<nlohmann::json>>;
Witnessed read_witness(const std::string& folder, const std::string& witness);

}  // namespace s2t::test

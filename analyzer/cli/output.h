// Where a result goes: standard output, or a file that is there whole or not at all.
//
// A file is written under another name beside its place and renamed when it is complete. What is
// no regular file (a device, a pipe) is written to directly.
#pragma once

#include <fstream>
#include <memory>
#include <ostream>
#include <string>

#include "analyzer/cli/scratch.h"

namespace s2t {

class Output {
 public:
  // Throws UserError (slug unwritable) before anything is computed.
  explicit Output(const std::string& path);  // "": standard output
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  std::ostream& stream();
  void commit();  // throws UserError (slug unwritable) if not every byte arrived

 private:
  [[noreturn]] void refuse(int error) const;

  std::string path_;    // as the user named it
  std::string target_;  // what the new file replaces; empty: nothing is replaced
  Scratch temporary_;
  std::ofstream file_;
};

}  // namespace s2t

// Files and folders that must not outlive the program, however it ends: removed when their owner
// is done with them, or all at once by whoever ends the program in the middle.
#pragma once

#include <string>

namespace s2t {

class Scratch {
 public:
  Scratch() = default;                 // nothing
  explicit Scratch(std::string path);  // a file, or a folder with all that is in it
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch();

  const std::string& path() const { return path_; }
  void keep();  // it is no scratch any more

  static void remove_all();

 private:
  std::string path_;
};

}  // namespace s2t

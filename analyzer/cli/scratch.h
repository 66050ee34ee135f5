// Files and folders that must not outlive the program, however it ends: removed when their owner
// is done with them, or all at once by whoever ends the program in the middle.
#pragma once

#include <string>
#include <string_view>

namespace s2t {

class Scratch {
 public:
  Scratch() = default;                 // nothing
  explicit Scratch(std::string path);  // a file, or a folder with all that is in it
  // Fresh ones in TMPDIR. UserError if that is no folder that can be written to.
  static Scratch folder();
  static Scratch file(std::string_view suffix, std::string_view text);
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch();

  const std::string& path() const { return path_; }
  void keep();  // it is no scratch any more

  static void remove_all();

 private:
  std::string path_;
};

// An environment variable that names no folder to work with, as an error of the user.
[[noreturn]] void refuse_folder(const std::string& variable, const std::string& found,
                                const std::string& expected);

}  // namespace s2t

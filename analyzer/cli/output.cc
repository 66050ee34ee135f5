#include "analyzer/cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"

namespace s2t {
namespace fs = std::filesystem;

Output::Output(const std::string& path) : path_(path) {
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its stream
  if (path_.empty()) return;
  std::error_code ignored;
  const fs::file_status status = fs::status(path_, ignored);
  if (fs::is_directory(status)) refuse(EISDIR);
  errno = 0;
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    file_.open(path_, std::ios::binary);
  } else {
    if (fs::exists(status) && access(path_.c_str(), W_OK) != 0) refuse(errno);
    // Through a symbolic link: what it points to is replaced, not the link.
    target_ = fs::is_symlink(fs::symlink_status(path_, ignored))
                  ? fs::weakly_canonical(path_, ignored).string()
                  : path_;
    const std::string part = target_ + ".part" + std::to_string(getpid());
    errno = 0;
    file_.open(part, std::ios::binary);
    if (file_) temporary_ = Scratch(part);
    if (file_ && fs::exists(status)) fs::permissions(part, status.permissions(), ignored);
  }
  if (!file_) refuse(errno);
}

std::ostream& Output::stream() {
  return path_.empty() ? std::cout : static_cast<std::ostream&>(file_);
}

void Output::commit() {
  errno = 0;
  stream().flush();
  if (!stream()) refuse(errno);
  if (path_.empty()) return;
  file_.close();
  if (!file_) refuse(errno);
  if (temporary_.path().empty()) return;
  if (std::rename(temporary_.path().c_str(), target_.c_str()) != 0) refuse(errno);
  temporary_.keep();
}

void Output::refuse(int error) const {
  const std::string name = path_.empty() ? "standard output" : s2t::quoted(path_);
  throw UserError("shape2trace", {{"--output",
                                   "cannot write to " + name + ": " +
                                       (error ? std::strerror(error) : "writing failed"),
                                   "", "", "unwritable"}});
}

}  // namespace s2t

#include "analyzer/io/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/io/text_position.h"

namespace s2t {
namespace {

// Owns a descriptor for one scope.
struct Descriptor {
  explicit Descriptor(const char* path) : fd(::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd;
};

std::nullopt_t report(Diagnostics& sink, Diagnostic d) {
  sink.add(std::move(d));
  return std::nullopt;
}

std::vector<std::string> names_beside(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
    if (names.size() == 10000) break;  // a guess need not search further
  }
  std::sort(names.begin(), names.end());
  return names;
}

Diagnostic cannot_open(const std::string& path, int error) {
  const std::string file = std::filesystem::path(path).filename().string();
  if (error == ENOENT)
    return {"", "no such file", "a file to read", did_you_mean(file, names_beside(path)),
            "no-such-file"};
  return {"", fmt::format("cannot be opened ({})", std::strerror(error)), "a readable file", "",
          "unreadable"};
}

Diagnostic too_large(const std::string& size, Count limit) {
  return {"", size, fmt::format("at most {} bytes", commas(limit)), "", "too-large"};
}

Diagnostic directory() {
  return {"", "is a directory", "a file", "Name a file in it.", "is-directory"};
}

std::optional<size_t> first_bad_byte(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

Diagnostic invalid_utf8(std::string_view text, size_t bad) {
  const bool utf16 = text.substr(0, 2) == "\xFF\xFE" || text.substr(0, 2) == "\xFE\xFF";
  return {line_and_column(text, bad),
          fmt::format("byte 0x{:02X} is not UTF-8", static_cast<unsigned char>(text[bad])),
          "UTF-8 text", utf16 ? "It looks like UTF-16: save it as UTF-8." : "", "invalid-utf8"};
}

std::optional<std::string> checked_text(std::string text, Diagnostics& sink) {
  if (text.compare(0, 3, "\xEF\xBB\xBF") == 0) text.erase(0, 3);
  if (text.empty()) return report(sink, {"", "is empty", "JSON", "", "empty-file"});
  if (const auto bad = first_bad_byte(text)) return report(sink, invalid_utf8(text, *bad));
  return text;
}

}  // namespace

std::string input_name(const std::string& path) {
  return path == "-" ? "<stdin>" : path;
}

std::optional<std::string> read_descriptor(int descriptor, Diagnostics& sink, Count limit) {
  struct stat status {};
  if (::fstat(descriptor, &status) == 0) {
    if (S_ISDIR(status.st_mode)) return report(sink, directory());
    const auto size = static_cast<Count>(std::max<off_t>(status.st_size, 0));
    if (S_ISREG(status.st_mode) && size > limit)
      return report(sink, too_large(fmt::format("has {} bytes", commas(size)), limit));
  }
  std::string text;
  std::vector<char> block(size_t{1} << 16);
  while (true) {
    const ssize_t n = ::read(descriptor, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return report(sink, {"", fmt::format("cannot be read ({})", std::strerror(errno)),
                           "a readable file", "", "unreadable"});
    if (n == 0) return checked_text(std::move(text), sink);
    text.append(block.data(), static_cast<size_t>(n));
    if (text.size() > limit)  // a pipe or a device does not tell its size
      return report(sink, too_large(fmt::format("has more than {} bytes", commas(limit)), limit));
  }
}

std::optional<std::string> read_input(const std::string& path, Diagnostics& sink, Count limit) {
  if (path == "-") return read_descriptor(STDIN_FILENO, sink, limit);
  const Descriptor file(path.c_str());
  if (file.fd < 0) return report(sink, cannot_open(path, errno));
  return read_descriptor(file.fd, sink, limit);
}

}  // namespace s2t

// Linked into a witness of the tests, it makes that witness lie: what the witness writes goes
// through the `write` below, which alters one line. The witnesses of the product know nothing of
// this.
//
//   S2T_TAMPER=pmpi:drop:1:2     rank 1's record of the witness pmpi lacks its third call
//   S2T_TAMPER=pmpi:resize:1:2   that call has one byte more
//   S2T_TAMPER=pmpi:regroup:1:2  it is on a communicator of another name
//   S2T_TAMPER=pmpi:cut:1:2      the record ends before it
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct Wish {
  std::string witness, what;
  int rank = -1, call = -1;

  Wish() {
    const char* text = std::getenv("S2T_TAMPER");
    char who[16] = "", word[16] = "";
    if (!text || std::sscanf(text, "%15[^:]:%15[^:]:%d:%d", who, word, &rank, &call) != 4) return;
    witness = who;
    what = word;
  }
};

bool has(const std::string& line, const std::string& text) {
  return line.find(text) != std::string::npos;
}

// Adds to the number behind `key`.
void change(std::string& line, const std::string& key, int by) {
  const size_t at = line.find(key);
  if (at == std::string::npos) return;
  size_t end = at + key.size();
  const long value = std::strtol(line.c_str() + end, nullptr, 10);
  while (end < line.size() && line[end] >= '0' && line[end] <= '9') ++end;
  line.replace(at, end - at, key + std::to_string(value + by));
}

// The line as it shall be written; "" for not at all.
std::string tampered(std::string line) {
  static const Wish wish;
  static int calls = 0;
  static bool dropped = false, cut = false;
  if (!has(line, "\"witness\":\"" + wish.witness + "\"") ||
      !has(line, "\"rank\":" + std::to_string(wish.rank) + ","))
    return line;
  const bool is_call = has(line, "\"kind\":\"call\"");
  const bool wished = is_call && calls++ == wish.call;
  if (wished && wish.what == "resize") change(line, "\"bytes\":", 1);
  if (wished && wish.what == "regroup") line.replace(line.find("\"comm\":\"") + 8, 0, "x");
  if (wished && wish.what == "drop") {
    dropped = true;
    return "";
  }
  cut |= wished && wish.what == "cut";
  if (dropped && has(line, "\"kind\":\"end\"")) change(line, "\"lines\":", -1);
  return cut ? "" : line;
}

}  // namespace

// Binds before libc's, inside this library only.
extern "C" __attribute__((visibility("hidden"))) ssize_t write(int file, const void* data,
                                                               size_t size) {
  const std::string line = tampered(std::string(static_cast<const char*>(data), size));
  const long done = line.empty() ? 0 : syscall(SYS_write, file, line.data(), line.size());
  return done < 0 ? done : static_cast<ssize_t>(size);
}

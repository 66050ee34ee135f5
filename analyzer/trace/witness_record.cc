#include "analyzer/trace/witness_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace s2t {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string text(const Json& line, const char* key) {
  const auto at = line.find(key);
  return at != line.end() && at->is_string() ? at->get<std::string>() : "";
}

int64_t number(const Json& line, const char* key, int64_t otherwise = -1) {
  const auto at = line.find(key);
  return at != line.end() && at->is_number_integer() ? at->get<int64_t>() : otherwise;
}

std::vector<Count> counts(const Json& line, const char* key) {
  const auto at = line.find(key);
  return at == line.end() ? std::vector<Count>() : at->get<std::vector<Count>>();
}

WitnessedCall call_in(const Json& line) {
  WitnessedCall c;
  c.op = text(line, "op");
  c.call = text(line, "call");
  c.comm = text(line, "comm");
  c.comm_rank = number(line, "comm_rank");
  c.comm_size = number(line, "comm_size");
  c.dtype = text(line, "dtype");
  c.bytes = static_cast<Count>(std::max<int64_t>(0, number(line, "bytes", 0)));
  if (line.contains("peer")) c.peer = number(line, "peer");
  c.send_bytes = counts(line, "send_bytes");
  c.recv_bytes = counts(line, "recv_bytes");
  return c;
}

// One file: one process.
class File {
 public:
  explicit File(const fs::path& path) : name_(path.filename().string()) {
    std::ifstream in(path);
    try {
      for (std::string line; std::getline(in, line);) add(Json::parse(line));
    } catch (const Json::exception&) {
      complain("holds a line that cannot be read");
    }
    if (!ended_) complain("is cut short: the process did not come to its end");
    if (ended_ && said_ != lines_)
      complain(fmt::format("says that it has {} lines and has {}", said_, lines_));
  }

  Rank rank() const { return Rank(static_cast<int32_t>(rank_)); }
  bool has_rank() const { return rank_ >= 0; }
  WitnessRecord& record() { return record_; }

 private:
  void add(const Json& line) {
    rank_ = number(line, "rank", rank_);
    const std::string kind = text(line, "kind");
    ended_ = kind == "end";
    if (kind == "start") return;
    if (ended_)
      said_ = number(line, "lines");
    else
      observe(kind, line);
  }

  void observe(const std::string& kind, const Json& line) {
    ++lines_;
    if (kind == "call") record_.calls.push_back(call_in(line));
    if (kind == "launch") record_.launches.push_back(text(line, "op"));
    if (kind == "uncovered")
      complain("tells of a call that the witness cannot describe: " + text(line, "call"));
    if (kind == "error")
      complain(fmt::format("tells of an error of {}: {}", text(line, "call"), text(line, "text")));
    if (kind == "totals" && number(line, "dropped", 0) != 0)
      complain(fmt::format("lost {} records", number(line, "dropped")));
  }

  void complain(const std::string& what) { record_.complaints.push_back(name_ + " " + what); }

  const std::string name_;
  int64_t rank_ = -1, lines_ = 0, said_ = 0;
  bool ended_ = false;
  WitnessRecord record_;
};

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// A rank is one process; a helper that it started may leave an empty record of its own.
void merge(WitnessRecord& into, WitnessRecord& other) {
  if (!into.calls.empty() && !other.calls.empty())
    into.complaints.push_back("there are two records of this rank: the folder is not fresh");
  append(into.calls, other.calls);
  append(into.launches, other.launches);
  append(into.complaints, other.complaints);
}

}  // namespace

WitnessRecords read_witness_records(const std::string& folder, const std::string& witness) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().rfind(witness + ".", 0) == 0) paths.push_back(entry);
  std::sort(paths.begin(), paths.end());
  WitnessRecords records;
  for (const fs::path& path : paths) {
    File file(path);
    if (file.has_rank()) merge(records[file.rank()], file.record());
  }
  return records;
}

}  // namespace s2t

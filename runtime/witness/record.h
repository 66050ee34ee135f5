// The one line format of all witnesses, and who writes it.
//
// A witness is a library that watches a process from outside of our own code: an interposer, a
// profiler plugin, an activity listener. It writes JSON lines into
//     $S2T_WITNESS_DIR/<witness>.<pid>.jsonl
// one file per process, each line unbuffered, so that nothing is lost when a rank is killed.
// Without the variable it writes nothing. Use a fresh folder per run: files are appended to.
//
//   {"witness":"pnccl","kind":"start","rank":1,"pid":4711}
//   {"witness":"pnccl","kind":"call","rank":1,"seq":0,"op":"all_reduce","call":"ncclAllReduce",
//    "comm":"tp0","comm_size":2,"comm_rank":1,"count":65536,"dtype":"float32","bytes":262144}
//   {"witness":"pnccl","kind":"end","rank":1,"lines":1}
//
// kind   start, end   once per file; a file without its last `end` is cut short, `lines` counts the
//                     lines between the two (a file may hold several ends, the last one counts).
//                     A process that is known to be a rank starts its file when the library is
//                     loaded, so that a rank which does nothing can be told from one not watched.
//        call         one operation: a collective, or one half of a message, in issue order
//        uncovered    a call that moves data and that this witness cannot describe: a failure
//        error        a call that returned an error code at once ("result")
//        launch       one kernel launch (ncclprof) or one kernel that ran (cupti, with "name")
//        channels     how many kernel channels of a communicator ran (ncclprof, at its end)
//        totals       kernels that are not NCCL's, records that CUPTI dropped (cupti, at the end)
// rank         global rank: S2T_RANK, or what mpirun, torchrun, srun set; -1 when unknown
// seq          order within the file, from 0
// op           all_reduce all_gather reduce_scatter all_to_all broadcast reduce send recv barrier
// comm, comm_size, comm_rank   name ("" if it has none), size, own rank in it
// count        argument of the call in elements: all_gather what one rank sends, reduce_scatter
//              what it receives, all_to_all what it sends to all. bytes = count x size of dtype
// peer         rank in the communicator: root, destination or source; -1 is any
// reduce       sum, max, min, prod, avg, where it is known
// send_bytes, recv_bytes       all_to_all and its kin, per rank of the communicator
// group        (pnccl) number of the outermost group of calls; calls outside of one get their own
//
// ncclprof sees what NCCL planned: all_gather and broadcast as int8 with count = bytes, an
// all_to_all as n sends and n receives, and nothing for communicators of one rank or counts of 0.
// Compare bytes, not counts.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace s2t::witness {

// One JSON object under construction.
class Line {
 public:
  Line& add(std::string_view key, std::string_view value) { return raw(key, quoted(value)); }
  Line& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  Line& add(std::string_view key, int64_t value) { return raw(key, std::to_string(value)); }
  Line& add(std::string_view key, const std::vector<int64_t>& values) {
    std::string list;
    for (int64_t value : values) list += (list.empty() ? "" : ",") + std::to_string(value);
    return raw(key, "[" + list + "]");
  }
  std::string text() const { return "{" + text_ + "}\n"; }

 private:
  Line& raw(std::string_view key, const std::string& value) {
    text_ += (text_.empty() ? "\"" : ",\"") + std::string(key) + "\":" + value;
    return *this;
  }
  static std::string quoted(std::string_view value) {
    std::string result = "\"";
    for (const char c : value) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c) & 0xFF);
      const bool plain = c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
      result += plain ? std::string(1, c) : std::string(escaped);
    }
    return result + "\"";
  }

  std::string text_;
};

inline int rank_from_environment() {
  for (const char* name :
       {"S2T_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "SLURM_PROCID"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return -1;
}

// Owns the file of one witness in one process. Never destroyed: calls may come late.
class Writer {
 public:
  explicit Writer(const char* witness) : witness_(witness) {}

  // The head of a line; the caller adds what it knows and hands it to `write`.
  Line head(const char* kind) {
    return Line().add("witness", witness_).add("kind", kind).add("rank", rank_);
  }
  void set_rank(int rank) { rank_ = rank; }

  void begin() {
    std::lock_guard lock(mutex_);
    if (rank_ >= 0) open_file();
  }

  // `fill` adds to the line; it runs under the lock, so that `seq` is the order of the file.
  template <class Fill>
  void write(const char* kind, Fill&& fill) {
    std::lock_guard lock(mutex_);
    if (!open_file()) return;
    Line line = head(kind).add("seq", lines_++);
    fill(line);
    put(line);
    ended_ = false;
  }

  // Safe to call often: writes an `end` when lines have come since the last one.
  void end() {
    std::lock_guard lock(mutex_);
    if (file_ < 0 || ended_ || pid_ != getpid()) return;
    put(head("end").add("lines", lines_));
    ended_ = true;
  }

 private:
  bool open_file() {
    if (pid_ == getpid()) return file_ >= 0;
    pid_ = getpid();  // first line, or a forked child: it gets a file of its own
    lines_ = 0;
    const char* folder = std::getenv("S2T_WITNESS_DIR");
    if (!folder || !*folder) return false;
    const std::string path =
        std::string(folder) + "/" + witness_ + "." + std::to_string(pid_) + ".jsonl";
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) {
      std::fprintf(stderr, "witness %s: cannot write %s\n", witness_, path.c_str());
      return false;
    }
    put(head("start").add("pid", static_cast<int64_t>(pid_)));
    ended_ = false;
    return true;
  }

  void put(const Line& line) {
    const std::string text = line.text();
    if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      std::fprintf(stderr, "witness %s: a line was lost\n", witness_);
    }
  }

  const char* witness_;
  std::mutex mutex_;
  int64_t rank_ = rank_from_environment();
  int64_t lines_ = 0;
  pid_t pid_ = -1;
  int file_ = -1;
  bool ended_ = false;
};

// Each witness library includes this header once and names itself here.
Writer& writer();

struct FromLoadToExit {
  FromLoadToExit() { writer().begin(); }
  ~FromLoadToExit() { writer().end(); }
};

}  // namespace s2t::witness

#define S2T_WITNESS(name)                        \
  s2t::witness::Writer& s2t::witness::writer() { \
    static auto* instance = new Writer(name);    \
    return *instance;                            \
  }                                              \
  static s2t::witness::FromLoadToExit from_load_to_exit

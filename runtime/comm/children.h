// Child processes: started, listened to, waited for, and never left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/wire.h"

namespace s2t {

struct ChildCommand {
  std::vector<std::string> arguments;              // [0] is looked up in PATH unless it has a slash
  std::map<std::string, std::string> environment;  // on top of this process's own
  std::string name;                                // put before each line it writes: "rank 3"
};

// Every child leads a process group of its own, so that a Ctrl-C at the terminal reaches only us
// and a kill reaches what the child has started. Standard output is dropped, standard error kept.
class Children {
 public:
  explicit Children(const std::vector<ChildCommand>& commands);  // throws CommError(transport)
  ~Children();                                                   // kills what still runs
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Reads what they write for at most `patience`, then looks who has ended. Returns those that
  // ended since the last call, by index.
  std::vector<size_t> watch(std::chrono::milliseconds patience);

  bool all_ended() const;
  const std::string& how_ended(size_t child) const;  // "" if with exit code 0
  bool ended_by_signal(size_t child) const;
  const std::string& name(size_t child) const { return children_[child].name; }
  const std::string& output() const { return output_; }
  void signal(int number);  // to all that still run

 private:
  struct Child {
    std::string name;
    pid_t pid = -1;
    Descriptor errors;
    std::string line;  // read, and not ended yet
    std::optional<std::string> how_ended;
    bool by_signal = false;
  };

  void read_from(Child& child);
  void keep(const std::string& name, const std::string& line);

  std::vector<Child> children_;
  std::string output_;
};

// Whether a process of this machine sleeps because of a signal (SIGSTOP, SIGTSTP) or a debugger.
bool is_stopped(pid_t process);

}  // namespace s2t

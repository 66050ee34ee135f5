#include "runtime/comm/mpi_processes.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "runtime/comm/module.h"
#include "runtime/comm/processes.h"

namespace s2t {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "s2t_mpi.so";

// Open MPI on one machine, with more ranks than cores, also as root and inside containers: no
// binding, shared memory without copies across processes, and waits that give the core away.
constexpr const char* kFlags[] = {"--oversubscribe",
                                  "--bind-to",
                                  "none",
                                  "--mca",
                                  "pml",
                                  "ob1",
                                  "--mca",
                                  "btl",
                                  "self,vader",
                                  "--mca",
                                  "btl_vader_single_copy_mechanism",
                                  "none",
                                  "--mca",
                                  "mpi_yield_when_idle",
                                  "1",
                                  "--mca",
                                  "plm",
                                  "isolated",
                                  "--tag-output"};
constexpr const char* kSharedMemory = "btl_vader_backing_directory";  // its files go with the run

// Where one mpirun keeps its session: two that start or end at the same moment in a common place
// take it away from each other. Made when it is needed, gone with the run.
class SessionFolder {
 public:
  SessionFolder() = default;
  ~SessionFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  const std::string& make() {
    std::error_code ignored;
    path_ = (fs::temp_directory_path(ignored) / "s2t-mpi-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr)
      throw CommError(CommReason::transport, "cannot make the folder " + path_);
    return path_;
  }

 private:
  std::string path_;
};

std::vector<ChildCommand> commands(const RunOptions& options, const std::string& session) {
  ChildCommand c;
  c.name = "mpirun";
  c.environment = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_orte_tmpdir_base", session},
      // Seconds that a rank waits for mpirun's welcome; 4 are too few on a busy machine.
      {"PMIX_MCA_ptl_base_handshake_wait_time", "30"}};
  c.arguments = {"mpirun"};
  c.arguments.insert(c.arguments.end(), std::begin(kFlags), std::end(kFlags));
  c.arguments.insert(c.arguments.end(), {"--mca", kSharedMemory, session});
  for (const auto& [name, value] : options.environment) {  // for the ranks, not for mpirun itself
    c.arguments.push_back("-x");
    c.arguments.push_back(name + "=" + value);
  }
  c.arguments.insert(c.arguments.end(), {"-n", std::to_string(options.world_size), this_program()});
  c.arguments.insert(c.arguments.end(), options.arguments.begin(), options.arguments.end());
  return {c};
}

// What mpirun says of the rank because of which it ended all others:
//   mpirun noticed that process rank 2 with PID 0 on node n exited on signal 9 (Killed).
//   Process name: [[1234,1],2]
//   Exit code:    1
struct Notice {
  const char* pattern;  // rank, how
  const char* words;
};
constexpr Notice kNotices[] = {
    {R"(noticed that process rank (\d+) .*exited on signal (\d+ \(.*?\)))",
     "its process was ended by signal "},
    {R"(Process name: +\[\[\d+,\d+\],(\d+)\]\s+(?:\[mpirun\])? +Exit code: +(\d+))",
     "its process ended with exit code "},
};

std::optional<Obituary> first_to_end(const std::string& output) {
  std::smatch found;
  for (const Notice& notice : kNotices)
    if (std::regex_search(output, found, std::regex(notice.pattern)))
      return Obituary{Rank(std::stoi(found[1])), notice.words + found[2].str()};
  return std::nullopt;
}

bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

Probe probe_mpi() {
  Probe probe = probe_module(kModule);
  if (!probe.usable || in_path("mpirun")) return probe;
  return {false, "mpirun is not in PATH (" + probe.why + ")", false};
}

RunResult run_mpi(const RunOptions& options, const RankBody& body) {
  SessionFolder session;
  const auto mpirun = [&](const RunOptions& o) { return commands(o, session.make()); };
  return run_processes({kModule, mpirun, [](Rank) { return size_t{0}; }, first_to_end}, options,
                       body);
}

}  // namespace s2t

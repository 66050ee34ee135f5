// Usage: standin_driver SCENARIO RANKS
// Without S2T_RANK it starts itself once per rank, hands out the unique id, waits, and kills what
// is left ten seconds after the first rank ended in failure. Exit: 0, 1, or 77 without a GPU.
#include "tests/standins/selftest/driver.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

namespace s2t::selftest {
namespace {

std::string to_hex(const ncclUniqueId& id) {
  std::string text;
  for (const char c : id.internal) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned char>(c));
    text += pair;
  }
  return text;
}
ncclUniqueId from_hex(const std::string& text) {
  ncclUniqueId id;
  for (size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

const Scenario& find(const char* name) {
  for (int i = 0; i < kScenarioCount; ++i) {
    if (std::strcmp(kScenarios[i].name, name) == 0) return kScenarios[i];
  }
  std::printf("no scenario %s\n", name);
  std::exit(2);
}

int run_rank(const Scenario& scenario, int rank, int size) {
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  CUDA(cudaSetDevice(rank % devices));
  Rank me{rank, size, nullptr, nullptr};
  CUDA(cudaStreamCreateWithFlags(&me.stream, cudaStreamNonBlocking));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  NCCL(ncclCommInitRankConfig(&me.world, size, from_hex(std::getenv("S2T_ID")), rank, &config));
  scenario.run(me);
  ncclResult_t error = ncclSuccess;
  NCCL(ncclCommGetAsyncError(me.world, &error));
  if (error == ncclSuccess) {
    CUDA(cudaStreamSynchronize(me.stream));
    NCCL(ncclCommFinalize(me.world));
    NCCL(ncclCommDestroy(me.world));
  } else {
    NCCL(ncclCommAbort(me.world));
  }
  CUDA(cudaStreamDestroy(me.stream));
  return 0;
}

pid_t start(char** arguments, int rank, int size, const std::string& id) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("S2T_RANK", std::to_string(rank).c_str(), 1);
  setenv("S2T_WORLD", std::to_string(size).c_str(), 1);
  setenv("S2T_ID", id.c_str(), 1);
  execv("/proc/self/exe", arguments);
  std::_Exit(127);
}

// 0 when every rank ended well. A rank that was killed on purpose counts as failed.
int wait_for(std::vector<pid_t> children) {
  using Clock = std::chrono::steady_clock;
  auto limit = Clock::now() + std::chrono::seconds(50);
  int failures = 0;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      std::erase(children, ended);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      ++failures;
      limit = std::min(limit, Clock::now() + std::chrono::seconds(10));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (Clock::now() > limit) {
      std::printf("%zu ranks hang\n", children.size());
      for (const pid_t child : children) kill(child, SIGKILL);
      for (const pid_t child : children) waitpid(child, &status, 0);
      return 3;
    }
  }
  return failures > 0;
}

int run_all(char** arguments, int size) {
  int driver = 0, devices = 0;
  CUDA(cudaDriverGetVersion(&driver));
  if (const cudaError_t error = cudaGetDeviceCount(&devices)) {
    std::printf("skipped: %s (%d), driver %d\n", cudaGetErrorString(error), error, driver);
    return 77;
  }
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::vector<pid_t> children;
  for (int r = 0; r < size; ++r) children.push_back(start(arguments, r, size, to_hex(id)));
  return wait_for(children);
}

}  // namespace
}  // namespace s2t::selftest

int main(int count, char** arguments) {
  using namespace s2t::selftest;
  if (count != 3) return 2;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const Scenario& scenario = find(arguments[1]);
  const int size = std::atoi(arguments[2]);
  const char* rank = std::getenv("S2T_RANK");
  return rank ? run_rank(scenario, std::atoi(rank), size) : run_all(arguments, size);
}

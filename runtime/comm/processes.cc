#include "runtime/comm/processes.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <random>
#include <utility>

#include "analyzer/base/diagnostics.h"
#include "runtime/comm/module.h"
#include "runtime/comm/process_world.h"

namespace s2t {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kGlance = 20ms;
constexpr int kLookAround = 10;  // glances
constexpr auto kToJoin = 60s;    // processes, MPI and CUDA start slowly on a busy machine
constexpr auto kToLeave = 10s;   // to finalize and flush, once every body has returned
constexpr auto kToStop = 3s;     // for a rank that does not hear that the run is dead
constexpr auto kToExit = 500ms;  // for the processes of ranks that have all heard it
constexpr auto kToCancel = 1s;   // for a rank to hear that the user wants no more
constexpr auto kToClear = 5s;    // for mpirun to end its ranks and remove its files

CommError as_error(Rank rank, std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const CommError& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return {CommReason::died, "out of memory", rank};
  } catch (const std::exception& e) {
    return {CommReason::died, e.what(), rank};
  } catch (...) {
    return {CommReason::died, "an unknown exception", rank};
  }
}

// `next` is what the rank said of itself last, also when it throws.
std::string run_body(const Place& place, ControlLink& link, Transport& transport,
                     const RankBody& body, Annotation& next) {
  ProcessWorld world(place, link, transport);
  try {
    return body(world);
  } catch (...) {
    next = world.annotation();
    throw;
  }
}

// After a failure the transport may hold operations that never end, so nothing is torn down.
std::optional<CommError> run_rank(const Place& place, const std::string& file, ControlLink& link,
                                  const RankBody& body) {
  const Module& module = load_module(file);
  Annotation next;
  try {
    if (!module.loaded()) throw CommError(CommReason::transport, module.why_not, place.rank);
    std::unique_ptr<Transport> transport(module.open(&place, &link));
    try {
      const std::string result = run_body(place, link, *transport, body, next);
      link.finish(result);
    } catch (...) {
      transport.release();
      throw;
    }
    transport->close();
    link.leave();
    return std::nullopt;
  } catch (...) {
    const CommError error = as_error(place.rank, std::current_exception());
    link.fail(error, next);
    return error;
  }
}

RunResult silent(const std::optional<CommError>& error, Rank rank) {
  RunResult result;
  result.reports = false;
  if (error) result.failures.push_back({rank, error->reason(), error->what()});
  return result;
}

// As one rank of a run that another process reports.
RunResult run_as_rank(const ProcessBackend& backend, const StartedAs& self, const RankBody& body) {
  if (self.judged) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::optional<CommError> error;
  try {
    ControlLink link(self.control, self.place);
    error = run_rank(self.place, backend.module, link, body);
  } catch (const CommError& e) {
    error = e;
  }
  if (error) {
    fmt::print(stderr, "rank {}: {}\n", self.place.rank.value, error->what());
    std::fflush(nullptr);
    std::_Exit(1);
  }
  return silent(error, self.place.rank);
}

// As rank 0 among ranks that somebody else started and will end.
RunResult run_as_first(const ProcessBackend& backend, const StartedAs& self, const RankBody& body) {
  const bool far = self.place.local_size != self.place.size;
  Judge judge(self.place.size, self.place.timeout, listen_on(far, self.control.port),
              self.control.token, far ? Judge::Sight::none : Judge::Sight::processes);
  {
    ControlLink link(self.control, self.place);
    run_rank(self.place, backend.module, link, body);
  }
  const auto deadline = Clock::now() + (judge.failed() ? kToStop : kToLeave);
  while (!judge.over() && Clock::now() < deadline) std::this_thread::sleep_for(kGlance);
  return judge.result();
}

std::string fresh_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

using Tell = std::function<void(const std::vector<size_t>& ended)>;

void stop(Judge& judge, Children& children, const Tell& tell) {
  if (!judge.failed())
    judge.fail({CommReason::timeout, "a rank's process did not end after its work was done"});
  children.signal(SIGTERM);
  children.signal(SIGCONT);  // a rank that sleeps hears it too
  for (const auto limit = Clock::now() + kToClear; !children.all_ended() && Clock::now() < limit;)
    tell(children.watch(kGlance));
  children.signal(SIGKILL);
  while (!children.all_ended()) tell(children.watch(kGlance));
}

// Tells the judge what the children and the user do, until every rank has come to an end.
void watch(Judge& judge, Children& children, const ProcessBackend& backend, int size) {
  const auto start = Clock::now();
  auto end = Clock::time_point::max();
  const Tell tell = [&](const std::vector<size_t>& ended) {
    for (const size_t child : ended) {
      std::vector<Rank> carried;
      for (int r = 0; r < size; ++r)
        if (backend.child_of(Rank(r)) == child) carried.emplace_back(r);
      // A launcher that is killed takes its ranks with it: none of them is to blame.
      if (backend.first_to_end && children.ended_by_signal(child))
        judge.fail(
            {CommReason::transport, children.name(child) + ": " + children.how_ended(child)});
      judge.ended(carried, children.how_ended(child),
                  backend.first_to_end ? backend.first_to_end(children.output()) : std::nullopt);
    }
  };
  const auto within = [&](Clock::duration limit) { end = std::min(end, Clock::now() + limit); };
  int glances = 0;
  bool failed = false, over = false, deaf = false;
  const auto first_time = [](bool& seen, bool now) { return now && !std::exchange(seen, true); };
  while (!(judge.over() && children.all_ended()) && Clock::now() < end) {
    tell(children.watch(kGlance));
    if (cancel_requested()) judge.fail({CommReason::cancelled, kCancelled});
    if (const auto missing = judge.missing(); !missing.empty() && Clock::now() - start > kToJoin)
      judge.fail(
          {CommReason::timeout,
           fmt::format("rank {} has not joined within {} s", missing[0].value, kToJoin.count()),
           missing[0]});
    if (glances++ % kLookAround == 0) judge.look_for_sleepers();
    if (first_time(failed, judge.failed())) within(cancel_requested() ? kToCancel : kToStop);
    if (first_time(over, judge.over())) within(kToLeave);
    if (first_time(deaf, judge.failed() && judge.nobody_hears())) within(kToExit);
  }
  if (!children.all_ended()) stop(judge, children, tell);
  // The judge hears of the last ends a moment later than we do.
  for (const auto limit = Clock::now() + kToStop; !judge.over() && Clock::now() < limit;)
    std::this_thread::sleep_for(kGlance);
}

RunResult not_started(const RunOptions& options, const CommError& error) {
  RunResult result;
  result.results.resize(static_cast<size_t>(options.world_size));
  result.failures.push_back({Rank(0), error.reason(), error.what()});
  result.cause = std::make_exception_ptr(error);
  return result;
}

// As the process that starts the ranks.
RunResult run_as_launcher(const ProcessBackend& backend, const RunOptions& options) {
  const CancelOnSignal guard;
  const std::string token = fresh_token();
  Judge judge(options.world_size, options.timeout, listen_on(false, 0), token, Judge::Sight::ends);
  std::vector<ChildCommand> commands = backend.commands(options);
  for (ChildCommand& command : commands)
    command.environment[kControlVariable] = to_string({"127.0.0.1", judge.port(), token});
  Children children(commands);
  watch(judge, children, backend, options.world_size);
  RunResult result = judge.result();
  result.output = children.output();
  return result;
}

}  // namespace

std::string this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

RunResult run_processes(const ProcessBackend& backend, const RunOptions& options,
                        const RankBody& body) {
  std::optional<StartedAs> self;
  try {
    self = started_as(options.timeout);
    if (!self) return run_as_launcher(backend, options);
  } catch (const CommError& e) {  // nothing could be started
    return not_started(options, e);
  }
  if (self->place.size != options.world_size)
    throw UserError("<ranks>",
                    {{"", fmt::format("{} started {} ranks", self->by, self->place.size),
                      fmt::format("the {} ranks of the model's mesh", options.world_size),
                      "Start as many processes as the mesh has ranks.", "world-size"}});
  if (!self->judged && self->place.rank == Rank(0)) return run_as_first(backend, *self, body);
  return run_as_rank(backend, *self, body);
}

}  // namespace s2t

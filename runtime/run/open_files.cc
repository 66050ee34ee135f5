#include "runtime/run/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"

namespace s2t {

uint64_t open_files_needed(int64_t ranks) {
  return 40 + 5 * static_cast<uint64_t>(ranks);
}

uint64_t allow_open_files(uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  const rlim_t had = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : had;
}

void require_open_files(int64_t ranks, uint64_t allowed) {
  const uint64_t needed = open_files_needed(ranks);
  if (allowed >= needed) return;
  throw UserError(
      "shape2trace",
      {{"", fmt::format("a process may have {} files open here (ulimit -n)", commas(allowed)),
        fmt::format("at least {} to start {} ranks", commas(needed), commas(ranks)),
        fmt::format("Run \"ulimit -n {}\" first, or verify on the backend host, whose ranks are "
                    "threads.",
                    needed),
        "too-few-files"}});
}

}  // namespace s2t

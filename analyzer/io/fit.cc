#include "analyzer/io/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

constexpr int64_t kLargest = 4096;

std::string alternatives(std::vector<std::string> words) {
  if (words.size() < 2) return join(words, ", ");
  const std::string last = words.back();
  words.pop_back();
  return join(words, ", ") + " or " + last;
}

}  // namespace

std::string divisors(int64_t n) {
  return divisors(
      n, [](int64_t, int64_t) { return true; }, 0);
}

std::string divisors(int64_t n, bool (*fits)(int64_t, int64_t), int64_t other) {
  std::vector<std::string> all;
  for (int64_t d = 1; d <= std::min(n, kLargest); ++d)
    if (n % d == 0 && fits(d, other)) all.push_back(std::to_string(d));
  return all.empty() ? "1" : alternatives(std::move(all));
}

std::string neighbours(int64_t n, int64_t step) {
  const int64_t below = n / step * step;
  if (below == 0) return fmt::format("{}, or another multiple of it", step);
  return fmt::format("{} or {} (multiples of {})", below, below + step, step);
}

std::vector<int64_t> shares(int64_t layers, int64_t stages) {
  if (stages < 1 || layers < stages) return {};
  const int64_t most = (layers + stages - 1) / stages;
  std::vector<int64_t> all(static_cast<size_t>(stages), most);
  int64_t missing = most * stages - layers;
  for (size_t end = 0; missing > 0; ++end) {
    --all[all.size() - 1 - end];
    if (--missing == 0) break;
    --all[end];
    --missing;
  }
  return all;
}

std::string run_lengths(const std::vector<int64_t>& numbers) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end < numbers.size() && numbers[end] == numbers[i]) ++end;
    runs.push_back(end - i == 1 ? std::to_string(numbers[i])
                                : fmt::format("{}x{}", end - i, numbers[i]));
    i = end;
  }
  return join(runs, ",");
}

}  // namespace s2t

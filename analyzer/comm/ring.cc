#include "analyzer/comm/ring.h"

#include <cstddef>

namespace s2t {

std::vector<RingExchange> ring_forward(int64_t n) {
  return std::vector<RingExchange>(static_cast<size_t>(n - 1), {1, true, false});
}

std::vector<RingExchange> ring_backward(int64_t n) {
  std::vector<RingExchange> list;
  for (int64_t i = 0; n > 1 && i < n; ++i) {
    const bool first = i == 0, last = i == n - 1;
    list.push_back({-1, !last, !first});
  }
  return list;
}

}  // namespace s2t

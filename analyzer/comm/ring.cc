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

std::vector<RingCall> ring_calls_forward(RingKind kind, int64_t n) {
  if (n > 1 && kind == RingKind::gathered) return {{Collective::all_gather, false}};
  return std::vector<RingCall>(static_cast<size_t>(n - 1), {Collective::all_to_all, false});
}

std::vector<RingCall> ring_calls_backward(RingKind kind, int64_t n) {
  std::vector<RingCall> list;
  for (int64_t i = 0; n > 1 && i < n; ++i) {
    if (kind == RingKind::gathered && i == 0) list.push_back({Collective::all_gather, false});
    if (kind == RingKind::exchanged && i < n - 1) list.push_back({Collective::all_to_all, false});
    list.push_back({Collective::all_to_all, true});
  }
  return list;
}

}  // namespace s2t

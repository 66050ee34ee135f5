// Table rows by id, and the mask that says which token goes to which expert.
#pragma once

#include "runtime/tensor/bodies/hd.h"

namespace s2t {

template <class T>
struct Lookup {  // item = (row, feature); rows of another rank's part of the table are 0
  const int64_t* ids;
  const T* table;
  T* y;
  int64_t d, v, first;
  S2T_HD void operator()(int64_t item) const {
    const int64_t id = ids[item / d] - first;
    y[item] = id >= 0 && id < v ? table[id * d + item % d] : T(0);
  }
};

template <class T>
struct LookupBackward {  // one item per feature: rows add up in order, whoever runs it
  const int64_t* ids;
  const T* dy;
  T* dtable;  // zeroed
  int64_t rows, d, v, first;
  S2T_HD void operator()(int64_t i) const {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t id = ids[r] - first;
      if (id >= 0 && id < v) dtable[id * d + i] += dy[r * d + i];
    }
  }
};

template <class T>
struct Routed {  // 1 where a token is routed to an expert
  const T* route;
  T* mask;
  S2T_HD void operator()(int64_t i) const { mask[i] = route[i] != T(0) ? T(1) : T(0); }
};

}  // namespace s2t

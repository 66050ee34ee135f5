// S2T_HD marks a function that a CPU kernel and a GPU kernel share.
//
// A *body* is a functor over item numbers: body(i) computes one independent element, row or feature
// and writes nothing that another item writes. A host runner loops over the items, a GPU runner
// gives each its thread; the math exists once.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define S2T_HD __host__ __device__
#else
#define S2T_HD
#endif

// Small architectures of other frameworks' tests, and the steps of one rank, call by call.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/program/listing.h"
#include "tests/analyzer/io/predicted.h"

namespace s2t::framework_steps {

using Lines = std::vector<std::string>;

inline Architecture llama(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab) {
  Architecture a = dense(layers, hidden, heads);
  a.vocab = vocab;
  return a;
}

inline Architecture gpt2(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab) {
  Architecture a = gpt(layers, hidden, heads);
  a.family = "gpt2";
  a.vocab = vocab;
  a.position_rows = 64;
  return a;
}

inline Architecture mixtral(int64_t layers, int64_t hidden, int64_t heads, int64_t top_k) {
  Architecture a = llama(layers, hidden, heads, 1024);
  a.experts = Experts{8, top_k, 2 * hidden};
  return a;
}

inline Plan split_of(int64_t tp, int64_t dp, int64_t seq) {
  Plan p;
  p.tp = tp;
  p.dp = dp;
  p.seq = seq;
  return p;
}

// One rank's step in order; `phase` only if stated.
inline Lines step(const Program& program, int rank, std::optional<Phase> phase = std::nullopt) {
  Lines lines;
  for (const Event& e : events_of(program, Rank(rank)))
    if (!phase || e.phase == *phase) lines.push_back(line(program, e));
  return lines;
}

inline Count total(const Program& program, int rank, Count Volume::*bytes) {
  Count sum = 0;
  for (const Event& e : events_of(program, Rank(rank))) sum += e.volume.*bytes;
  return sum;
}

}  // namespace s2t::framework_steps

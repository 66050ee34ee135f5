// Small architectures and what profiles are predicted to send for them, call by call.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/analyze.h"
#include "analyzer/io/transformer.h"
#include "analyzer/program/listing.h"
#include "tests/analyzer/io/architectures.h"

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
  a.experts = Experts{};
  a.experts->experts = 8;
  a.experts->top_k = top_k;
  a.experts->ffn = 2 * hidden;
  return a;
}

inline Plan plan_of(int64_t tp, int64_t dp, int64_t seq) {
  Plan p;
  p.tp = tp;
  p.dp = dp;
  p.seq = seq;
  return p;
}

inline Profile profile_of(const char* name, const Lines& changes = {}) {
  Profile profile = find_profile(name).value();
  for (const std::string& change : changes) {
    const auto wrong = profile.set(change);
    EXPECT_FALSE(wrong) << wrong->found;
  }
  return profile;
}

inline Program predict(const Architecture& a, const Plan& p, const Profile& profile) {
  Diagnostics sink("config.json");
  const auto model = build_transformer(a, p, profile, sink);
  sink.throw_if_any();
  return analyze(*model);
}

inline Lines refusals(const Architecture& a, const Plan& p, const Profile& profile) {
  Diagnostics sink("config.json");
  EXPECT_FALSE(build_transformer(a, p, profile, sink));
  Lines lines;
  for (const Diagnostic& d : sink.list()) lines.push_back(to_string(d, sink.file()));
  return lines;
}

// "dp all_gather 512>1024"
inline std::string line(const Program& program, const Event& e) {
  return fmt::format("{} {} {}>{}", program.families[e.family].name, info(e.op).name,
                     e.volume.input_bytes, e.volume.output_bytes);
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

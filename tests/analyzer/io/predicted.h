// Small architectures and plans, and what profiles, Megatron unless told, are predicted to send for
// them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analyzer/analyze.h"
#include "analyzer/io/transformer.h"
#include "tests/analyzer/io/architectures.h"

namespace s2t {

using Counts = std::map<std::string, int>;

inline Architecture mixtral(int64_t layers) {
  Architecture a = dense(layers, 4096, 32);
  a.kv_heads = 8;
  a.ffn = 14336;
  a.vocab = 32000;
  a.experts = Experts{8, 2, a.ffn};
  return a;
}

inline Plan plan_of(int64_t tp, int64_t seq, bool sp) {
  Plan p;
  p.tp = tp;
  p.seq = seq;
  p.sp = sp;
  return p;
}

inline Profile profile_of(const char* name, const std::vector<std::string>& changes = {}) {
  Profile profile = find_profile(name).value();
  for (const std::string& change : changes) {
    const auto wrong = profile.set(change);
    EXPECT_FALSE(wrong) << wrong->found;
  }
  return profile;
}

inline Model model_of(const Architecture& a, const Plan& p, const Profile& profile) {
  Diagnostics sink("config.json");
  auto model = build_transformer(a, p, profile, sink);
  sink.throw_if_any();
  return std::move(model).value();
}

inline Program predict(const Architecture& a, const Plan& p, const Profile& profile) {
  return analyze(model_of(a, p, profile));
}

inline std::vector<std::string> refusals(const Architecture& a, const Plan& p,
                                         const Profile& profile) {
  Diagnostics sink("config.json");
  EXPECT_FALSE(build_transformer(a, p, profile, sink));
  std::vector<std::string> lines;
  for (const Diagnostic& d : sink.list()) lines.push_back(to_string(d, sink.file()));
  return lines;
}

// The same under Megatron, with these switches changed.
inline Model model_of(const Architecture& a, const Plan& p,
                      const std::vector<std::string>& changes = {}) {
  return model_of(a, p, profile_of("megatron", changes));
}

inline Program predict(const Architecture& a, const Plan& p,
                       const std::vector<std::string>& changes = {}) {
  return predict(a, p, profile_of("megatron", changes));
}

inline std::vector<std::string> refusals(const Architecture& a, const Plan& p,
                                         const std::vector<std::string>& changes = {}) {
  return refusals(a, p, profile_of("megatron", changes));
}

inline std::string line(const Program& program, const Event& e) {
  return fmt::format("{} {} {}>{}", program.families[e.family].name, info(e.op).name,
                     e.volume.input_bytes, e.volume.output_bytes);
}

// Whether no layout asks for it: a batch handed out, counts of experts, a scalar of the step.
inline bool besides(const Program& program, const Event& e) {
  return program.causes.at(e.cause).kind == CauseKind::framework;
}

// What one module (or those whose name begins so) moves per microbatch.
inline Counts of(const Program& program, Phase phase, const std::string& module) {
  Counts counts;
  for (const Stage& stage : program.stages)
    for (const Segment* segment : {&stage.forward, &stage.backward})
      for (const Segment::Item& item : segment->items)
        if (item.event.phase == phase && item.event.module.rfind(module, 0) == 0 &&
            !besides(program, item.event))
          ++counts[line(program, item.event)];
  return counts;
}

inline std::vector<std::string> after(const Program& program) {
  std::vector<std::string> lines;
  for (const Event& e : program.after)
    if (!besides(program, e)) lines.push_back(line(program, e));
  return lines;
}

// What the framework sends besides, per microbatch, then per step: "tokens tp broadcast 32>32".
inline std::vector<std::string> calls(const Program& program) {
  std::vector<std::string> lines;
  for_each_kept_event(program, [&](const Event& e) {
    if (besides(program, e)) lines.push_back(e.tensor + " " + line(program, e));
  });
  return lines;
}

// Forward messages over all borders and microbatches.
inline int64_t forward_messages(const Program& program) {
  return std::count_if(program.order.begin(), program.order.end(),
                       [](const StepAction& a) { return a.kind == SpanKind::send_activation; });
}

}  // namespace s2t

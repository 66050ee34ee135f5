// The table of witness libraries and those who use it.
#include "runtime/comm/witnesses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "analyzer/analyze.h"
#include "analyzer/compare/witness.h"
#include "analyzer/io/model_json.h"
#include "runtime/comm/backend.h"

namespace s2t {
namespace {

TEST(Witnesses, EachWatchesABackendAndCanBeCompared) {
  const Program program = analyze(load_model(S2T_SOURCE_DIR "/models/tp_mlp.json"));
  const std::vector<std::vector<Observation>> nothing(2);
  for (const Witness& w : witnesses()) {
    EXPECT_NE(find_backend(w.backend), nullptr) << w.name;
    const auto found = compare_with_witness(program, nothing, std::string(w.name), {});
    EXPECT_EQ(found.size(), 2u) << "a rank without a record disagrees: " << w.name;
  }
}

TEST(Witnesses, APreloadKeepsWhatWasPreloaded) {
  const Witness& pmpi = witnesses()[0];
  ASSERT_EQ(pmpi.variable, "LD_PRELOAD");
  std::map<std::string, std::string> environment;
  ::setenv("LD_PRELOAD", "", 1);
  load_by_environment(pmpi, "/a.so", environment);
  EXPECT_EQ(environment["LD_PRELOAD"], "/a.so");
  load_by_environment(pmpi, "/b.so", environment);
  EXPECT_EQ(environment["LD_PRELOAD"], "/b.so:/a.so");
  ::setenv("LD_PRELOAD", "/user.so", 1);
  environment.clear();
  load_by_environment(pmpi, "/a.so", environment);
  EXPECT_EQ(environment["LD_PRELOAD"], "/a.so:/user.so");
  ::unsetenv("LD_PRELOAD");
}

TEST(Witnesses, WhatNcclOrTheDriverLoadIsNamedAlone) {
  for (const Witness& w : witnesses()) {
    if (w.variable == "LD_PRELOAD") continue;
    std::map<std::string, std::string> environment{{std::string(w.variable), "/old.so"}};
    load_by_environment(w, "/new.so", environment);
    EXPECT_EQ(environment[std::string(w.variable)], "/new.so");
  }
}

}  // namespace
}  // namespace s2t

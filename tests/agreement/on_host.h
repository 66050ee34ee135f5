// Runs a model on threads of this process and compares it with its prediction.
#pragma once

#include <gtest/gtest.h>

#include <sstream>

#include "analyzer/cli/verification.h"

namespace s2t {

inline Verification run_on_host(const Model& model) {
  VerifyOptions options;
  options.backend = find_backend("host");
  return verify(model, options);
}

inline std::string text_of(const Verification& v) {
  std::ostringstream text;
  write_text(v, text);
  return text.str();
}

inline Verification expect_as_predicted(const Model& model) {
  Verification v = run_on_host(model);
  EXPECT_TRUE(v.match()) << text_of(v);
  EXPECT_FALSE(v.observed.empty());
  return v;
}

}  // namespace s2t

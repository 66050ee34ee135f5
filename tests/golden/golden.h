// Compares text with a file of tests/golden, byte by byte. With S2T_UPDATE_GOLDEN set in the
// environment the file is written instead and the test fails once, so that nobody forgets.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace s2t::testing {

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(S2T_SOURCE_DIR) + "/tests/golden/" + name;
  if (std::getenv("S2T_UPDATE_GOLDEN")) {
    std::ofstream(path, std::ios::binary) << text;
    ADD_FAILURE() << "wrote " << path << "; look at it, then run again without S2T_UPDATE_GOLDEN";
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path << " is missing; S2T_UPDATE_GOLDEN=1 writes it";
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, expected) << path;
}

}  // namespace s2t::testing

#include <gtest/gtest.h>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/dtype.h"
#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"
#include "analyzer/base/units.h"

namespace s2t {
namespace {

TEST(Text, CommasGroupDigitsByThree) {
  EXPECT_EQ(commas(0), "0");
  EXPECT_EQ(commas(999), "999");
  EXPECT_EQ(commas(1048576), "1,048,576");
}

TEST(Text, ClosestFindsASlipAndRefusesAStranger) {
  const std::vector<std::string> names{"h0", "h1", "gelu"};
  EXPECT_EQ(closest("h_1", names), "h1");
  EXPECT_EQ(closest("gellu", names), "gelu");
  EXPECT_EQ(closest("attention", names), "");
}

TEST(Text, QuotedEscapesWhatWouldBreakALine) {
  EXPECT_EQ(quoted("a\"b\n"), "\"a\\\"b\\n\"");
}

TEST(Text, QuotedWritesOutWhatTurnsText) {
  EXPECT_EQ(quoted("a\u202eb\xff"), "\"a\\u202eb\uFFFD\"");
}

TEST(Unicode, OneLineWritesOutWhatNoEyeSees) {
  EXPECT_EQ(one_line("a\nb\tc\x1b"), "a\\nb\\tc\\u001b");
  EXPECT_EQ(one_line("\u009b\u061c\u200e\u2028\u202a\u202e\u2066\u2069\uffff"),
            "\\u009b\\u061c\\u200e\\u2028\\u202a\\u202e\\u2066\\u2069\\uffff");
  EXPECT_EQ(one_line(std::string("\0", 1)), "\\u0000");
}

TEST(Unicode, OneLineKeepsLettersOfAllScripts) {
  const std::string text = "\u00e9\u05e9\u0645\u2014\u2026\U0001F600";
  EXPECT_EQ(one_line(text), text);
}

TEST(Unicode, BytesThatAreNoUtf8AreReplacedOneByOne) {
  EXPECT_EQ(valid_utf8("a\xC3"), "a\uFFFD");
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(valid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Unicode, IsolatesAStretchFromRightToLeftWithItsSpaces) {
  EXPECT_EQ(isolated("a \u05e9\u05d0 \u0645 4 x 8", "<", ">"), "a <\u05e9\u05d0 \u0645> 4 x 8");
  EXPECT_EQ(isolated("\u05e9", "<", ">"), "<\u05e9>");
  EXPECT_EQ(isolated("\u05e9a\u05d0", "<", ">"), "<\u05e9>a<\u05d0>");
  EXPECT_EQ(isolated("plain \u00e9 \xff", "<", ">"), "plain \u00e9 \xff");
}

TEST(Text, DisplayWidthCountsCodePointsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("\u00e9\u00e9"), 2u);
}

TEST(Diagnostics, PrintsLocationFoundExpectedAdviceSlug) {
  const Diagnostic d{"/ops/3/inputs/0", "no tensor named \"h_1\"", "one produced before op 3",
                     "Did you mean \"h1\"?", "unknown-tensor"};
  EXPECT_EQ(
      to_string(d, "mlp.json"),
      "mlp.json: /ops/3/inputs/0: no tensor named \"h_1\"; expected one produced before op 3. "
      "Did you mean \"h1\"? [unknown-tensor]");
}

TEST(Diagnostics, CollectsAllAndThrowsOnce) {
  Diagnostics sink("m.json");
  sink.throw_if_any();
  sink.add({"/a", "x", "", "", "s"});
  sink.add({"/a", "x", "", "", "s"});
  sink.add({"/b", "y", "", "", "s"});
  try {
    sink.throw_if_any();
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(e.diagnostics().size(), 2u);
    EXPECT_STREQ(e.what(), "m.json: /a: x. [s]\nm.json: /b: y. [s]");
  }
}

TEST(Diagnostics, CountsWhatNobodyWouldRead) {
  Diagnostics sink("m.json");
  for (int i = 0; i < 3000; ++i) sink.add({"/" + std::to_string(i), "x", "", "", "s"});
  try {
    sink.throw_if_any();
    FAIL();
  } catch (const UserError& e) {
    ASSERT_EQ(e.diagnostics().size(), 1001u);
    EXPECT_EQ(to_string(e.diagnostics().back(), "m.json"),
              "m.json: 2,000 more errors. Mend those above first. [more-errors]");
  }
}

TEST(Units, CheckedArithmeticThrowsInsteadOfWrapping) {
  EXPECT_EQ(checked_mul(1u << 20, 4), 4u << 20);
  EXPECT_THROW(checked_mul(UINT64_MAX, 2), Overflow);
  EXPECT_THROW(checked_add(UINT64_MAX, 1), Overflow);
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(parse_dtype("bf16"), DType::bf16);
  EXPECT_EQ(parse_dtype("bfloat16"), DType::bf16);
  EXPECT_FALSE(parse_dtype("fp99"));
  EXPECT_EQ(size_of(DType::i64), 8u);
  EXPECT_FALSE(is_differentiable(DType::i32));
}

}  // namespace
}  // namespace s2t

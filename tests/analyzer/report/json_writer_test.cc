#include "analyzer/report/json_writer.h"

#include <gtest/gtest.h>

#include <sstream>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

TEST(JsonWriter, PutsMembersOfALinesObjectOnLinesAndOthersOnOne) {
  std::ostringstream out;
  JsonWriter json(out);
  json.object(JsonWriter::kLines).field("a", 1).key("b").array().value("x").value(true).end();
  json.key("c").object().end().key("d").array(JsonWriter::kLines).end().end();
  EXPECT_EQ(out.str(), "{\n  \"a\": 1,\n  \"b\": [\"x\", true],\n  \"c\": {},\n  \"d\": []\n}\n");
}

TEST(JsonWriter, EscapesWhatJsonCannotHold) {
  EXPECT_EQ(json_string("a\"b\\c\nd\x01<>&"), R"("a\"b\\c\nd\u0001<>&")");
}

TEST(JsonWriter, KeepsUnicode) {
  EXPECT_EQ(json_string("\u05d0 \u00e9 \U0001F600"), "\"\u05d0 \u00e9 \U0001F600\"");
}

TEST(JsonWriter, ReplacesBytesThatAreNotUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(json_string("a\xFF"), "\"a" + bad + "\"");
  EXPECT_EQ(json_string("\xC3"), "\"" + bad + "\"");                      // cut off
  EXPECT_EQ(json_string("\xC0\x80"), "\"" + bad + bad + "\"");            // overlong
  EXPECT_EQ(json_string("\xED\xA0\x80"), "\"" + bad + bad + bad + "\"");  // surrogate
}

TEST(JsonWriter, WritesAbsentAsNullAndWholeRangeOfIntegers) {
  std::ostringstream out;
  JsonWriter json(out);
  json.array().value(std::optional<int64_t>()).value(UINT64_MAX).value(INT64_MIN).value(0.5).end();
  EXPECT_EQ(out.str(), "[null, 18446744073709551615, -9223372036854775808, 0.5]\n");
}

TEST(JsonWriter, RefusesAValueWithoutAKeyAndAKeyWithoutAValue) {
  std::ostringstream out;
  EXPECT_THROW(JsonWriter(out).object().value(1), Fault);
  EXPECT_THROW(JsonWriter(out).object().key("a").end(), Fault);
  EXPECT_THROW(JsonWriter(out).array().key("a"), Fault);
}

}  // namespace
}  // namespace s2t

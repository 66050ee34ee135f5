#include "analyzer/io/json_document.h"

#include <gtest/gtest.h>

namespace s2t {
namespace {

// Every message of parsing `text`, one per line; "" if there is none.
std::string complaints(const std::string& text, const JsonLimits& limits = {}) {
  Diagnostics sink("m.json");
  const auto document = parse_json(text, sink, limits);
  EXPECT_TRUE(document.has_value() || sink.any());
  std::string all;
  for (const Diagnostic& d : sink.list())
    all += (all.empty() ? "" : "\n") + to_string(d, sink.file());
  return all;
}

JsonDocument parsed(const std::string& text) {
  Diagnostics sink;
  auto document = parse_json(text, sink);
  EXPECT_FALSE(sink.any()) << text;
  return std::move(document).value();
}

struct Broken {
  std::string text;
  std::string message;
};

std::ostream& operator<<(std::ostream& out, const Broken& broken) {
  return out << broken.text;
}

class JsonSyntax : public testing::TestWithParam<Broken> {};

TEST_P(JsonSyntax, SaysWhereWhatAndWhatElse) {
  EXPECT_EQ(complaints(GetParam().text), "m.json: " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Truncated, JsonSyntax,
    testing::Values(
        Broken{" \n", "line 2, column 1: the file ends here; expected a value. [json-truncated]"},
        Broken{"[",
               "line 1, column 2: the file ends here; expected a value or \"]\". "
               "[json-truncated]"},
        Broken{"[1",
               "line 1, column 3: the file ends here; expected \",\" or \"]\". "
               "[json-truncated]"},
        Broken{"[1,", "line 1, column 4: the file ends here; expected a value. [json-truncated]"},
        Broken{"{",
               "line 1, column 2: the file ends here; expected a key in double quotes or "
               "\"}\". [json-truncated]"},
        Broken{"{\"a\"", "line 1, column 5: the file ends here; expected \":\". [json-truncated]"},
        Broken{"{\"a\":",
               "line 1, column 6: the file ends here; expected a value. "
               "[json-truncated]"},
        Broken{"{\"a\": {\n  \"b\": 1",
               "line 2, column 9: the file ends here; expected \",\" or "
               "\"}\". [json-truncated]"},
        Broken{"{\"a\": 1,",
               "line 1, column 9: the file ends here; expected a key in double "
               "quotes. [json-truncated]"},
        Broken{"{\"a\": \"b",
               "line 1, column 9: the file ends inside a string; expected its "
               "closing quote. [json-truncated]"},
        Broken{"{\"a",
               "line 1, column 4: the file ends inside a string; expected its closing "
               "quote. [json-truncated]"},
        Broken{"[-",
               "line 1, column 3: the file ends inside a number; expected a digit. "
               "[json-truncated]"},
        Broken{"[1e",
               "line 1, column 4: the file ends inside a number; expected a digit. "
               "[json-truncated]"},
        Broken{"[01", "line 1, column 3: unexpected \"1\"; expected \",\" or \"]\". [json-syntax]"},
        Broken{"[tru",
               "line 1, column 5: the file ends inside \"tru\"; expected a value or \"]\". "
               "[json-truncated]"}));

INSTANTIATE_TEST_SUITE_P(
    Unexpected, JsonSyntax,
    testing::Values(
        Broken{"{\"a\": 1,\n}",
               "line 2, column 1: unexpected \"}\"; expected a key in double "
               "quotes. Remove the comma before it. [json-syntax]"},
        Broken{"[1, 2, ]",
               "line 1, column 8: unexpected \"]\"; expected a value. Remove the comma "
               "before it. [json-syntax]"},
        Broken{"[1 2]",
               "line 1, column 4: unexpected \"2\"; expected \",\" or \"]\". "
               "[json-syntax]"},
        Broken{"[1,,2]", "line 1, column 4: unexpected \",\"; expected a value. [json-syntax]"},
        Broken{"{\"a\" 1}", "line 1, column 6: unexpected \"1\"; expected \":\". [json-syntax]"},
        Broken{"{\"a\": 1 \"b\": 2}",
               "line 1, column 9: unexpected \"b\"; expected \",\" or "
               "\"}\". [json-syntax]"},
        Broken{"{a: 1}",
               "line 1, column 2: unexpected \"a\"; expected a key in double quotes or "
               "\"}\". [json-syntax]"},
        Broken{"{'a': 1}",
               "line 1, column 2: unexpected \"'\"; expected a key in double quotes or "
               "\"}\". JSON strings take double quotes. [json-syntax]"},
        Broken{"{1: 1}",
               "line 1, column 2: unexpected \"1\"; expected a key in double quotes or "
               "\"}\". [json-syntax]"},
        Broken{"{\"a\": 1]",
               "line 1, column 8: unexpected \"]\"; expected \",\" or \"}\". "
               "[json-syntax]"},
        Broken{"{} x",
               "line 1, column 4: unexpected \"x\"; expected the end of the file. "
               "[json-syntax]"},
        Broken{"[1] // done",
               "line 1, column 5: unexpected \"/\"; expected the end of the file. "
               "JSON has no comments; use a \"comment\" key. [json-syntax]"},
        Broken{"[# no",
               "line 1, column 2: unexpected \"#\"; expected a value or \"]\". JSON has "
               "no comments; use a \"comment\" key. [json-syntax]"},
        Broken{"[1, True]",
               "line 1, column 5: unexpected \"True\"; expected a value. JSON writes "
               "true. [json-syntax]"},
        Broken{"[1, trueish]",
               "line 1, column 9: unexpected \"ish\"; expected \",\" or \"]\". "
               "[json-syntax]"},
        Broken{"[1, trux]",
               "line 1, column 5: unexpected \"trux\"; expected a value. "
               "[json-syntax]"},
        Broken{"[1x]",
               "line 1, column 3: unexpected \"x\"; expected \",\" or \"]\". "
               "[json-syntax]"},
        Broken{"[012]",
               "line 1, column 3: unexpected \"12\"; expected \",\" or \"]\". "
               "[json-syntax]"},
        Broken{"[+1]",
               "line 1, column 2: unexpected \"+1\"; expected a value or \"]\". "
               "[json-syntax]"},
        Broken{"[\"\xC3\xA9\", \xC3\xA9]",
               "line 1, column 7: unexpected \"\xC3\xA9\"; expected a "
               "value. [json-syntax]"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, JsonSyntax,
    testing::Values(
        Broken{"[NaN]",
               "line 1, column 2: unexpected \"NaN\"; expected a value or \"]\". JSON has "
               "no NaN. [json-syntax]"},
        Broken{"[1, nan]",
               "line 1, column 5: unexpected \"nan\"; expected a value. JSON has no "
               "NaN. [json-syntax]"},
        Broken{"[-Infinity]",
               "line 1, column 2: \"-Infinity\" is not a number; expected digits. "
               "JSON has no infinity. [json-syntax]"},
        Broken{"{\"a\": 1.}",
               "line 1, column 7: \"1.\" is not a number; expected digits. "
               "[json-syntax]"},
        Broken{"[1,\n 1e999]",
               "line 2, column 2: the number 1e999 is too large; expected at most "
               "1.8e308. [number-too-large]"}));

INSTANTIATE_TEST_SUITE_P(
    Strings, JsonSyntax,
    testing::Values(
        Broken{"[\"a\nb\"]",
               "line 1, column 2: a string that does not end on its line; expected "
               "its closing quote. Write a line break as \\n. [json-syntax]"},
        Broken{"[\"a\tb\"]",
               "line 1, column 4: the control character 0x09 in a string; expected "
               "it written as \\u0009. [json-syntax]"},
        Broken{"[\"a\xFF\"]",
               "line 1, column 4: a byte that is not UTF-8; expected UTF-8 text. [invalid-utf8]"},
        Broken{"[\"\xE2\x82",
               "line 1, column 4: the file ends inside a string; expected its closing quote. "
               "[json-truncated]"},
        Broken{"[\"a\\q\"]",
               "line 1, column 4: the escape \\q in a string; expected one of \\\" "
               "\\\\ \\/ \\b \\f \\n \\r \\t, or \\u with four hexadecimal digits. A "
               "backslash itself is written \\\\. [json-syntax]"},
        Broken{"[\"\\u12x4\"]",
               "line 1, column 3: the escape \\u12x in a string; expected one of "
               "\\\" \\\\ \\/ \\b \\f \\n \\r \\t, or \\u with four hexadecimal "
               "digits. A backslash itself is written \\\\. [json-syntax]"},
        Broken{"[\"\\ud800\"]",
               "line 1, column 3: the escape \\ud800 in a string; expected one of "
               "\\\" \\\\ \\/ \\b \\f \\n \\r \\t, or \\u with four hexadecimal "
               "digits. A backslash itself is written \\\\. [json-syntax]"}));

INSTANTIATE_TEST_SUITE_P(NulBytes, JsonSyntax,
                         testing::Values(Broken{std::string("[1, \0]", 6),
                                                "line 1, column 5: unexpected \"\\u0000\"; "
                                                "expected a value. [json-syntax]"},
                                         Broken{std::string("{}\0{}", 5),
                                                "line 1, column 3: unexpected \"\\u0000\"; "
                                                "expected the end of the file. [json-syntax]"},
                                         Broken{std::string("{}\0", 3),
                                                "line 1, column 3: unexpected \"\\u0000\"; "
                                                "expected the end of the file. [json-syntax]"},
                                         Broken{std::string("\0", 1),
                                                "line 1, column 1: unexpected \"\\u0000\"; "
                                                "expected a value. [json-syntax]"}));

TEST(JsonLimits, DepthIsRefusedHoweverDeep) {
  for (const size_t depth : {201, 10'000, 1'000'000})
    EXPECT_EQ(complaints(std::string(depth, '[') + std::string(depth, ']')),
              "m.json: line 1, column 201: arrays and objects nested too deeply; expected at most "
              "200 levels. [nested-too-deep]");
  EXPECT_EQ(complaints(std::string(200, '[') + std::string(200, ']')), "");
}

TEST(JsonLimits, ObjectsCountAsLevelsToo) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "{\"a\":\n";
  EXPECT_EQ(complaints(text),
            "m.json: line 201, column 1: arrays and objects nested too deeply; expected at most "
            "200 levels. [nested-too-deep]");
}

TEST(JsonLimits, ValuesAreCounted) {
  EXPECT_EQ(complaints("[1, 2]", {200, 3}), "");
  EXPECT_EQ(complaints("[1, 2, {}]", {200, 3}),
            "m.json: line 1, column 8: too many values; expected at most 3 in one file. "
            "[too-many-values]");
}

TEST(JsonDuplicates, EveryOneIsReportedWithBothLines) {
  EXPECT_EQ(complaints("{\"a\": 1,\n \"b\": {\"c/d\": 1,\n\n \"c/d\": 2},\n \"a\": 3}"),
            "m.json: /b/c~1d: key \"c/d\" stands on line 2 and again on line 4; expected it once. "
            "Rename or remove one. [duplicate-key]\n"
            "m.json: /a: key \"a\" stands on line 1 and again on line 5; expected it once. "
            "Rename or remove one. [duplicate-key]");
}

TEST(JsonDuplicates, EqualKeysOfDifferentObjectsAreFine) {
  EXPECT_EQ(complaints("[{\"a\": {\"a\": 1}}, {\"a\": 2}]"), "");
}

TEST(JsonDocument, KeepsTheOrderOfTheFile) {
  const JsonDocument document = parsed("{\"b\": [1, [2], 3], \"a\": null}");
  const auto members = document.children(0);
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(document.node(members[0]).key, "b");
  EXPECT_EQ(document.node(members[1]).key, "a");
  const auto elements = document.children(members[0]);
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_EQ(document.pointer(elements[2]), "/b/2");
  EXPECT_EQ(document.pointer(document.children(elements[1])[0]), "/b/1/0");
  EXPECT_EQ(document.find(0, "a"), members[1]);
  EXPECT_EQ(document.find(0, "c"), std::nullopt);
}

TEST(JsonDocument, PointersAreEscaped) {
  EXPECT_EQ(escape_pointer_token("a/b~c"), "a~1b~0c");
  const JsonDocument document = parsed("{\"a/b\": {\"\": {\"~1\": 0}}}");
  EXPECT_EQ(document.pointer(3), "/a~1b//~01");
  EXPECT_EQ(document.pointer(0), "");
}

TEST(JsonDocument, ExcerptIsJsonAndShort) {
  EXPECT_EQ(parsed("{\"a\": [1, 2.50, null], \"b\": {}}").excerpt(0),
            "{\"a\": [1, 2.50, null], \"b\": {}}");
  EXPECT_EQ(parsed("[100, 200, 300]").excerpt(0, 10), "[100, 200,...");
  EXPECT_EQ(parsed("\"" + std::string(500, 'x') + "\"").excerpt(0, 5), "\"xxxx...");
  EXPECT_EQ(parsed("\"a\xC3\xA9\xC3\xA9\"").excerpt(0, 3), "\"a...");
}

}  // namespace
}  // namespace s2t

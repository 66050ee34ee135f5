// schemas/model.schema.json and the reader describe one format.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "analyzer/base/dtype.h"
#include "analyzer/io/input_file.h"
#include "analyzer/ops/op.h"
#include "tests/analyzer/io/edited_model.h"

namespace s2t {
namespace {

class ModelSchema : public testing::Test {
 protected:
  static const JsonDocument& schema() {
    static Diagnostics sink;
    static const JsonDocument document =
        parse_json(read_input(S2T_SOURCE_DIR "/schemas/model.schema.json", sink).value(), sink)
            .value();
    return document;
  }

  // The value at a JSON pointer without escapes; fails the test if there is none.
  static uint32_t at(const std::string& pointer) {
    uint32_t node = 0;
    for (size_t begin = 1; begin < pointer.size();) {
      const size_t end = std::min(pointer.find('/', begin), pointer.size());
      const auto child = schema().find(node, pointer.substr(begin, end - begin));
      EXPECT_TRUE(child) << pointer;
      if (!child) return 0;
      node = *child;
      begin = end + 1;
    }
    return node;
  }

  static std::vector<std::string> keys(const std::string& pointer) {
    std::vector<std::string> all;
    for (const uint32_t id : schema().children(at(pointer))) all.push_back(schema().node(id).key);
    return all;
  }

  static std::vector<std::string> words(const std::string& pointer) {
    std::vector<std::string> all;
    for (const uint32_t id : schema().children(at(pointer))) all.push_back(schema().node(id).text);
    return all;
  }
};

TEST_F(ModelSchema, NamesTheOpsOfTheTableInItsOrder) {
  EXPECT_EQ(words("/definitions/op/properties/op/enum"), op_names());
}

TEST_F(ModelSchema, NamesTheElementTypes) {
  std::vector<std::string> expected;
  for (const DTypeInfo& row : dtypes()) {
    expected.emplace_back(row.brief);
    if (row.brief != row.name) expected.emplace_back(row.name);
  }
  std::vector<std::string> named = words("/definitions/dtype/enum");
  std::sort(expected.begin(), expected.end());
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named, expected);
}

TEST_F(ModelSchema, HasEveryAttributeOfEveryOpAndNoOther) {
  std::set<std::string> expected{"op",      "name",  "inputs", "output",
                                 "outputs", "stage", "module", "modes"};
  for (const OpDef& def : op_table())
    for (const AttributeDef& attribute : def.attributes) expected.emplace(attribute.name);
  const std::vector<std::string> named = keys("/definitions/op/properties");
  EXPECT_EQ(std::set<std::string>(named.begin(), named.end()), expected);
}

// One object of the format: where its keys stand in the schema, and a model with a hole in it.
struct Section {
  std::string schema;
  std::string before, after;  // text around the object's keys
};

const std::string kHead = R"json({"schema": "shape2trace.model/1", )json";

const Section kSections[] = {
    {"/properties", "{", "}"},
    {"/definitions/mesh/properties", kHead + "\"mesh\": {", "}}"},
    {"/definitions/axis/properties", kHead + "\"mesh\": {\"axes\": [{", "}]}}"},
    {"/definitions/batch/properties", kHead + "\"batch\": {", "}}"},
    {"/definitions/tensor/properties", kHead + "\"tensors\": {\"t\": {", "}}}"},
    {"/definitions/pipeline/properties", kHead + "\"pipeline\": {", "}}"},
    {"/definitions/gradient_sync/properties", kHead + "\"gradient_sync\": {", "}}"},
    {"/definitions/routing/properties", kHead + "\"routing\": {\"r\": {", "}}}"},
    {"/definitions/switches/properties", kHead + "\"switches\": {", "}}"},
};

// How many keys the message about unknown key "zzz" expects: eight by name, "and 7 more".
size_t keys_asked_for(const std::string& text) {
  const std::string message = complaints(text);
  const std::regex line(
      R"re(unknown key "zzz"; expected one of ([^\n]*?)(?: and (\d+) more)?\.)re");
  std::smatch found;
  if (!std::regex_search(message, found, line)) return 0;
  const std::string named = found[1];
  const auto commas = std::count(named.begin(), named.end(), ',');
  return static_cast<size_t>(commas) + 1 + (found[2].matched ? std::stoul(found[2]) : 0);
}

TEST_F(ModelSchema, HasExactlyTheKeysThatAreRead) {
  for (const Section& section : kSections) {
    const std::vector<std::string> known = keys(section.schema);
    ASSERT_FALSE(known.empty()) << section.schema;
    for (const std::string& key : known)
      EXPECT_EQ(complaints(section.before + "\"" + key + "\": 1.5" + section.after)
                    .find("unknown key \"" + key + "\""),
                std::string::npos)
          << section.schema << "/" << key;
    EXPECT_EQ(keys_asked_for(section.before + "\"zzz\": 1" + section.after), known.size())
        << section.schema;
  }
}

}  // namespace
}  // namespace s2t

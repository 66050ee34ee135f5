// The op table read as a reader would: every word in a row must mean something.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "analyzer/ops/op.h"

namespace s2t {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::string spaced(text);
  for (char& c : spaced)
    if (c == '{' || c == '}' || c == ',') c = ' ';
  for (size_t i; (i = spaced.find("<-")) != std::string::npos;) spaced.replace(i, 2, "  ");
  std::istringstream in(spaced);
  return {std::istream_iterator<std::string>(in), {}};
}

std::set<std::string> operands_of(const OpDef& def) {
  std::string error;
  std::set<std::string> names;
  if (const auto rule = rule_of(def, "x[a] -> y[a]", 2, error))
    for (const TensorPattern& t : rule->operands) names.insert(t.name);
  return names;
}

TEST(OpTable, NamesAreUnique) {
  std::set<std::string> names;
  for (const std::string& name : op_names()) EXPECT_TRUE(names.insert(name).second) << name;
}

TEST(OpTable, EveryRowHasAFamilyAndASummary) {
  for (const OpDef& def : op_table()) {
    EXPECT_FALSE(def.family.empty()) << def.name;
    EXPECT_FALSE(def.summary.empty()) << def.name;
  }
}

TEST(OpTable, EveryNameInARowIsAnOperandOfItsRule) {
  for (const OpDef& def : op_table()) {
    const auto operands = operands_of(def);
    for (const std::string_view text : {def.linear, def.saved, def.stop, def.integers})
      for (const std::string& word : words(text))
        EXPECT_TRUE(operands.count(word) || word == "each" || word == "all" || word == "others")
            << def.name << ": " << word;
  }
}

TEST(OpTable, ARowWithoutARuleTakesOneFromTheModelOrTheOperands) {
  for (const OpDef& def : op_table()) {
    if (!def.rule.empty() || def.name == "concat") continue;
    bool stated = false;
    for (const AttributeDef& a : def.attributes) stated |= a.name == "rule" && a.required;
    EXPECT_TRUE(stated) << def.name;
  }
}

TEST(OpTable, StepsOfACompositeUseRowsAndEarlierResultsOnly) {
  for (const OpDef& def : op_table()) {
    auto known = operands_of(def);
    for (const CompositeStep& step : def.steps) {
      const OpDef* row = find_op(step.op);
      ASSERT_TRUE(row) << def.name << ": " << step.op;
      EXPECT_TRUE(row->steps.empty()) << def.name << ": " << step.op;
      EXPECT_EQ(words(step.inputs).size(), operands_of(*row).size()) << def.name << ": " << step.op;
      for (const std::string& input : words(step.inputs))
        EXPECT_TRUE(known.count(input)) << def.name << ": " << step.op << " reads " << input;
      known.insert(std::string(step.output));
    }
  }
}

// A combiner other than sum carries no gradient and feeds only operands marked stop.
TEST(OpTable, AResultCombinedByMaximumIsStopped) {
  for (const OpDef& def : op_table()) {
    std::string error;
    const auto rule = parse_rule(def.rule, error);
    if (rule && !rule->combiners.empty()) {
      EXPECT_EQ(def.stop, "all") << def.name;
    }
  }
}

TEST(OpTable, SavedForListsOperandsByIndex) {
  const OpDef& def = *find_op("layer_norm");
  std::string error;
  const FactorRule rule = *parse_rule(def.rule, error);
  EXPECT_EQ(saved_for(def, rule, 0), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(saved_for(def, rule, 1), (std::vector<size_t>{0}));
  EXPECT_TRUE(saved_for(def, rule, 2).empty());
}

}  // namespace
}  // namespace s2t

// What reports print, byte for byte. S2T_WRITE_GOLDEN=1 in the environment writes the files anew;
// read the difference before you commit it.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "analyzer/report/report.h"
#include "tests/analyzer/program/sample_programs.h"

namespace s2t {
namespace {

struct Golden {
  std::string name;
  Program program;
  ReportOptions options;

  std::string command() const { return name.substr(0, name.find('_')); }
  std::string format() const { return name.substr(name.rfind('.') + 1); }
};
std::ostream& operator<<(std::ostream& out, const Golden& g) {
  return out << g.name;
}

ReportOptions of_rank(int rank) {
  ReportOptions o;
  o.rank = Rank(rank);
  return o;
}
ReportOptions of_event(const std::string& event) {
  ReportOptions o;
  o.words = {event};
  return o;
}
ReportOptions summary() {
  ReportOptions o;
  o.summary = true;
  return o;
}

std::vector<Golden> cases() {
  std::vector<Golden> list;
  for (const std::string format : {"text", "json", "csv"}) {
    list.push_back({"predict_tensor." + format, tensor_parallel_program(), {}});
    list.push_back({"predict_pipeline." + format, pipeline_program(), {}});
    list.push_back({"predict_expert." + format, expert_program(), {}});
    list.push_back({"predict_pipeline_rank2." + format, pipeline_program(), of_rank(2)});
    list.push_back({"predict_pipeline128_summary." + format, pipeline_program(128, 8), summary()});
  }
  for (const std::string format : {"text", "json"}) {
    list.push_back({"predict_pipeline128." + format, pipeline_program(128, 8), {}});
    list.push_back({"groups_tensor." + format, tensor_parallel_program(), {}});
    list.push_back({"groups_pipeline128." + format, pipeline_program(128), {}});
    list.push_back({"explain_tensor_0." + format, tensor_parallel_program(), of_event("0")});
    list.push_back({"explain_tensor_p0." + format, tensor_parallel_program(), of_event("p0")});
    list.push_back({"explain_expert_1." + format, expert_program(), of_event("1")});
    list.push_back({"explain_pipeline_3." + format, pipeline_program(), of_event("3")});
  }
  return list;
}

std::string printed(const Golden& g) {
  std::ostringstream out;
  find_report(g.command(), g.format()).write(g.program, g.options, out);
  return out.str();
}

class GoldenReport : public testing::TestWithParam<Golden> {};

TEST_P(GoldenReport, PrintsTheSameBytes) {
  const std::string path =
      std::string(S2T_SOURCE_DIR) + "/tests/analyzer/report/golden/" + GetParam().name;
  const std::string text = printed(GetParam());
  if (std::getenv("S2T_WRITE_GOLDEN")) std::ofstream(path, std::ios::binary) << text;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream expected;
  expected << file.rdbuf();
  ASSERT_TRUE(file.good()) << path;
  EXPECT_EQ(text, expected.str());
}

TEST_P(GoldenReport, TextFitsAHundredColumns) {
  if (GetParam().format() != "text") return;
  std::istringstream lines(printed(GetParam()));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenReport, testing::ValuesIn(cases()), [](const auto& param) {
  std::string name = param.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace s2t

#include "analyzer/io/launch_file.h"

#include <gmock/gmock.h>

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<std::pair<std::string, std::string>> flags(const std::string& text) {
  Diagnostics sink("train.sh");
  std::vector<std::pair<std::string, std::string>> list;
  for (const LaunchFlag& flag : read_launch(text, sink).flags)
    list.emplace_back(flag.name.substr(2), flag.value);
  sink.throw_if_any();
  return list;
}

TEST(LaunchFile, IsAListOfFlags) {
  EXPECT_THAT(flags("--tp-size 8 --bf16 --seq-length=4096"),
              ElementsAre(Pair("tp-size", "8"), Pair("bf16", ""), Pair("seq-length", "4096")));
  EXPECT_THAT(flags("python train.py -x 1 -- --"), IsEmpty());
  EXPECT_THAT(flags(""), IsEmpty());
}

TEST(LaunchFile, TakesQuotesArraysAndContinuedLinesApart) {
  EXPECT_THAT(
      flags("A=( --one 1\n --two \"2\" )\nB=\" \\\n  --three '3' \\\n \"\nrun ${A[@]} $B\n"),
      ElementsAre(Pair("one", "1"), Pair("two", "2"), Pair("three", "3")));
}

TEST(LaunchFile, LeavesOutComments) {
  EXPECT_THAT(flags("# --no 1\n--yes 2 # --nor 3\n--colour a#b\n"),
              ElementsAre(Pair("yes", "2"), Pair("colour", "a#b")));
}

TEST(LaunchFile, FillsInVariablesThatItSets) {
  EXPECT_THAT(flags("GPUS=8\nNODES=${2:-\"4\"}\nWORLD=$(($GPUS*${NODES}))\n--a $GPUS --b ${NODES} "
                    "--c $WORLD --d ${NONE:-5} --e x$GPUS"),
              ElementsAre(Pair("a", "8"), Pair("b", "4"), Pair("c", "32"), Pair("d", "5"),
                          Pair("e", "x8")));
}

TEST(LaunchFile, LeavesWhatOnlyAShellKnows) {
  const auto list =
      flags("A=$B\nB=$A\n--nnodes $SLURM_NNODES --n $(nproc) --loop $A --sum $((1+x))");
  EXPECT_THAT(list, ElementsAre(Pair("nnodes", "$SLURM_NNODES"), Pair("n", "$(nproc)"),
                                Pair("loop", testing::HasSubstr("$")), Pair("sum", "$((1+x))")));
  for (const auto& [name, value] : list) EXPECT_TRUE((LaunchFlag{name, value, ""}.open())) << name;
}

TEST(LaunchFile, MayBeAnObjectOfFlags) {
  const std::string text = R"({"source": "x", "shell_vars": {"GPUS": "8"},
      "args": {"bf16": true, "fp16": false, "lr": null, "seq-length": 4096, "world": "$GPUS"}})";
  EXPECT_THAT(flags(text),
              ElementsAre(Pair("bf16", ""), Pair("seq-length", "4096"), Pair("world", "8")));
  EXPECT_THAT(flags(R"({"--seq-length": "16"})"), ElementsAre(Pair("seq-length", "16")));
}

TEST(LaunchFile, SaysWhereAFlagStands) {
  Diagnostics sink("train.sh");
  EXPECT_EQ(read_launch("\n\n--a 1", sink).flags.at(0).where, "line 3");
  EXPECT_EQ(read_launch(R"({"args": {"a": 1}})", sink).flags.at(0).where, "/args/a");
  EXPECT_TRUE(read_launch("{\"args\": ", sink).flags.empty());
  EXPECT_TRUE(sink.any());
}

TEST(LaunchFile, EndsOnEveryBrokenScript) {
  const std::string script = "A=${B:-\"$((2*3)\"\n--x \"$A --y ${A --z $((1*\n) --w '";
  for (size_t n = 0; n <= script.size(); ++n) flags(script.substr(0, n));
}

}  // namespace
}  // namespace s2t

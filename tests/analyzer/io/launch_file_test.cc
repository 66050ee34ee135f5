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
  EXPECT_THAT(flags("A=( --one 1\n --two \"2\" )\nB=\" \\\n  --three 3 \\\n \"\nrun ${A[@]} $B\n"),
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
  for (const auto& [name, value] : list) EXPECT_NE(value.find('$'), std::string::npos) << name;
}

TEST(LaunchFile, TakesDefaultsOfEverySpelling) {
  EXPECT_THAT(flags("export A=4\nEMPTY=\n: ${SET:=3}\n--a ${A-5} --b ${B-5} --c ${B:=${A}} "
                    "--d ${EMPTY:-6} --e ${EMPTY-6}x --f ${A:+7} --g ${Z:+7}x --h=\"${A}\""),
              ElementsAre(Pair("a", "4"), Pair("b", "5"), Pair("c", "4"), Pair("d", "6"),
                          Pair("e", "x"), Pair("f", "7"), Pair("g", "x"), Pair("h", "4")));
}

TEST(LaunchFile, SetsWhatItGivesADefaultTo) {
  EXPECT_THAT(
      flags("B=9\n: \"${A:=4}\" ${B:=5} ${C=$A}\n--a $A --b $B --c $C --d ${D:=${E:=7}} --e $E"),
      ElementsAre(Pair("a", "4"), Pair("b", "9"), Pair("c", "4"), Pair("d", "7"), Pair("e", "7")));
}

TEST(LaunchFile, ComputesWholeNumbers) {
  EXPECT_THAT(
      flags("G=8\nN=2\n--a $((G*N)) --b $(( ($G + 2*N) / 4 )) --c $((G-N)) --d $((2*(G+N)))"),
      ElementsAre(Pair("a", "16"), Pair("b", "3"), Pair("c", "6"), Pair("d", "20")));
  EXPECT_THAT(flags("--a $((1/0)) --b $((9999999999*9999999999)) --c $((x)) --d $((1+))"),
              ElementsAre(Pair("a", "$((1/0))"), Pair("b", "$((9999999999*9999999999))"),
                          Pair("c", "$((x))"), Pair("d", "$((1+))")));
}

TEST(LaunchFile, KnowsAVariableWhereItIsRead) {
  EXPECT_THAT(flags("A=1\n--a $A\nA=2\n--b $A\n"), ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_THAT(flags("run() {\n  go --a $A\n}\nA=3\nrun\n"), ElementsAre(Pair("a", "3")));
  EXPECT_THAT(flags("if [ -z \"$A\" ]; then\n  A=4\nfi\n--a $A"), ElementsAre(Pair("a", "4")));
}

std::string why_open(const std::string& text) {
  Diagnostics sink("train.sh");
  const Launch launch = read_launch(text, sink);
  return launch.flags.at(0).open() ? launch.flags.at(0).why_open : "";
}

TEST(LaunchFile, SaysWhyAValueIsOpen) {
  EXPECT_EQ(why_open("--a $TP"), "TP is set nowhere in the file");
  EXPECT_EQ(why_open("A=${NODES}\n--a $A"), "NODES is set nowhere in the file");
  EXPECT_EQ(why_open("--a $((TP*2))"), "TP is set nowhere in the file");
  EXPECT_EQ(why_open("--a $(nproc)"), "\"$(nproc)\" is known to the shell alone");
  EXPECT_EQ(why_open("A=x\n--a ${A%y}"), "\"${A%y}\" cannot be computed here");
  EXPECT_EQ(why_open("case $1 in\nbig) TP=8 ;;\n*) TP=4 ;;\nesac\n--a $TP"),
            "TP is 8 (line 2) or 4 (line 3)");
  EXPECT_EQ(why_open("[ -n \"$X\" ] && TP=8 || TP=4\n--a $TP"), "TP is 8 (line 1) or 4 (line 1)");
}

TEST(LaunchFile, SaysWhatOnlyTheRunKnows) {
  EXPECT_EQ(why_open("--a $1"), "$1 is given to the script when it runs");
  EXPECT_EQ(why_open("--a ${2}"), "$2 is given to the script when it runs");
  EXPECT_EQ(why_open("for TP in 1 2; do\n  --a $TP\ndone"), "TP is 1 (line 1) or 2 (line 1)");
  EXPECT_EQ(why_open("--a $((1/0))"), "\"$((1/0))\" cannot be computed here");
}

// Each variable is twice the one before: 2^60 letters.
TEST(LaunchFile, DoesNotFollowWhatGrowsBeyondMeasure) {
  std::string script = "A0=xx\n";
  for (int i = 0; i < 60; ++i)
    script +=
        "A" + std::to_string(i + 1) + "=$A" + std::to_string(i) + "$A" + std::to_string(i) + "\n";
  EXPECT_THAT(why_open(script + "--a $A60"), testing::HasSubstr("cannot be computed here"));
  const std::string deep(5000, '(');
  EXPECT_THAT(why_open("--a $((" + deep + "1" + std::string(5000, ')') + "))"),
              testing::HasSubstr("cannot be computed here"));
}

// Each loop is followed three times, each list is copied for each branch.
TEST(LaunchFile, DoesNotFollowWithoutEnd) {
  std::string loops = "run --a 1\n", lists = "A=()\n";
  for (int i = 0; i < 20; ++i) loops = "for x in 1 2; do " + loops + "done\n";
  for (int i = 0; i < 3000; ++i) lists += "if x; then A+=(--a \"$b\"); fi\n";
  std::string branches;
  for (int i = 0; i < 3000; ++i) branches += "if x; then V" + std::to_string(i) + "=1; fi\n";
  for (const std::string& script : {loops, lists, branches}) {
    Diagnostics sink("train.sh");
    read_launch(script, sink);
    ASSERT_EQ(sink.list().size(), 1u);
    EXPECT_THAT(sink.list()[0].found, testing::HasSubstr("than are followed"));
  }
}

TEST(LaunchFile, MayBeYamlOfFlags) {
  EXPECT_THAT(flags("ARGS:\n  --seq-length: 64\n  --bf16: true\n  --fp16: false\n  --name: 'x'\n"),
              ElementsAre(Pair("seq-length", "64"), Pair("bf16", ""), Pair("name", "x")));
}

TEST(LaunchFile, KeepsFurtherWordsOfTheSameCommand) {
  Diagnostics sink("train.sh");
  const auto more = [&](const char* text) { return read_launch(text, sink).flags.at(0).more; };
  EXPECT_THAT(more("A=(\n  --cp-comm-type p2p a2a \\\n p2p\n)\nrun ${A[@]}"),
              ElementsAre("a2a", "p2p"));
  EXPECT_THAT(more("--one 1\nrun"), IsEmpty());
  EXPECT_THAT(more(R"({"args": {"cp-comm-type": ["p2p", "a2a"]}})"), ElementsAre("a2a"));
  EXPECT_FALSE(sink.any());
  read_launch(R"({"args": {"seq-length": {"a": 1}}})", sink);
  EXPECT_TRUE(sink.any());
}

TEST(LaunchFile, MayBeAnObjectOfFlags) {
  const std::string text = R"({"source": "x", "shell_vars": {"GPUS": "8"},
      "args": {"bf16": true, "fp16": false, "lr": null, "seq-length": 4096.0, "sp": "false",
      "world": "$GPUS"}})";
  EXPECT_THAT(flags(text),
              ElementsAre(Pair("bf16", ""), Pair("seq-length", "4096"), Pair("world", "8")));
  EXPECT_THAT(flags(R"({"--seq-length": "16"})"), ElementsAre(Pair("seq-length", "16")));
}

TEST(LaunchFile, MayBeATomlOfTorchtitan) {
  Diagnostics sink("train.toml");
  const Launch launch = read_launch(
      "# a job\n[training]\nseq_len = 8_192  # tokens\ncompile = false\ndataset = 'c4 # x'\n\n"
      "[activation_checkpoint]\nmode = \"full\"\n[float8]\nfilter_fqns = [\"output\",\n  \"x\"]\n"
      "[parallelism]\ndata_parallel_shard_degree = -1\nempty = \"\"\n",
      sink);
  EXPECT_FALSE(sink.any());
  EXPECT_TRUE(launch.settings);
  std::string all;
  for (const LaunchFlag& f : launch.flags)
    all += f.name + "=" + f.value + (f.where.starts_with("line") ? f.where.substr(4) : "!") + "\n";
  EXPECT_EQ(all,
            "--training.seq_len=8_192 3\n--training.dataset=c4 # x 5\n"
            "--activation_checkpoint.mode=full 8\n--float8.filter_fqns=output x 10\n"
            "--parallelism.data_parallel_shard_degree=-1 13\n--training.local_batch_size=8!\n"
            "--activation_checkpoint.selective_ac_option=2!\n");
  read_launch("[a]\nb c\n", sink);
  EXPECT_TRUE(sink.any());
}

TEST(LaunchFile, MayBeTheSettingsOfDeepSpeed) {
  EXPECT_THAT(flags(R"({"train_batch_size": 64, "bf16": {"enabled": true}, "fp16": {"enabled":
      false}, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}})"),
              ElementsAre(Pair("zero-stage", "2"), Pair("global-batch-size", "64"),
                          Pair("bf16", ""), Pair("reduce_bucket_size", "500000000")));
  EXPECT_EQ(why_open(R"({"train_batch_size": "auto"})"), "\"auto\" is left to who launches");
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
  for (size_t n = 0; n <= script.size(); ++n) {
    Diagnostics sink("train.sh");
    read_launch(script.substr(0, n), sink);
    EXPECT_LE(sink.list().size(), 1u);
  }
}

std::string value_of_tp(const std::string& script) {
  Diagnostics sink("train.sh");
  const Launch launch = read_launch(script + "\ntorchrun --tp $TP", sink);
  sink.throw_if_any();
  if (launch.flags.empty()) {
    ADD_FAILURE() << "no launch: " << script;
    return "";
  }
  const LaunchFlag& tp = launch.flags.back();
  return tp.open() ? "$TP: " + tp.why_open : tp.value;
}

TEST(LaunchFile, OnlyAssignmentsOfTheScriptItselfCount) {
  for (const char* other :
       {"TP=1 python preprocess.py", "python convert.py TP=1", "docker run -e TP=1 image",
        "(TP=8; echo hi)", "echo \"usage: TP=8 bash run.sh\"", "cat > x <<EOF\nTP=8\nEOF",
        "cat <<-'END' > x\n\tTP=8\n\tEND", "echo \"TP=$TP, PP=$PP\"", "printf \"TP=%d\" $TP"})
    EXPECT_EQ(value_of_tp(std::string("TP=4\n") + other), "4") << other;
  for (const char* script :
       {"export TP=4 PP=2", "declare -i TP=4", "if x; then TP=4; fi", "M=\"step # 1\"; TP=4",
        "TP=4 && echo", "TP=\nTP+=4", "true; { TP=4; }"})
    EXPECT_EQ(value_of_tp(script), "4") << script;
}

TEST(LaunchFile, ComputesInPlace) {
  for (const char* eight :
       {"(( TP *= 2 ))", "((TP+=4))", "let TP=8", "let X=1 TP=8", "let \"TP = TP * 2\"",
        "((TP = TP > 2 ? 8 : 1))", "TP=7; ((TP++))", "TP=7; ((++TP))", "TP=9; ((TP--))",
        "TP=$((2 ** 3))", "TP=$((1 << 3))", "TP=$(( (TP == 4 && !0) * 8 ))", "TP=$((-2 * -TP))",
        "(( TP > 1 )) && TP=8", "if ((TP < 4)); then TP=1; else TP=8; fi", "X=8; ((TP = X))",
        ": $((TP *= 2))", "TP=2; for i in 1 2; do TP=$((TP * 2)); done"})
    EXPECT_EQ(value_of_tp(std::string("TP=4\n") + eight), "8") << eight;
  for (const char* open : {"unset TP", "(( X = 1, TP = 8 ))", "((TP = $X))", "((TP = X++))",
                           "((TP[0]++))", "((TP |= 8))", "TP=$((TP++))", "let TP=X"})
    EXPECT_THAT(value_of_tp(std::string("TP=4\n") + open), testing::StartsWith("$TP: ")) << open;
  for (const char* asked : {"(( TP > 2 )) && echo large", "(( TP == 2 ))", "((X = TP + 1))",
                            "(( TP == 2 )) && TP=8", "((TP - 4)) && TP=8"})
    EXPECT_EQ(value_of_tp(std::string("TP=4\n") + asked), "4") << asked;
}

TEST(LaunchFile, KnowsAllThatChangesAVariable) {
  for (const char* changed :
       {"read TP", "read -r A TP <<< 8", "printf -v TP %d 8", "mapfile -t TP", "getopts t: TP",
        "for ((TP = 1; TP < 4; TP++)); do :; done", "eval \"$1\"; TP=$1", "TP[0]=8",
        "readonly TP; TP=8", "readonly TP; TP=8; TP=4", "while read TP; do :; done < file",
        "for TP in $LIST; do :; done", "f() { TP=$1; }; f $X", "IFS=4"})
    EXPECT_THAT(value_of_tp(std::string("TP=4\n") + changed), testing::StartsWith("$TP: "))
        << changed;
  for (const char* holds :
       {"TP=8 > log", "! TP=8", "time TP=8", "eval TP=8", "eval \"TP='8'\"", "f() { TP=8; }\nf",
        "f() { TP=$1; }; f 8", "{ TP=8; } 2> /dev/null", "if TP=8; then :; fi",
        "M=\"a # b\n c\" TP=8", "M=\"a \\\" # b\"; TP=8", "M='it # is\n # so'; TP=8",
        "set -- 8; TP=$1", "export TP=8; bash -c 'TP=16'"})
    EXPECT_EQ(value_of_tp(std::string("TP=4\n") + holds), "8") << holds;
}

TEST(LaunchFile, WhatIsSetElsewhereDoesNotReachTheLaunch) {
  for (const char* lost :
       {"M=\"a\nTP=8\nb\"", "M=(a\nTP=8\n)", "f() { TP=8; }", "f() { local TP=8; }; f", "M=`TP=8`",
        "M=$(TP=8; echo)", "TP=8 | cat", "TP=8 &", "( TP=8 )", "cat <<'E'\nTP=8 don't\nE",
        "while read x; do TP=8; done < a | cat", "false && { TP=8; exit; }", "bash -c 'TP=8'",
        "function f { TP=8; }", "if x; then TP=8; exit 1; fi"})
    EXPECT_EQ(value_of_tp(std::string("TP=4\n") + lost), "4") << lost;
}

TEST(LaunchFile, FlagsAreThoseOfCommandsThatAreExecuted) {
  EXPECT_THAT(flags("usage() { echo --no 1; }\nold() { run --no 1; }\necho \"--no 1\"\nA=--no\n"
                    "case $1 in --no) shift ;; esac\n[ x = --no ]\nrun --yes 1\nexit\nrun --no 1"),
              ElementsAre(Pair("yes", "1")));
  EXPECT_THAT(flags("A=\"--a 1 --b 2\"\nB=(--c \"3 4\")\nrun $A \"${B[@]}\" --d | tee log"),
              ElementsAre(Pair("a", "1"), Pair("b", "2"), Pair("c", "3 4"), Pair("d", "")));
  EXPECT_THAT(flags("export A='--a 1' N=2\nsrun bash -c '$RUN --b $N $A'"),
              ElementsAre(Pair("b", "2"), Pair("a", "1")));
  EXPECT_THAT(flags("go() { run --a $1 \"${@:2}\"; }\ngo 7 --b"),
              ElementsAre(Pair("a", "7"), Pair("b", "")));
  EXPECT_THAT(flags("sbatch <<E\nrun --a 1\nE"), ElementsAre(Pair("a", "1")));
}

TEST(LaunchFile, NamesWordsThatMayBeFlags) {
  Diagnostics sink("train.sh");
  const auto unknown = [&](const char* text) {
    std::string all;
    for (const LaunchUnknown& u : read_launch(text, sink).unknown)
      all += u.text + (u.known_in_part ? "!" : "") + u.behind + " ";
    return all;
  };
  EXPECT_EQ(unknown("run --a 1 $MORE \"$@\" --b $N"), "$MORE $@ $N--b ");
  EXPECT_EQ(unknown("case $1 in a) M=x ;; *) M='y --a' ;; esac\nrun $M"), "$M! ");
  EXPECT_EQ(unknown("M=--a\nrun $M \"$X\""), "");
}

// What the launch is given, in one line: "--a 1", and "?$A" for what may be flags.
std::string launched(const std::string& script) {
  Diagnostics sink("train.sh");
  const Launch launch = read_launch(script, sink);
  sink.throw_if_any();
  std::string all;
  for (const LaunchFlag& f : launch.flags)
    all += f.name + (f.value.empty() ? "" : " " + f.value) + (f.conditional ? "? " : " ");
  for (const LaunchUnknown& u : launch.unknown) all += "?" + u.text + " ";
  return all;
}

TEST(LaunchFile, TakesPartsOfLists) {
  const auto rest = [](const std::string& how) {
    return launched("go() { " + how + "; }\nA=(x --a 1 --b)\ngo x --a 1 --b");
  };
  for (const char* how :
       {"shift 1; run \"$@\"", "shift; run \"$@\"", "run \"${@:2}\"", "run \"${A[@]:1}\"",
        "run ${A[@]: 1:3}", "run \"${A[@]:-}\"", "run \"${A[@]+\"${A[@]}\"}\"",
        "run \"${A[@]:+${A[@]}}\"", "N=1; shift $N; run \"$@\""})
    EXPECT_EQ(rest(how), "--a 1 --b ") << how;
  EXPECT_EQ(rest("shift 9; run \"$@\""), "--a 1 --b ");
  EXPECT_EQ(rest("shift 3; run \"$@\" --n $# --m ${#A[@]}"), "--b --n 1 --m 4 ");
  EXPECT_EQ(rest("run \"${A[@]:1:2}\""), "--a 1 ");
  EXPECT_EQ(rest("B=(); run \"${B[@]+\"${B[@]}\"}\" ${B[@]:---c}"), "--c ");
}

TEST(LaunchFile, NamesPartsOfListsThatItDoesNotKnow) {
  const auto rest = [](const std::string& how) {
    return launched("go() { " + how + "; }\nA=(x --a 1)\ngo x --a 1");
  };
  EXPECT_EQ(rest("shift $N; run \"$@\""), "?$@ ");
  EXPECT_EQ(rest("run \"${A[@]/a/b}\""), "?${A[@]/a/b} ");
  EXPECT_EQ(rest("n=A[@]; run \"${!n}\""), "?${!n} ");
  EXPECT_EQ(rest("run \"${A[@]:$N}\""), "?${A[@]:$N} ");
  EXPECT_EQ(rest("set -- $M b; run \"${1}\" --n $#"), "--n $# ?$# ");
}

TEST(LaunchFile, SetsElementsOfLists) {
  EXPECT_EQ(launched("A=()\nA[0]=--a\nA[${#A[@]}]=--b\nA[0]=--c\nrun \"${A[@]}\""), "--c --b ");
  for (const char* how :
       {"A=([0]=--a)", "A[7]=--a", "A[$N]=--a", "mapfile -t A < x", "readarray A < x",
        "read -ra A <<< --a", "A=(--b); unset 'A[0]'", "f() { local -n r=A; r+=(--a); }; f",
        "f() { declare -n r=$1; r+=(--a); }; f A", "source x.sh"})
    EXPECT_EQ(launched(std::string("A=()\n") + how + "\nrun \"${A[@]}\""), "?$A ") << how;
  EXPECT_EQ(launched("mapfile A < x\nA+=(--b)\nrun \"${A[@]}\""), "--b ?$A ");
}

TEST(LaunchFile, GivesAProgramItsVariables) {
  for (const char* how : {"env TP=4 bash -c", "srun env TP=4 bash -c", "TP=4 bash -c",
                          "env -u TP bash -c", "mpirun -x TP=4 bash -c", "env -i bash -c"})
    EXPECT_EQ(launched(std::string("export TP=2\n") + how + " 'run --tp ${TP:-4}'"), "--tp 4 ")
        << how;
  EXPECT_EQ(launched("export TP=2\nsrun echo TP=4 | bash -c 'run --tp $TP'"), "--tp 2 ");
}

TEST(LaunchFile, TakesTheBranchThatTheScriptItselfChooses) {
  const auto taken = [](const std::string& how) {
    return launched("N=2 S=8b E=\"\"\nA=()\n" + how + "\ntorchrun x.py \"${A[@]}\"");
  };
  for (const char* yes :
       {"[ $N = 2 ]", "[ \"$N\" == 2 ]", "test $N -eq 2", "[ $N -gt 1 ]", "[[ $N -ge 2 ]]",
        "[[ $S == 8* ]]", "[[ $S != \"8*\" ]]", "[ -z \"$E\" ]", "[ -n \"$S\" ]", "! [ $N -lt 2 ]",
        "[[ ! $N == 3 && ( $S == 8b || -f x ) ]]", "[ $N = 2 -a -n \"$S\" ]", "true", "! false",
        "[ \"${M:-1}\" = 1 ]", "[ $N = 1 ] || [ $N = 2 ]", "{ [ $N = 2 ]; }", "[ $N ]"}) {
    EXPECT_EQ(taken(std::string("if ") + yes + "; then A+=(--a); else A+=(--b); fi"), "--a ")
        << yes;
    EXPECT_EQ(taken(std::string(yes) + " && A+=(--a)"), "--a ") << yes;
    EXPECT_EQ(taken(std::string(yes) + " || A+=(--a)"), "") << yes;
  }
  for (const char* open : {"[ -f x ]", "[ \"$X\" = 2 ]", "[ -z \"${X:-}\" ]", "[ $N = 2 -a -d x ]",
                           "[[ $S =~ ^8 ]]", "[ $X -gt 1 ]", "grep x", "[[ $N -eq two ]]",
                           "[ -n \"${X+y}\" ]", "[[ $S == \"8\"* ]]", "[ $N = 3 ] || grep x"})
    EXPECT_EQ(taken(std::string("if ") + open + "; then A+=(--a); else A+=(--b); fi"), "--a? --b? ")
        << open;
  EXPECT_EQ(taken("if [ $N = 1 ]; then A=(--a); elif [ -f x ]; then A=(--b); elif [ $N = 2 ]; then "
                  "A=(--c); else A=(--d); fi"),
            "--b? --c? ");
}

TEST(LaunchFile, TakesTheCaseThatTheScriptItselfChooses) {
  const auto taken = [](const std::string& cases) {
    return launched("S=8b\ncase $S in " + cases + " esac\ntorchrun x.py $A");
  };
  EXPECT_EQ(taken("70b) A=--a ;; 7b | 8b) A=--b ;; *) exit 1 ;;"), "--b ");
  EXPECT_EQ(taken("70b) A=--a ;; 8*) A=--b ;; *) A=--c ;;"), "--b ");
  EXPECT_EQ(taken("70b) A=--a ;; *) A=--c ;;"), "--c ");
  EXPECT_EQ(taken("$X) A=--a ;; 8b) A=--b ;; *) A=--c ;;"), "--a? --b? ");
}

TEST(LaunchFile, FollowsLoopsTurnByTurnThatStartNothing) {
  const auto after = [](const std::string& how) {
    return launched("f() { A=()\n" + how + "\ntorchrun x.py \"${A[@]}\" \"$@\"; }\nf --a --b 1");
  };
  const std::string loop = "while [ $# -gt 0 ]; do case $1 in --a) A+=(--c); shift ;; ";
  EXPECT_EQ(after("for a in \"$@\"; do A+=(\"$a\"); done; shift 3"), "--a --b 1 ");
  EXPECT_EQ(after("for a; do A+=(\"$a\"); done; shift 3"), "--a --b 1 ");
  EXPECT_EQ(after("for i in {1..3}; do A+=(--n$i); done; shift 3"), "--n1 --n2 --n3 ");
  EXPECT_EQ(after("for i in 1 2 3; do [ $i = 1 ] && continue; A+=(--n$i); done; shift 3"),
            "--n2 --n3 ");
  EXPECT_EQ(after(loop + "*) break ;; esac; done"), "--c --b 1 ");
  EXPECT_EQ(after(loop + "--b) A+=(--d $2); shift 2 ;; esac; done"), "--c --d 1 ");
  EXPECT_EQ(after("until [ $# = 1 ]; do shift; done; A=(--z)"), "--z 1 ");
  // What turns do not follow from the script alone.
  EXPECT_EQ(after("for i in {a,b}; do A+=(--n$i); done; shift 3").find("--n1"), std::string::npos);
  EXPECT_THAT(after("for i in $X; do A+=(--n); done; shift 3"), testing::HasSubstr("?"));
  EXPECT_THAT(after("while true; do A+=(--n); done; shift 3"), testing::HasSubstr("?"));
  EXPECT_THAT(after("for i in 1 2; do if x; then break; fi; A+=(--n); done; shift 3"),
              testing::HasSubstr("?"));
}

TEST(LaunchFile, SaysWhatMayHaveChangedAValue) {
  Diagnostics sink("train.sh");
  const auto doubt = [&](const char* text) { return read_launch(text, sink).flags.at(0).doubt; };
  EXPECT_EQ(doubt("TP=4\nsource env.sh\ntorchrun --tp $TP"), "source env.sh (line 2) may set TP");
  EXPECT_EQ(doubt("TP=4\neval \"$1\"\ntorchrun --tp $((TP * 2))"), "eval (line 2) may set TP");
  EXPECT_EQ(doubt("source env.sh\nTP=4\ntorchrun --tp $TP"), "");
}

TEST(LaunchFile, RefusesAScriptThatCannotBeFollowed) {
  for (const char* script :
       {"A='x\nrun --a 1", "if x; then run --a 1", "f() { f; }\nf", "run --a 1 )", "a=(1\n",
        "coproc x", "for a in 1; do for b in 1; do break 2; done; done"}) {
    Diagnostics sink("train.sh");
    read_launch(script, sink);
    EXPECT_EQ(sink.list().size(), 1u) << script;
  }
}

TEST(LaunchFile, AHashInQuotesIsNoComment) {
  EXPECT_THAT(flags("--name \"run # 1\" --tp 4 # --no 1"),
              ElementsAre(Pair("name", "run # 1"), Pair("tp", "4")));
}

}  // namespace
}  // namespace s2t

#include <gmock/gmock.h>

#include "analyzer/io/launch_file.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kLaunch = "torchrun --nproc_per_node 8 pretrain_gpt.py --tp 4\n";

Launch read(const std::string& script) {
  Diagnostics sink("train.sh");
  Launch launch = read_launch(script, sink);
  sink.throw_if_any();
  return launch;
}

std::string flags(const std::string& script) {
  std::string all;
  for (const LaunchFlag& flag : read(script).flags)
    all += flag.name + (flag.value.empty() ? "" : "=" + flag.value) + " ";
  return all;
}

TEST(LaunchCalls, OtherCommandsGiveNoFlags) {
  const std::string own = flags(kLaunch);
  EXPECT_EQ(own, "--nproc_per_node=8 --tp=4 ");
  for (const char* other :
       {"grep -q -- --sequence-parallel x.sh", "sed -i s/--a/--b/ --expression x",
        "python tools/checkpoint/util.py --use-distributed-optimizer --bf16",
        "python tools/preprocess_data.py --seq-length 2048", "python -m pip install --upgrade x",
        "python tasks/main.py --task X --tp 1", "torchrun tasks/main.py --tp 1",
        "torchrun convert_weights.py --tp 1",
        "nodes=$(srun --nodes=1 -w $HEAD hostname --ip-address)", "run --tp 1",
        "cat > cmd.sh <<E\ntorchrun pretrain_gpt.py --tp 1\nE"}) {
    EXPECT_EQ(flags(std::string(other) + "\n" + kLaunch), own) << other;
    EXPECT_EQ(flags(kLaunch + other), own) << other;
  }
}

TEST(LaunchCalls, KnowsWhatLaunches) {
  for (const char* launch :
       {"torchrun x.py --tp 4", "python -m torch.distributed.run x.py --tp 4",
        "python3 -u -m torch.distributed.launch x.py --tp 4", "deepspeed x.py --tp 4",
        "accelerate launch x.py --tp 4", "srun python -u x.py --tp 4", "mpirun python x.py --tp 4",
        "python pretrain_gpt.py --tp 4", "env A=1 nohup /opt/bin/torchrun x.py --tp 4",
        "$LAUNCHER x.py --tp 4", "\"$@\" --tp 4", "srun bash -c 'torchrun x.py --tp 4'",
        "cat > job.sh <<'E'\ntorchrun x.py --tp 4\nE\nsbatch job.sh",
        "torchrun -m torchtitan.train --tp 4", "bash train.sh --tp 4"})
    EXPECT_EQ(flags(std::string("python prepare.py --tp 1\n") + launch), "--tp=4 ") << launch;
}

TEST(LaunchCalls, AllGiveFlagsWhereNoneIsKnown) {
  EXPECT_EQ(flags("run --a 1\ngo --b 2"), "--a=1 --b=2 ");
  EXPECT_EQ(flags("python prepare.py\nrun --a 1"), "--a=1 ");
  EXPECT_EQ(flags("python x.py --a 1\ngrep --b 2 y"), "--a=1 ");
  EXPECT_EQ(flags("--a 1\n--b 2"), "--a=1 --b=2 ");
}

TEST(LaunchCalls, ArgumentsOfAShellScriptMayBeOfTheLaunchInside) {
  EXPECT_EQ(flags("bash -c 'torchrun x.py --tp 4 \"$@\"' _ --bf16"), "--bf16 --tp=4 ");
  EXPECT_EQ(flags("cat > in.sh <<E\ntorchrun x.py --tp 4 \"\\$@\"\nE\nbash in.sh --bf16"),
            "--tp=4 --bf16 ");
}

TEST(LaunchCalls, SaysWhichLaunchAFlagBelongsTo) {
  std::vector<int> which;
  for (const LaunchFlag& flag : read("torchrun a.py --a 1 --b 2\ntorchrun b.py --a 1\n").flags)
    which.push_back(flag.launch);
  EXPECT_THAT(which, ElementsAre(1, 1, 2));
}

TEST(LaunchCalls, ReadsWhatSlurmAndMpiStart) {
  EXPECT_EQ(flags("#SBATCH --nodes=2\n#SBATCH -n 16\n##SBATCH --nodes=9\n#SBATCH --time=1\n"
                  "srun -N 3 python x.py --tp 4 -n 5"),
            "--tp=4 --nodes=3 --nodes=2 --ntasks=16 ");
  EXPECT_EQ(flags("mpirun -np 16 python x.py --tp 4"), "--tp=4 --ntasks=16 ");
  EXPECT_THAT(read("srun -l bash -c 'torchrun x.py --tp 4'").starters,
              ElementsAre("srun", "torchrun"));
}

TEST(LaunchCalls, AFlagThatAShellMakesIsNoneThatIsKnown) {
  for (const char* word : {"--${A/x/y}", "--$A", "--{a,b}", "--`a`=4"}) {
    const Launch launch = read(std::string("torchrun x.py --tp 4 ") + word);
    ASSERT_EQ(launch.flags.size(), 1u) << word;
    EXPECT_EQ(launch.unknown.size(), 1u) << word;
  }
}

TEST(LaunchCalls, WhatTheScriptIsGivenOrNothingIsNotKnownInPart) {
  for (const char* given : {"$*", "$@"}) {
    const Launch launch = read("A=\"\"\nif [ $# -ne 0 ]; then A=\"" + std::string(given) +
                               "\"; fi\ntorchrun x.py --tp 4 $A");
    ASSERT_EQ(launch.unknown.size(), 1u);
    EXPECT_FALSE(launch.unknown[0].known_in_part);
  }
}

TEST(LaunchCalls, NamesWhatItLeavesOut) {
  const Launch launch = read("python tools/util.py a --bf16\n" + kLaunch);
  EXPECT_THAT(launch.left_out, ElementsAre("python tools/util.py a (line 1)"));
  EXPECT_THAT(read("grep -- --bf16 x\n" + kLaunch).left_out, IsEmpty());
}

TEST(LaunchCalls, ALineOfFlagsBehindABrokenContinuationIsStray) {
  for (const char* broken : {"torchrun x.py \\\n --a 1 \\ \n --b 2 \\\n --c 3",
                             "torchrun x.py \\\n --a 1 \\\n #--d \\\n --b 2 --c 3"}) {
    const Launch launch = read(broken);
    ASSERT_EQ(launch.stray.size(), 1u) << broken;
    EXPECT_EQ(launch.stray[0].name, "--b");
    EXPECT_EQ(flags(broken), "--a=1 ") << broken;
  }
  EXPECT_THAT(read("cat > f.txt <<E\n--b 2\nE\ntorchrun x.py $(<f.txt)").stray, IsEmpty());
  EXPECT_THAT(read("torchrun x.py \\\n --a 1 \\\n --b 2").stray, IsEmpty());
}

}  // namespace
}  // namespace s2t

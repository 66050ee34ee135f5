// What holds for every model and mesh: properties over random stacks of MLPs, sharded and frozen at
// random, under both gradient conventions. (Transposed exchanges: comm; paired messages: schedule;
// groups partition the world: mesh.)
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>

#include "analyzer/analyze.h"
#include "analyzer/io/model_json.h"
#include "analyzer/program/listing.h"
#include "analyzer/program/tally.h"

namespace s2t {
namespace {

// A stack of MLPs over dp x tp (x pp). Everything a property varies is here.
struct Stack {
  int dp = 2, tp = 2, pp = 1, layers = 2, microbatches = 1;
  int batch = 8, width = 16, inner = 32;
  bool sequence_parallel = false, x_grad = true, per_rank = false, fused = false, stored = false;
  std::vector<bool> frozen;  // per layer

  std::string json() const {
    const char* shard = R"j(,"layout":{"tp":"S(0)"})j";
    std::string tensors = fmt::format(R"j("x":{{"shape":["batch",{}],"requires_grad":{}{}}})j",
                                      width, x_grad, sequence_parallel ? shard : "");
    std::string ops, pins, value = "x";
    for (int l = 0; l < layers; ++l) {
      const bool trains = frozen.empty() || !frozen[static_cast<size_t>(l)];
      tensors += parameter(fmt::format("u{}", l), inner, width, 0, trains) +
                 parameter(fmt::format("d{}", l), width, inner, 1, trains);
      const int stage = l * pp / layers;
      ops += op("linear", {value, fmt::format("u{}", l)}, fmt::format("h{}", l), stage) +
             op("gelu", {fmt::format("h{}", l)}, fmt::format("a{}", l), stage) +
             op("linear", {fmt::format("a{}", l), fmt::format("d{}", l)}, fmt::format("y{}", l),
                stage);
      if (sequence_parallel) pins += fmt::format(R"j({}"y{}":{{"tp":"S(0)"}})j", l ? "," : "", l);
      value = fmt::format("y{}", l);
    }
    ops += op("mean_square", {value}, "loss", pp - 1);
    ops.pop_back();  // the last comma
    return fmt::format(
        R"j({{"schema":"shape2trace.model/1","convention":"{}","microbatches":{},"loss":"loss",
              "mesh":{{"axes":[{{"name":"pp","size":{},"kind":"pipeline"}},
                               {{"name":"dp","size":{},"kind":"data"}},{{"name":"tp","size":{}}}]}},
              "batch":{{"local":{},"axes":["dp"]}},"pipeline":{{"axis":"pp","schedule":"1f1b"}},
              "gradient_sync":{{"kind":"per_parameter"}},
              "switches":{{"fused_column_linear":{},"residual":"{}"}},
              "tensors":{{{}}},"ops":[{}],"pins":{{{}}}}})j",
        per_rank ? "per_rank" : "global", microbatches, pp, dp, tp, batch, fused,
        stored ? "stored" : "used", tensors, ops, pins);
  }

  static std::string parameter(const std::string& name, int rows, int columns, int dim,
                               bool trains) {
    return fmt::format(
        R"j(,"{}":{{"shape":[{},{}],"parameter":true,"requires_grad":{},"layout":{{"tp":"S({})"}}}})j",
        name, rows, columns, trains, dim);
  }

  static std::string op(const std::string& name, const std::vector<std::string>& inputs,
                        const std::string& output, int stage) {
    return fmt::format(R"j({{"op":"{}","inputs":["{}"],"output":"{}","stage":{}}},)j", name,
                       fmt::join(inputs, "\",\""), output, stage);
  }

  Program predict() const { return analyze(parse_model(json())); }
};

struct Totals {
  Count calls = 0, in = 0, wire = 0;
  bool operator==(const Totals&) const = default;
};

Totals total(const Program& p, Phase phase, const std::string& family) {
  Totals t;
  for (const Event& e : list_events(p)) {
    if (e.phase != phase || p.families[e.family].name != family) continue;
    ++t.calls;
    t.in += e.volume.input_bytes;
    t.wire += e.volume.wire_bytes;
  }
  return t;
}

Stack any(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> of) {
    return *(of.begin() + random() % of.size());
  };
  Stack s;
  s.dp = pick({1, 2, 4});
  s.tp = pick({1, 2, 4});
  s.layers = pick({1, 2, 4});
  s.pp = s.layers > 1 ? pick({1, 2}) : 1;
  s.microbatches = pick({1, 2, 4});
  s.batch = 16;
  s.sequence_parallel = pick({0, 1}) == 1;
  s.x_grad = pick({0, 1}) == 1;
  for (int l = 0; l < s.layers; ++l) s.frozen.push_back(pick({0, 0, 1}) == 1);
  return s;
}

// With everything trained, the backward of a stack without sequence parallelism moves what the
// forward did: each MLP's partial output is reduced once, its input gradient once.
TEST(Invariants, BackwardMirrorsForwardOnModelAxes) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    Stack s = any(random);
    s.frozen.clear();
    s.x_grad = true;
    const Program p = s.predict();
    EXPECT_EQ(total(p, Phase::forward, "tp"), total(p, Phase::backward, "tp")) << s.json();
    EXPECT_TRUE(p.pruned.empty());
  }
}

// What runs plus what is pruned is what would run if everything were trained.
TEST(Invariants, PrunedAndRealAddUpToTheWhole) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 120; ++trial) {
    const Stack s = any(random);
    Stack whole = s;
    whole.frozen.clear();
    whole.x_grad = true;
    const Program p = s.predict(), all = whole.predict();
    Count pruned = 0;
    for (const Pruned& x : p.pruned) pruned += x.event.phase == Phase::backward ? 1 : 0;
    const auto m = static_cast<Count>(s.microbatches);
    EXPECT_EQ(total(p, Phase::backward, "tp").calls + pruned * m,
              total(all, Phase::backward, "tp").calls)
        << s.json();
  }
}

TEST(Invariants, FreezingNeverTouchesForwardOrMessages) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const Stack s = any(random);
    Stack whole = s;
    whole.frozen.clear();
    whole.x_grad = true;
    const Program p = s.predict(), all = whole.predict();
    EXPECT_EQ(total(p, Phase::forward, "tp"), total(all, Phase::forward, "tp"));
    for (const Phase phase : {Phase::forward, Phase::backward})
      EXPECT_EQ(total(p, phase, "pp"), total(all, phase, "pp")) << s.json();
  }
}

TEST(Invariants, FrozenParametersAreNotSynchronised) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 60; ++trial) {
    const Stack s = any(random);
    Count trained = 0;
    for (const bool frozen : s.frozen) trained += frozen ? 0 : 2;
    const Program p = s.predict();
    const Count expected = s.dp == 1 ? 0 : trained;
    EXPECT_EQ(total(p, Phase::grad_sync, "dp").calls, expected) << s.json();
  }
}

TEST(Invariants, AGroupOfOneIssuesNothing) {
  Stack s;
  s.dp = s.tp = 1;
  EXPECT_TRUE(list_events(s.predict()).empty());
}

TEST(Invariants, ActivationBytesIgnoreTheWeightsAndGradientBytesTheBatch) {
  Stack s, wide, long_batch;
  wide.inner = 64;
  long_batch.batch = 32;
  EXPECT_EQ(total(s.predict(), Phase::forward, "tp"), total(wide.predict(), Phase::forward, "tp"));
  EXPECT_EQ(total(s.predict(), Phase::grad_sync, "dp"),
            total(long_batch.predict(), Phase::grad_sync, "dp"));
}

TEST(Invariants, MicrobatchesSplitMessagesAndKeepTheirBytes) {
  Stack one, four;
  one.pp = four.pp = 2;
  four.microbatches = 4;
  const Program a = one.predict(), b = four.predict();
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    EXPECT_EQ(total(a, phase, "pp").calls * 4, total(b, phase, "pp").calls);
    EXPECT_EQ(total(a, phase, "pp").in, total(b, phase, "pp").in);
  }
  EXPECT_EQ(total(a, Phase::grad_sync, "dp"), total(b, Phase::grad_sync, "dp"));
}

TEST(Invariants, DoublingTensorParallelismHalvesShardsNotActivations) {
  Stack two, four;
  four.tp = 4;
  EXPECT_EQ(total(two.predict(), Phase::forward, "tp").in,
            total(four.predict(), Phase::forward, "tp").in);
  EXPECT_EQ(total(two.predict(), Phase::grad_sync, "dp").in,
            2 * total(four.predict(), Phase::grad_sync, "dp").in);
}

// Under per_rank, only duals of forward collectives run: a row-parallel output's all-reduce has
// one.
TEST(Invariants, PerRankRunsOnlyDualsOfForwardCollectives) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 40; ++trial) {
    Stack s = any(random);
    s.per_rank = true;
    s.sequence_parallel = false;
    s.frozen.clear();
    const Program p = s.predict();
    EXPECT_EQ(total(p, Phase::forward, "tp"), total(p, Phase::backward, "tp")) << s.json();
  }
}

// Megatron's fused column linear reduces its input gradient although x needs none.
TEST(Invariants, AFusedColumnLinearIsNeverPruned) {
  Stack s;
  s.x_grad = false;
  const Count pruned = total(s.predict(), Phase::backward, "tp").calls;
  s.fused = true;
  EXPECT_EQ(total(s.predict(), Phase::backward, "tp").calls, pruned + 1);
}

// A stored residual repeats one gather per column linear, and goes with its weight gradient.
TEST(Invariants, AStoredResidualIsGatheredAgainOnlyForATrainedWeight) {
  Stack s;
  s.sequence_parallel = s.stored = true;
  const Count used = [&] {
    Stack t = s;
    t.stored = false;
    return total(t.predict(), Phase::backward, "tp").calls;
  }();
  EXPECT_EQ(total(s.predict(), Phase::backward, "tp").calls, used + 2);
  s.frozen = {true, true};
  EXPECT_EQ(total(s.predict(), Phase::backward, "tp").calls, used);
}

}  // namespace
}  // namespace s2t

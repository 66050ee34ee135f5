// Collectives per transformer layer, and what freezing removes. Counts: Megatron-LM
// core/tensor_parallel/layers.py and mappings.py, PyTorch torch/distributed/tensor/_redistribute.py
// and runs of them under autograd. A tensor of the layer has 2 x 8 x 16 float32 = 1,024 bytes.
#include <gmock/gmock.h>

#include "analyzer/program/listing.h"
#include "tests/textbook/step.h"

namespace s2t {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Counts = std::map<std::string, int>;

const Rank r0(0);

// Collectives that move activations or their gradients; not the scalar loss, not parameters.
Counts activations(const Program& p) {
  Counts counts;
  for (const Event& e : events_of(p, r0))
    if (e.phase <= Phase::backward && e.volume.output_bytes >= 512)
      ++counts[std::string(to_string(e.phase)) + " " + std::string(info(e.op).name)];
  return counts;
}

TEST(TransformerLayer, TensorParallelReducesTwiceEachWay) {
  EXPECT_EQ(activations(analyze_model("layer_tp")),
            (Counts{{"forward all_reduce", 2}, {"backward all_reduce", 2}}));
}

TEST(TransformerLayer, MegatronGathersAgainInTheBackward) {
  EXPECT_EQ(activations(analyze_model("layer_megatron_sp")),
            (Counts{{"forward all_gather", 2},
                    {"forward reduce_scatter", 2},
                    {"backward all_gather", 4},
                    {"backward reduce_scatter", 2}}));
}

TEST(TransformerLayer, DTensorKeepsWhatItGathered) {
  EXPECT_EQ(activations(analyze_model("layer_dtensor_sp")),
            (Counts{{"forward all_gather", 2},
                    {"forward reduce_scatter", 2},
                    {"backward all_gather", 2},
                    {"backward reduce_scatter", 2}}));
}

// Bus bytes of the backward: 1.5 times the forward's where Megatron gathers again, else equal.
TEST(TransformerLayer, BackwardWireBytesFollowTheConvention) {
  for (const auto& [name, ratio] :
       {std::pair{"layer_tp", 1.0}, {"layer_megatron_sp", 1.5}, {"layer_dtensor_sp", 1.0}}) {
    double forward = 0, backward = 0;
    for (const Event& e : events_of(analyze_model(name), r0)) {
      if (e.phase == Phase::forward) forward += static_cast<double>(e.volume.wire_bytes);
      if (e.phase == Phase::backward) backward += static_cast<double>(e.volume.wire_bytes);
    }
    EXPECT_DOUBLE_EQ(backward / forward, ratio) << name;
  }
}

// Each rank saw a part of the sequence, so the norms' gradients are partial: one coalesced call.
TEST(TransformerLayer, NormGradientsAreSummedUnderSequenceParallelism) {
  const Program p = analyze_model("layer_megatron_sp");
  ASSERT_EQ(p.after.size(), 1u);
  EXPECT_EQ(p.causes[p.after[0].cause].kind, CauseKind::model_sync);
  EXPECT_EQ(p.after[0].members.size(), 4u);
  EXPECT_THAT(analyze_model("layer_tp").after, IsEmpty());
}

int backward_reductions(const std::string& model) {
  return activations(analyze_model(model))["backward all_reduce"];
}

TEST(Freezing, TheEarliestTrainedLeafDecides) {
  EXPECT_EQ(backward_reductions("freeze_nothing"), 4);          // 2 L
  EXPECT_EQ(backward_reductions("freeze_embedding"), 4);        // a norm is upstream of every one
  EXPECT_EQ(backward_reductions("freeze_embedding_norms"), 3);  // 2 L - 1
  EXPECT_EQ(backward_reductions("freeze_lora_qkv"), 3);         // 2 L - 1
  EXPECT_EQ(backward_reductions("freeze_lora_fc2"), 2);         // 2 L - 2
  EXPECT_EQ(backward_reductions("freeze_all_but_head"), 0);
  EXPECT_EQ(backward_reductions("freeze_mlps"), 3);  // L - 1: nothing trained before it
}

TEST(Freezing, AnAdapterReducesItsNarrowInput) {
  int narrow = 0;
  for (const Event& e : events_of(analyze_model("freeze_lora_qkv"), r0))
    narrow += e.phase == Phase::backward && e.volume.input_bytes == 2 * 8 * 2 * 4 ? 1 : 0;
  EXPECT_EQ(narrow, 2);  // one per layer
}

TEST(Freezing, ABoundaryGradientIsSentIntoAFrozenStage) {
  const Program p = analyze_model("freeze_pp_stage0");
  Counts first = counts_of(p, Rank(0)), last = counts_of(p, Rank(2));
  EXPECT_EQ(first["backward recv"], 1);
  EXPECT_EQ(last["backward send"], 1);
  EXPECT_EQ(first["backward all_reduce"], 0);
  EXPECT_EQ(last["backward all_reduce"], 2);
}

// Rows: tokens, routing weights, experts trained or not.
TEST(Freezing, ExpertsPruneReverseExchangesOneByOne) {
  const auto exchanges = [](const char* model) {
    const auto counts = counts_of(analyze_model(model), r0);
    const auto it = counts.find("backward all_to_all");
    return it == counts.end() ? 0 : it->second;
  };
  EXPECT_EQ(exchanges("ep_balanced"), 2);
  EXPECT_EQ(exchanges("ep_expert_frozen"), 2);
  EXPECT_EQ(exchanges("ep_no_input_grad"), 1);
  EXPECT_EQ(exchanges("ep_router_only"), 0);
}

}  // namespace
}  // namespace s2t

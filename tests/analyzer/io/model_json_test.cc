#include "analyzer/io/model_json.h"

#include <gtest/gtest.h>

#include "tests/analyzer/io/edited_model.h"

namespace s2t {
namespace {

Model mlp(const std::vector<Edit>& edits = {}) {
  return parse_model(edited(kMlp, edits), "mlp.json");
}

TEST(ModelJson, ReadsEveryPartOfAPlainModel) {
  const Model model = mlp();
  EXPECT_EQ(model.file, "mlp.json");
  EXPECT_EQ(model.name, "mlp");
  ASSERT_EQ(model.mesh.axes.size(), 2u);
  EXPECT_EQ(model.mesh.axes[0].name, "dp");
  EXPECT_EQ(model.mesh.axes[0].kind, AxisKind::data);
  EXPECT_EQ(model.mesh.axes[1].size, 2);
  EXPECT_EQ(model.mesh.axes[1].pointer, "/mesh/axes/1");
  EXPECT_EQ(model.batch->local, 32);
  EXPECT_EQ(model.batch->axes, std::vector<std::string>{"dp"});
  ASSERT_EQ(model.tensors.size(), 3u);
  EXPECT_TRUE(model.tensors[0].shape[0].batch);
  EXPECT_EQ(model.tensors[0].shape[1].size, 512);
  EXPECT_FALSE(model.tensors[0].requires_grad);
  EXPECT_TRUE(model.tensors[1].requires_grad);
  EXPECT_EQ(model.tensors[1].layout->entries[0].placement, "S(0)");
  EXPECT_EQ(model.tensors[1].layout->entries[0].pointer, "/tensors/w1/layout/tp");
  ASSERT_EQ(model.ops.size(), 4u);
  EXPECT_EQ(model.ops[0].name, "fc1");
  EXPECT_EQ(model.ops[1].name, "a");
  EXPECT_EQ(model.ops[2].inputs, (std::vector<std::string>{"a", "w2"}));
  EXPECT_EQ(model.ops[2].outputs, std::vector<std::string>{"y"});
  EXPECT_EQ(model.ops[3].pointer, "/ops/3");
  EXPECT_EQ(model.loss, "loss");
  EXPECT_FALSE(model.pipeline);
}

TEST(ModelJson, NameDefaultsToTheFile) {
  EXPECT_EQ(mlp({{"\"name\": \"mlp\",", ""}}).name, "mlp");
  EXPECT_EQ(parse_model(edited(kMlp, {{"\"name\": \"mlp\",", ""}}), "a/big.json").name, "big");
  EXPECT_EQ(parse_model(edited(kMlp, {{"\"name\": \"mlp\",", ""}}), "<stdin>").name, "model");
}

std::vector<std::string> axis_names(const Model& model) {
  std::vector<std::string> names;
  for (const AxisDecl& axis : model.mesh.axes) names.push_back(axis.name);
  return names;
}

TEST(ModelJson, OrderStringIsLeftmostFastestAndOrderArrayLastFastest) {
  const auto ordered = [](const std::string& order) {
    return axis_names(mlp({{"{\"axes\"", "{\"order\": " + order + ", \"axes\""}}));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(ordered("\"tp-dp\""), (Names{"dp", "tp"}));
  EXPECT_EQ(ordered("\"dp-tp\""), (Names{"tp", "dp"}));
  EXPECT_EQ(ordered("[\"dp\", \"tp\"]"), (Names{"dp", "tp"}));
  EXPECT_EQ(ordered("[\"tp\", \"dp\"]"), (Names{"tp", "dp"}));
}

TEST(ModelJson, PartsAndExpertAxesMayBeNamedInLayouts) {
  const Model model = mlp(
      {{"{\"name\": \"tp\", \"size\": 2}]",
        "{\"name\": \"tp\", \"size\": 4, \"parts\": [{\"name\": \"kv\", \"size\": 2}, {\"name\": "
        "\"rep\", \"size\": 2}]}], \"expert_axes\": [{\"name\": \"edp\", \"size\": 4, \"kind\": "
        "\"data\"}, {\"name\": \"ep\", \"size\": 2}]"},
       {"{\"tp\": \"S(0)\"}", "{\"kv\": \"S(0)\", \"ep\": \"R\"}"}});
  EXPECT_EQ(model.mesh.axes[1].parts[1].name, "rep");
  EXPECT_EQ(model.mesh.expert_axes[0].kind, AxisKind::data);
  EXPECT_EQ(model.tensors[1].layout->entries[0].axis, "kv");
}

TEST(ModelJson, ReadsWhatSurroundsTheOps) {
  const Model model = mlp({{"\"loss\": \"loss\"", R"json("loss": "loss", "loss_scale": "global",
    "microbatches": 8,
    "convention": {"tp": "per_rank"},
    "pins": {"y": {"tp": "S(0)"}},
    "gradient_sync": {"kind": "fsdp", "axes": ["dp"], "reduce": "sum", "every": "microbatch",
                      "overlap": true, "dtype": "f32", "first_bucket_bytes": 1, "bucket_bytes": 2,
                      "first_iteration": true, "units": [["w1"], ["w2"]],
                      "reshard_after_forward": false},
    "routing": {"r": {"axis": "tp", "experts": 2, "top_k": 2, "counts": [[56, 8], [8, 56]],
                      "capacity_factor": 1.25, "pad_to_capacity": true},
                "s": {"axis": "tp", "experts": 2, "skew": [7, 1.5]}},
    "switches": {"conversions": "per_consumer", "accumulate": "per_consumer",
                 "residual": "stored", "partial": "lazy", "redistribution": "explicit",
                 "fused_column_linear": true})json"}});
  EXPECT_TRUE(model.loss_scale_global);
  EXPECT_EQ(model.microbatches, 8);
  EXPECT_EQ(model.convention, Convention::global);
  EXPECT_EQ(model.axis_convention.at("tp"), Convention::per_rank);
  EXPECT_EQ(model.pins[0].tensor, "y");
  EXPECT_EQ(model.pins[0].layout.entries[0].pointer, "/pins/y/tp");
  const GradientSyncDecl& sync = model.gradient_sync;
  EXPECT_EQ(sync.kind, SyncKind::fsdp);
  EXPECT_FALSE(sync.mean);
  EXPECT_TRUE(sync.every_microbatch);
  EXPECT_EQ(sync.overlap, true);
  EXPECT_EQ(sync.dtype, DType::f32);
  EXPECT_EQ(sync.first_bucket_bytes, 1);
  EXPECT_EQ(sync.bucket_bytes, 2);
  EXPECT_TRUE(sync.first_iteration);
  EXPECT_EQ(sync.units[1].parameters, std::vector<std::string>{"w2"});
  EXPECT_FALSE(sync.reshard_after_forward);
  ASSERT_EQ(model.routing.size(), 2u);
  EXPECT_EQ(model.routing[0].counts[1], (std::vector<int64_t>{8, 56}));
  EXPECT_EQ(model.routing[0].capacity_factor, 1.25);
  EXPECT_TRUE(model.routing[0].pad_to_capacity);
  EXPECT_EQ(model.routing[1].skew, (std::vector<double>{7, 1.5}));
  Switches expected;
  expected.share_conversions = expected.accumulate_first = false;
  expected.residual = Residual::stored;
  expected.lazy_partial = expected.explicit_redistribution = expected.fused_column_linear = true;
  EXPECT_EQ(model.switches, expected);
}

TEST(ModelJson, DefaultsAreThoseOfPlainTraining) {
  const Model model = mlp();
  EXPECT_EQ(model.switches, Switches{});
  EXPECT_EQ(model.gradient_sync.kind, SyncKind::none);
  EXPECT_TRUE(model.gradient_sync.mean);
  EXPECT_EQ(model.microbatches, 1);
  EXPECT_FALSE(model.loss_scale_global);
}

TEST(ModelJson, PipelineIsThereAsSoonAsAnAxisIs) {
  const Model plain = parse_model(kPipe);
  EXPECT_EQ(plain.pipeline->axis, "pp");
  EXPECT_EQ(plain.pipeline->schedule, "1f1b");
  const Model stated = parse_model(
      edited(kPipe, {{"\"ops\"",
                      "\"pipeline\": {\"schedule\": \"gpipe\", \"drain\": \"reversed\", \"p2p\": "
                      "\"batched\"}, \"microbatches\": 8, \"ops\""}}));
  EXPECT_EQ(stated.pipeline->axis, "pp");
  EXPECT_EQ(stated.pipeline->drain, "reversed");
  EXPECT_EQ(stated.pipeline->p2p, "batched");
}

TEST(ModelJson, AttributesAreTypedByTheOpTable) {
  const Model model = parse_model(R"json({
    "schema": "shape2trace.model/1",
    "mesh": {"axes": [{"name": "tp", "size": 2}]},
    "tensors": {"x": {"shape": [2, 3, 8]}},
    "ops": [
      {"op": "reshape", "inputs": ["x"], "output": "h", "rule": "x[b s (h d)] -> y[b h s d]",
       "sizes": {"h": 2}, "modes": {"tp": "split(h)"}, "module": "block.0"},
      {"op": "scale", "inputs": ["h"], "output": "z", "factor": 2},
      {"op": "redistribute", "inputs": ["z"], "output": "y", "layout": {"tp": "R"}}
    ]})json");
  EXPECT_EQ(std::get<std::string>(model.ops[0].attributes.at("rule").value),
            "x[b s (h d)] -> y[b h s d]");
  EXPECT_EQ((std::get<std::map<std::string, int64_t>>(model.ops[0].attributes.at("sizes").value)),
            (std::map<std::string, int64_t>{{"h", 2}}));
  EXPECT_EQ(model.ops[0].modes.at("tp"), "split(h)");
  EXPECT_EQ(model.ops[0].module, "block.0");
  EXPECT_EQ(std::get<double>(model.ops[1].attributes.at("factor").value), 2.0);
  EXPECT_EQ(model.ops[1].attributes.at("factor").pointer, "/ops/1/factor");
  EXPECT_EQ(std::get<LayoutDecl>(model.ops[2].attributes.at("layout").value).entries[0].placement,
            "R");
}

TEST(ModelJson, ResultsMayBeListedWithALayoutAndAPolicy) {
  const Model model = mlp({{"\"x\": {", R"json("h": {"layout": {"tp": "S(1)"}, "residual": "stored",
                                              "uneven": "ceil"}, "x": {)json"}});
  EXPECT_EQ(model.tensors[0].name, "h");
  EXPECT_TRUE(model.tensors[0].uneven);
  EXPECT_EQ(model.tensors[0].residual, Residual::stored);
}

}  // namespace
}  // namespace s2t

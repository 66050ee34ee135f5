// Small programs put together by hand, as the analysis would: what reports are tested on.
#pragma once

#include "analyzer/program/program.h"

namespace s2t {
namespace sample {

inline Event event(Phase phase, Collective op, size_t family, std::string tensor, std::string node,
                   Shape shape, int64_t group_size) {
  Event e;
  e.phase = phase;
  e.op = op;
  e.family = family;
  e.tensor = std::move(tensor);
  e.node = std::move(node);
  e.shape = shape;
  e.volume = volume(op, elements(shape), size_of(DType::f32), group_size);
  return e;
}

inline RankSet along(const Mesh& mesh, const std::string& axis, int64_t coordinate) {
  return {{{axis, mesh.find(axis)->atoms, {coordinate}}}};
}

inline Cause reduce_output() {
  return {CauseKind::forward_conversion,
          "fc2 contracts k, which tp splits, so each rank holds a term of the sum",
          "fc2 (linear): split(k)",
          "loss (mean_square): redundant",
          "x[* k] w[n k] -> y[* n]",
          "w2 is S(1) on tp: split(k); no other vote",
          "tp:P dp:S(0)",
          "dp:S(0)",
          "P -> R is all_reduce"};
}

inline Cause sync(const std::string& parameter) {
  Cause c;
  c.kind = CauseKind::data_sync;
  c.why = "every dp rank saw other samples, so the gradient of " + parameter + " is their mean";
  c.from = "dp:P";
  c.to = "R";
  c.planner = "P -> R is all_reduce";
  return c;
}

}  // namespace sample

// 4 ranks, dp 2 x tp 2, one forward and one backward all-reduce over tp, two gradients over dp; one
// pruned.
inline Program tensor_parallel_program() {
  Program p;
  p.model = "tp_ar_b128";
  p.parameters = 1048576;
  p.mesh = Mesh({{"dp", 2, AxisKind::data, {}}, {"tp", 2, AxisKind::model, {}}}, {});
  p.families = {p.mesh.family_of(p.mesh.find("tp")->atoms),
                p.mesh.family_of(p.mesh.find("dp")->atoms)};
  p.causes = {sample::reduce_output(), sample::reduce_output(), sample::sync("w1"),
              sample::sync("w2")};
  p.causes[1].kind = CauseKind::backward_conversion;
  p.causes[1].why = "the gradient of y is owed by every tp rank under per_rank";

  Stage stage;
  stage.forward.items = {
      {sample::event(Phase::forward, Collective::all_reduce, 0, "y", "fc2", {128, 512}, 2)}};
  Event back =
      sample::event(Phase::backward, Collective::all_reduce, 0, "y.grad", "fc2", {128, 512}, 2);
  back.cause = 1;
  stage.backward.items = {{back}};
  p.stages = {stage};
  p.order = {{SpanKind::forward, 0, 0}, {SpanKind::backward, 0, 0}};
  for (size_t i = 0; i < 2; ++i) {
    const std::string w = i == 0 ? "w1" : "w2";
    p.after.push_back(sample::event(Phase::grad_sync, Collective::all_reduce, 1, w + ".grad", "fc1",
                                    {512, 512}, 2));
    p.after.back().node = i == 0 ? "fc1" : "fc2";
    p.after.back().members = {w};
    p.after.back().cause = 2 + i;
  }
  Pruned pruned{"p0", back, "x does not require grad"};
  pruned.event.tensor = "x.grad";
  p.pruned = {pruned};
  p.remarks = {{"replicated-loss",
                "the loss is replicated over tp under per_rank, so every "
                "gradient before it is 2 times the unsharded one"}};
  return p;
}

// `world / 2` data-parallel replicas of a two-stage GPipe, 4 ranks by default.
inline Program pipeline_program(int64_t world = 4, int microbatches = 2) {
  Program p;
  p.model = "pp";
  p.parameters = 1048576;
  p.mesh = Mesh({{"dp", world / 2, AxisKind::data, {}}, {"pp", 2, AxisKind::pipeline, {}}}, {});
  p.families = {p.mesh.family_of(p.mesh.find("pp")->atoms),
                p.mesh.family_of(p.mesh.find("dp")->atoms)};
  Cause there, back;
  there.kind = CauseKind::stage_forward;
  there.why = "stage 1 reads h, which stage 0 makes";
  back.kind = CauseKind::stage_backward;
  back.why = "stage 0 made h, so it owes its parameters the gradient of h";
  p.causes = {there, back, sample::sync("w")};

  Stage first, second;
  first.send_activation = {
      sample::event(Phase::forward, Collective::send, 0, "h", "fc1", {32, 512}, 2)};
  second.recv_activation = {
      sample::event(Phase::forward, Collective::recv, 0, "h", "fc1", {32, 512}, 2)};
  second.send_gradient = {
      sample::event(Phase::backward, Collective::send, 0, "h.grad", "fc1", {32, 512}, 2)};
  first.recv_gradient = {
      sample::event(Phase::backward, Collective::recv, 0, "h.grad", "fc1", {32, 512}, 2)};
  second.send_gradient[0].cause = first.recv_gradient[0].cause = 1;
  Event reduce = sample::event(Phase::grad_sync, Collective::all_reduce, 1, "w.grad", "fc",
                               {512, 512}, world / 2);
  reduce.cause = 2;
  reduce.members = {"w"};
  // Reduced inside the last backward, as a bucket is.
  for (Stage* stage : {&first, &second}) stage->backward.items = {{reduce, Segment::When::last}};
  for (auto [stage, number] : {std::pair{&first, 0}, std::pair{&second, 1}})
    for (std::vector<Event>* border : {&stage->send_activation, &stage->recv_activation,
                                       &stage->send_gradient, &stage->recv_gradient})
      for (Event& e : *border) e.stage = number;
  p.stages = {first, second};

  p.pipeline_axis = "pp";
  p.pipeline_ranks = 2;
  p.microbatches = microbatches;
  int32_t batch = 0;
  for (int32_t m = 0; m < microbatches; ++m, ++batch) {
    p.order.push_back({SpanKind::forward, 0, m, -1, 0, -1});
    p.order.push_back({SpanKind::send_activation, 0, m, batch, 0, 1});
    p.order.push_back({SpanKind::recv_activation, 1, m, batch, 1, 0});
    p.order.push_back({SpanKind::forward, 1, m, -1, 1, -1});
  }
  for (int32_t m = 0; m < microbatches; ++m, ++batch) {
    p.order.push_back({SpanKind::backward, 1, m, -1, 1, -1});
    p.order.push_back({SpanKind::send_gradient, 1, m, batch, 1, 0});
    p.order.push_back({SpanKind::recv_gradient, 0, m, batch, 0, 1});
    p.order.push_back({SpanKind::backward, 0, m, -1, 0, -1});
  }
  return p;
}

// 4 ranks, dp 2 x ep 2: a dispatch that is skewed 7:1, so that its two events share a call.
inline Program expert_program() {
  Program p;
  p.model = "ep_skewed";
  p.parameters = 524288;
  p.mesh = Mesh({{"dp", 2, AxisKind::data, {}}, {"ep", 2, AxisKind::data, {}}}, {});
  p.families = {p.mesh.family_of(p.mesh.find("ep")->atoms)};
  Cause dispatch;
  dispatch.why = "tokens go to the rank of their expert";
  p.causes = {dispatch};
  const std::vector<std::vector<Count>> recv{{56, 56}, {8, 8}};
  Stage stage;
  for (int64_t c = 0; c < 2; ++c) {
    Event e = sample::event(Phase::forward, Collective::all_to_all, 0, "tokens", "dispatch",
                            {64, 512}, 2);
    e.ranks = sample::along(p.mesh, "ep", c);
    e.call = 5;
    e.splits = Splits{512, {56, 8}, recv[static_cast<size_t>(c)]};
    e.volume.output_bytes = (c == 0 ? 112u : 16u) * 512 * 4;
    e.volume.wire_bytes = (c == 0 ? 8u : 56u) * 512 * 4;
    stage.forward.items.push_back({e});
  }
  p.stages = {stage};
  p.order = {{SpanKind::forward, 0, 0}};
  return p;
}

}  // namespace s2t

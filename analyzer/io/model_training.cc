// What surrounds the ops: conventions, batch, pipeline, gradient synchronisation, expert routing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/base/text.h"
#include "analyzer/io/model_sections.h"

namespace s2t {
namespace {

constexpr Word<Convention> kConventions[] = {{"global", Convention::global},
                                             {"per_rank", Convention::per_rank}};
constexpr Word<SyncKind> kSyncKinds[] = {
    {"none", SyncKind::none},   {"per_parameter", SyncKind::per_parameter},
    {"zero1", SyncKind::zero1}, {"bucketed", SyncKind::bucketed},
    {"zero2", SyncKind::zero2}, {"zero3", SyncKind::zero3},
    {"fsdp", SyncKind::fsdp}};
constexpr Word<std::string_view> kSchedules[] = {{"gpipe", "gpipe"},
                                                 {"1f1b", "1f1b"},
                                                 {"interleaved", "interleaved"},
                                                 {"interleaved_steps", "interleaved_steps"},
                                                 {"deepspeed", "deepspeed"}};
constexpr Word<std::string_view> kDrains[] = {{"forward", "forward"}, {"reversed", "reversed"}};
constexpr Word<RingLaunch> kRingLaunch[] = {
    {"pairs", RingLaunch::pairs}, {"single", RingLaunch::single}, {"batched", RingLaunch::batched}};
constexpr Word<RingKind> kRing[] = {{"messages", RingKind::messages},
                                    {"gathered", RingKind::gathered},
                                    {"exchanged", RingKind::exchanged}};
constexpr Word<std::string_view> kP2p[] = {
    {"single", "single"}, {"batched", "batched"}, {"overlapped", "overlapped"}};

// Two words for a flag, the default first.
struct Flag {
  std::string_view off, on;
};

bool read_flag(const JsonCursor& at, Flag words, std::string_view what) {
  const Word<bool> table[] = {{words.off, false}, {words.on, true}};
  return at.one_of<bool>(table, what).value_or(false);
}

std::string read_word(const JsonCursor& at, std::span<const Word<std::string_view>> table,
                      std::string_view what, std::string otherwise) {
  const auto word = at.one_of(table, what);
  return word ? std::string(*word) : otherwise;
}

const KnownAxis* only_pipeline(const KnownAxes& known) {
  const auto it = std::find_if(known.rows.begin(), known.rows.end(),
                               [](const KnownAxis& a) { return a.kind == AxisKind::pipeline; });
  return it == known.rows.end() ? nullptr : &*it;
}

void refuse_pipeline(const JsonCursor& at, const std::vector<std::string>& axes,
                     const KnownAxes& known, std::string_view where) {
  for (const std::string& name : axes)
    if (const KnownAxis* axis = known.find(name); axis && axis->kind == AxisKind::pipeline)
      at.error(fmt::format("pipeline axis {} in {}", quoted(name), where), "a data axis", "",
               "pipeline-axis");
}

bool has_data_axis(const KnownAxes& known) {
  return std::any_of(known.rows.begin(), known.rows.end(),
                     [](const KnownAxis& a) { return a.kind == AxisKind::data && a.size > 1; });
}

std::string pipeline_axis_of(const JsonCursor& at, const KnownAxes& known) {
  const KnownAxis* stated = at ? read_axis(at, known) : only_pipeline(known);
  if (stated && stated->kind == AxisKind::pipeline) return stated->name;
  if (stated)
    at.error(fmt::format("axis {} is no pipeline axis", quoted(stated->name)), "one that is",
             "Write \"kind\": \"pipeline\" in the mesh.", "pipeline-axis");
  if (!at)
    at.error("a pipeline, but the mesh has no pipeline axis", "an axis with \"kind\": \"pipeline\"",
             "", "pipeline-axis");
  return "";
}

std::vector<int64_t> read_counts_row(const JsonCursor& at, int64_t experts) {
  std::vector<int64_t> row;
  for (const JsonCursor& element : at.elements())
    row.push_back(element.integer(0, kMostSize).value_or(0));
  if (at.is(JsonKind::array) && static_cast<int64_t>(row.size()) != experts)
    at.error(fmt::format("{} counts", row.size()), fmt::format("{}, one per expert", experts), "",
             "routing-size");
  return row;
}

void read_counts(const JsonCursor& at, const KnownAxis* axis, RoutingDecl& routing) {
  for (const JsonCursor& row : at.elements())
    routing.counts.push_back(read_counts_row(row, routing.experts));
  const auto rows = static_cast<int64_t>(routing.counts.size());
  if (at.is(JsonKind::array) && axis && rows != 1 && rows != axis->size)
    at.error(fmt::format("{} rows", rows),
             fmt::format("1, or {}: one per rank along {}", axis->size, quoted(axis->name)), "",
             "routing-size");
}

void read_skew(const JsonCursor& at, RoutingDecl& routing) {
  double total = 0;
  for (const JsonCursor& element : at.elements()) {
    const double load = element.number().value_or(0);
    if (load < 0 || load > 1e9)
      element.error(element.excerpt(), "a load from 0 to 1e9", "", "out-of-range");
    routing.skew.push_back(load);
    total += load;
  }
  if (!at.is(JsonKind::array)) return;
  if (static_cast<int64_t>(routing.skew.size()) != routing.experts)
    at.error(fmt::format("{} loads", routing.skew.size()),
             fmt::format("{}, one per expert", routing.experts), "", "routing-size");
  else if (!(total > 0))
    at.error("no load at all", "at least one that is positive", "", "out-of-range");
}

// Row counts are kept for every pair of a rank and an expert.
constexpr int64_t kMostPairs = int64_t{1} << 22;

void check_experts(const JsonCursor& at, const KnownAxis* axis, const RoutingDecl& routing) {
  if (axis && routing.experts * axis->size > kMostPairs)
    return at.error(fmt::format("{} experts on {} ranks", routing.experts, axis->size),
                    fmt::format("at most {} of both multiplied", commas(kMostPairs)), "",
                    "out-of-range");
  if (axis && axis->size > 0 && routing.experts % axis->size != 0)
    at.error(fmt::format("{} experts on axis {} (size {})", routing.experts, quoted(axis->name),
                         axis->size),
             "a multiple of the size", "", "indivisible");
}

RoutingDecl read_routing_row(const JsonCursor& at, const KnownAxes& known) {
  JsonObject object = at.object();
  RoutingDecl routing;
  routing.name = at.key();
  routing.pointer = at.pointer();
  const KnownAxis* axis = read_axis(object.required("axis"), known);
  if (axis) routing.axis = axis->name;
  const JsonCursor experts = object.required("experts");
  const auto count = experts.integer(1, kMostExperts);
  routing.experts = count.value_or(1);
  routing.top_k = object.optional("top_k").integer(1, routing.experts).value_or(1);
  const JsonCursor counts = object.optional("counts");
  const JsonCursor skew = object.optional("skew");
  if (counts && skew)
    skew.error("both \"counts\" and \"skew\"", "one of the two, or neither for a balanced load", "",
               "two-loads");
  if (count) check_experts(experts, axis, routing);
  if (count) read_counts(counts, axis, routing);
  if (count) read_skew(skew, routing);
  const JsonCursor factor = object.optional("capacity_factor");
  routing.capacity_factor = factor.number();
  if (routing.capacity_factor && !(*routing.capacity_factor > 0 && *routing.capacity_factor <= 1e6))
    factor.error(factor.excerpt(), "a number above 0 and at most 1e6", "", "out-of-range");
  const JsonCursor pad = object.optional("pad_to_capacity");
  routing.pad_to_capacity = pad.boolean().value_or(false);
  if (routing.pad_to_capacity && !factor)
    pad.error("padding without a capacity", "\"capacity_factor\" beside it", "", "missing-key");
  return routing;
}

// torch's pipelines keep what stays after the forward until the last microbatch. Otherwise it would
// depend on the schedule which microbatches find it there (_fsdp_param_group.py, unshard).
void refuse_resharding_by_schedule(JsonObject& object, const KnownAxes& known,
                                   const GradientSyncDecl& sync) {
  const KnownAxis* pipeline = only_pipeline(known);
  if (!pipeline || pipeline->size <= 1 || !sync.reshard_after_backward) return;
  const bool all = !sync.reshard_after_forward;
  if (all || !sync.reshard_last_unit)
    object.optional(all ? "reshard_after_forward" : "reshard_last_unit")
        .error(
            "a pipeline whose parameters are kept after the forward and resharded after the "
            "backward of each microbatch",
            all ? "\"reshard_after_backward\": false beside it" : "true",
            "Which microbatches would gather them again depends on the schedule.", "resharding");
}

void read_resharding(JsonObject& object, const KnownAxes& known, GradientSyncDecl& sync) {
  const auto flag = [&](const char* key) { return object.optional(key).boolean().value_or(true); };
  sync.reshard_after_forward = flag("reshard_after_forward");
  sync.reshard_last_unit = flag("reshard_last_unit");
  sync.reshard_after_backward = flag("reshard_after_backward");
  if (sync.reshard_after_forward && !sync.reshard_after_backward)
    object.optional("reshard_after_backward")
        .error("parameters that are kept after the backward, but not after the forward",
               "\"reshard_after_forward\": false beside it", "", "missing-key");
  if (sync.kind == SyncKind::fsdp) refuse_resharding_by_schedule(object, known, sync);
}

}  // namespace

void read_convention(const JsonCursor& at, const KnownAxes& known, Model& model) {
  if (!at.is(JsonKind::object)) {
    model.convention = at.one_of<Convention>(kConventions, "convention").value_or(model.convention);
    return;
  }
  JsonObject object = at.object();
  for (const JsonCursor& member : object.members()) {
    const KnownAxis* axis = find_axis(member, member.key(), known);
    const auto convention = member.one_of<Convention>(kConventions, "convention");
    if (!axis || !convention) continue;
    if (axis->kind != AxisKind::model && *convention == Convention::global)
      member.error(
          fmt::format("\"global\" over {} axis {}",
                      axis->kind == AxisKind::data ? "data" : "pipeline", quoted(axis->name)),
          "\"per_rank\", or nothing",
          "Only model axes share one loss; over others each rank has its own.", "convention");
    model.axis_convention[axis->name] = *convention;
  }
}

std::optional<BatchDecl> read_batch(const JsonCursor& at, const KnownAxes& known) {
  if (!at) return std::nullopt;
  JsonObject object = at.object();
  BatchDecl batch;
  batch.pointer = at.pointer();
  const JsonCursor local = object.optional("local");
  const JsonCursor global = object.optional("global");
  batch.local = local.integer(1, kMostBatch);
  batch.global = global.integer(1, kMostBatch);
  if (object.cursor() && static_cast<bool>(local) == static_cast<bool>(global))
    at.error(local ? "both \"local\" and \"global\"" : "a batch without a size",
             "either \"local\" (samples per rank) or \"global\" (of all ranks together)", "",
             "batch-size");
  const JsonCursor axes = object.optional("axes");
  batch.axes = read_axes(axes, known);
  refuse_pipeline(axes, batch.axes, known, "the batch");
  if (object.cursor() && !axes && has_data_axis(known))
    at.error("a mesh with data axes, but no \"axes\" here",
             "the axes that the batch is split over, or []", "", "batch-axes");
  return batch;
}

bool takes_chunks(std::string_view schedule) {
  return schedule == "interleaved" || schedule == "interleaved_steps";
}

std::optional<PipelineDecl> read_pipeline(const JsonCursor& at, const KnownAxes& known) {
  PipelineDecl pipeline;
  if (!at) {
    const KnownAxis* axis = only_pipeline(known);
    if (!axis) return std::nullopt;
    pipeline.axis = axis->name;
    return pipeline;
  }
  JsonObject object = at.object();
  pipeline.pointer = at.pointer();
  pipeline.axis = pipeline_axis_of(object.optional("axis"), known);
  const JsonCursor schedule = object.optional("schedule");
  const auto stated = schedule.one_of<std::string_view>(kSchedules, "schedule");
  const bool known_schedule = stated || !schedule;  // an unknown one has no rules of its own
  if (stated) pipeline.schedule = std::string(*stated);
  const JsonCursor chunks = object.optional("chunks");
  pipeline.chunks = chunks.integer(1, kMostStages).value_or(1);
  if (known_schedule && pipeline.chunks > 1 && !takes_chunks(pipeline.schedule))
    chunks.error(
        fmt::format("{} chunks with schedule {}", pipeline.chunks, quoted(pipeline.schedule)),
        "1, or \"schedule\": \"interleaved\"", "", "schedule");
  const JsonCursor drain = object.optional("drain");
  pipeline.drain = read_word(drain, kDrains, "drain", pipeline.drain);
  if (known_schedule && drain && pipeline.schedule != "gpipe")
    drain.error(fmt::format("\"drain\" with schedule {}", quoted(pipeline.schedule)),
                "it only with \"gpipe\"", "", "unknown-drain");
  const JsonCursor warm_up = object.optional("warm_up_all");
  pipeline.warm_up_all = warm_up.boolean().value_or(false);
  if (pipeline.warm_up_all && pipeline.schedule != "interleaved")
    warm_up.error(fmt::format("\"warm_up_all\" with schedule {}", quoted(pipeline.schedule)),
                  "it only with \"interleaved\"", "", "schedule");
  pipeline.p2p = read_word(object.optional("p2p"), kP2p, "p2p", pipeline.p2p);
  return pipeline;
}

GradientSyncDecl read_gradient_sync(const JsonCursor& at, const KnownAxes& known) {
  GradientSyncDecl sync;
  if (!at) return sync;
  JsonObject object = at.object();
  sync.pointer = at.pointer();
  sync.kind = object.required("kind").one_of<SyncKind>(kSyncKinds, "kind").value_or(sync.kind);
  const JsonCursor axes = object.optional("axes");
  sync.axes = read_axes(axes, known);
  refuse_pipeline(axes, sync.axes, known, "gradient synchronisation");
  if (axes.is(JsonKind::array) && axes.elements().empty())
    axes.error("no axis", "at least one",
               "Leave the key out for all data axes, or say \"kind\": \"none\".", "sync-axes");
  sync.mean = !read_flag(object.optional("reduce"), {"mean", "sum"}, "reduction");
  if (const JsonCursor every = object.optional("every"))
    sync.every_microbatch = read_flag(every, {"step", "microbatch"}, "interval");
  sync.overlap = object.optional("overlap").boolean();
  const JsonCursor dtype = object.optional("dtype");
  sync.dtype = read_dtype(dtype);
  if (sync.dtype && !is_differentiable(*sync.dtype))
    dtype.error(fmt::format("gradients of {} elements", info(*sync.dtype).name),
                "a floating-point dtype", "", "integer-grad");
  sync.first_bucket_bytes = object.optional("first_bucket_bytes").integer(1, kMostSize);
  sync.bucket_bytes = object.optional("bucket_bytes").integer(1, kMostSize);
  sync.first_iteration = object.optional("first_iteration").boolean().value_or(false);
  sync.close_before = read_flag(object.optional("close"), {"reached", "before"}, "limit");
  sync.parameter_order = read_flag(object.optional("order"), {"ready", "parameters"}, "order");
  sync.tied_first = read_flag(object.optional("tied"), {"last", "first"}, "order");
  sync.whole_gradients =
      read_flag(object.optional("gradients"), {"scattered", "whole"}, "reduction");
  const JsonCursor alignment = object.optional("update_alignment");
  sync.update_alignment = alignment.integer(1, kMostSize).value_or(0);
  if (sync.update_alignment > 0 && !sync.whole_gradients)
    alignment.error("one gather of all parameters, but gradients scattered bucket by bucket",
                    "\"gradients\": \"whole\" beside it", "", "missing-key");
  // Ranks of two stages can add up their parts of a gradient if these are the same elements.
  sync.tied_alone = (sync.kind == SyncKind::zero1 || sync.kind == SyncKind::zero2) &&
                    !sync.whole_gradients && !sync.tied_first;
  sync.persistent_elements =
      object.optional("persistent_elements").integer(0, kMostSize).value_or(0);
  for (const JsonCursor& unit : object.optional("units").elements())
    sync.units.emplace_back().parameters = read_distinct_names(unit);
  read_resharding(object, known, sync);
  return sync;
}

std::vector<RoutingDecl> read_routing(const JsonCursor& at, const KnownAxes& known) {
  std::vector<RoutingDecl> rows;
  JsonObject object = at.object();
  for (const JsonCursor& member : object.members()) rows.push_back(read_routing_row(member, known));
  return rows;
}

Switches read_switches(const JsonCursor& at) {
  Switches s;
  JsonObject object = at.object();
  const auto flag = [&](std::string_view key, Flag words) {
    return read_flag(object.optional(key), words, key);
  };
  s.share_conversions = !flag("conversions", {"shared", "per_consumer"});
  s.accumulate_first = !flag("accumulate", {"first", "per_consumer"});
  s.residual = read_residual(object.optional("residual")).value_or(s.residual);
  s.lazy_partial = flag("partial", {"eager", "lazy"});
  s.explicit_redistribution = flag("redistribution", {"implicit", "explicit"});
  s.fused_column_linear = object.optional("fused_column_linear").boolean().value_or(false);
  s.ring = object.optional("ring").one_of<RingKind>(kRing, "ring").value_or(s.ring);
  s.ring_launch = object.optional("ring_launch")
                      .one_of<RingLaunch>(kRingLaunch, "launch")
                      .value_or(s.ring_launch);
  s.coalesce_model_sync = !flag("norm_sync", {"coalesced", "per_parameter"});
  return s;
}

}  // namespace s2t

// A model as its author states it: plain data, names still unresolved, every part with the JSON
// pointer it came from. Readers (io/model_json, io/hf_config) fill it; `build_graph` turns it into
// a `Graph`. Known here: what can be said. Not known: whether it makes sense.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/dtype.h"
#include "analyzer/base/units.h"
#include "analyzer/comm/collective.h"
#include "analyzer/comm/ring.h"
#include "analyzer/layout/layout.h"
#include "analyzer/mesh/mesh.h"

namespace s2t {

// How a replicated value's gradient is held on a model axis (docs/notation.md, "two conventions").
//   global:   one loss, computed redundantly (Megatron, DTensor)
//   per_rank: the objective is the sum of every rank's loss (torch.distributed.nn.functional)
enum class Convention : uint8_t { global, per_rank };

struct AxisDecl {
  std::string name;
  int64_t size = 1;
  AxisKind kind = AxisKind::model;
  // Slowest first; product = size. Each part may be named in layouts like an axis of its own
  // (tp 16 = kv 8 x kvrep 2 for a model with 8 KV heads).
  std::vector<AxisDecl> parts;
  std::string pointer;
};

struct MeshDecl {
  std::optional<int64_t> world;          // checked against the product when stated
  std::vector<AxisDecl> axes;            // slowest-varying first, after "order" was applied
  std::vector<AxisDecl> expert_axes;     // a second factorisation of the same ranks, or empty
  std::vector<std::string> group_order;  // axes in the order in which their groups are created;
                                         // empty: fastest axis first
  std::string pointer = "/mesh";
};

// Placement text per axis name: "R", "S(1)", "P", "P(max)".
struct LayoutDecl {
  struct Entry {
    std::string axis;
    std::string placement;
    std::string pointer;
  };
  std::vector<Entry> entries;
  std::string pointer;
};

struct DimDecl {
  int64_t size = 0;
  bool batch = false;  // written "batch": the batch dim, split over the batch axes
};

enum class Residual : uint8_t { used, stored };

struct TensorDecl {
  std::string name;
  std::vector<DimDecl> shape;
  DType dtype = DType::f32;
  bool parameter = false;
  bool requires_grad = false;  // the reader's default: true for a parameter, else false
  bool uneven = false;         // "uneven": "ceil"
  std::optional<Residual> residual;
  std::string_view stored_by = "residual: stored";  // what asks for that, in the user's words
  std::optional<LayoutDecl> layout;
  std::string pointer;
};

// An op-specific key of the model file; which ones an op takes stands in the op table.
struct Attribute {
  std::variant<int64_t, double, bool, std::string, std::map<std::string, int64_t>, LayoutDecl>
      value;
  std::string pointer;
};

struct OpDecl {
  std::string op;    // row of the op table
  std::string name;  // defaults to the first output's name
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  int stage = 0;
  std::map<std::string, std::string>
      modes;  // axis -> "redundant" | "split(k)" | "linear" | "ring(s)"
  std::map<std::string, Attribute> attributes;
  std::string module;  // owner shown in summaries, e.g. "layers.3.mlp"; may be empty
  // Ops of one number are computed again together, right before the first of their backwards;
  // whatever they sent forward is sent again. -1: never.
  int recomputed = -1;
  std::string pointer;
};

struct PinDecl {
  std::string tensor;
  LayoutDecl layout;
  std::string pointer;
};

struct BatchDecl {
  std::optional<int64_t> local;   // samples per rank and step
  std::optional<int64_t> global;  // samples of the whole step
  std::vector<std::string> axes;  // the batch dim is split over these
  std::string pointer = "/batch";
};

struct PipelineDecl {
  std::string axis;
  std::string schedule = "1f1b";  // row of the schedule table
  int64_t chunks = 1;             // model chunks per pipeline rank
  std::string drain = "forward";  // gpipe: "forward" | "reversed"
  std::string p2p = "single";     // "single" | "batched" | "overlapped"
  bool warm_up_all = false;       // interleaved, as many microbatches as ranks: all forwards first
  // Int64 numbers that are sent ahead of every value that crosses a border, and of its gradient:
  // how it was cut (DeepSpeed).
  int64_t header = 0;
  std::string pointer = "/pipeline";
};

// A parameter as the framework registers it: one or several of the model's, held as one; or the same
// one of `parts` equal parts of each (one expert of those on a rank).
struct RegisteredDecl {
  std::vector<std::string> members;
  int stage = 0;
  int64_t part = 0, parts = 1;
};

enum class SyncKind : uint8_t { none, per_parameter, bucketed, zero1, zero2, zero3, fsdp };

// Parameters that are gathered together (fsdp, zero3).
struct ShardedUnitDecl {
  std::vector<std::string> parameters;
  // Every op of this module belongs to the unit, too, so that units of its parts are nested in it.
  // Empty: only the ops that read a parameter.
  std::string module;
  int64_t dim = 0;  // along which each rank keeps a part (fsdp)
  // Units whose gathers are issued when its own forward or backward begins, by number. Empty: in
  // the backward the unit that comes next.
  std::vector<size_t> forward_prefetch, backward_prefetch;
};

struct GradientSyncDecl {
  SyncKind kind = SyncKind::none;
  std::vector<std::string> axes;  // empty: every data axis
  bool mean = true;
  std::optional<bool> every_microbatch, overlap;  // defaults: analyzer/graph/sync_defaults.h
  std::optional<DType> dtype;  // gradients are cast to it; default: the parameter's
  std::optional<int64_t> first_bucket_bytes, bucket_bytes;  // defaults: likewise
  bool first_iteration = false;  // PyTorch DDP: one bucket per dtype in the first step
  bool close_before = false;     // a bucket closes before the gradient that would exceed its limit,
                                 // not when it has reached it (DeepSpeed)
  bool last_bucket_first = false;  // the first limit is that of the bucket that is sent last
  bool parameter_order = false;    // buckets in the order of the model, not of ready gradients
  bool tied_first = false;         // parameters on several stages before all others (DeepSpeed)
  // zero1, zero2: gradients are all-reduced, each rank then uses its part of them (DeepSpeed).
  bool whole_gradients = false;
  // zero1, zero2: one gather of all updated parameters, padded to a multiple of this for each rank;
  // 0: one gather per bucket.
  int64_t update_alignment = 0;
  int64_t persistent_elements = 0;  // zero3: a parameter of at most so many is not taken apart
  std::vector<ShardedUnitDecl> units;
  // fsdp: each part lives on several ranks of these, which add up their gradients (HSDP).
  std::vector<std::string> replicated;
  bool reshard_after_forward = true;   // fsdp
  bool reshard_last_unit = true;       // fsdp: after the forward, the unit that is used last too
  bool reshard_after_backward = true;  // fsdp: false: only after the last microbatch
  bool first_stage_only = false;       // the limits: on later stages everything is one bucket
  bool tied_alone = false;      // a parameter of several stages has a bucket of its own (Megatron)
  int64_t bucket_multiple = 1;  // sharded optimizers: buckets are padded to a multiple of it, too
  // The framework's parameters in the order in which it registers them. Buckets are then filled from
  // the last to the first (Megatron), each beginning at a multiple of `parameter_multiple` elements.
  std::vector<RegisteredDecl> registered;
  int64_t parameter_multiple = 1;
  // zero1 with `registered`: how often a step gathers what it updated (Megatron: each of its
  // optimizers does so); or the next step does it before the first use, bucket by bucket.
  int64_t update_rounds = 1;
  bool gather_before_use = false;
  std::string pointer = "/gradient_sync";
};

// Which rows go to which expert. Exactly one of `counts`, `skew`, or neither (balanced).
struct RoutingDecl {
  std::string name;
  std::string axis;  // the expert-parallel axis
  int64_t experts = 0;
  int64_t top_k = 1;
  std::vector<std::vector<int64_t>>
      counts;                // [source rank along `axis`, or one row for all][expert]
  std::vector<double> skew;  // relative load per expert
  std::optional<double> capacity_factor;
  bool pad_to_capacity = false;
  int64_t least_capacity = 0;  // rows, whatever the factor gives
  std::string pointer;
};

// Named behaviours in which frameworks differ; a profile is a set of these.
struct Switches {
  bool share_conversions = true;  // a value is converted once per target layout, not per consumer
  bool accumulate_first = true;   // equal-layout gradients add before they are converted
  Residual residual = Residual::used;
  bool lazy_partial = false;  // keep a Partial through linear ops instead of reducing at first use
  bool explicit_redistribution = false;  // implicit conversions are errors
  bool fused_column_linear = false;      // Megatron: the input gradient is reduced even if unneeded
  bool coalesce_model_sync = true;       // parameter gradients partial on a model axis: one call
  bool recompute_gathers = false;        // of what is computed again, only all-gathers are repeated
  RingKind ring = RingKind::messages;    // how the operands of an op pass by in a ring
  RingLaunch ring_launch = RingLaunch::pairs;  // of such a ring, if by messages

  bool operator==(const Switches&) const = default;
};

// A collective that no layout asks for: a batch handed out, token counts of experts, a scalar of
// the step. Nothing depends on its result, and no gradient passes through it.
struct CallDecl {
  enum class When : uint8_t {
    forward,        // in every microbatch's forward, right before the op named `before`
    backward,       // in every microbatch's backward, right before that op's
    synchronised,   // once per step, when all gradients are whole
    before_update,  // then, before the optimizer's parts are gathered
    after_update,   // at the end of the step
  };
  std::string name;    // what moves: "tokens", "grad_norm"
  std::string module;  // owner
  Collective op = Collective::all_reduce;
  Combiner combiner = Combiner::sum;
  std::vector<std::string> axes;  // one group over all of them
  DType dtype = DType::f32;
  Shape shape;  // of what one rank hands over
  When when = When::after_update;
  std::string before;
  bool again = true;         // forward: repeated where that op is computed again
  bool once = false;         // forward: of the first microbatch alone
  std::optional<int> stage;  // once per step: only this stage's ranks
  std::string why;
};

struct Model {
  std::string file = "<model>";  // as the user named it, for messages
  std::string name;
  MeshDecl mesh;
  Convention convention = Convention::global;
  std::map<std::string, Convention> axis_convention;  // overrides per axis
  std::optional<BatchDecl> batch;
  int64_t microbatches = 1;
  std::string microbatches_pointer = "/microbatches";
  std::vector<TensorDecl> tensors;
  std::vector<OpDecl> ops;
  std::vector<PinDecl> pins;
  std::string loss;  // tensor; empty: forward only
  bool loss_scale_global = false;
  std::optional<PipelineDecl> pipeline;
  GradientSyncDecl gradient_sync;
  std::vector<RoutingDecl> routing;
  std::vector<CallDecl> calls;
  Switches switches;
  std::optional<Count> published_parameters;  // where the real count differs: a padded vocabulary
  std::vector<Remark> remarks;                // of the reader
};

}  // namespace s2t

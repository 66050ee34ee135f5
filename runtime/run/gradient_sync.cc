#include "runtime/run/gradient_sync.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "analyzer/graph/sync_defaults.h"

namespace s2t {
namespace {

Tensor zeros_like(const Tensor& t) {
  return Tensor(t.shape(), t.dtype());
}

// The last of the running ops that lie in a unit.
OpId last_within(const std::vector<OpId>& running, const Parameters::Unit& u) {
  OpId found;
  for (const OpId op : running)
    if (op >= u.first && op <= u.last) found = op;
  return found;
}

// Where elements `begin` to `end` of a dim lie in a tensor laid flat.
std::vector<Stretch> stretches(const Shape& shape, size_t dim, int64_t begin, int64_t end) {
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d < shape.size(); ++d) (d < dim ? outer : inner) *= shape[d];
  const int64_t row = shape[dim] ? inner / shape[dim] : 0;
  std::vector<Stretch> all;
  for (int64_t o = 0; o < outer; ++o)
    all.push_back(
        {o * inner + std::min(begin * row, inner), o * inner + std::min(end * row, inner)});
  return all;
}

}  // namespace

// --- when things happen --------------------------------------------------------------------------

void GradientSync::begin_forward(int stage, const Tag& tag) {
  begin(stage, tag);
  if (graph_.sync.gather_before_use) plan_first_uses(stage);
  for (const Unit& u : parameters_.units())
    if (u.stage == stage && !graph_.sync.reshard_after_backward && parameters_.gathered(u))
      there_.insert(&u);
}

void GradientSync::begin(int stage, const Tag& tag) {
  stage_ = stage;
  tag_ = tag;
  there_.clear();
}

void GradientSync::begin_backward(int stage, const Tag& tag, const std::vector<OpId>& running,
                                  const RequiresGrad& requires_grad) {
  begin(stage, tag);
  const int64_t begun = ++backwards_[stage];
  reduces_now_ = every_microbatch(graph_.sync) || begun == graph_.microbatches;
  if (begun == 1) plan_stage(stage, running);
  plan_units(stage, running, requires_grad);
}

// Whether anything but parameters comes into a unit that requires grad.
bool GradientSync::entered_by_any(const Unit& unit, const RequiresGrad& requires_grad) const {
  std::set<TensorId> made;
  for (OpId o = unit.first; o <= unit.last; ++o.value) {
    const Op& op = graph_.op(o);
    if (op.stage != unit.stage) continue;
    const bool received = op.is("transfer");
    for (const TensorId t : received ? op.outputs : op.inputs)
      if (!made.count(t) && !graph_.value(t).parameter && requires_grad(t)) return true;
    made.insert(op.outputs.begin(), op.outputs.end());
  }
  return false;
}

// A unit reduces in the hook of what came into it; where nothing there requires grad there is no
// hook, and the callback at the end of the backward makes up for it: the root first.
void GradientSync::plan_reductions(const std::vector<const Unit*>& units,
                                   const std::vector<OpId>& running,
                                   const RequiresGrad& requires_grad) {
  if (graph_.sync.kind != SyncKind::fsdp) return;
  const bool apart = overlaps(graph_.sync);
  std::vector<const Unit*> order = units;
  if (apart) {
    std::reverse(order.begin(), order.end());
    std::stable_sort(order.begin(), order.end(), [](const Unit* a, const Unit* b) {
      return std::tuple(a->root, -a->last.value) < std::tuple(b->root, -b->last.value);
    });
  }
  const auto hooked = [&](const Unit* u) { return apart && entered_by_any(*u, requires_grad); };
  for (const Unit* u : order)
    if (const OpId end = last_within(running, *u); end.valid() && hooked(u))
      scatters_[end].push_back(u);
  for (const Unit* u : units)
    if (last_within(running, *u).valid() && !hooked(u)) scatters_[running.back()].push_back(u);
}

void GradientSync::parameter_ready(TensorId p, std::vector<Gradient> arrived) {
  for (const Gradient& g : arrived) {
    const auto leaf = std::find_if(leaves_.begin(), leaves_.end(), [&](const Leaf& l) {
      return l.parameter == p && l.stage == stage_ && l.held == g.held;
    });
    if (leaf == leaves_.end())
      throw Fault("the gradient of " + graph_.value(p).name + " is held in an unexpected way");
    leaf->fresh = add(leaf->fresh, resized(g.data.cast(leaf->dtype), leaf->shape));
  }
}

void GradientSync::after_backward(OpId op) {
  if (!reduces_now_) return;
  if (const auto it = scatters_.find(op); it != scatters_.end())
    for (const Unit* u : it->second) scatter_unit(*u);
  if (!in_backward(graph_.sync)) return;
  if (graph_.sync.kind == SyncKind::per_parameter)
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].ready == op) reduce_alone(i);
  for (const Bucket& b : buckets_)
    if (b.ready == op) reduce(b);
}

void GradientSync::finish(const std::function<void(CallDecl::When)>& between) {
  tag_ = {};
  for (Leaf& leaf :
       silent_leaves(graph_, forward_, leaves_, [&](TensorId p) { return parameters_.has(p); }))
    leaves_.push_back(std::move(leaf));
  std::vector<size_t> order;
  for (size_t i = 0; i < leaves_.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(leaves_[a].parameter, leaves_[a].stage) <
           std::tuple(leaves_[b].parameter, leaves_[b].stage);
  });
  // The backward began with the last chunk; Megatron goes through them in order.
  std::stable_sort(buckets_.begin(), buckets_.end(), [&](const Bucket& a, const Bucket& b) {
    return leaves_[a.leaves[0]].stage < leaves_[b.leaves[0]].stage;
  });
  if (graph_.sync.tied_first) reduce_tied(order, &Leaf::fresh);
  if (!in_backward(graph_.sync)) {
    if (graph_.sync.kind == SyncKind::per_parameter)
      for (const size_t i : order) reduce_alone(i);
    for (const Bucket& b : buckets_) reduce(b);
  }
  for (Leaf& leaf : leaves_) leaf.total = add(leaf.total, leaf.fresh);  // what nobody reduces
  scale();
  reduce_model_axes(order);
  if (!graph_.sync.tied_first) reduce_tied(order, &Leaf::total);
  between(CallDecl::When::synchronised);
  between(CallDecl::When::before_update);
  step();
  gather_updates();
  between(CallDecl::When::after_update);
}

// --- buckets -------------------------------------------------------------------------------------

void GradientSync::plan_stage(int stage, const std::vector<OpId>& running) {
  std::vector<size_t> to_reduce;
  for (Leaf& leaf : leaves_of_stage(graph_, forward_, stage, running)) {
    if (leaf.data) to_reduce.push_back(leaves_.size());
    leaves_.push_back(std::move(leaf));
  }
  const SyncKind kind = graph_.sync.kind;
  if (kind == SyncKind::none || kind == SyncKind::per_parameter || kind == SyncKind::fsdp) return;
  if (running.empty()) return;  // the whole stage is frozen, or the loss does not depend on it
  const bool registered = !graph_.sync.registered.empty();
  for (Bucket& b : registered
                       ? buckets_of_registered(graph_, leaves_, to_reduce, stage)
                       : buckets_of(graph_.sync, leaves_, std::move(to_reduce), running.back()))
    buckets_.push_back(std::move(b));
}

// --- reductions ----------------------------------------------------------------------------------

Tag GradientSync::tag_for(const char* phase, const std::vector<size_t>& leaves) const {
  Tag tag;
  tag.phase = phase;
  tag.chunk = tag_.chunk;
  if (every_microbatch(graph_.sync)) tag.microbatch = tag_.microbatch;
  for (const size_t i : leaves) tag.members.push_back(graph_.value(leaves_[i].parameter).name);
  tag.tensor = tag.members[0];
  return tag;
}

Family GradientSync::family_of(const std::vector<size_t>& leaves, AtomSet atoms) const {
  return family_over(graph_, atoms, graph_.value(leaves_[leaves[0]].parameter).expert);
}

void GradientSync::now_whole(Leaf& leaf, AtomSet atoms) {
  for (size_t a = 0; a < graph_.atoms(); ++a)
    if (contains(atoms, AtomIndex(a))) leaf.after[AtomIndex(a)] = Placement::R();
  leaf.fresh = zeros_like(leaf.fresh);
}

void GradientSync::reduce_alone(size_t i) {
  Leaf& leaf = leaves_[i];
  if (!leaf.data) return;
  const Tensor sum =
      exchange_.all_reduce(leaf.fresh, family_of({i}, leaf.data), tag_for("grad_sync", {i}));
  leaf.total = add(leaf.total, sum);
  now_whole(leaf, leaf.data);
}

void GradientSync::reduce(const Bucket& bucket) {
  if (graph_.sync.kind == SyncKind::zero3) return scatter_rows(bucket.leaves);
  if (graph_.sync.kind != SyncKind::bucketed && !graph_.sync.whole_gradients)
    return reduce_scatter(bucket);
  const auto size = static_cast<int64_t>(bucket.elements);
  const auto fresh = [&](size_t i) -> Tensor& { return leaves_[i].fresh; };
  const auto total = [&](size_t i) -> Tensor& { return leaves_[i].total; };
  const AtomSet data = leaves_[bucket.leaves[0]].data;
  const Tensor sum =
      reduce_whole(bucket, packed(bucket, size, fresh), family_of(bucket.leaves, data));
  unpack(add(packed(bucket, sum.size(), total), sum), bucket, total);
  reduced(bucket, data);
}

// What was not reduced of these gradients is now gone.
void GradientSync::reduced(const Bucket& bucket, AtomSet atoms) {
  const auto fresh = [&](size_t i) -> Tensor& { return leaves_[i].fresh; };
  unpack(zeros_like(packed(bucket, static_cast<int64_t>(bucket.elements), fresh)), bucket, fresh);
  for (const size_t i : bucket.leaves)
    for (size_t a = 0; a < graph_.atoms(); ++a)
      if (contains(atoms, AtomIndex(a))) leaves_[i].after[AtomIndex(a)] = Placement::R();
}

// All-reduced in one call, or as DeepSpeed cuts and pads it.
Tensor GradientSync::reduce_whole(const Bucket& bucket, const Tensor& terms, const Family& family) {
  const Tag tag = tag_for("grad_sync", bucket.leaves);
  if (!graph_.sync.whole_gradients) return exchange_.all_reduce(terms, family, tag);
  const auto calls = sizes_of_calls(graph_.sync, leaves_, bucket,
                                    graph_.mesh.size(leaves_[bucket.leaves[0]].data));
  Tensor flat = resized(terms, {std::accumulate(calls.begin(), calls.end(), int64_t{0})});
  int64_t at = 0;
  for (const int64_t size : calls) {
    paste(flat, exchange_.all_reduce(slice(flat, 0, at, size), family, tag), 0, at);
    at += size;
  }
  return flat;
}

// One of n equal parts of a bucket, which is padded for it and to the multiple that is stated.
int64_t GradientSync::part_of(const Bucket& bucket, int64_t n) const {
  const int64_t multiple = std::lcm(n, graph_.sync.bucket_multiple);
  return (static_cast<int64_t>(bucket.elements) + multiple - 1) / multiple * multiple / n;
}

// The flat bucket is padded to equal parts; this rank's part of the sum lands in `total`.
void GradientSync::reduce_scatter(const Bucket& bucket) {
  const AtomSet data = leaves_[bucket.leaves[0]].data;
  const int64_t n = graph_.mesh.size(data);
  const int64_t part = part_of(bucket, n);
  const int64_t mine = graph_.mesh.coordinate(exchange_.rank(), data) * part;
  const auto fresh = [&](size_t i) -> Tensor& { return leaves_[i].fresh; };
  const auto held = [&](size_t i) -> Tensor& { return leaves_[i].total; };
  const Tensor sum =
      exchange_.reduce_scatter(packed(bucket, part * n, fresh), family_of(bucket.leaves, data),
                               tag_for("grad_sync", bucket.leaves));
  Tensor total = packed(bucket, part * n, held);
  paste(total, add(slice(total, 0, mine, part), sum), 0, mine);
  unpack(total, bucket, held);
  for (const Piece& piece : bucket.pieces) {
    std::vector<Stretch>& owned = leaves_[piece.leaf].owned;
    std::erase_if(owned, [&](const Stretch& s) {
      return s.begin >= piece.of.begin && s.end <= piece.of.end;
    });
    const int64_t end = piece.at + piece.of.end - piece.of.begin;
    const int64_t from = std::clamp(mine, piece.at, end);
    const int64_t to = std::clamp(mine + part, piece.at, end);
    owned.push_back({piece.of.begin + from - piece.at, piece.of.begin + to - piece.at});
  }
  reduced(bucket, data);
}

void GradientSync::scatter_unit(const Unit& unit) {
  std::map<std::pair<AtomSet, DType>, std::vector<size_t>> groups;
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (leaves_[i].stage == stage_ && leaves_[i].data &&
        std::count(unit.members.begin(), unit.members.end(), leaves_[i].parameter))
      groups[{leaves_[i].data, leaves_[i].dtype}].push_back(i);
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (leaves_[i].stage == stage_ && leaves_[i].data && leaves_[i].model &&
        std::count(unit.members.begin(), unit.members.end(), leaves_[i].parameter))
      whole_on_model_axes(i);
  for (const auto& [key, leaves] : groups) scatter_rows(leaves);
}

// Rank by rank, parameter by parameter; each parameter padded to equal parts.
void GradientSync::scatter_rows(const std::vector<size_t>& leaves) {
  const AtomSet all_data = leaves_[leaves[0]].data, data = all_data & ~copies(graph_);
  const int64_t n = graph_.mesh.size(data);
  const int64_t mine = graph_.mesh.coordinate(exchange_.rank(), data);
  std::vector<Tensor> blocks;
  for (int64_t r = 0; r < n; ++r)
    for (const size_t i : leaves) blocks.push_back(rows_of(leaves_[i].fresh, leaves_[i], n, r));
  std::vector<const Tensor*> all;
  for (const Tensor& b : blocks) all.push_back(&b);
  const Tag tag = tag_for("grad_sync", leaves);
  Tensor sum = exchange_.reduce_scatter(flattened(all), family_of(leaves, data), tag);
  if (const AtomSet same = all_data & copies(graph_); graph_.mesh.size(same) > 1)
    sum = exchange_.all_reduce(sum, family_of(leaves, same), tag);
  int64_t at = 0;
  for (const size_t i : leaves) {
    Leaf& leaf = leaves_[i];
    const Tensor block = rows_of(leaf.fresh, leaf, n, mine);
    add_rows(leaf, n, mine, slice(sum, 0, at, block.size()).reshaped(block.shape()));
    at += block.size();
    now_whole(leaf, all_data);
  }
}

// FSDP2 keeps parts of a DTensor's local tensor: a gradient that is still a sum of terms over the
// ranks of the DTensor is summed there first. One of one microbatch has the parameter's type; what
// was accumulated over several has that of the reduction.
void GradientSync::whole_on_model_axes(size_t i) {
  Leaf& leaf = leaves_[i];
  const DType type =
      every_microbatch(graph_.sync) ? graph_.value(leaf.parameter).dtype : leaf.dtype;
  leaf.fresh =
      exchange_
          .all_reduce(leaf.fresh.cast(type), family_of({i}, leaf.model), tag_for("grad_sync", {i}))
          .cast(leaf.dtype);
  for (size_t a = 0; a < graph_.atoms(); ++a)
    if (contains(leaf.model, AtomIndex(a))) leaf.after[AtomIndex(a)] = Placement::R();
}

// Rows r of n equal, rounded-up parts of a gradient.
Tensor GradientSync::rows_of(const Tensor& t, const Leaf& leaf, int64_t n, int64_t r) const {
  const int64_t each = parameters_.rows_per_rank(leaf.parameter, n);
  const int dim = parameters_.row_dim(leaf.parameter);
  Shape shape = parameters_.as_rows(t.shape());
  const Tensor rows = t.reshaped(shape);
  shape[static_cast<size_t>(dim)] = each * n;
  return slice(resized(rows, shape), dim, r * each, each);
}

void GradientSync::add_rows(Leaf& leaf, int64_t n, int64_t r, const Tensor& rows) {
  const auto dim = static_cast<size_t>(parameters_.row_dim(leaf.parameter));
  const Shape whole = leaf.total.shape(), shape = parameters_.as_rows(whole);
  const int64_t each = rows.shape()[dim], begin = r * each;
  Shape padded = shape;
  padded[dim] = each * n;
  Tensor total = resized(leaf.total.reshaped(shape), padded);
  const Tensor sum = add(slice(total, static_cast<int>(dim), begin, each), rows);
  paste(total, sum, static_cast<int>(dim), begin);
  leaf.total = resized(total, shape).reshaped(whole);
  leaf.owned = stretches(shape, dim, begin, begin + each);
}

// Gradients that are still terms on model axes (norm weights under sequence parallelism).
void GradientSync::reduce_model_axes(const std::vector<size_t>& order) {
  std::map<std::tuple<int, AtomSet, DType>, std::vector<size_t>> groups;
  for (const size_t i : order)
    if (leaves_[i].model && !(graph_.sync.kind == SyncKind::fsdp && leaves_[i].data))
      groups[{graph_.switches.coalesce_model_sync ? 0 : leaves_[i].stage, leaves_[i].model,
              leaves_[i].dtype}]
          .push_back(i);
  for (const auto& [key, leaves] : groups) {
    std::vector<std::vector<size_t>> calls;
    for (const size_t i : leaves)
      if (calls.empty() || !graph_.switches.coalesce_model_sync)
        calls.push_back({i});
      else
        calls.back().push_back(i);
    for (const auto& call : calls) {
      std::vector<const Tensor*> totals;
      std::vector<Tensor*> back;
      for (const size_t i : call) totals.push_back(&leaves_[i].total);
      const Tensor sum = exchange_.all_reduce(flattened(totals), family_of(call, std::get<1>(key)),
                                              tag_for("grad_sync", call));
      for (const size_t i : call) back.push_back(&leaves_[i].total);
      unflatten(sum, back);
      for (const size_t i : call) now_whole(leaves_[i], std::get<1>(key));
    }
  }
}

// A parameter that lives on several stages: each has the gradient of its own uses.
void GradientSync::reduce_tied(const std::vector<size_t>& order, Tensor Leaf::*held) {
  std::set<TensorId> done;
  for (const size_t i : order) {
    Leaf& leaf = leaves_[i];
    const auto family = family_of_tied(graph_, leaf.parameter);
    if (!family || !done.insert(leaf.parameter).second) continue;
    for (const size_t other : order)
      if (other != i && leaves_[other].parameter == leaf.parameter) {
        leaf.*held = add(leaf.*held, leaves_[other].*held);
        leaves_[other].*held = zeros_like(leaf.*held);
      }
    leaf.*held = exchange_.all_reduce(leaf.*held, *family, tag_for("grad_sync", {i}));
  }
}

void GradientSync::scale() {
  const int64_t divisor = mean_divisor_of_sync(graph_);
  if (divisor == 1 || options_.hooks.skip_gradient_scale) return;
  for (Leaf& leaf : leaves_) leaf.total = scaled(leaf.total, 1.0 / static_cast<double>(divisor));
}

// --- the step ------------------------------------------------------------------------------------

// All that this rank knows of each parameter's gradient, in one buffer. Where one leaf holds terms
// and another the whole, one rank of the axis keeps the whole.
std::map<TensorId, Held> GradientSync::sums() const {
  std::map<TensorId, Held> out;
  for (const Leaf& leaf : leaves_) {
    const auto [at, fresh] = out.emplace(leaf.parameter, Held{leaf.total, leaf.after, leaf.owned});
    if (fresh) continue;
    Held& sum = at->second;
    Tensor mine = leaf.total;
    for (size_t a = 0; a < graph_.atoms(); ++a) {
      const AtomIndex atom(a);
      if (sum.layout[atom] == leaf.after[atom]) continue;
      const bool keeps = graph_.mesh.coordinate(exchange_.rank(), atom) == 0;
      Tensor& whole = sum.layout[atom].is_replicate() ? sum.data : mine;
      if (!keeps) whole = zeros_like(whole);
      sum.layout[atom] = Placement::P();
    }
    sum.data = add(sum.data, mine);
  }
  return out;
}

std::map<TensorId, Held> GradientSync::gradients() const {
  std::map<TensorId, Held> out = sums();
  for (auto& [p, held] : out) held = without_padding(p, std::move(held));
  return out;
}

// Gradients are kept in blocks of the rounded-up size; what counts is the rank's real part.
Held GradientSync::without_padding(TensorId p, Held held) const {
  const Value& v = graph_.value(p);
  const Shape shape = region_of(v.shape, v.layout, graph_.mesh, exchange_.rank()).size;
  if (shape == held.data.shape()) return held;
  if (!held.owned.empty()) {
    Tensor marks(held.data.shape(), DType::f64);
    std::vector<double> x(static_cast<size_t>(marks.size()), 0);
    for (const Stretch& s : held.owned) std::fill(x.begin() + s.begin, x.begin() + s.end, 1.0);
    marks.write<double>(x);
    const auto kept = resized(marks, shape).read<double>();
    held.owned = {{0, 0}};
    for (size_t i = 0; i < kept.size(); ++i)
      if (kept[i] != 0)
        held.owned.push_back({static_cast<int64_t>(i), static_cast<int64_t>(i) + 1});
  }
  held.data = resized(held.data, shape);
  return held;
}

std::map<TensorId, Held> GradientSync::updated() const {
  std::map<TensorId, Held> out;
  for (const Leaf& leaf : leaves_) {
    const Value& v = graph_.value(leaf.parameter);
    Held held{parameters_.current(leaf.parameter), v.layout, {}};
    if (parameters_.sharded(leaf.parameter) || graph_.sync.gather_before_use)
      held.owned = leaf.owned;
    out.emplace(leaf.parameter, without_padding(leaf.parameter, std::move(held)));
  }
  return out;
}

}  // namespace s2t

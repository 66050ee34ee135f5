#include "runtime/run/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "analyzer/base/text.h"
#include "runtime/run/data.h"
#include "runtime/run/leaves.h"
#include "runtime/run/local_op.h"
#include "runtime/run/rounding.h"

namespace s2t {
namespace {

double max_abs(const Tensor& t) {
  double most = 0;
  for (const double x : t.read<double>()) most = std::max(most, std::abs(x));
  return most;
}

bool all_finite(const Tensor& t) {
  for (const double x : t.read<double>())
    if (!std::isfinite(x)) return false;
  return true;
}

// How many times too large each value is because ranks average over their own elements.
std::vector<double> excess_of_values(const Graph& graph, const Forward& forward) {
  std::vector<double> excess(graph.values.size(), 1);
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    double e = 1;
    for (const TensorId t : op.inputs) e = std::max(e, excess[t.at()]);
    if (is_mean(op)) e *= mean_excess(graph, forward, OpId(o));
    for (const TensorId t : op.outputs) excess[t.at()] = e;
  }
  return excess;
}

void refuse_two_scales(const Graph& graph, const std::vector<double>& excess, const Op& op) {
  for (const std::vector<size_t>& group : op.rule->linear)
    for (const size_t i : group) {
      const TensorId a = op.inputs[group.front()], b = op.inputs[i];
      const double ratio = excess[b.at()] / excess[a.at()];
      if (std::abs(ratio - 1) < 1e-9) continue;
      throw UserError(
          graph.file,
          {{op.pointer,
            fmt::format("{} adds {}, {:g} times the unsharded one because ranks average over their "
                        "own elements, to {}, {:g} times",
                        op.name, quoted(graph.value(b).name), excess[b.at()],
                        quoted(graph.value(a).name), excess[a.at()]),
            "terms that are equally many times too large, or nothing tells what the sum should be",
            "Say \"loss_scale\": \"global\", or shard what the means are of alike; `predict` takes "
            "it as it is.",
            "mixed-means"}});
    }
}

// Numbers of one kind compared with the unsharded ones.
class Comparison {
 public:
  // How far numbers may stray from the unsharded ones by rounding alone.
  using Rounded = std::function<double()>;

  Comparison(std::string name, double tolerance) {
    check_.name = std::move(name);
    check_.tolerance = tolerance;
  }

  // Errors count relative to `size`. `rounded` is asked only about those that would be too great.
  void add(const std::string& what, double error, double size, Rounded rounded) {
    entries_.push_back({what, error, size, std::move(rounded)});
  }
  // A tensor of almost nothing is measured by the greatest of its kind.
  void of_kind(double size) { kind_ = std::max(kind_, size); }
  void fail(const std::string& text) {
    if (check_.passed) check_.text = text;
    check_.passed = false;
  }

  Check finish(double& max_abs_error) {
    const bool was_right = check_.passed;
    std::string worst;
    for (const Entry& e : entries_) {
      const double relative = relative_error(e);
      max_abs_error = std::max(max_abs_error, e.error);
      if (relative <= check_.figure && !worst.empty()) continue;
      check_.figure = std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
      worst = e.what;
    }
    if (!(check_.figure <= check_.tolerance)) check_.passed = false;
    if (unjudged_ > 0 && unjudged_ == entries_.size()) check_.passed = false;  // it says nothing
    if (was_right) check_.text = text(worst);
    return check_;
  }

 private:
  struct Entry {
    std::string what;
    double error, size;
    Rounded rounded;
  };

  double relative_error(const Entry& e) {
    constexpr double kTimes = 8;   // a run rounds more often than the unsharded model
    constexpr double kMost = 0.9;  // counted twice, or not at all, it strays by all of it
    const double size = std::max(e.size, 1e-3 * kind_);
    if (e.error == 0) return 0;
    if (check_.tolerance == 0 || e.error <= check_.tolerance * size)
      return size == 0 ? e.error : e.error / size;
    const double rounded = kTimes * e.rounded();
    const double most = std::max(kMost * e.size, check_.tolerance * kind_);
    if (most < e.error && e.error <= rounded) {
      ++unjudged_;
      return 0;
    }
    measured_ += rounded > check_.tolerance * size ? 1 : 0;
    return e.error / std::max(size, rounded / check_.tolerance);
  }

  std::string text(const std::string& worst) const {
    if (entries_.empty()) return "nothing to compare";
    std::string text = fmt::format("{} tensors, worst {}", entries_.size(), worst);
    if (measured_)
      text += fmt::format(", {} measured by what rounding does to them unsharded", measured_);
    if (unjudged_)
      text +=
          fmt::format(", {} not judged: rounding unsharded does as much as they are", unjudged_);
    return text;
  }

  Check check_;
  std::vector<Entry> entries_;
  double kind_ = 0;
  size_t measured_ = 0;  // entries for which rounding alone is more than the tolerance
  size_t unjudged_ = 0;  // and those that it may change altogether
};

class Verdict {
 public:
  Verdict(const Graph& graph, const Forward& forward, const Reference& reference,
          const std::vector<RankReport>& reports, bool exact, double learning_rate)
      : graph_(graph),
        forward_(forward),
        reference_(reference),
        reports_(reports),
        narrowest_(narrowest(graph)),
        rounding_(graph, forward, reference, narrowest_),
        tolerance_(exact ? 0 : tolerance_of(narrowest_)),
        gradient_tolerance_(
            exact ? 0 : std::max(tolerance_, tolerance_of(graph.sync.dtype.value_or(narrowest_)))),
        learning_rate_(learning_rate) {}

  Judgement judge() {
    forward_values();
    loss_is_finite();
    if (graph_.loss.valid()) {
      parameter_gradients();
      input_gradients();
      replicas();
      update();
    }
    return std::move(out_);
  }

 private:
  static DType narrowest(const Graph& graph) {
    DType dtype = DType::f64;
    for (const Value& v : graph.values)
      if (is_differentiable(v.dtype) && tolerance_of(v.dtype) > tolerance_of(dtype))
        dtype = v.dtype;
    return dtype;
  }

  // Ranks that hold an entry of a report's map, one list per pipeline coordinate.
  template <class Map, class Key>
  std::map<int64_t, std::vector<Rank>> holders(Map RankReport::*map, const Key& key) const {
    std::map<int64_t, std::vector<Rank>> by_stage;
    const auto atom = graph_.mesh.pipeline_atom();
    for (const RankReport& r : reports_)
      if ((r.*map).count(key))
        by_stage[atom ? graph_.mesh.coordinate(r.rank, *atom) : 0].push_back(r.rank);
    return by_stage;
  }

  template <class Map, class Key>
  Assembled put_together(Map RankReport::*map, const Key& key, TensorId value,
                         const std::vector<Rank>& ranks) const {
    return assemble(graph_.value(value).shape, DType::f64, graph_.mesh, ranks,
                    [&](Rank r) -> const Held& { return (reports_[r.at()].*map).at(key); });
  }

  static double error(const Assembled& found, const Tensor& expected) {
    return std::max(max_abs_difference(found.whole, expected), found.replica_difference);
  }

  void forward_values() {
    Comparison c("forward", tolerance_);
    const auto excess = excess_of_values(graph_, forward_);
    for (int64_t m = 0; m < graph_.microbatches; ++m)
      for (size_t v = 0; v < graph_.values.size(); ++v) {
        const Value& value = graph_.values[v];
        if (value.leaf() || value.routing) continue;
        const auto key = std::pair(m, TensorId(v));
        const auto held = holders(&RankReport::values, key);
        if (held.empty()) c.fail("no rank computed " + value.name);
        for (const auto& [stage, ranks] : held) {
          const Assembled a = put_together(&RankReport::values, key, TensorId(v), ranks);
          const Tensor& expected = reference_.values[static_cast<size_t>(m)][v];
          const double size = excess[v] * max_abs(expected);
          c.of_kind(size);
          c.add(value.name, error(a, scaled(expected, excess[v])), size,
                [=, this, e = excess[v]] { return e * rounding_.of_value(m, TensorId(v)); });
        }
      }
    out_.checks.push_back(c.finish(out_.max_abs_error));
  }

  void loss_is_finite() {
    if (!graph_.loss.valid()) return;
    Check check{"loss_finite", true, 0, 0, ""};
    for (const RankReport& r : reports_)
      for (const auto& [key, held] : r.values)
        if (key.second == graph_.loss) {
          check.figure += 1;
          check.passed &= all_finite(held.data);
        }
    check.passed &= check.figure > 0;
    check.text = fmt::format("{} losses", check.figure);
    out_.checks.push_back(check);
  }

  // A gradient may vanish by cancellation (the mean of a softmax is constant), and then what is
  // left is rounding. Moving a leaf by its own size would move the loss by gradient times leaf: a
  // hundredth of the loss is what gradients are measured by at least (Comparison::of_kind).
  double least_gradient(TensorId leaf, int64_t m) const {
    const auto& values = reference_.values[static_cast<size_t>(m)];
    const double size = max_abs(values[leaf.at()]);
    return 1e-2 * max_abs(values[graph_.loss.at()]) / (size > 0 ? size : 1);
  }

  double least_gradient(TensorId p) const {
    double least = 0;
    for (int64_t m = 0; m < graph_.microbatches; ++m) least += least_gradient(p, m);
    return least;
  }

  void parameter_gradients() {
    Comparison c("gradients", gradient_tolerance_);
    const double factor = gradient_factor(graph_, forward_, true);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const TensorId p(v);
      if (!graph_.values[v].parameter) continue;
      const auto expected = reference_.parameter_gradients.find(p);
      const auto held = holders(&RankReport::gradients, p);
      if ((expected == reference_.parameter_gradients.end()) != held.empty())
        c.fail(fmt::format("{} has a gradient {}", graph_.values[v].name,
                           held.empty() ? "only in the unsharded model" : "only in the run"));
      if (expected == reference_.parameter_gradients.end()) continue;
      for (const auto& [stage, ranks] : held) {
        const Assembled a = put_together(&RankReport::gradients, p, p, ranks);
        const double size = max_abs(expected->second);
        c.of_kind(factor * std::max(size, least_gradient(p)));
        c.add(graph_.values[v].name, error(a, scaled(expected->second, factor)), factor * size,
              [=, this] { return factor * rounding_.of_gradient(p); });
      }
    }
    out_.checks.push_back(c.finish(out_.max_abs_error));
    out_.checks.back().text += fmt::format(", {} times the unsharded ones", factor);
  }

  // An input that several stages read has a term of its gradient on each.
  void input_gradients() {
    Comparison c("input_gradients", tolerance_);
    const double factor = gradient_factor(graph_, forward_, false);
    for (int64_t m = 0; m < graph_.microbatches; ++m)
      for (size_t v = 0; v < graph_.values.size(); ++v) {
        const Value& value = graph_.values[v];
        if (!value.leaf() || value.parameter) continue;
        const auto& references = reference_.input_gradients[static_cast<size_t>(m)];
        const auto expected = references.find(TensorId(v));
        const auto key = std::pair(m, TensorId(v));
        const auto held = holders(&RankReport::input_gradients, key);
        if ((expected == references.end()) != held.empty())
          c.fail(fmt::format("{} has a gradient {}", value.name,
                             held.empty() ? "only in the unsharded model" : "only in the run"));
        if (expected == references.end() || held.empty()) continue;
        Tensor total(value.shape, DType::f64);
        double replica_difference = 0;
        for (const auto& [stage, ranks] : held) {
          const Assembled a = put_together(&RankReport::input_gradients, key, TensorId(v), ranks);
          total = add(total, a.whole);
          replica_difference = std::max(replica_difference, a.replica_difference);
        }
        if (!all_finite(total)) c.fail("the gradient of " + value.name + " is not finite");
        const double size = max_abs(expected->second);
        c.of_kind(factor * std::max(size, least_gradient(TensorId(v), m)));
        c.add(value.name, error({total, replica_difference}, scaled(expected->second, factor)),
              factor * size,
              [=, this] { return factor * rounding_.of_input_gradient(m, TensorId(v)); });
      }
    out_.checks.push_back(c.finish(out_.max_abs_error));
  }

  // Coordinates on which two ranks may differ and still have to hold the same bits: data axes over
  // which the parameter is replicated and its gradient whole, and stages that share it.
  std::vector<int64_t> replica_of(const RankReport& r, TensorId p) const {
    std::vector<int64_t> key;
    for (size_t i = 0; i < graph_.atoms(); ++i) {
      const AtomIndex a(i);
      const AxisKind kind = graph_.mesh.atoms()[i].kind;
      const bool same = kind == AxisKind::data && graph_.value(p).layout[a].is_replicate() &&
                        !r.gradients.at(p).layout[a].is_partial();
      key.push_back(same || kind == AxisKind::pipeline ? 0 : graph_.mesh.coordinate(r.rank, a));
    }
    return key;
  }

  void replicas() {
    Check check{"replicas", true, 0, 0, ""};
    size_t compared = 0;
    std::map<std::pair<TensorId, std::vector<int64_t>>, const Held*> first;
    for (const RankReport& r : reports_)
      for (const auto& [p, held] : r.updated) {
        if (!held.owned.empty()) continue;  // fully sharded: there is one of each row
        const auto [at, fresh] = first.emplace(std::pair(p, replica_of(r, p)), &held);
        if (fresh) continue;
        ++compared;
        if (at->second->data == held.data) continue;
        check.figure += 1;
        if (check.passed)
          check.text = fmt::format("{} of rank {} differs from its replica's", graph_.value(p).name,
                                   r.rank.value);
        check.passed = false;
      }
    if (check.passed) check.text = fmt::format("{} pairs, bit for bit", compared);
    out_.checks.push_back(check);
  }

  // A step adds what may be wrong with a gradient to a few roundings of the parameter.
  void update() {
    Comparison c("update", gradient_tolerance_);
    const double step = learning_rate_ * gradient_factor(graph_, forward_, true);
    const bool exact = gradient_tolerance_ == 0;
    const double few = exact ? 1 : 4 * unit_roundoff(narrowest_) / gradient_tolerance_;
    for (const auto& [p, gradient] : reference_.parameter_gradients) {
      const Tensor& before = reference_.values[0][p.at()];
      for (const auto& [stage, ranks] : holders(&RankReport::updated, p)) {
        if (reports_[ranks[0].at()].gradients.at(p).layout.any_partial()) continue;
        const Assembled a = put_together(&RankReport::updated, p, p, ranks);
        const double size = few * max_abs(before) + step * max_abs(gradient);
        c.of_kind(size);
        c.add(graph_.value(p).name, error(a, add(before, scaled(gradient, -step))), size,
              [=, this, p = p] { return step * rounding_.of_gradient(p); });
      }
    }
    double ignored = 0;
    out_.checks.push_back(c.finish(ignored));
  }

  const Graph& graph_;
  const Forward& forward_;
  const Reference& reference_;
  const std::vector<RankReport>& reports_;
  const DType narrowest_;
  Rounding rounding_;
  const double tolerance_;
  const double gradient_tolerance_;  // of what is reduced in a coarser type
  const double learning_rate_;
  Judgement out_;
};

}  // namespace

Judgement judge(const Graph& graph, const Forward& forward, const Reference& reference,
                const std::vector<RankReport>& reports, bool exact, double learning_rate) {
  return Verdict(graph, forward, reference, reports, exact, learning_rate).judge();
}

void require_comparable_means(const Graph& graph, const Forward& forward) {
  const std::vector<double> excess = excess_of_values(graph, forward);
  for (const Op& op : graph.ops) {
    refuse_two_scales(graph, excess, op);
    if (!is_mean(op) || !graph.value(op.inputs[0]).routing) continue;
    throw UserError(graph.file,
                    {{op.pointer,
                      fmt::format("{} averages {}, of which ranks hold as many rows as "
                                  "are routed to them",
                                  op.name, quoted(graph.value(op.inputs[0]).name)),
                      "a mean of values of one size",
                      "Combine the rows first; `predict` takes it as it is.", "mixed-means"}});
  }
}

double gradient_factor(const Graph& graph, const Forward& forward, bool parameter) {
  double factor = excess_of_values(graph, forward)[graph.loss.at()];
  const Layout& loss = forward.layouts[graph.loss.at()];
  for (size_t i = 0; i < graph.atoms(); ++i)
    if (graph.per_rank[i] && loss[AtomIndex(i)].is_replicate())
      factor *= static_cast<double>(graph.mesh.atoms()[i].size);
  return parameter ? factor / static_cast<double>(mean_divisor_of_sync(graph)) : factor;
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-11;
    case DType::f32:
      return 2e-5;
    case DType::f16:
      return 1e-2;
    case DType::bf16:
      return 6e-2;
    default:
      return 0.5;
  }
}

}  // namespace s2t

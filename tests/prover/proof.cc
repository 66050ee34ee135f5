#include "tests/prover/proof.h"

#include <fmt/format.h>

#include "analyzer/base/diagnostics.h"

namespace s2t::prover {
namespace {

constexpr double kTolerance = 1e-10;

Mesh mesh_of(const std::vector<int64_t>& sizes) {
  std::vector<AxisShape> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    axes.push_back({"axis" + std::to_string(i), sizes[i], AxisKind::model, {}});
  return Mesh(axes, {});
}

// An axis of size 1 has no atom; what is left is one entry per atom of the mesh.
Plan without_trivial_axes(const Plan& plan) {
  Plan out;
  for (size_t i = 0; i < plan.sizes.size(); ++i) {
    if (plan.sizes[i] == 1) continue;
    out.sizes.push_back(plan.sizes[i]);
    out.modes.push_back(plan.modes[i]);
    out.per_rank.push_back(plan.per_rank[i]);
  }
  return out;
}

// Recursion over the atoms, slowest first: fills parts[rank].
class Dealer {
 public:
  Dealer(const Layout& layout, const Mesh& mesh, bool exact, std::mt19937_64& random)
      : layout_(layout), mesh_(mesh), exact_(exact), random_(random) {}

  std::vector<Tensor> deal(const Tensor& t) {
    parts_.resize(static_cast<size_t>(mesh_.world()));
    deal(t, {});
    return std::move(parts_);
  }

 private:
  void deal(const Tensor& t, const std::vector<int64_t>& coordinates) {
    if (coordinates.size() == mesh_.atoms().size()) {
      parts_[mesh_.rank_of(coordinates).at()] = t;
      return;
    }
    const AtomIndex a(coordinates.size());
    const int64_t n = mesh_.atom(a).size;
    Tensor rest = t;  // of a Partial: what the ranks before have not taken
    for (int64_t c = 0; c < n; ++c) {
      auto deeper = coordinates;
      deeper.push_back(c);
      deal(part(t, rest, layout_[a], c, n), deeper);
    }
  }

  Tensor part(const Tensor& t, Tensor& rest, Placement p, int64_t c, int64_t n) {
    if (p.is_replicate()) return t;
    if (p.is_shard()) {
      const int64_t block = t.shape()[static_cast<size_t>(p.dim)] / n;
      return slice(t, p.dim, c * block, block);
    }
    if (c == n - 1) return rest;
    const Tensor term = random_tensor(t.shape(), exact_, random_);
    auto left = rest.read<double>();
    const auto taken = term.read<double>();
    for (size_t i = 0; i < left.size(); ++i) left[i] -= taken[i];
    rest.write<double>(left);
    return term;
  }

  const Layout& layout_;
  const Mesh& mesh_;
  bool exact_;
  std::mt19937_64& random_;
  std::vector<Tensor> parts_;
};

class Collector {
 public:
  Collector(const std::vector<Tensor>& parts, const Layout& layout, const Mesh& mesh,
            double tolerance, std::string& error)
      : parts_(parts), layout_(layout), mesh_(mesh), tolerance_(tolerance), error_(error) {}

  Tensor collect(std::vector<int64_t> coordinates = {}) {
    if (coordinates.size() == mesh_.atoms().size()) return parts_[mesh_.rank_of(coordinates).at()];
    const AtomIndex a(coordinates.size());
    std::vector<Tensor> pieces;
    for (int64_t c = 0; c < mesh_.atom(a).size; ++c) {
      auto deeper = coordinates;
      deeper.push_back(c);
      pieces.push_back(collect(deeper));
    }
    return join(pieces, layout_[a]);
  }

 private:
  Tensor join(const std::vector<Tensor>& pieces, Placement p) {
    if (p.is_shard()) return side_by_side(pieces, p.dim);
    Tensor total = pieces[0];
    for (size_t i = 1; i < pieces.size(); ++i) {
      if (p.is_partial()) {
        total = p.combiner == Combiner::max ? maximum(total, pieces[i]) : add(total, pieces[i]);
      } else if (max_abs_difference(total, pieces[i]) > tolerance_ && error_.empty()) {
        error_ = fmt::format("replicas differ by {}", max_abs_difference(total, pieces[i]));
      }
    }
    return total;
  }

  static Tensor side_by_side(const std::vector<Tensor>& pieces, int dim) {
    Shape shape = pieces[0].shape();
    shape[static_cast<size_t>(dim)] *= static_cast<int64_t>(pieces.size());
    Tensor whole(shape, pieces[0].dtype());
    int64_t at = 0;
    for (const Tensor& piece : pieces) {
      paste(whole, piece, dim, at);
      at += piece.shape()[static_cast<size_t>(dim)];
    }
    return whole;
  }

  const std::vector<Tensor>& parts_;
  const Layout& layout_;
  const Mesh& mesh_;
  double tolerance_;
  std::string& error_;
};

// The layouts of one plan: ports of values and, by duality, of gradients.
struct Ports {
  const BoundRule& rule;
  const Plan& plan;

  Layout operand(size_t i) const {
    return each([&](size_t a) { return operand_port(rule, plan.modes[a], i); });
  }
  Layout result(size_t i) const {
    return each([&](size_t a) { return result_port(rule, plan.modes[a], i); });
  }
  Layout gradient(const Layout& port) const {
    return each([&](size_t a) {
      const bool redundant = plan.modes[a].kind == Mode::Kind::redundant;
      return cotangent(port[AtomIndex(a)], redundant, plan.per_rank[a]);
    });
  }

 private:
  template <class F>
  Layout each(F placement) const {
    Layout layout(plan.modes.size());
    for (size_t a = 0; a < plan.modes.size(); ++a) layout[AtomIndex(a)] = placement(a);
    return layout;
  }
};

// One refutation attempt: everything sharded, and the comparison with the unsharded op.
class Attempt {
 public:
  Attempt(const Instance& instance, const Plan& plan, Places places)
      : instance_(instance),
        plan_(without_trivial_axes(plan)),
        mesh_(mesh_of(plan_.sizes)),
        ports_{instance.bound, plan_},
        tolerance_(instance.exact ? 0 : kTolerance) {
    for (int64_t r = 0; r < mesh_.world(); ++r) {
      OpView view = local_view(instance.bound, plan_.modes, mesh_, Rank(static_cast<int32_t>(r)));
      if (places == Places::unknown) view.offset.assign(view.offset.size(), 0);
      calls_.push_back(instance.call(std::move(view)));
    }
  }

  std::optional<std::string> run() {
    const OpCall whole = instance_.call(whole_view(instance_.bound));
    const std::vector<Tensor> outputs = s2t::forward(whole, instance_.inputs);
    if (const auto why = forward(outputs)) return why;
    return backward(whole, outputs);
  }

 private:
  std::vector<std::vector<Tensor>> deal(const std::vector<Tensor>& tensors,
                                        const std::vector<Layout>& layouts) {
    std::vector<std::vector<Tensor>> by_rank(calls_.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto parts = scatter(tensors[i], layouts[i], mesh_, instance_.exact, random_);
      for (size_t r = 0; r < parts.size(); ++r) by_rank[r].push_back(parts[r]);
    }
    return by_rank;
  }

  std::optional<std::string> compare(const std::string& what, const std::vector<Tensor>& parts,
                                     const Layout& layout, const Tensor& expected) const {
    std::string error;
    const Tensor found = gather(parts, layout, mesh_, tolerance_, error);
    if (!error.empty()) return what + ": " + error;
    const double difference = max_abs_difference(found, expected);
    if (difference <= tolerance_) return std::nullopt;
    return fmt::format("{} as {} is off by {}: {} instead of {}", what, to_string(layout, mesh_),
                       difference, to_string(found), to_string(expected));
  }

  std::optional<std::string> forward(const std::vector<Tensor>& expected) {
    std::vector<Layout> layouts;
    for (size_t i = 0; i < instance_.inputs.size(); ++i) layouts.push_back(ports_.operand(i));
    inputs_ = deal(instance_.inputs, layouts);
    for (size_t r = 0; r < calls_.size(); ++r)
      outputs_.push_back(s2t::forward(calls_[r], inputs_[r]));
    for (size_t i = 0; i < expected.size(); ++i) {
      std::vector<Tensor> parts;
      for (const auto& of_rank : outputs_) parts.push_back(of_rank[i]);
      const auto why = compare(fmt::format("result {}", i), parts, ports_.result(i), expected[i]);
      if (why) return why;
    }
    return std::nullopt;
  }

  std::optional<std::string> backward(const OpCall& whole, const std::vector<Tensor>& outputs) {
    const std::vector<bool> wanted = instance_.wanted();
    std::vector<Tensor> cotangents;
    std::vector<Layout> layouts;
    for (size_t i = 0; i < outputs.size(); ++i) {
      cotangents.push_back(random_tensor(outputs[i].shape(), instance_.exact, random_));
      layouts.push_back(ports_.gradient(ports_.result(i)));
    }
    const auto expected = gradients(whole, instance_.inputs, outputs, cotangents);
    const auto dealt = deal(cotangents, layouts);
    std::vector<std::vector<std::optional<Tensor>>> found;
    for (size_t r = 0; r < calls_.size(); ++r)
      found.push_back(gradients(calls_[r], inputs_[r], outputs_[r], dealt[r]));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      std::vector<Tensor> parts;
      for (const auto& of_rank : found) parts.push_back(of_rank[i].value());
      const auto why = compare(fmt::format("gradient of operand {}", i), parts,
                               ports_.gradient(ports_.operand(i)), expected[i].value());
      if (why) return why;
    }
    return std::nullopt;
  }

  std::vector<std::optional<Tensor>> gradients(const OpCall& call,
                                               const std::vector<Tensor>& inputs,
                                               const std::vector<Tensor>& outputs,
                                               const std::vector<Tensor>& cotangents) const {
    const std::vector<std::optional<Tensor>> dy(cotangents.begin(), cotangents.end());
    return s2t::backward(call, inputs, outputs, dy, instance_.wanted());
  }

  const Instance& instance_;
  Plan plan_;
  Mesh mesh_;
  Ports ports_;
  double tolerance_;
  std::mt19937_64 random_{20240607};
  std::vector<OpCall> calls_;                 // per rank
  std::vector<std::vector<Tensor>> inputs_;   // [rank][operand]
  std::vector<std::vector<Tensor>> outputs_;  // [rank][result]
};

// Cuts the factor of one mode on every tensor; false if blocks cannot express it.
bool cut(const BoundRule& rule, FactorIndex f, int64_t n, std::vector<int64_t>& cuts) {
  const Factor& factor = rule.factors[f.at()];
  if (factor.whole || factor.size % (cuts[f.at()] * n) != 0) return false;
  for (const auto* tensors : {&rule.operands, &rule.results})
    for (const auto& tensor : *tensors)
      if (const auto dim = dim_of(tensor, f))
        if (factor_of(rule, tensor[static_cast<size_t>(*dim)], cuts) != f) return false;
  cuts[f.at()] *= n;
  return true;
}

}  // namespace

OpCall Instance::call(OpView view) const {
  return {&op, attributes, std::move(view)};
}

std::vector<bool> Instance::wanted() const {
  std::vector<bool> wanted;
  for (size_t i = 0; i < inputs.size(); ++i)
    wanted.push_back(is_differentiable(inputs[i].dtype()) && !stops(op, rule, i));
  return wanted;
}

std::string to_string(const Plan& plan, const BoundRule& rule) {
  std::string text;
  for (size_t i = 0; i < plan.sizes.size(); ++i) {
    const Mode& m = plan.modes[i];
    text += fmt::format("{}{} over {}{}", i ? ", " : "", to_string(m, rule), plan.sizes[i],
                        plan.per_rank[i] ? " (per_rank)" : "");
    if (m.kind == Mode::Kind::linear) text += fmt::format(" (group {})", m.group);
  }
  return text;
}

bool legal(const Instance& instance, const Plan& plan) {
  std::vector<int64_t> cuts(instance.bound.factors.size(), 1);
  for (size_t i = 0; i < plan.sizes.size(); ++i)
    if (plan.modes[i].kind == Mode::Kind::split && plan.sizes[i] > 1 &&
        !cut(instance.bound, plan.modes[i].factor, plan.sizes[i], cuts))
      return false;
  return true;
}

std::vector<Mode> all_modes(const BoundRule& rule) {
  std::vector<Mode> modes{Mode::redundant()};
  for (size_t f = 0; f < rule.factors.size(); ++f) modes.push_back(Mode::split(FactorIndex(f)));
  for (size_t g = 0; g < rule.linear.size(); ++g) modes.push_back(Mode::linear(g));
  return modes;
}

std::optional<std::string> refute(const Instance& instance, const Plan& plan, Places places) {
  return Attempt(instance, plan, places).run();
}

Tensor random_tensor(const Shape& shape, bool exact, std::mt19937_64& random) {
  Tensor t(shape, DType::f64);
  std::vector<double> x(static_cast<size_t>(t.size()));
  for (double& e : x) {
    if (exact)
      e = static_cast<double>(random() % 7) - 3;
    else if (random() % 8 != 0)
      e = static_cast<double>(random() >> 11) * 0x1p-51 - 2;
  }
  t.write<double>(x);
  return t;
}

std::vector<Tensor> scatter(const Tensor& t, const Layout& layout, const Mesh& mesh, bool exact,
                            std::mt19937_64& random) {
  return Dealer(layout, mesh, exact, random).deal(t);
}

Tensor gather(const std::vector<Tensor>& parts, const Layout& layout, const Mesh& mesh,
              double tolerance, std::string& error) {
  return Collector(parts, layout, mesh, tolerance, error).collect();
}

}  // namespace s2t::prover

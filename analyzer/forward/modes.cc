#include "analyzer/forward/modes.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

struct Candidate {
  Mode mode;
  Vote::Kind kind = Vote::Kind::none;
  size_t operand = 0;
};

// Decides atom by atom, slowest first, since a factor can be cut again by a later atom.
class Chooser {
 public:
  Chooser(const Graph& graph, const Op& op, const std::vector<Layout>& layouts)
      : graph_(graph), op_(op), layouts_(layouts), cuts_(op.rule->factors.size(), 1) {}

  Mode choose(AtomIndex atom, Vote& vote, Diagnostics& diagnostics) {
    list_candidates(atom);
    const Candidate& best = *std::find_if(candidates_.begin(), candidates_.end(),
                                          [&](const Candidate& c) { return !obstacle(c.mode); });
    vote = {best.kind, best.operand, ""};
    for (const Candidate& c : candidates_)
      if (!(c.mode == best.mode) && c.kind != Vote::Kind::none) lose(c, vote);
    if (!op_.pinned.empty() && op_.pinned[atom.at()])
      check_pin(*op_.pinned[atom.at()], diagnostics);
    for (size_t f = 0; f < cuts_.size(); ++f)
      if (best.mode.cuts(FactorIndex(f))) cuts_[f] *= graph_.mesh.atom(atom).size;
    return best.mode;
  }

 private:
  // The first one wins.
  void list_candidates(AtomIndex atom) {
    candidates_.clear();
    if (!op_.pinned.empty() && op_.pinned[atom.at()])
      candidates_.push_back({*op_.pinned[atom.at()], Vote::Kind::pin});
    add_shards(atom, true, std::nullopt);
    add_shards(atom, false, true);
    add_shards(atom, false, false);
    if ((graph_.switches.lazy_partial || is_data(atom)) && !op_.is("transfer")) add_linear(atom);
    candidates_.push_back({Mode::redundant()});
  }

  // Votes of sharded operands: parameters, or activations whose factor reaches a result (or not).
  void add_shards(AtomIndex atom, bool parameters, std::optional<bool> in_result) {
    for (size_t i = 0; i < layouts_.size(); ++i) {
      const Placement p = layouts_[i][atom];
      if (graph_.value(op_.inputs[i]).parameter != parameters || !p.is_shard()) continue;
      const auto& dims = op_.rule->operands[i];
      const auto f = factor_of(*op_.rule, dims[static_cast<size_t>(p.dim)], cuts_);
      if (!f || op_.rule->factors[f->at()].whole) continue;
      if (in_result && op_.rule->factors[f->at()].in_result != *in_result) continue;
      const auto kind = parameters ? Vote::Kind::parameter : Vote::Kind::activation;
      candidates_.push_back({Mode::split(*f), kind, i});
    }
  }

  // Each data-parallel rank keeps its term of a loss: nothing sums terms before the gradients.
  bool is_data(AtomIndex atom) const { return contains(graph_.data_atoms, atom); }

  void add_linear(AtomIndex atom) {
    std::vector<size_t> partial;
    for (size_t i = 0; i < layouts_.size(); ++i)
      if (layouts_[i][atom] == Placement::P()) partial.push_back(i);
    if (partial.empty()) return;
    for (size_t g = 0; g < op_.rule->linear.size(); ++g) {
      const auto& group = op_.rule->linear[g];
      const bool holds_all = std::all_of(partial.begin(), partial.end(), [&](size_t i) {
        return std::find(group.begin(), group.end(), i) != group.end();
      });
      if (holds_all) {
        candidates_.push_back({Mode::linear(g), Vote::Kind::lazy, partial.front()});
        return;
      }
    }
  }

  std::optional<FactorIndex> obstacle(const Mode& mode) const {
    for (size_t f = 0; f < cuts_.size(); ++f)
      if (mode.cuts(FactorIndex(f)))
        if (const auto major = in_the_way(*op_.rule, FactorIndex(f), cuts_)) return major;
    return std::nullopt;
  }

  const std::string& name(FactorIndex f) const { return op_.rule->factors[f.at()].name; }

  void check_pin(const Mode& pin, Diagnostics& diagnostics) const {
    const auto major = obstacle(pin);
    if (!major) return;
    diagnostics.add(
        {op_.pointer + "/modes",
         fmt::format("{} cuts a dim of {} inside factor {}, so no rank would hold a block of it",
                     quoted(to_string(pin, *op_.rule)), op_.def->name, name(*major)),
         fmt::format("\"split({})\", or {} cut down to 1 by slower axes", name(*major),
                     name(*major)),
         "The rule is " + quoted(op_.notation->text) + ".", "bad-mode"});
  }

  void lose(const Candidate& loser, Vote& winner) const {
    std::string text = graph_.value(op_.inputs[loser.operand]).name + " asked for " +
                       to_string(loser.mode, *op_.rule);
    if (const auto major = obstacle(loser.mode)) text += " (inside " + name(*major) + ")";
    if (winner.losers.find(text) != std::string::npos) return;
    winner.losers += (winner.losers.empty() ? "" : ", ") + text;
  }

  const Graph& graph_;
  const Op& op_;
  const std::vector<Layout>& layouts_;
  std::vector<int64_t> cuts_;  // per factor, how many ways it is already cut
  std::vector<Candidate> candidates_;
};

}  // namespace

void choose_modes(const Graph& graph, const Op& op, const std::vector<Layout>& layouts,
                  OpPlan& plan, Diagnostics& diagnostics) {
  Chooser chooser(graph, op, layouts);
  plan.modes.reserve(graph.atoms());
  plan.votes.reserve(graph.atoms());
  plan.operand_ports.assign(op.inputs.size(), Layout(graph.mesh));
  plan.result_ports.assign(op.outputs.size(), Layout(graph.mesh));
  for (size_t i = 0; i < graph.atoms(); ++i) {
    const AtomIndex atom(i);
    if (graph.mesh.atom(atom).kind == AxisKind::pipeline) {
      plan.modes.push_back(Mode::redundant());
      plan.votes.emplace_back();
      continue;
    }
    if (op.redistributes()) {  // an identity whose port is the stated placement
      const Placement p = op.target[i] ? *op.target[i] : layouts[0][atom];
      plan.modes.push_back(Mode::redundant());
      plan.votes.push_back({op.target[i] ? Vote::Kind::target : Vote::Kind::none, 0, ""});
      plan.operand_ports[0][atom] = plan.result_ports[0][atom] = p;
      continue;
    }
    const Mode mode = chooser.choose(atom, plan.votes.emplace_back(), diagnostics);
    plan.modes.push_back(mode);
    for (size_t k = 0; k < op.inputs.size(); ++k)
      plan.operand_ports[k][atom] = operand_port(*op.rule, mode, k);
    for (size_t r = 0; r < op.outputs.size(); ++r)
      plan.result_ports[r][atom] = result_port(*op.rule, mode, r);
  }
}

}  // namespace s2t

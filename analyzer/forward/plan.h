// The forward pass with layouts: per op and axis a mode, per value where it is produced, and the
// conversions between them.
//
// Modes follow declared layouts, they are not searched for (a search by bytes turned declared
// tensor parallelism into gathered weights). Per op and axis, the first that applies:
//   1 the op's own `modes`
//   2 a factor sharded on a parameter's use layout
//   3 a factor sharded on an activation; one that reaches a result beats a contracted one, then the
//     leftmost operand
//   4 a linear group that holds all Partial operands: on data axes, and with `partial: lazy`
//   5 redundant
// A value is converted once per distinct target layout, just before its first consumer, and all
// consumers share the result; the switch `conversions: per_consumer` turns sharing off.
// Not known here: which gradients are needed, bytes.
#pragma once

#include <string>
#include <vector>

#include "analyzer/comm/redistribute.h"
#include "analyzer/graph/graph.h"

namespace s2t {

// Why an op has its mode on one atom.
struct Vote {
  enum class Kind : uint8_t { none, pin, parameter, activation, lazy, target };
  Kind kind = Kind::none;
  size_t operand = 0;  // who voted
  std::string losers;  // "gamma wanted split(d)"; empty if nobody disagreed
};

struct OpPlan {
  std::vector<Mode> modes;  // per atom
  std::vector<Vote> votes;  // per atom
  std::vector<Layout> operand_ports, result_ports;
  std::vector<int> conversions;  // per operand, index into Forward::conversions; -1: as produced
};

// A value brought from where it was produced to what a consumer wants.
struct Conversion {
  TensorId value;
  Layout from, to;
  std::vector<Step> steps;
  OpId consumer;  // the first one: the conversion runs right before it
};

struct Forward {
  std::vector<OpPlan> ops;
  std::vector<Conversion> conversions;
  std::vector<Layout> layouts;          // per value, as produced
  std::vector<Routing> routings;        // counts filled in
  std::vector<AtomSet> routing_tokens;  // per routing: atoms over which the tokens are sharded
  std::vector<Remark> remarks;
};

// Throws UserError where a declared layout cannot be followed.
Forward plan_forward(const Graph& graph);

// Steps that bring a value, or its gradient, from one layout to another. Of a parameter, steps on
// several data axes fuse, there and back; routed rows may lie in any order.
std::vector<Step> plan_conversion(const Graph& graph, TensorId value, const Layout& from,
                                  const Layout& to);

// Axes along which operands of an op pass by in a ring, and which operands these are.
AtomSet ring_atoms(const OpPlan& plan);
std::vector<size_t> passing_operands(const Op& op, const OpPlan& plan);

// Local shape of a value in a layout; ragged values count dim 0 x dim 1 as rows elsewhere.
Shape local_shape_of(const Graph& graph, TensorId value, const Layout& layout);

// Rows that a ragged value holds in `layout` on the rank with coordinate c along the expert axis.
Count ragged_rows(const Graph& graph, const Forward& forward, TensorId value, const Layout& layout,
                  int64_t c);

// "split(n): w1 is S(0)": mode and reason of an op on the atoms of a collective.
std::string describe_mode(const Graph& graph, const Forward& forward, OpId op, AtomSet atoms);
std::string describe_vote(const Graph& graph, const Forward& forward, OpId op, AtomSet atoms);

}  // namespace s2t

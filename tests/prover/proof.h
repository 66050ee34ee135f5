// Proves a row of the op table on numbers: what the modes and ports claim is what local kernels do.
//
// Operands are dealt out to simulated ranks by their ports (a Partial operand as random terms that
// sum up), every rank runs the local kernel, the results are put together by their ports and must
// be the unsharded results. Backward the same: output gradients are dealt out by the cotangent
// ports, input gradients put together by theirs. Nothing here knows an op.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/tensor/kernels.h"

namespace s2t::prover {

// One op on concrete unsharded tensors.
struct Instance {
  std::string name;  // "attention#1"
  OpDef op;          // a copy, so that a negative control can lie in it
  FactorRule rule;
  BoundRule bound;
  AttributeValues attributes;
  std::vector<Tensor> inputs;
  bool exact = false;  // small integers through linear maps: no rounding anywhere

  OpCall call(OpView view) const;
  std::vector<bool> wanted() const;  // operands that can have a gradient
};

// How it is run: one mode and one convention per axis, slowest axis first.
struct Plan {
  std::vector<int64_t> sizes;
  std::vector<Mode> modes;
  std::vector<bool> per_rank;
};

std::string to_string(const Plan& plan, const BoundRule& rule);

// Whether contiguous blocks in mesh order can hold the plan: split factors divide, none is whole,
// and each is the majormost uncut factor of its dim.
bool legal(const Instance& instance, const Plan& plan);

// All modes of a rule along one axis, legal or not.
std::vector<Mode> all_modes(const BoundRule& rule);

// What the ranks know of their place; a negative control takes it away.
enum class Places { known, unknown };

// nullopt if the plan computes the unsharded op; else what differs.
std::optional<std::string> refute(const Instance& instance, const Plan& plan,
                                  Places places = Places::known);

// Integers in [-3, 3] if `exact`, else reals in [-2, 2) with some zeros; fixed by the generator's
// state.
Tensor random_tensor(const Shape& shape, bool exact, std::mt19937_64& random);

// Deals a tensor out to all ranks of a mesh, and puts it together again. `gather` says in `error`
// where replicas disagree.
std::vector<Tensor> scatter(const Tensor& t, const Layout& layout, const Mesh& mesh, bool exact,
                            std::mt19937_64& random);
Tensor gather(const std::vector<Tensor>& parts, const Layout& layout, const Mesh& mesh,
              double tolerance, std::string& error);

}  // namespace s2t::prover

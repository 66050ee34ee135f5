// The process groups of a run: created once, by every rank, in one global order.
//
// Families of the mesh's axes come first (in the order that the model states, else fastest axis
// first; then the expert axes), then those of several axes that a conversion or a synchronisation
// of this model may use. Group i of family "tp" is named "tp<i>", so that witnesses can map it.
// Not known here: what is sent.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/forward/plan.h"
#include "runtime/comm/communicator.h"

namespace s2t {

// The family over a set of atoms; for expert values the names of the expert axes are meant.
Family family_over(const Graph& graph, AtomSet atoms, bool expert);

// The family of the stages that share a parameter; nothing unless it lives on several ranks.
std::optional<Family> family_of_tied(const Graph& graph, TensorId parameter);

// Atoms over which the gradient of a parameter may be synchronised, as the model's
// `gradient_sync` and the kind of its axes say.
AtomSet synchronised_over(const Graph& graph, TensorId parameter);

std::vector<Family> families_in_use(const Graph& graph, const Forward& forward);

class Groups {
 public:
  Groups(World& world, const Graph& graph, const Forward& forward);
  // Fault if this rank is in no group of the family.
  Communicator& of(const Family& family) const;

 private:
  std::map<std::string, std::unique_ptr<Communicator>> mine_;  // by family name
};

}  // namespace s2t

// An autograd tape: what one stage did with one microbatch, and the way back through it.
//
// Known here: what ran (every local kernel a node, every conversion of an operand an edge function
// that communicates), which leaves require grad, and how this rank holds each gradient (a tag,
// tape/functions.h). From that alone the tape finds which nodes run backward, adds up gradients,
// and communicates where a gradient is not held as its producer takes it. Nodes run in reverse
// order of creation; what a value's gradient needs runs right before the node that made the value,
// as in the module that produced it. Not known here: any prediction of all this, parameters'
// synchronisation, pipeline schedules.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/run/local_op.h"
#include "runtime/tape/functions.h"

namespace s2t {

struct Gradient {
  Tensor data;
  Layout held;
};

class Tape {
 public:
  // What a tape needs of the rank that it runs on. Hooks may be null.
  struct Surroundings {
    std::function<Tensor(TensorId leaf)> leaf;
    std::function<Tensor(TensorId, Tensor, std::span<const Step>, bool backward)> convert;
    std::function<LocalOp(OpId)> op;
    std::function<void(OpId)> before_forward, before_backward, after_backward;
    // All that arrived for a parameter, once the last node that uses it has run.
    std::function<void(TensorId, std::vector<Gradient>)> parameter_ready;
  };

  Tape(const Graph& graph, const Forward& forward, Surroundings around)
      : graph_(graph), forward_(forward), around_(std::move(around)) {}

  // A value from the stage before: a detached leaf that requires grad.
  void receive(OpId transfer, Tensor data);
  void run(OpId op);
  // An op whose operands pass by other ranks, once more.
  void run_again(OpId op);
  // What a transfer of the next stage sends.
  Tensor outgoing(OpId transfer);
  const Tensor& value(TensorId t) const { return variables_.at(t).data; }
  bool has(TensorId t) const { return variables_.count(t) != 0; }
  bool requires_grad(TensorId t) const { return has(t) && variables_.at(t).requires_grad; }

  // Where a backward starts: the gradient of the loss, or of what a transfer sent on.
  struct Root {
    TensorId value;
    int through = -1;  // conversion by which the value left
    Gradient gradient;
  };
  Root loss_root() const;
  Root sent_root(OpId transfer, Tensor gradient) const;

  // Ops whose backward will run, in order; call it before `backward`.
  std::vector<OpId> plan_backward(const std::vector<Root>& roots);
  void backward(std::vector<Root> roots);

  // Afterwards: gradients of received values and of inputs, as this rank holds them.
  const std::map<TensorId, Gradient>& leaf_gradients() const { return leaf_gradients_; }

 private:
  struct Variable {
    Tensor data;
    bool requires_grad = false;
    int node = -1;      // that made it; -1: a parameter or an input
    int last_use = -1;  // backward: the last node to contribute to its gradient
  };
  struct Operand {
    TensorId value;
    int through = -1;  // conversion, index into Forward::conversions
    Tensor used;       // the value as the kernel read it; kept as NaN if it is to be gathered again
  };
  struct Node {
    OpId op;
    std::optional<LocalOp> local;  // none: a received value
    std::vector<Operand> operands;
    bool runs = false;
  };
  struct Pending {
    Gradient gradient;
    int through = -1;
  };
  // A converted value that is gathered again in the backward: from what, and how.
  struct Stored {
    Tensor before;
    std::vector<Step> steps;
  };

  Variable& variable(TensorId t);
  bool read_again(TensorId t, int through) const;
  Tensor converted(TensorId value, int conversion);
  Tensor keep_for_later(int conversion, Tensor value, std::span<const Step> steps);
  bool wants(const Node& node, size_t operand) const;
  void add(TensorId value, Gradient gradient, int through);
  Gradient settle(TensorId value, std::vector<Pending> pending, const Op* producer);
  Gradient bring_home(TensorId value, const Pending& pending, const Layout& home);
  void run_backward(size_t node);
  void gather_again(Node& node);
  void contribute(const Node& node, std::vector<std::optional<Tensor>> made, const Layout& arrived);
  void run_kernel(Node& node, std::span<const std::optional<Tensor>> arrived, const Layout& held);
  std::vector<TensorId> finished_leaves(const Node& node, int n) const;
  void convert_parameters(const Node& node, int n);
  void finish_parameter(TensorId t);

  const Graph& graph_;
  const Forward& forward_;
  const Surroundings around_;
  std::map<TensorId, Variable> variables_;
  std::vector<Node> nodes_;
  std::map<int, Tensor> shared_;     // by conversion
  std::map<int, int> last_through_;  // backward: the last node to contribute through a conversion
  std::map<int, Stored> stored_;
  std::set<int> gathered_again_;
  std::map<TensorId, std::vector<Pending>> pending_;
  std::map<TensorId, Gradient> leaf_gradients_;
};

}  // namespace s2t

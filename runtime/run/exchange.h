// Every word that a rank says to others in a run: the steps of a conversion, synchronisation calls,
// messages of stage borders. All of them are recorded with what they were for.
//
// Known here: how a value's local part is laid out for a collective (padding of uneven shards,
// concatenation along a dim, packed rows of a ragged value), and staging to the device's memory.
// Not known here: why a step is taken.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/recording.h"
#include "runtime/run/groups.h"
#include "runtime/run/options.h"
#include "runtime/run/routed_rows.h"
#include "runtime/tensor/tensor.h"

namespace s2t {

class Exchange {
 public:
  Exchange(World& world, const Graph& graph, const Forward& forward, const StepOptions& options);

  // `steps` of a conversion of `value`; `local` is this rank's part, unpadded before and after.
  Tensor convert(TensorId value, Tensor local, std::span<const Step> steps, const Tag& tag);

  // Flat buffers; all_gather and reduce_scatter in group order.
  Tensor all_reduce(const Tensor& in, const Family& family, const Tag& tag);
  Tensor reduce_scatter(const Tensor& in, const Family& family, const Tag& tag);
  Tensor all_gather(const Tensor& in, const Family& family, const Tag& tag);

  // A call that the model states; its result is dropped.
  void stated(const StatedCall& call, const Tag& tag);

  // Messages between pipeline neighbours, launched as one batch or one by one. `peer` is a pipeline
  // coordinate. A receive fills in `data`. No value: a header, `data` as it is.
  struct Message {
    bool send = false;
    TensorId value;
    int64_t peer = 0;
    Tensor data;  // this rank's part, unpadded
    Tag tag;
  };
  void messages(std::vector<Message>& list, bool batched);

  // What all ranks of a ring have, along a new first dim.
  Tensor gather(AtomSet atoms, const Tensor& mine, const Tag& tag);
  // One exchange of a ring over `atoms`: `out` to the rank at `to` from here, as much from the other
  // side. Ranks at even positions send first.
  Tensor pass(AtomSet atoms, const Tensor& out, int64_t to, const Tag& tag);

  Rank rank() const { return rank_; }
  const Graph& graph() const { return graph_; }
  std::vector<TaggedCall> calls() const;

 private:
  Tensor pass_in_call(AtomSet atoms, const Tensor& out, int64_t to, const Tag& tag);
  struct Ask {  // one collective
    Collective op;
    ReduceOp reduce = ReduceOp::sum;
    std::vector<Count> sends, recvs;  // all_to_all, in elements
  };
  Tensor call(const Family& family, const Ask& ask, const Tensor& in, const Shape& out,
              const Tag& tag);
  std::string name_of_call(size_t number) const;
  void announce(Tag tag, const Family& family);
  void look_ahead();
  bool skipped(const Tag& tag) const;

  Tensor step(TensorId value, const Tensor& local, const Step& s, const Tag& tag);
  Tensor local_step(TensorId value, const Tensor& local, const Step& s) const;
  Tensor dense(TensorId value, const Tensor& local, const Step& s, const Tag& tag);
  Shape with_wire_rows(TensorId value, const Layout& layout) const;
  Tensor ragged(TensorId value, const Tensor& part, const Step& s, const Tag& tag);
  const RoutedRows& rows_of(size_t routing);
  std::vector<RoutedRows::Slot> slots_of(TensorId value, const Layout& layout);
  Tensor on_the_wire(const Message& m);
  Tensor off_the_wire(const Message& m, const Tensor& wire);

  Recording recording_;
  std::vector<Tag> tags_;  // per recorded call
  World& world_;
  RecordingWorld recorded_;
  const Graph& graph_;
  const Forward& forward_;
  const StepOptions& options_;
  const Rank rank_;
  Groups groups_;
  std::map<size_t, RoutedRows> rows_;
};

}  // namespace s2t

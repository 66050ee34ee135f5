// The parameters of one rank: whole, or in parts that are gathered for use (fully sharded).
//
// A *unit* is a set of parameters that are gathered together; parameters in no unit belong to the
// root, which spans its stage and stays gathered between forward and backward. Source:
// torch.distributed.fsdp fully_shard: every parameter is padded along the dim on which it is cut
// to a multiple of the group; in the backward each unit's gather is issued one unit early. DeepSpeed
// zero/partition_parameters.py: each parameter is laid flat and padded, small ones stay whole. Where
// a model axis cuts unevenly, all of its ranks keep and send blocks of the rounded-up size. Not known
// here: gradients.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/run/exchange.h"

namespace s2t {

class Parameters {
 public:
  Parameters(const Graph& graph, Exchange& exchange, std::map<TensorId, Tensor> local);

  // As ops read it. Fault while its unit is not gathered.
  const Tensor& whole(TensorId p) const;

  struct Unit {
    std::vector<TensorId> members;
    OpId first, last;  // ops that use it
    int stage = 0;
    bool root = false;
    size_t number = 0;  // as the model counts them
  };
  const std::vector<Unit>& units() const { return units_; }  // none unless fully sharded
  void gather(const Unit& unit, const Tag& tag);
  void release(const Unit& unit);
  bool gathered(const Unit& unit) const;
  // Parameters that every rank has whole, of which each updated its rows: everybody gets all.
  void exchange_rows(const std::vector<TensorId>& members, const Tag& tag);

  // What is cut into rows: the tensor (FSDP), or its elements laid flat (ZeRO 3).
  Shape as_rows(const Shape& shape) const;
  int row_dim(TensorId p) const;  // along which

  // Fully sharded: rows that each of n ranks keeps, rounded up.
  int64_t rows_per_rank(TensorId p, int64_t n) const;
  bool sharded(TensorId p) const { return parts_.count(p) != 0; }
  Tensor& part(TensorId p) { return parts_.at(p); }
  bool has(TensorId p) const { return local_.count(p) != 0; }  // whole
  Tensor& local(TensorId p) { return local_.at(p); }
  // The rank's current value in a buffer of the whole local shape, rounded up.
  Tensor current(TensorId p) const;

 private:
  Shape stored(TensorId p) const;  // on one rank, rounded up
  Tensor my_rows(TensorId p, const Tensor& whole) const;
  void gather_together(const std::vector<TensorId>& members, const Tag& tag);
  void find_units();
  void add_unit(const std::vector<std::string>& names, int stage, size_t number);
  std::vector<OpId> exchanges_around(OpId expert) const;
  AtomSet shards_over(TensorId p) const;

  const Graph& graph_;
  Exchange& exchange_;
  std::map<TensorId, Tensor> local_;  // whole on this rank
  std::map<TensorId, Tensor> parts_;  // fully sharded: this rank's rows
  std::map<TensorId, Shape> shapes_;  // as ops read it
  std::map<TensorId, int> row_dims_;  // where it is not the first
  std::vector<Unit> units_;
};

}  // namespace s2t

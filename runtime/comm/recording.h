// A record of every call that a rank really made, kept by a decorator that no backend knows of.
//
// Known here: the calls, their bytes, and what the caller said about them. Not known here: the
// prediction, JSON, and whether the record is right: witnesses outside this process judge that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace s2t {

struct RecordedCall {
  uint64_t seq = 0;  // issue order on this rank, from 0
  CommOp op = CommOp::barrier;
  std::string group;
  std::vector<Rank> ranks;  // of the group, in its order
  Count count = 0;          // the NCCL argument, see call.h
  DType dtype = DType::f32;
  ReduceOp reduce = ReduceOp::sum;
  Count input_bytes = 0;
  Count output_bytes = 0;
  std::vector<Count> sends, recvs;  // all_to_all: elements per member
  Rank peer;                        // send, recv: the other side; broadcast, reduce: the root
  int batch = -1;                   // calls posted together share a number; -1 outside a batch
  Annotation annotation;
  bool completed = false;  // false only for the calls that a failure interrupted

  bool operator==(const RecordedCall&) const = default;
};

// One rank's record. Barriers are kept like everything else.
struct Recording {
  std::vector<RecordedCall> calls;
  int batches = 0;
};

// A world whose communicators write what they do into `recording` before they pass it on. Groups
// may be left out of the record by creating them on the inner world.
class RecordingWorld final : public World {
 public:
  RecordingWorld(World& inner, Recording& recording) : inner_(inner), recording_(recording) {}

  Rank rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Device& device() override { return inner_.device(); }
  std::unique_ptr<Communicator> create_group(const std::string& name,
                                             const std::vector<Rank>& ranks) override;
  void abort(const std::string& reason) override { inner_.abort(reason); }
  void check_alive() override { inner_.check_alive(); }
  void annotate(Annotation annotation) override { inner_.annotate(std::move(annotation)); }
  const Annotation& annotation() const override { return inner_.annotation(); }

 private:
  World& inner_;
  Recording& recording_;
};

}  // namespace s2t

// The MPI module: groups become communicators of their name, calls become MPI's own, not blocking,
// so that a wait can notice the end of a run. What MPI cannot say in an `int` is cut into pieces,
// or left to the defaults built on messages.
#include <mpi.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "analyzer/base/diagnostics.h"
#include "runtime/comm/transport.h"
#include "runtime/device/host_device.h"

namespace s2t {
namespace {

using Clock = std::chrono::steady_clock;

void must(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(CommReason::transport, fmt::format("{}: {}", what, text));
}

// Elements per MPI call. S2T_MPI_MAX_COUNT lowers it, to see the cutting at work on small tensors.
Count max_count() {
  const char* lowered = std::getenv("S2T_MPI_MAX_COUNT");
  return lowered == nullptr ? INT_MAX : std::max<Count>(1, std::strtoull(lowered, nullptr, 10));
}

// MPI has no 16-bit floats: two bytes each, and operations of our own that know which is which.
struct Types {
  MPI_Datatype f16 = MPI_DATATYPE_NULL, bf16 = MPI_DATATYPE_NULL;
  std::array<MPI_Op, 3> ops{MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL};  // sum, max, min of those two
};

Types& types() {
  static Types t;
  return t;
}

template <ReduceOp op>
void combine(void* in, void* inout, int* length, MPI_Datatype* type) {
  const DType dtype = *type == types().bf16 ? DType::bf16 : DType::f16;
  combine_on_host(inout, in, static_cast<Count>(*length), dtype, op);
}

void make_types() {
  Types& t = types();
  for (MPI_Datatype* type : {&t.f16, &t.bf16}) {
    must(MPI_Type_contiguous(2, MPI_BYTE, type), "MPI_Type_contiguous");
    must(MPI_Type_commit(type), "MPI_Type_commit");
  }
  MPI_Type_set_name(t.f16, "float16");  // for whoever watches
  MPI_Type_set_name(t.bf16, "bfloat16");
  MPI_Op_create(combine<ReduceOp::sum>, 1, &t.ops[0]);
  MPI_Op_create(combine<ReduceOp::max>, 1, &t.ops[1]);
  MPI_Op_create(combine<ReduceOp::min>, 1, &t.ops[2]);
}

void free_types() {
  Types& t = types();
  for (MPI_Datatype* type : {&t.f16, &t.bf16}) MPI_Type_free(type);
  for (MPI_Op& op : t.ops) MPI_Op_free(&op);
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::f16:
      return types().f16;
    case DType::bf16:
      return types().bf16;
    case DType::i64:
      return MPI_INT64_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::boolean:
      return MPI_UINT8_T;
    case DType::f8:
      return MPI_BYTE;
  }
  throw Fault("no MPI type for this dtype");
}

// An average is a sum, divided afterwards.
MPI_Op op_of(const Call& call) {
  const ReduceOp op = call.reduce == ReduceOp::avg ? ReduceOp::sum : call.reduce;
  if (call.dtype == DType::f16 || call.dtype == DType::bf16)
    return types().ops[static_cast<size_t>(op)];
  if (op == ReduceOp::sum) return call.dtype == DType::boolean ? MPI_LOR : MPI_SUM;
  return op == ReduceOp::max ? MPI_MAX : MPI_MIN;
}

const std::byte* shift(const void* base, size_t bytes) {
  return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + bytes;
}
std::byte* shift(void* base, size_t bytes) {
  return base == nullptr ? nullptr : static_cast<std::byte*>(base) + bytes;
}

class MpiChannel final : public Channel {
 public:
  MpiChannel(const GroupPlace& group, const Place& place, Peers& peers)
      : name_(group.name), position_(group.position), timeout_(place.timeout), peers_(peers) {
    std::vector<int> members;
    for (const Rank r : group.ranks) members.push_back(r.value);
    MPI_Group world, mine;
    must(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
    must(MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &mine),
         "MPI_Group_incl");
    must(MPI_Comm_create_group(MPI_COMM_WORLD, mine, static_cast<int>(group.index), &comm_),
         "MPI_Comm_create_group");
    MPI_Group_free(&mine);
    MPI_Group_free(&world);
    must(MPI_Comm_set_name(comm_, name_.c_str()), "MPI_Comm_set_name");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_size(comm_, &size_);
  }

  // Freeing is collective; after a failure the others may never come.
  ~MpiChannel() override {
    if (std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }

  bool collective(const Call& call, const Annotation&) override {
    switch (call.op) {
      case CommOp::all_reduce:
        return all_reduce(call);
      case CommOp::broadcast:
        return broadcast(call);
      case CommOp::reduce:
        return reduce(call);
      case CommOp::all_gather:
        return fits(call.count) && all_gather(call);
      case CommOp::reduce_scatter:
        return fits(call.count) && reduce_scatter(call);
      case CommOp::all_to_all:
        return splits_fit(call) && all_to_all(call);
      case CommOp::barrier:
        return barrier();
      default:
        return false;
    }
  }

  void messages(std::span<const Call> calls, const Annotation&) override {
    std::vector<MPI_Request> requests;
    for (const Call& call : calls)
      in_pieces(call.count, true, [&](Count first, int count) {
        const size_t at = first * size_of(call.dtype);
        const MPI_Datatype type = type_of(call.dtype);
        requests.emplace_back();
        if (call.op == CommOp::send)
          must(MPI_Isend(shift(call.in, at), count, type, call.peer, 0, comm_, &requests.back()),
               "MPI_Isend");
        else
          must(MPI_Irecv(shift(call.out, at), count, type, call.peer, 0, comm_, &requests.back()),
               "MPI_Irecv");
      });
    wait(requests, calls.empty() ? "a batch" : std::string(name_of(calls[0].op)));
  }

 private:
  using Piece = std::function<void(Count first, int count)>;

  // An empty message is still a message; an empty collective too.
  static void in_pieces(Count count, bool at_least_one, const Piece& piece) {
    const Count most = max_count();
    if (count == 0 && at_least_one) piece(0, 0);
    for (Count first = 0; first < count; first += most)
      piece(first, static_cast<int>(std::min(most, count - first)));
  }

  bool fits(Count count) const {
    return checked_mul(count, static_cast<Count>(size_)) <= max_count();
  }

  // Splits differ between ranks, the way to carry them out must not. PMPI: this question is ours,
  // not the program's, and no witness should count it.
  bool splits_fit(const Call& c) {
    const auto total = [](const std::vector<Count>& splits) {
      return std::accumulate(splits.begin(), splits.end(), Count{0}, checked_add);
    };
    uint64_t most = std::max(total(c.sends), total(c.recvs));
    MPI_Request r;
    must(PMPI_Iallreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, comm_, &r),
         "PMPI_Iallreduce");
    wait(r, c);
    return most <= max_count();
  }

  bool all_reduce(const Call& c) {
    in_pieces(c.count, true, [&](Count first, int count) {
      const size_t at = first * size_of(c.dtype);
      MPI_Request r;
      must(MPI_Iallreduce(c.in == c.out ? MPI_IN_PLACE : shift(c.in, at), shift(c.out, at), count,
                          type_of(c.dtype), op_of(c), comm_, &r),
           "MPI_Iallreduce");
      wait(r, c);
    });
    average(c, c.out);
    return true;
  }

  bool broadcast(const Call& c) {
    if (position_ == c.peer) host_device().copy(c.out, c.in, c.count * size_of(c.dtype));
    in_pieces(c.count, true, [&](Count first, int count) {
      MPI_Request r;
      must(MPI_Ibcast(shift(c.out, first * size_of(c.dtype)), count, type_of(c.dtype), c.peer,
                      comm_, &r),
           "MPI_Ibcast");
      wait(r, c);
    });
    return true;
  }

  bool reduce(const Call& c) {
    const bool root = position_ == c.peer;
    in_pieces(c.count, true, [&](Count first, int count) {
      const size_t at = first * size_of(c.dtype);
      MPI_Request r;
      must(MPI_Ireduce(root && c.in == c.out ? MPI_IN_PLACE : shift(c.in, at), shift(c.out, at),
                       count, type_of(c.dtype), op_of(c), c.peer, comm_, &r),
           "MPI_Ireduce");
      wait(r, c);
    });
    if (root) average(c, c.out);
    return true;
  }

  bool all_gather(const Call& c) {
    const size_t mine = static_cast<size_t>(position_) * c.count * size_of(c.dtype);
    const bool in_place = c.in == shift(static_cast<const void*>(c.out), mine);
    const int count = static_cast<int>(c.count);
    MPI_Request r;
    must(MPI_Iallgather(in_place ? MPI_IN_PLACE : c.in, count, type_of(c.dtype), c.out, count,
                        type_of(c.dtype), comm_, &r),
         "MPI_Iallgather");
    wait(r, c);
    return true;
  }

  // NCCL's way of doing it in place (out is a part of in) is not MPI's, so the result takes a
  // detour.
  bool reduce_scatter(const Call& c) {
    const size_t bytes = c.count * size_of(c.dtype);
    const DeviceBuffer result(host_device(), bytes);
    MPI_Request r;
    must(MPI_Ireduce_scatter_block(c.in, result.data(), static_cast<int>(c.count), type_of(c.dtype),
                                   op_of(c), comm_, &r),
         "MPI_Ireduce_scatter_block");
    wait(r, c);
    average(c, result.data());
    host_device().copy(c.out, result.data(), bytes);
    return true;
  }

  bool all_to_all(const Call& c) {
    std::array<std::vector<int>, 2> counts, offsets;
    for (size_t side = 0; side < 2; ++side) {
      int offset = 0;
      for (const Count n : side == 0 ? c.sends : c.recvs) {
        counts[side].push_back(static_cast<int>(n));
        offsets[side].push_back(offset);
        offset += static_cast<int>(n);
      }
    }
    const MPI_Datatype type = type_of(c.dtype);
    MPI_Request r;
    must(MPI_Ialltoallv(c.in, counts[0].data(), offsets[0].data(), type, c.out, counts[1].data(),
                        offsets[1].data(), type, comm_, &r),
         "MPI_Ialltoallv");
    wait(r, c);
    return true;
  }

  bool barrier() {
    MPI_Request r;
    must(MPI_Ibarrier(comm_, &r), "MPI_Ibarrier");
    wait(r, Call{});
    return true;
  }

  void average(const Call& c, void* data) const {
    if (c.reduce == ReduceOp::avg) divide_on_host(data, c.count, c.dtype, size_);
  }

  void wait(MPI_Request request, const Call& call) {
    std::vector<MPI_Request> one{request};
    wait(one, to_string(call));
  }

  // Waits without hurry: there may be far more ranks than cores. Looks up now and then, because the
  // partner may be gone.
  void wait(std::vector<MPI_Request>& requests, const std::string& what) {
    const auto start = Clock::now();
    auto looked = start;
    for (int done = 0, spins = 0;; ++spins) {
      must(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                       MPI_STATUSES_IGNORE),
           "MPI_Testall");
      if (done != 0) return;
      if (spins > 100) ::usleep(20);
      const auto now = Clock::now();
      if (now - looked < std::chrono::milliseconds(100)) continue;
      looked = now;
      peers_.check_alive();
      if (now - start > timeout_)
        throw CommError(CommReason::timeout,
                        fmt::format("MPI did not end {} on \"{}\" in time", what, name_));
    }
  }

  const std::string name_;
  const int position_;
  const std::chrono::milliseconds timeout_;
  Peers& peers_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int size_ = 1;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(const Place& place, Peers& peers) : place_(place), peers_(peers) {
    int provided = 0, rank = 0, size = 0;
    must(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != place.rank.value || size != place.size)
      throw CommError(CommReason::transport,
                      fmt::format("MPI says rank {} of {}, the environment rank {} of {}", rank,
                                  size, place.rank.value, place.size));
    make_types();
  }

  Device& device() override { return host_device(); }
  std::unique_ptr<Channel> open(const GroupPlace& group) override {
    return std::make_unique<MpiChannel>(group, place_, peers_);
  }
  void close() override {
    free_types();
    must(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  const Place place_;
  Peers& peers_;
};

}  // namespace
}  // namespace s2t

extern "C" {

[[gnu::visibility("default")]] int s2t_module_abi() {
  return s2t::kModuleAbi;
}

[[gnu::visibility("default")]] void s2t_module_probe(s2t::Probe* probe) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  const std::string text = version;
  probe->usable = true;
  probe->why = text.substr(0, text.find(','));  // "Open MPI v4.1.4"
}

[[gnu::visibility("default")]] s2t::Transport* s2t_module_open(const s2t::Place* place,
                                                               s2t::Peers* peers) {
  return new s2t::MpiTransport(*place, *peers);
}
}

// The NCCL module: groups become NCCL communicators of their name, and every call is a group of its
// own on the communication stream, so that one call is one kernel and a witness can count them.
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <set>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"
#include "runtime/comm/nccl/cuda_check.h"
#include "runtime/comm/nccl/cuda_device.h"
#include "runtime/comm/nccl/one_gpu.h"
#include "runtime/comm/transport.h"

// Only the stand-ins of the tests have it.
extern "C" [[gnu::weak, gnu::visibility("default")]] const char* s2t_stand_in();

namespace s2t {
namespace {

// f8 and booleans travel as bytes; neither is summed as such (see op_of).
ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::boolean:
    case DType::f8:
      return ncclUint8;
  }
  throw Fault("no NCCL type for this dtype");
}

ncclRedOp_t op_of(const Call& call) {
  if (call.dtype == DType::boolean && call.reduce == ReduceOp::sum) return ncclMax;  // "or" of 0, 1
  switch (call.reduce) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::avg:
      return ncclAvg;
  }
  throw Fault("no NCCL operation for this reduction");
}

// A named range in a profiler's timeline: "event 12 all_reduce tp0".
class Range {
 public:
  Range(const Annotation& annotation, const Call& call, const std::string& group) {
    nvtxRangePushA(fmt::format("{}{}{} {}", annotation.label, annotation.label.empty() ? "" : " ",
                               name_of(call.op), group)
                       .c_str());
  }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

// All communicators of this process, to ask them how they are while the host waits.
using Communicators = std::set<ncclComm_t>;

class NcclChannel final : public Channel {
 public:
  NcclChannel(const GroupPlace& group, CudaDevice& device, Peers& peers, Communicators& all)
      : name_(group.name), size_(static_cast<int>(group.ranks.size())), device_(device), all_(all) {
    ncclUniqueId id;
    const std::string key = fmt::format("nccl id of group {}", group.index);
    if (group.position == 0) {
      must(ncclGetUniqueId(&id), "ncclGetUniqueId");
      peers.put(key, std::string(id.internal, sizeof id.internal));
    }
    const std::string bytes = peers.get(key);
    std::memcpy(id.internal, bytes.data(), std::min(bytes.size(), sizeof id.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    config.commName = name_.c_str();
#endif
    must(ncclCommInitRankConfig(&comm_, size_, id, group.position, &config),
         "ncclCommInitRankConfig");
    all_.insert(comm_);
  }

  // Destroying waits for the others, who after a failure may never come.
  ~NcclChannel() override {
    all_.erase(comm_);
    if (std::uncaught_exceptions() == 0) ncclCommDestroy(comm_);
  }

  bool collective(const Call& call, const Annotation& annotation) override {
    if (call.op == CommOp::barrier) {  // all members have announced it; nothing has to be sent
      device_.synchronize();
      return true;
    }
    const Range range(annotation, call, name_);
    in_group([&](cudaStream_t stream) { issue(call, stream); });
    return true;
  }

  void messages(std::span<const Call> calls, const Annotation& annotation) override {
    if (calls.empty()) return;
    const Range range(annotation, calls[0], name_);
    in_group([&](cudaStream_t stream) {
      for (const Call& call : calls) issue(call, stream);
    });
  }

 private:
  void in_group(const std::function<void(cudaStream_t)>& issue_all) {
    device_.communicate([&](cudaStream_t stream) {
      must(ncclGroupStart(), "ncclGroupStart", comm_);
      try {
        issue_all(stream);
      } catch (...) {
        ncclGroupEnd();
        throw;
      }
      must(ncclGroupEnd(), "ncclGroupEnd", comm_);
    });
  }

  void issue(const Call& c, cudaStream_t stream) {
    const ncclDataType_t type = type_of(c.dtype);
    switch (c.op) {
      case CommOp::all_reduce:
        return must(ncclAllReduce(c.in, c.out, c.count, type, op_of(c), comm_, stream),
                    "ncclAllReduce", comm_);
      case CommOp::all_gather:
        return must(ncclAllGather(c.in, c.out, c.count, type, comm_, stream), "ncclAllGather",
                    comm_);
      case CommOp::reduce_scatter:
        return must(ncclReduceScatter(c.in, c.out, c.count, type, op_of(c), comm_, stream),
                    "ncclReduceScatter", comm_);
      case CommOp::broadcast:
        return must(ncclBroadcast(c.in, c.out, c.count, type, c.peer, comm_, stream),
                    "ncclBroadcast", comm_);
      case CommOp::reduce:
        return must(ncclReduce(c.in, c.out, c.count, type, op_of(c), c.peer, comm_, stream),
                    "ncclReduce", comm_);
      case CommOp::send:
        return must(ncclSend(c.in, c.count, type, c.peer, comm_, stream), "ncclSend", comm_);
      case CommOp::recv:
        return must(ncclRecv(c.out, c.count, type, c.peer, comm_, stream), "ncclRecv", comm_);
      case CommOp::all_to_all:
        return all_to_all(c, type, stream);
      case CommOp::barrier:
        return;
    }
  }

  // As PyTorch does it: one send and one receive per peer, itself included, none where there is
  // nothing to move.
  void all_to_all(const Call& c, ncclDataType_t type, cudaStream_t stream) {
    const auto* in = static_cast<const std::byte*>(c.in);
    auto* out = static_cast<std::byte*>(c.out);
    for (int r = 0; r < size_; ++r) {
      const Count sends = c.sends[static_cast<size_t>(r)], recvs = c.recvs[static_cast<size_t>(r)];
      if (sends != 0) must(ncclSend(in, sends, type, r, comm_, stream), "ncclSend", comm_);
      if (recvs != 0) must(ncclRecv(out, recvs, type, r, comm_, stream), "ncclRecv", comm_);
      if (sends != 0) in += sends * size_of(c.dtype);
      if (recvs != 0) out += recvs * size_of(c.dtype);
    }
  }

  const std::string name_;
  const int size_;
  CudaDevice& device_;
  Communicators& all_;
  ncclComm_t comm_ = nullptr;
};

int visible_gpus() {
  int count = 0;
  must(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) throw DeviceError("no GPU is visible");
  return count;
}

// "node7 0000:3B:00.0": one text per GPU, wherever it is and whatever number it has here.
std::string name_of_gpu(int ordinal) {
  char host[256] = "", bus[32] = "";
  ::gethostname(host, sizeof host - 1);
  must(cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal), "cudaDeviceGetPCIBusId");
  return fmt::format("{} {}", host, bus);
}

// The GPU of this rank, and the environment it needs if any two ranks have the same: all ranks
// must decide that alike. Counting GPUs would not do, a launcher may show each rank only its own.
int choose_gpu(const Place& place, Peers& peers) {
  const int ordinal = place.local_rank % visible_gpus();
  const auto key = [](int rank) { return fmt::format("gpu of rank {}", rank); };
  peers.put(key(place.rank.value), name_of_gpu(ordinal));
  std::set<std::string> gpus;
  for (int r = 0; r < place.size; ++r) gpus.insert(peers.get(key(r)));
  if (gpus.size() != static_cast<size_t>(place.size)) share_one_gpu(place.rank.value);
  return ordinal;
}

class NcclTransport final : public Transport {
 public:
  NcclTransport(const Place& place, Peers& peers)
      : peers_(peers), device_(choose_gpu(place, peers), place.timeout, [this] { glance(); }) {}

  Device& device() override { return device_; }
  std::unique_ptr<Channel> open(const GroupPlace& group) override {
    return std::make_unique<NcclChannel>(group, device_, peers_, communicators_);
  }
  void close() override { must(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

 private:
  void glance() {
    for (const ncclComm_t comm : communicators_) {
      ncclResult_t state = ncclSuccess;
      must(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm);
      must(state, "a collective failed on the GPU", comm);
    }
    const auto now = std::chrono::steady_clock::now();  // asking the others takes longer
    if (now - asked_ < std::chrono::milliseconds(100)) return;
    asked_ = now;
    peers_.check_alive();
  }

  Peers& peers_;
  std::chrono::steady_clock::time_point asked_;
  Communicators communicators_;
  CudaDevice device_;
};

std::string version_text(int code) {
  const int scale = code >= 10'000 ? 10'000 : 1'000;  // NCCL changed its code with 2.9
  return fmt::format("{}.{}.{}", code / scale, code % scale / 100, code % 100);
}

constexpr int kOldestNccl = 21'900;

// In order: the cheapest and plainest reason first. Creates no context.
Probe probe() {
  int driver = 0, gpus = 0, nccl = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) return {false, "no NVIDIA driver", false};
  const cudaError_t code = cudaGetDeviceCount(&gpus);
  if (code != cudaSuccess) return {false, fmt::format("CUDA: {}", cudaGetErrorString(code)), false};
  if (gpus == 0) return {false, "no GPU is visible", false};
  ncclGetVersion(&nccl);
  if (nccl < kOldestNccl)
    return {false,
            fmt::format("NCCL {} is too old, {} or newer is needed", version_text(nccl),
                        version_text(kOldestNccl)),
            false};
  const bool stand_in = s2t_stand_in != nullptr;
  return {true,
          fmt::format("{}{} GPU{}, driver for CUDA {}.{}, NCCL {} (built with {})",
                      stand_in ? "stand-ins, not a GPU: " : "", gpus, gpus == 1 ? "" : "s",
                      driver / 1000, driver % 1000 / 10, version_text(nccl),
                      version_text(NCCL_VERSION_CODE)),
          stand_in};
}

}  // namespace
}  // namespace s2t

extern "C" {

[[gnu::visibility("default")]] int s2t_module_abi() {
  return s2t::kModuleAbi;
}

[[gnu::visibility("default")]] void s2t_module_probe(s2t::Probe* out) {
  *out = s2t::probe();
}

[[gnu::visibility("default")]] s2t::Transport* s2t_module_open(const s2t::Place* place,
                                                               s2t::Peers* peers) {
  return new s2t::NcclTransport(*place, *peers);
}
}

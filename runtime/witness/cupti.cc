// Witness "cupti": counts the NCCL kernels that the driver really executed, by name, in order.
//
// Set CUDA_INJECTION64_PATH to its path; the driver loads it at start-up, and nobody else knows. It
// cannot see sizes, peers, or how many calls one kernel carries. Uses CONCURRENT_KERNEL, never
// KERNEL: that one serialises kernels, and two collectives on two streams would deadlock.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>

#include "runtime/witness/record.h"

S2T_WITNESS("cupti");

namespace {

using s2t::witness::Line;
using s2t::witness::writer;

struct Kernel {
  uint64_t start, end;
  std::string name;
};
struct Seen {
  std::mutex mutex;
  std::vector<Kernel> kernels;
  int64_t others = 0;  // kernels that are not NCCL's
  size_t dropped = 0;
};
Seen& seen() {
  static auto* instance = new Seen;
  return *instance;
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)" and its relatives of other releases. The suffix
// says nothing about algorithm or protocol: NCCL shares kernels.
const char* op_in(const std::string& name) {
  static constexpr const char* kOps[][2] = {
      {"AllReduce", "all_reduce"}, {"AllGather", "all_gather"}, {"ReduceScatter", "reduce_scatter"},
      {"Broadcast", "broadcast"},  {"SendRecv", "send_recv"},   {"Reduce", "reduce"}};
  for (const auto& row : kOps) {
    if (name.find(row[0]) != std::string::npos) return row[1];
  }
  return "other";
}

void keep(const CUpti_Activity& record) {
  if (record.kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) return;
  const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
  const std::string name = demangled(kernel.name);
  std::lock_guard lock(seen().mutex);
  if (name.find("nccl") == std::string::npos) {
    ++seen().others;
  } else {
    seen().kernels.push_back({kernel.start, kernel.end, name});
  }
}

void CUPTIAPI buffer_wanted(uint8_t** buffer, size_t* bytes, size_t* records) {
  *bytes = size_t{1} << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *bytes));
  *records = 0;  // as many as fit
}

void CUPTIAPI buffer_full(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                          size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) keep(*record);
  size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
    std::lock_guard lock(seen().mutex);
    seen().dropped += dropped;
  }
  std::free(buffer);
}

void report() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::lock_guard lock(seen().mutex);
  auto& kernels = seen().kernels;
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Kernel& a, const Kernel& b) { return a.start < b.start; });
  for (const Kernel& kernel : kernels) {
    writer().write("launch", [&](Line& line) {
      line.add("op", op_in(kernel.name)).add("name", kernel.name);
      line.add("start_ns", static_cast<int64_t>(kernel.start));
      line.add("end_ns", static_cast<int64_t>(kernel.end));
    });
  }
  kernels.clear();
  writer().write("totals", [](Line& line) {
    line.add("other_kernels", seen().others).add("dropped", static_cast<int64_t>(seen().dropped));
  });
  writer().end();
}

}  // namespace

// 1 means loaded. A failure is written down, so that an empty file cannot pass for "no kernels".
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  CUptiResult result = cuptiActivityRegisterCallbacks(buffer_wanted, buffer_full);
  if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (result == CUPTI_SUCCESS) {
    std::atexit(report);
    return 1;
  }
  const char* text = "";
  cuptiGetResultString(result, &text);
  writer().write("error", [&](Line& line) {
    line.add("call", "cuptiActivityEnable").add("result", static_cast<int64_t>(result));
    line.add("text", text);
  });
  writer().end();
  return 1;
}

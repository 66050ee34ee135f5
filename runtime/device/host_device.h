// The CPU as a device: plain memory, a plain deterministic matrix product.
#pragma once

#include "runtime/device/device.h"

namespace s2t {

// Stateless, so one object may serve every rank of a process. An op kernel is a function call.
class HostDevice final : public Device {
 public:
  std::string_view name() const override { return "host"; }
  bool on_host() const override { return true; }
  void* allocate(size_t bytes) override;
  void free(void* pointer) noexcept override;
  void copy_in(void* device, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* device, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void zero(void* device, size_t bytes) override;
  void gemm(const Gemm& g) override;
  void synchronize() override {}
};

HostDevice& host_device();

}  // namespace s2t

// Every row of the op table on a GPU must give what it gives on the host. Exits with 77, saying
// why, where there is no GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "runtime/comm/nccl/cuda_device.h"
#include "runtime/device/host_device.h"
#include "tests/prover/instances.h"

namespace s2t::prover {
namespace {

CudaDevice& gpu() {
  static CudaDevice device(0, std::chrono::seconds(30), [] {});
  return device;
}

class OnGpu : public testing::TestWithParam<Instance> {};

void compare(const Instance& in, const std::vector<Tensor>& inputs, double tolerance) {
  const OpCall call = in.call(whole_view(in.bound));
  const Kernels& kernels = kernels_of(gpu());
  ASSERT_NE(&kernels, &kernels_of(host_device())) << "the GPU has no kernels of its own";
  const auto expected = forward(call, inputs), found = kernels.forward(gpu(), call, inputs);
  std::mt19937_64 random{4};
  std::vector<std::optional<Tensor>> dy;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].dtype(), expected[i].dtype());
    EXPECT_LE(max_abs_difference(found[i], expected[i]), tolerance) << "result " << i;
    dy.push_back(random_tensor(expected[i].shape(), in.exact, random).cast(expected[i].dtype()));
  }
  const auto on_host = backward(call, inputs, expected, dy, in.wanted());
  const auto on_gpu = kernels.backward(gpu(), call, inputs, expected, dy, in.wanted());
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(on_gpu[i].has_value(), on_host[i].has_value());
    if (on_host[i]) {
      EXPECT_LE(max_abs_difference(*on_gpu[i], *on_host[i]), tolerance) << "gradient " << i;
    }
  }
}

TEST_P(OnGpu, Float64IsTheHosts) {
  compare(GetParam(), GetParam().inputs, 1e-11);
}

TEST_P(OnGpu, Float32IsTheHosts) {
  std::vector<Tensor> inputs;
  for (const Tensor& t : GetParam().inputs)
    inputs.push_back(is_differentiable(t.dtype()) ? t.cast(DType::f32) : t);
  compare(GetParam(), inputs, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(OpTable, OnGpu, testing::ValuesIn(instances()), [](const auto& instance) {
  std::string name = instance.param.name;
  std::replace(name.begin(), name.end(), '#', '_');
  return name;
});

}  // namespace
}  // namespace s2t::prover

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess || devices == 0) {
    std::printf("skipped, no GPU: %s\n", cudaGetErrorString(code));
    return 77;
  }
  return RUN_ALL_TESTS();
}

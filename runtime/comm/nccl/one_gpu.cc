#include "runtime/comm/nccl/one_gpu.h"

#include <cstdlib>
#include <string>

namespace s2t {
namespace {

struct Variable {
  const char* name;
  const char* value;
};

constexpr Variable kVariables[] = {
    // Loopback sockets only: "=lo" is an exact match, "lo" would be a prefix.
    {"NCCL_NET", "Socket"},
    {"NCCL_NET_PLUGIN", "none"},
    {"NCCL_IB_DISABLE", "1"},
    {"NCCL_SOCKET_IFNAME", "=lo"},
    {"NCCL_SOCKET_FAMILY", "AF_INET"},
    {"NCCL_P2P_DISABLE", "1"},
    {"NCCL_SHM_DISABLE", "1"},
    // Nothing that needs all ranks' kernels to run at the same time.
    {"NCCL_MNNVL_ENABLE", "0"},
    {"NCCL_NVLS_ENABLE", "0"},
    {"NCCL_COLLNET_ENABLE", "0"},
    {"NCCL_RAS_ENABLE", "0"},
    // The fewest time slices per collective.
    {"NCCL_ALGO", "Ring"},
    {"NCCL_PROTO", "Simple"},
    {"NCCL_MAX_CTAS", "1"},
    {"NCCL_BUFFSIZE", "1048576"},
};

}  // namespace

void share_one_gpu(int rank) {
  ::setenv("NCCL_HOSTID", ("s2t-r" + std::to_string(rank)).c_str(), 0);
  for (const Variable& v : kVariables) ::setenv(v.name, v.value, 0);
}

}  // namespace s2t

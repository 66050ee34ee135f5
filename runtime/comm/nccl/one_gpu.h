// Several ranks on one GPU: NCCL refuses that unless every process claims to be a machine of its
// own and talks through loopback sockets.
//
// Source: NCCL 2.28 compares the hash of NCCL_HOSTID (else of the host name) and the PCI bus id of
// all ranks; equal pairs are a "Duplicate GPU". It is slow (a dependent hop waits for a time slice)
// and not supported officially, but correct; its numbers are no speeds.
#pragma once

namespace s2t {

// Sets the variables that are not set yet. Must run before the first call of NCCL.
void share_one_gpu(int rank);

}  // namespace s2t

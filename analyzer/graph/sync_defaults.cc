#include "analyzer/graph/sync_defaults.h"

namespace s2t {

bool every_microbatch(const GradientSyncDecl& sync) {
  return sync.every_microbatch.value_or(
      sync.kind == SyncKind::zero2 || sync.kind == SyncKind::zero3 || sync.kind == SyncKind::fsdp);
}

bool overlaps(const GradientSyncDecl& sync) {
  return sync.overlap.value_or(sync.kind == SyncKind::bucketed || sync.kind == SyncKind::zero2 ||
                               sync.kind == SyncKind::zero3 || sync.kind == SyncKind::fsdp);
}

bool in_backward(const GradientSyncDecl& sync) {
  return overlaps(sync) || every_microbatch(sync);
}

// PyTorch DDP: 1 MiB for the first bucket so that communication starts early, then 25 MiB; one
// bucket of any size in the first iteration. ZeRO: no limit unless stated.
Count bucket_limit(const GradientSyncDecl& sync, int stage, bool first) {
  if (sync.first_stage_only && stage > 0) return UINT64_MAX;
  const bool ddp = sync.kind == SyncKind::bucketed;
  if (ddp && sync.first_iteration) return UINT64_MAX;
  const auto stated =
      first && sync.first_bucket_bytes ? sync.first_bucket_bytes : sync.bucket_bytes;
  if (stated) return static_cast<Count>(*stated);
  return !ddp ? static_cast<Count>(INT64_MAX) : first ? Count{1} << 20 : Count{25} << 20;
}

}  // namespace s2t

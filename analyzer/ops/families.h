// The op families, one function per file. Only the table reads this.
#pragma once

#include <span>

#include "analyzer/ops/op.h"

namespace s2t {

std::span<const OpDef> dense_ops();
std::span<const OpDef> elementwise_ops();
std::span<const OpDef> norm_ops();
std::span<const OpDef> embedding_ops();
std::span<const OpDef> attention_ops();
std::span<const OpDef> loss_ops();
std::span<const OpDef> moe_ops();
std::span<const OpDef> shape_ops();

}  // namespace s2t

#include "analyzer/ops/families.h"

namespace s2t {
namespace {

constexpr OpDef kOps[] = {
    {.name = "embedding",
     .family = "embedding",
     .rule = "ids[*] table[v d] -> y[* d]",
     .linear = "{table}",
     .saved = "table<-ids",
     .stop = "ids",
     .integers = "ids",
     .summary = "rows of a table; with the vocabulary split the result is Partial"},
    {.name = "add_positions",
     .family = "embedding",
     .rule = "x[b s d] table[s d] -> y[b s d]",
     .linear = "{x table}",
     .summary = "adds a learned position embedding"},
};

}  // namespace

std::span<const OpDef> embedding_ops() {
  return kOps;
}

}  // namespace s2t

// Whose an event is: the module it belongs to, as part of a stack of alike layers, and the owner
// that every kernel of a trace has.
//
// Known here: names. "layers.3.attn" is number 3 of "layers", and "attn" owns it. An op without a
// module stands for itself: "y12" is number 12 of "y", and "y" owns it. Not known here: how often
// an event is issued, and by whom.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/program/program.h"

namespace s2t {

// "layers.3.attn" and "layers.3.mlp" are one block: what is alike from layer to layer.
struct Block {
  std::string stem;  // "layers", "embed"; "pipeline", "optimizer" for what no layer has
  std::optional<int64_t> number;  // 3
  auto operator<=>(const Block&) const = default;
};

// Of a module or, without one, of an op: the first number that is a word of its own or ends one.
Block block_of(std::string_view name);
Block block_of(const Event& event);

// "embed", "attn", "mlp", "moe", "head", "loss": the part of the layer, or the module itself.
// "pipeline": messages between stages. "optimizer": synchronisation of gradients and updates of
// parameters, unless it gathers parameters for one module.
std::string owner_of(const Event& event);

// "attn*" as in a shell: `*` any characters, `?` one.
bool matches(std::string_view pattern, std::string_view text);

// A pattern that names a module ("layers.3.attn"), what it is part of ("layers.3"), an op or an
// owner.
bool belongs(const Event& event, std::string_view pattern);

}  // namespace s2t

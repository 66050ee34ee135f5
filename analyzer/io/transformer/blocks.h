// The blocks of a transformer, each adding its ops to the model at hand and returning the tensor
// that the next one reads. A block's module is set by its caller, except for those with a fixed
// name.
//
// Not known here: how many layers there are and on which stage (build.cc).
#pragma once

#include <string>

#include "analyzer/io/transformer/builder.h"

namespace s2t {

// "embed": tokens, positions, segments. Remembers the table, which a decoder behind an encoder
// looks its own tokens up in.
std::string embedding(ModelBuilder& b);
std::string embedding_again(ModelBuilder& b);
// "head" and "loss": the final norm, the logits and the cross-entropy, which becomes the model's.
void head(ModelBuilder& b, const std::string& x);

// x as the stage at hand gets it from the one before.
std::string border(ModelBuilder& b, const std::string& x);

// "layers.3": attention, and MLP or experts, one after the other or side by side, with their norms.
std::string layer(ModelBuilder& b, const std::string& x, int64_t number);
// An encoder with an embedding; and a decoder's layer that reads what it made, the memory.
std::string encoder(ModelBuilder& b);
std::string layer_with_memory(ModelBuilder& b, const std::string& x, const std::string& memory,
                              int64_t number);
// Begins a stack of layers, called "encoder" or "layers", that may share relative positions.
void begin_stack(ModelBuilder& b, const std::string& name);
// What is added to the scores of all its layers.
std::string relative_positions(ModelBuilder& b);

// --- inside of a layer: what is made of a block's input, without the sum around it ---------------

std::string attention(ModelBuilder& b, const std::string& n);
// Queries from n, keys and values from the memory.
std::string cross_attention(ModelBuilder& b, const std::string& n, const std::string& memory);
std::string mlp(ModelBuilder& b, const std::string& n);
// Experts, with shared ones if there are any.
std::string experts(ModelBuilder& b, const std::string& n);

// --- parts of blocks -----------------------------------------------------------------------------

std::string norm(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t width);
// What column linears read of a value that others read too: under sequence parallelism its gradient
// is reduced in their backward, before the others have theirs.
std::string column_input(ModelBuilder& b, const std::string& x, const std::string& suffix);
// Output features are split over tp.
std::string column(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t out,
                   bool bias);
std::string column_from(ModelBuilder& b, const std::string& x, const std::string& suffix,
                        int64_t out, int64_t in, bool bias);
// Input features are split over tp; the bias is added after the reduction, once.
std::string row(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t in,
                bool bias);
// Whole on every rank of tp, applied to the tokens that a rank has.
std::string duplicated(ModelBuilder& b, const std::string& x, const std::string& suffix,
                       int64_t out, bool bias);
// Up (and gate), activation, down; `prefix` tells those of one module apart.
std::string feed_forward(ModelBuilder& b, const std::string& n, const std::string& prefix,
                         int64_t ffn, bool bias);
// An index line with sizes.
OpDecl& add_reshape(ModelBuilder& b, const std::string& x, const std::string& suffix,
                    const char* rule, const std::map<std::string, int64_t>& sizes);
// The logits of each token from n, and their loss, called `name`.
std::string logits_of(ModelBuilder& b, const std::string& n);
std::string loss_of_tokens(ModelBuilder& b, const std::string& logits, const std::string& name);
// The losses of BERT, added up.
void pretraining_heads(ModelBuilder& b, const std::string& x);

}  // namespace s2t

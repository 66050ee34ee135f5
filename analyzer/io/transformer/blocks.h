// The blocks of a transformer, each adding its ops to the model at hand and returning the tensor
// that the next one reads. A block's module is set by its caller, except for those with a fixed
// name.
//
// Not known here: how many layers there are and on which stage (build.cc).
#pragma once

#include <string>

#include "analyzer/io/transformer/builder.h"

namespace s2t {

// "embed": tokens, and learned positions. Remembers the table.
std::string embedding(ModelBuilder& b);
// x + attention(norm(x)).
std::string attention(ModelBuilder& b, const std::string& x);
// x + feed_forward(norm(x)).
std::string mlp(ModelBuilder& b, const std::string& x);
// x + experts(norm(x)), with shared experts if there are any.
std::string experts(ModelBuilder& b, const std::string& x);
// "head" and "loss": the final norm, the logits and the cross-entropy, which becomes the model's.
void head(ModelBuilder& b, const std::string& x);

// --- parts of blocks -----------------------------------------------------------------------------

std::string norm(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t width);
// A norm whose result column linears read.
std::string input_norm(ModelBuilder& b, const std::string& x, const std::string& suffix);
// Output features are split over tp.
std::string column(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t out,
                   bool bias);
std::string column_from(ModelBuilder& b, const std::string& x, const std::string& suffix,
                        int64_t out, int64_t in, bool bias);
// Input features are split over tp; the bias is added after the reduction, once.
std::string row(ModelBuilder& b, const std::string& x, const std::string& suffix, int64_t in,
                bool bias);
// Up (and gate), activation, down; `prefix` tells those of one module apart.
std::string feed_forward(ModelBuilder& b, const std::string& n, const std::string& prefix,
                         int64_t ffn, bool bias);

}  // namespace s2t

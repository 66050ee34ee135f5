// Any bytes are read as a model; only a user error may come out.
//
// Built with clang's libFuzzer and the address and undefined-behaviour sanitizers. What it finds is
// kept in corpus/ as a small file, where the next run starts from it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/base/diagnostics.h"
#include "analyzer/io/model_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    s2t::parse_model(text);
  } catch (const s2t::UserError&) {
  }
  return 0;
}

// The wire format of Protocol Buffers (protobuf.dev, "Encoding"), as much of it as a trace needs:
// varints, and bytes with their length in front. Fields come out in the order in which they are
// put in, so the same input gives the same bytes.
//
//   field 1, varint 150  ->  08 96 01        field 2, "testing"  ->  12 07 74 65 73 74 69 6e 67
//
// Not known here: what any message means (chakra.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace s2t {

class ProtobufMessage {
 public:
  // uint64, uint32, bool, enum; and int64, int32 as their two's complement in 64 bits.
  void number(uint32_t field, uint64_t value);
  void text(uint32_t field, std::string_view bytes);  // string, bytes
  void message(uint32_t field, const ProtobufMessage& inner) { text(field, inner.bytes_); }
  void packed(uint32_t field, const std::vector<uint64_t>& values);  // repeated numbers

  const std::string& bytes() const { return bytes_; }
  // With its length in front, as messages stand one after the other in a file.
  std::string delimited() const;

 private:
  std::string bytes_;
};

}  // namespace s2t

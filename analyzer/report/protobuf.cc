#include "analyzer/report/protobuf.h"

namespace s2t {
namespace {

constexpr uint32_t kVarint = 0, kDelimited = 2;  // wire types

// Seven bits a byte, the low ones first; the high bit says that more follow.
void put_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  bytes += static_cast<char>(value);
}

void put_tag(std::string& bytes, uint32_t field, uint32_t wire_type) {
  put_varint(bytes, (uint64_t{field} << 3) | wire_type);
}

}  // namespace

void ProtobufMessage::number(uint32_t field, uint64_t value) {
  put_tag(bytes_, field, kVarint);
  put_varint(bytes_, value);
}

void ProtobufMessage::text(uint32_t field, std::string_view bytes) {
  put_tag(bytes_, field, kDelimited);
  put_varint(bytes_, bytes.size());
  bytes_ += bytes;
}

void ProtobufMessage::packed(uint32_t field, const std::vector<uint64_t>& values) {
  if (values.empty()) return;
  std::string all;
  for (const uint64_t v : values) put_varint(all, v);
  text(field, all);
}

std::string ProtobufMessage::delimited() const {
  std::string bytes;
  put_varint(bytes, bytes_.size());
  return bytes + bytes_;
}

}  // namespace s2t

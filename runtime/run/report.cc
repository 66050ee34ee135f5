#include "runtime/run/report.h"

#include <cstring>

#include "analyzer/base/diagnostics.h"
#include "runtime/comm/wire.h"

namespace s2t {
namespace {

void put(Packet& to, const std::vector<std::string>& list) {
  to.put<uint64_t>(list.size());
  for (const std::string& s : list) to.put_text(s);
}
std::vector<std::string> get_texts(Packet& from) {
  std::vector<std::string> list(from.get<uint64_t>());
  for (std::string& s : list) s = from.get_text();
  return list;
}

void put(Packet& to, const Held& held) {
  to.put_list(held.data.shape());
  to.put(held.data.dtype());
  to.put_text(std::string(reinterpret_cast<const char*>(held.data.bytes()), held.data.byte_size()));
  to.put_list(std::vector<Placement>(held.layout.begin(), held.layout.end()));
  to.put_list(held.owned);
}
Held get_held(Packet& from) {
  const Shape shape = from.get_list<int64_t>();
  Held held{Tensor(shape, from.get<DType>()), {}, {}};
  const std::string bytes = from.get_text();
  if (bytes.size() != held.data.byte_size()) throw Fault("a report lost bytes of a tensor");
  if (!bytes.empty()) std::memcpy(held.data.writable_bytes(), bytes.data(), bytes.size());
  const auto placements = from.get_list<Placement>();
  held.layout = Layout(placements.size());
  for (size_t i = 0; i < placements.size(); ++i) held.layout[AtomIndex(i)] = placements[i];
  held.owned = from.get_list<Stretch>();
  return held;
}

void put_key(Packet& to, TensorId key) {
  to.put(key);
}
void put_key(Packet& to, const RankReport::AtMicrobatch& key) {
  to.put(key.first).put(key.second);
}
void get_key(Packet& from, TensorId& key) {
  key = from.get<TensorId>();
}
void get_key(Packet& from, RankReport::AtMicrobatch& key) {
  key.first = from.get<int64_t>();
  key.second = from.get<TensorId>();
}

template <class Key>
void put(Packet& to, const std::map<Key, Held>& map) {
  to.put<uint64_t>(map.size());
  for (const auto& [key, held] : map) {
    put_key(to, key);
    put(to, held);
  }
}
template <class Key>
void get(Packet& from, std::map<Key, Held>& map) {
  for (auto n = from.get<uint64_t>(); n > 0; --n) {
    Key key;
    get_key(from, key);
    map.emplace(key, get_held(from));
  }
}

void put(Packet& to, const TaggedCall& tagged) {
  const RecordedCall& c = tagged.call;
  to.put(c.seq).put(c.op).put(c.count).put(c.dtype).put(c.reduce);
  to.put(c.input_bytes).put(c.output_bytes).put(c.peer).put(c.batch).put(c.completed);
  to.put_text(c.group).put_list(c.ranks).put_list(c.sends).put_list(c.recvs);
  to.put_text(c.annotation.phase).put_text(c.annotation.label);
  const Tag& t = tagged.tag;
  to.put_text(t.phase).put_text(t.tensor).put_text(t.family).put(t.chunk).put(t.microbatch);
  put(to, t.members);
}
TaggedCall get_call(Packet& from) {
  TaggedCall tagged;
  RecordedCall& c = tagged.call;
  c.seq = from.get<uint64_t>();
  c.op = from.get<CommOp>();
  c.count = from.get<Count>();
  c.dtype = from.get<DType>();
  c.reduce = from.get<ReduceOp>();
  c.input_bytes = from.get<Count>();
  c.output_bytes = from.get<Count>();
  c.peer = from.get<Rank>();
  c.batch = from.get<int>();
  c.completed = from.get<bool>();
  c.group = from.get_text();
  c.ranks = from.get_list<Rank>();
  c.sends = from.get_list<Count>();
  c.recvs = from.get_list<Count>();
  c.annotation.phase = from.get_text();
  c.annotation.label = from.get_text();
  Tag& t = tagged.tag;
  t.phase = from.get_text();
  t.tensor = from.get_text();
  t.family = from.get_text();
  t.chunk = from.get<int64_t>();
  t.microbatch = from.get<int64_t>();
  t.members = get_texts(from);
  return tagged;
}

}  // namespace

std::string pack(const RankReport& report) {
  Packet to;
  to.put(report.rank).put_text(report.kernels).put<uint64_t>(report.calls.size());
  for (const TaggedCall& c : report.calls) put(to, c);
  put(to, report.values);
  put(to, report.input_gradients);
  put(to, report.gradients);
  put(to, report.updated);
  return to.bytes();
}

RankReport unpack_report(const std::string& bytes) {
  Packet from(bytes);
  RankReport report;
  report.rank = from.get<Rank>();
  report.kernels = from.get_text();
  for (auto n = from.get<uint64_t>(); n > 0; --n) report.calls.push_back(get_call(from));
  get(from, report.values);
  get(from, report.input_gradients);
  get(from, report.gradients);
  get(from, report.updated);
  return report;
}

}  // namespace s2t

#include "tests/runtime/comm/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "runtime/device/float16.h"

namespace s2t::conformance {
namespace {

using Values = std::vector<double>;

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16,   DType::f64,
                             DType::i64, DType::i32, DType::boolean};
constexpr Count kCounts[] = {0, 1, 7};

template <class T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void encode(std::byte* to, double x, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return write(to, static_cast<float>(x));
    case DType::f64:
      return write(to, x);
    case DType::f16:
      return write(to, narrow_f16(static_cast<float>(x)));
    case DType::bf16:
      return write(to, narrow_bf16(static_cast<float>(x)));
    case DType::i64:
      return write(to, static_cast<int64_t>(x));
    case DType::i32:
      return write(to, static_cast<int32_t>(x));
    default:
      return write(to, static_cast<uint8_t>(x != 0));
  }
}

double decode(const std::byte* from, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return read<float>(from);
    case DType::f64:
      return read<double>(from);
    case DType::f16:
      return widen(read<Float16>(from));
    case DType::bf16:
      return widen(read<BFloat16>(from));
    case DType::i64:
      return static_cast<double>(read<int64_t>(from));
    case DType::i32:
      return read<int32_t>(from);
    default:
      return read<uint8_t>(from);
  }
}

// Element i of rank r's data: small, different per rank and place, sometimes zero and negative.
double value(int rank, size_t i, DType dtype) {
  const int v = static_cast<int>((i * 3 + static_cast<size_t>(rank) * 5) % 7) - 2;
  return dtype == DType::boolean ? (v > 2 ? 1 : 0) : v;
}

Values values(int rank, Count count, DType dtype) {
  Values v;
  for (size_t i = 0; i < count; ++i) v.push_back(value(rank, i, dtype));
  return v;
}

double fold(ReduceOp op, DType dtype, double a, double b) {
  if (op == ReduceOp::max || (dtype == DType::boolean && op == ReduceOp::sum))
    return std::max(a, b);
  return op == ReduceOp::min ? std::min(a, b) : a + b;
}

// What rank 0 .. size-1 hold together after a reduction.
Values reduced(int size, Count count, DType dtype, ReduceOp op) {
  Values sum = values(0, count, dtype);
  for (int r = 1; r < size; ++r)
    for (size_t i = 0; i < count; ++i) sum[i] = fold(op, dtype, sum[i], value(r, i, dtype));
  if (op == ReduceOp::avg)
    for (double& x : sum) x /= size;
  return sum;
}

// One rank of one group under test, with a place to say what went wrong.
struct Bench {
  Communicator& group;
  std::vector<std::string>& wrong;

  int me() const { return group.rank(); }
  int size() const { return group.size(); }

  DeviceBuffer put(const Values& v, DType dtype) const {
    std::vector<std::byte> bytes(v.size() * size_of(dtype));
    for (size_t i = 0; i < v.size(); ++i) encode(&bytes[i * size_of(dtype)], v[i], dtype);
    DeviceBuffer buffer(group.device(), bytes.size());
    group.device().copy_in(buffer.data(), bytes.data(), bytes.size());
    return buffer;
  }
  DeviceBuffer room(Count count, DType dtype) const {
    return {group.device(), count * size_of(dtype)};
  }

  void expect(const DeviceBuffer& buffer, const Values& want, DType dtype,
              const std::string& what) const {
    std::vector<std::byte> bytes(want.size() * size_of(dtype));
    group.device().copy_out(bytes.data(), buffer.data(), bytes.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const double got = decode(&bytes[i * size_of(dtype)], dtype);
      if (got == want[i]) continue;
      wrong.push_back(fmt::format("{} of {} {} on {} (rank {} of {}): element {} is {}, not {}",
                                  what, want.size(), info(dtype).name, group.name(), me(), size(),
                                  i, got, want[i]));
      return;
    }
  }
};

void all_reduce(const Bench& b, Count count, DType dtype) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    const auto in = b.put(values(b.me(), count, dtype), dtype);
    const auto out = b.room(count, dtype);
    const Values want = reduced(b.size(), count, dtype, op);
    b.group.all_reduce(in.data(), out.data(), count, dtype, op);
    b.expect(out, want, dtype, "all_reduce");
    b.expect(in, values(b.me(), count, dtype), dtype, "all_reduce's input");
    if (op != ReduceOp::sum) continue;
    b.group.all_reduce(in.data(), in.data(), count, dtype, op);
    b.expect(in, want, dtype, "all_reduce in place");
  }
}

void average(const Bench& b, Count count, DType dtype) {
  if (dtype != DType::f64) return;  // the one dtype in which thirds compare equal
  const auto in = b.put(values(b.me(), count, dtype), dtype);
  b.group.all_reduce(in.data(), in.data(), count, dtype, ReduceOp::avg);
  Values want = reduced(b.size(), count, dtype, ReduceOp::avg);
  std::vector<std::byte> bytes(count * size_of(dtype));
  b.group.device().copy_out(bytes.data(), in.data(), bytes.size());
  for (size_t i = 0; i < count; ++i)
    if (std::abs(decode(&bytes[i * size_of(dtype)], dtype) - want[i]) > 1e-14)
      b.wrong.push_back(fmt::format("average on {}: element {}", b.group.name(), i));
}

void all_gather(const Bench& b, Count count, DType dtype) {
  const auto in = b.put(values(b.me(), count, dtype), dtype);
  const auto out = b.room(count * static_cast<Count>(b.size()), dtype);
  Values want;
  for (int r = 0; r < b.size(); ++r)
    for (const double x : values(r, count, dtype)) want.push_back(x);
  b.group.all_gather(in.data(), out.data(), count, dtype);
  b.expect(out, want, dtype, "all_gather");

  Values mine(want.size(), 0);
  const size_t offset = count * static_cast<size_t>(b.me());
  std::copy_n(want.begin() + static_cast<long>(offset), count,
              mine.begin() + static_cast<long>(offset));
  const auto both = b.put(mine, dtype);
  b.group.all_gather(static_cast<std::byte*>(both.data()) + offset * size_of(dtype), both.data(),
                     count, dtype);
  b.expect(both, want, dtype, "all_gather in place");
}

void reduce_scatter(const Bench& b, Count count, DType dtype) {
  const Count all = count * static_cast<Count>(b.size());
  const Values sum = reduced(b.size(), all, dtype, ReduceOp::sum);
  const auto first = sum.begin() + static_cast<long>(count * static_cast<Count>(b.me()));
  const Values want(first, first + static_cast<long>(count));
  const auto in = b.put(values(b.me(), all, dtype), dtype);
  const auto out = b.room(count, dtype);
  b.group.reduce_scatter(in.data(), out.data(), count, dtype);
  b.expect(out, want, dtype, "reduce_scatter");
}

// Element i that `from` sends to `to`.
double letter(int from, int to, size_t i, DType dtype) {
  return value(from * 8 + to, i, dtype);
}

void all_to_all(const Bench& b, DType dtype, const std::function<Count(int, int)>& split) {
  std::vector<Count> sends, recvs;
  Values in, want;
  for (int r = 0; r < b.size(); ++r) {
    sends.push_back(split(b.me(), r));
    recvs.push_back(split(r, b.me()));
    for (size_t i = 0; i < sends.back(); ++i) in.push_back(letter(b.me(), r, i, dtype));
    for (size_t i = 0; i < recvs.back(); ++i) want.push_back(letter(r, b.me(), i, dtype));
  }
  const auto from = b.put(in, dtype);
  const auto to = b.room(want.size(), dtype);
  b.group.all_to_all(from.data(), sends, to.data(), recvs, dtype);
  b.expect(to, want, dtype, "all_to_all");
}

void all_to_alls(const Bench& b, Count count, DType dtype) {
  all_to_all(b, dtype, [&](int, int) { return count; });
  all_to_all(b, dtype,
             [](int from, int to) { return static_cast<Count>((from * 3 + to * 5) % 4); });
  all_to_all(b, dtype, [&](int from, int) { return from == 0 ? count : 0; });
  all_to_all(b, dtype, [&](int from, int to) { return from == to ? count : 0; });
}

void rooted(const Bench& b, Count count, DType dtype) {
  for (const int root : std::set<int>{0, b.size() / 2, b.size() - 1}) {
    const bool mine = b.me() == root;
    const auto in = b.put(values(b.me(), count, dtype), dtype);
    const auto out = b.room(count, dtype);
    b.group.broadcast(mine ? in.data() : nullptr, out.data(), count, dtype, root);
    b.expect(out, values(root, count, dtype), dtype, "broadcast");
    b.group.reduce(in.data(), mine ? out.data() : nullptr, count, dtype, ReduceOp::sum, root);
    if (mine) b.expect(out, reduced(b.size(), count, dtype, ReduceOp::sum), dtype, "reduce");
    b.group.broadcast(in.data(), in.data(), count, dtype, root);
    b.expect(in, values(root, count, dtype), dtype, "broadcast in place");
  }
}

// Everybody sends to the next and receives from the previous: a cycle, which only a batch resolves.
void ring(const Bench& b, Count count, DType dtype) {
  const int next = (b.me() + 1) % b.size(), last = (b.me() + b.size() - 1) % b.size();
  const auto in = b.put(values(b.me(), count, dtype), dtype);
  const auto other = b.put(values(b.me() + 1, count, dtype), dtype);
  const auto first = b.room(count, dtype), second = b.room(count, dtype);
  b.group.group_begin();
  b.group.send(in.data(), count, dtype, next);
  b.group.send(other.data(), count, dtype, next);
  b.group.recv(first.data(), count, dtype, last);
  b.group.recv(second.data(), count, dtype, last);
  b.group.group_end();
  b.expect(first, values(last, count, dtype), dtype, "the first message of a ring");
  b.expect(second, values(last + 1, count, dtype), dtype, "the second message of a ring");
}

// One rank's batch is two single messages of its partner, who looks at its data in between: the
// batch must be under way before all of it has found a partner.
void halting_partner(const Bench& b, Count count, DType dtype) {
  if (b.size() < 2 || b.me() > 1) return;
  const int other = 1 - b.me();
  const auto out = b.put(values(b.me(), count, dtype), dtype);
  const auto in = b.room(count, dtype);
  if (b.me() == 1) {
    b.group.group_begin();
    b.group.send(out.data(), count, dtype, other);
    b.group.recv(in.data(), count, dtype, other);
    b.group.group_end();
  } else {
    b.group.send(out.data(), count, dtype, other);
    b.group.device().synchronize();
    b.group.recv(in.data(), count, dtype, other);
  }
  b.expect(in, values(other, count, dtype), dtype, "a halting partner");
}

// 0 to 1 to 2 ..., without a batch.
void chain(const Bench& b, Count count, DType dtype) {
  const auto data = b.put(values(0, count, dtype), dtype);
  const auto got = b.room(count, dtype);
  if (b.me() > 0) b.group.recv(got.data(), count, dtype, b.me() - 1);
  if (b.me() + 1 < b.size())
    b.group.send(b.me() > 0 ? got.data() : data.data(), count, dtype, b.me() + 1);
  if (b.me() > 0) b.expect(got, values(0, count, dtype), dtype, "a chain");
}

void every_case(const Bench& b, Count count, DType dtype) {
  all_reduce(b, count, dtype);
  average(b, count, dtype);
  all_gather(b, count, dtype);
  reduce_scatter(b, count, dtype);
  all_to_alls(b, count, dtype);
  rooted(b, count, dtype);
  ring(b, count, dtype);
  halting_partner(b, count, dtype);
  chain(b, count, dtype);
  b.group.barrier();
}

// Groups in which ranks meet again in other company and other order.
std::vector<std::vector<Rank>> groups_of(const World& world) {
  const std::vector<Rank> all = ranks_of_world(world);
  std::vector<Rank> evens, half(all.begin(), all.begin() + (world.size() + 1) / 2);
  for (const Rank r : all)
    if (r.value % 2 == 0) evens.push_back(r);
  return {all, {all.rbegin(), all.rend()}, evens, half, {half.rbegin(), half.rend()}, {all.back()}};
}

// Only send, recv and batches reach the backend.
class ByMessages final : public Communicator {
 public:
  explicit ByMessages(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  std::span<const Rank> ranks() const override { return inner_.ranks(); }
  const std::string& name() const override { return inner_.name(); }
  Device& device() override { return inner_.device(); }
  void group_begin() override { inner_.group_begin(); }
  void group_end() override { inner_.group_end(); }
  void issue(const Call& call) override {
    if (is_point_to_point(call.op)) return inner_.issue(call);
    by_messages(*this, call);
  }

 private:
  Communicator& inner_;
};

void large(const Bench& b) {
  all_reduce(b, 30'011, DType::f32);
  all_gather(b, 30'011, DType::bf16);
  reduce_scatter(b, 30'011, DType::i32);
  ring(b, 100'003, DType::f32);
  halting_partner(b, 100'003, DType::f32);
}

std::string run(World& world, bool by_messages) {
  std::vector<std::string> wrong;
  std::vector<std::unique_ptr<Communicator>> groups;
  for (const auto& ranks : groups_of(world))
    groups.push_back(world.create_group(fmt::format("g{}", groups.size()), ranks));
  const auto on = [&](Communicator& group, const std::function<void(const Bench&)>& cases) {
    ByMessages plain(group);
    cases({by_messages ? plain : group, wrong});
  };
  on(*groups[0], large);
  for (const Count count : kCounts)
    on(*groups[0], [&](const Bench& b) { every_case(b, count, DType::f32); });
  for (const DType dtype : kDTypes)
    on(*groups[0], [&](const Bench& b) { every_case(b, 33, dtype); });
  for (const auto& group : groups)
    if (group != nullptr) on(*group, [](const Bench& b) { every_case(b, 7, DType::f32); });
  return fmt::format("{}", fmt::join(wrong, "\n"));
}

}  // namespace

std::string run_all(World& world) {
  return run(world, false);
}

std::string run_all_by_messages(World& world) {
  return run(world, true);
}

}  // namespace s2t::conformance

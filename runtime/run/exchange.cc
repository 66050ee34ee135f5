#include "runtime/run/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "analyzer/forward/expert_role.h"
#include "runtime/run/shard.h"

namespace s2t {
namespace {

std::byte* bytes_at(Tensor& t, size_t index, size_t each) {
  return t.writable_bytes() + index * each;
}

// n tensors of one shape, one after the other, and back.
Tensor stacked(const std::vector<Tensor>& pieces) {
  Shape shape = pieces[0].shape();
  shape.insert(shape.begin(), static_cast<int64_t>(pieces.size()));
  Tensor out(shape, pieces[0].dtype());
  const size_t each = pieces[0].byte_size();
  for (size_t i = 0; i < pieces.size(); ++i)
    std::copy_n(pieces[i].bytes(), each, bytes_at(out, i, each));
  return out;
}

std::vector<Tensor> unstacked(const Tensor& t) {
  std::vector<Tensor> pieces;
  const Shape shape(t.shape().begin() + 1, t.shape().end());
  for (int64_t i = 0; i < t.shape()[0]; ++i) pieces.push_back(slice(t, 0, i, 1).reshaped(shape));
  return pieces;
}

std::vector<Tensor> cut(const Tensor& t, int dim, int64_t ways) {
  const int64_t each = t.shape()[static_cast<size_t>(dim)] / ways;
  std::vector<Tensor> pieces;
  for (int64_t i = 0; i < ways; ++i) pieces.push_back(slice(t, dim, i * each, each));
  return pieces;
}

Tensor joined(const std::vector<Tensor>& pieces, int dim) {
  Shape shape = pieces[0].shape();
  const int64_t each = shape[static_cast<size_t>(dim)];
  shape[static_cast<size_t>(dim)] = each * static_cast<int64_t>(pieces.size());
  Tensor out(shape, pieces[0].dtype());
  for (size_t i = 0; i < pieces.size(); ++i)
    paste(out, pieces[i], dim, static_cast<int64_t>(i) * each);
  return out;
}

Count sum(const std::vector<Count>& counts) {
  Count total = 0;
  for (const Count c : counts) total += c;
  return total;
}

std::vector<Count> times(std::vector<Count> rows, Count each) {
  for (Count& r : rows) r *= each;
  return rows;
}

ReduceOp reduce_op(Combiner combiner) {
  return combiner == Combiner::max   ? ReduceOp::max
         : combiner == Combiner::min ? ReduceOp::min
                                     : ReduceOp::sum;
}

// A tensor where the device can read or write it.
class Staged {
 public:
  Staged(Device& device, const Tensor& in) : device_(device) {
    if (device.on_host()) {
      data_ = const_cast<std::byte*>(in.bytes());
      return;
    }
    buffer_ = DeviceBuffer(device, std::max<size_t>(in.byte_size(), 1));
    data_ = buffer_.data();
    if (in.byte_size() != 0) device.copy_in(data_, in.bytes(), in.byte_size());
  }
  static Staged out(Device& device, Tensor& t) {
    if (device.on_host()) t.writable_bytes();
    return Staged(device, t);
  }
  void* data() const { return data_; }
  void bring_back(Tensor& t) {
    if (!device_.on_host() && t.byte_size() != 0)
      device_.copy_out(t.writable_bytes(), data_, t.byte_size());
  }

 private:
  Device& device_;
  DeviceBuffer buffer_;
  void* data_ = nullptr;
};

[[noreturn]] void make_trouble(World& world, RunHooks::Trouble trouble) {
  if (trouble == RunHooks::Trouble::dies) std::_Exit(9);
  if (trouble == RunHooks::Trouble::throws) throw std::runtime_error("trouble was asked for");
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    world.check_alive();
  }
}

}  // namespace

Exchange::Exchange(World& world, const Graph& graph, const Forward& forward,
                   const StepOptions& options)
    : world_(world),
      recorded_(world, recording_),
      graph_(graph),
      forward_(forward),
      options_(options),
      rank_(world.rank()),
      groups_(recorded_, graph, forward) {
  look_ahead();
}

std::vector<TaggedCall> Exchange::calls() const {
  std::vector<TaggedCall> list;
  for (size_t i = 0; i < recording_.calls.size(); ++i)
    list.push_back({recording_.calls[i], tags_.at(i)});
  return list;
}

// --- one call ------------------------------------------------------------------------------------

// Predicted ids are only names here.
std::string Exchange::name_of_call(size_t number) const {
  const auto me = rank_.at();
  const bool known = me < options_.event_ids.size() && number < options_.event_ids[me].size();
  return known ? fmt::format("event {}", options_.event_ids[me][number])
               : fmt::format("call {}", number);
}

// What fails between two calls fails on the way to the next.
void Exchange::look_ahead() {
  recorded_.annotate({"", name_of_call(recording_.calls.size())});
}

void Exchange::announce(Tag tag, const Family& family) {
  const std::string& group = groups_.of(family).name();
  const size_t number = recording_.calls.size();
  recorded_.annotate({tag.phase, fmt::format("{} {}", name_of_call(number), group)});
  const auto& failure = options_.hooks.failure;
  if (failure && failure->rank == rank_ && failure->call == number)
    make_trouble(world_, failure->trouble);
  tag.family = family.name;
  tags_.push_back(std::move(tag));
}

bool Exchange::skipped(const Tag& tag) const {
  const auto& skip = options_.hooks.skip;
  return skip && skip->phase == tag.phase && skip->tensor == tag.tensor;
}

Tensor Exchange::call(const Family& family, const Ask& ask, const Tensor& in, const Shape& out,
                      const Tag& tag) {
  Communicator& group = groups_.of(family);
  Tensor result(out, in.dtype());
  if (in.size() == 0 && result.size() == 0) return result;  // ranks of an expert that gets no rows
  if (skipped(tag)) {  // as if alone: whatever of the input fits
    const size_t n = std::min(result.byte_size(), in.byte_size());
    std::copy_n(in.bytes(), n, result.writable_bytes());
    return result;
  }
  announce(tag, family);
  Staged from(group.device(), in), to = Staged::out(group.device(), result);
  const auto n = static_cast<Count>(in.size()), m = static_cast<Count>(result.size());
  switch (ask.op) {
    case Collective::all_reduce:
      group.all_reduce(from.data(), to.data(), n, in.dtype(), ask.reduce);
      break;
    case Collective::all_gather:
      group.all_gather(from.data(), to.data(), n, in.dtype());
      break;
    case Collective::reduce_scatter:
      group.reduce_scatter(from.data(), to.data(), m, in.dtype(), ask.reduce);
      break;
    case Collective::all_to_all:
      group.all_to_all(from.data(), ask.sends, to.data(), ask.recvs, in.dtype());
      break;
    case Collective::broadcast:
      group.broadcast(from.data(), to.data(), n, in.dtype(), 0);
      break;
    default:
      throw Fault("no conversion issues this collective");
  }
  to.bring_back(result);
  look_ahead();
  return result;
}

Tensor Exchange::all_reduce(const Tensor& in, const Family& family, const Tag& tag) {
  return call(family, {Collective::all_reduce, ReduceOp::sum, {}, {}}, in, in.shape(), tag);
}
Tensor Exchange::reduce_scatter(const Tensor& in, const Family& family, const Tag& tag) {
  const int64_t part = in.size() / graph_.mesh.group_size(family);
  return call(family, {Collective::reduce_scatter, ReduceOp::sum, {}, {}}, in, {part}, tag);
}
Tensor Exchange::all_gather(const Tensor& in, const Family& family, const Tag& tag) {
  const int64_t whole = in.size() * graph_.mesh.group_size(family);
  return call(family, {Collective::all_gather, ReduceOp::sum, {}, {}}, in, {whole}, tag);
}

// What moves is nobody's value: zeros stand for it.
void Exchange::stated(const StatedCall& s, const Tag& tag) {
  const Tensor in(s.decl.shape, s.decl.dtype);
  Shape out = s.decl.shape;
  if (s.decl.op == Collective::all_gather) out.insert(out.begin(), graph_.mesh.size(s.atoms));
  Ask ask{s.decl.op, reduce_op(s.decl.combiner), {}, {}};
  if (ask.op == Collective::all_to_all) {
    const auto n = static_cast<size_t>(graph_.mesh.size(s.atoms));
    ask.sends = ask.recvs = std::vector<Count>(n, elements(s.decl.shape) / n);
  }
  call(family_over(graph_, s.atoms, s.expert), ask, in, out, tag);
}

// --- conversions ---------------------------------------------------------------------------------

Tensor Exchange::convert(TensorId value, Tensor local, std::span<const Step> steps,
                         const Tag& tag) {
  for (const Step& s : steps) local = step(value, local, s, tag);
  return local;
}

Tensor Exchange::step(TensorId value, const Tensor& local, const Step& s, const Tag& tag) {
  if (graph_.mesh.size(s.atoms) == 1) return local;
  const bool is_ragged = graph_.value(value).routing.has_value();
  if (!s.collective) return local_step(value, local, s);
  return is_ragged ? ragged(value, local, s, tag) : dense(value, local, s, tag);
}

// R -> S keeps a block, S -> P puts it among zeros, R -> P leaves the term to one rank.
Tensor Exchange::local_step(TensorId value, const Tensor& local, const Step& s) const {
  const Shape& shape = graph_.value(value).shape;
  const Region before = region_of(shape, s.before, graph_.mesh, rank_);
  const Region after = region_of(shape, s.after, graph_.mesh, rank_);
  const bool cuts = (s.after.sharding(s.to_dim) & s.atoms) != 0;
  const bool joins = (s.before.sharding(s.from_dim) & s.atoms) != 0;
  if (cuts) {
    const auto d = static_cast<size_t>(s.to_dim);
    return slice(local, s.to_dim, after.begin[d] - before.begin[d], after.size[d]);
  }
  if (joins) {
    Tensor among_zeros(after.size, local.dtype());
    const auto d = static_cast<size_t>(s.from_dim);
    paste(among_zeros, local, s.from_dim, before.begin[d] - after.begin[d]);
    return among_zeros;
  }
  return graph_.mesh.coordinate(rank_, s.atoms) == 0 ? local : Tensor(local.shape(), local.dtype());
}

// Every rank hands over blocks of the same, rounded-up size.
Tensor Exchange::dense(TensorId value, const Tensor& local, const Step& s, const Tag& tag) {
  const Value& v = graph_.value(value);
  const Family family = family_over(graph_, s.atoms, moves_among_experts(graph_, forward_, value));
  const int64_t n = graph_.mesh.size(s.atoms);
  const Shape after = region_of(v.shape, s.after, graph_.mesh, rank_).size;
  const Shape block = local_shape(v.shape, s.after, graph_.mesh);
  Shape full = local_shape(v.shape, s.before, graph_.mesh);
  Ask ask{*s.collective, reduce_op(s.combiner), {}, {}};
  if (ask.op == Collective::all_reduce)
    return resized(call(family, ask, resized(local, full), full, tag), after);
  if (ask.op == Collective::all_gather) {
    Shape pieces = full;
    pieces.insert(pieces.begin(), n);
    const Tensor got = call(family, ask, resized(local, full), pieces, tag);
    return resized(joined(unstacked(got), s.from_dim), after);
  }
  full[static_cast<size_t>(s.to_dim)] = block[static_cast<size_t>(s.to_dim)] * n;
  const Tensor pieces = stacked(cut(resized(local, full), s.to_dim, n));
  if (ask.op == Collective::reduce_scatter)
    return resized(call(family, ask, pieces, block, tag), after);
  const auto each = static_cast<Count>(pieces.size() / n);
  ask.sends = ask.recvs = std::vector<Count>(static_cast<size_t>(n), each);
  const Tensor got = call(family, ask, pieces, pieces.shape(), tag);
  return resized(joined(unstacked(got), s.from_dim), after);
}

// --- ragged values -------------------------------------------------------------------------------

const RoutedRows& Exchange::rows_of(size_t routing) {
  const auto it = rows_.find(routing);
  if (it != rows_.end()) return it->second;
  return rows_.emplace(routing, RoutedRows(graph_, forward_, routing)).first->second;
}

std::vector<RoutedRows::Slot> Exchange::slots_of(TensorId value, const Layout& layout) {
  const size_t r = graph_.value(value).routing.value();
  const AtomSet atoms = forward_.routings[r].atoms;
  return rows_of(r).slots(layout, atoms ? graph_.mesh.coordinate(rank_, atoms) : 0);
}

// Rows are of the rounded-up width on the wire.
Shape Exchange::with_wire_rows(TensorId value, const Layout& layout) const {
  const Shape& whole = graph_.value(value).shape;
  Shape shape = region_of(whole, layout, graph_.mesh, rank_).size;
  const Shape block = local_shape(whole, layout, graph_.mesh);
  std::copy(block.begin() + 2, block.end(), shape.begin() + 2);
  return shape;
}

Tensor Exchange::ragged(TensorId value, const Tensor& part, const Step& s, const Tag& tag) {
  const Routing& routing = forward_.routings[*graph_.value(value).routing];
  const Family family = family_over(graph_, s.atoms, true);
  const int64_t n = graph_.mesh.size(s.atoms);
  const auto from = slots_of(value, s.before), to = slots_of(value, s.after);
  Tensor after(with_wire_rows(value, s.after), part.dtype());
  Shape handed = with_wire_rows(value, s.before);
  if (s.to_dim >= 2)
    handed[static_cast<size_t>(s.to_dim)] = after.shape()[static_cast<size_t>(s.to_dim)] * n;
  const Tensor local = resized(part, handed);
  Ask ask{*s.collective, reduce_op(s.combiner), {}, {}};
  if (ask.op == Collective::all_reduce) {
    const Tensor rows = pack_rows(local, from);
    unpack_rows(after, call(family, ask, rows, rows.shape(), tag), to);
  } else if (ask.op == Collective::all_to_all) {
    if (s.atoms != routing.atoms) throw Fault("a ragged exchange over other than the expert axis");
    const int64_t c = graph_.mesh.coordinate(rank_, routing.atoms);
    const Tensor rows = pack_rows(local, from);
    const Count each = from.empty() ? elements({after.shape().begin() + 2, after.shape().end()})
                                    : static_cast<Count>(rows.size()) / from.size();
    ask.sends = times(routing.dispatch_send(c), each);
    ask.recvs = times(routing.dispatch_recv(c), each);
    if (s.from_dim == 0) std::swap(ask.sends, ask.recvs);
    if (sum(ask.sends) != static_cast<Count>(rows.size())) throw Fault("rows are not what is sent");
    unpack_rows(after, call(family, ask, rows, pack_rows(after, to).shape(), tag), to);
  } else if (ask.op == Collective::all_gather) {
    const Tensor rows = pack_rows(local, from);
    Shape pieces = rows.shape();
    pieces.insert(pieces.begin(), n);
    std::vector<Tensor> parts;
    for (const Tensor& piece : unstacked(call(family, ask, rows, pieces, tag))) {
      parts.emplace_back(local.shape(), local.dtype());
      unpack_rows(parts.back(), piece, from);
    }
    after = joined(parts, s.from_dim);
  } else {
    std::vector<Tensor> parts;
    for (const Tensor& piece : cut(local, s.to_dim, n)) parts.push_back(pack_rows(piece, to));
    unpack_rows(after, call(family, ask, stacked(parts), parts[0].shape(), tag), to);
  }
  return resized(after, region_of(graph_.value(value).shape, s.after, graph_.mesh, rank_).size);
}

// --- messages ------------------------------------------------------------------------------------

Tensor Exchange::on_the_wire(const Message& m) {
  if (!m.value.valid()) return m.data;
  const Value& v = graph_.value(m.value);
  const Layout& layout = forward_.layouts[m.value.at()];
  const Tensor part =
      m.send ? m.data : Tensor(region_of(v.shape, layout, graph_.mesh, rank_).size, v.dtype);
  if (!v.routing) return resized(part, local_shape(v.shape, layout, graph_.mesh));
  return pack_rows(resized(part, with_wire_rows(m.value, layout)), slots_of(m.value, layout));
}

Tensor Exchange::off_the_wire(const Message& m, const Tensor& wire) {
  if (!m.value.valid()) return wire;
  const Value& v = graph_.value(m.value);
  const Layout& layout = forward_.layouts[m.value.at()];
  const Shape part = region_of(v.shape, layout, graph_.mesh, rank_).size;
  if (!v.routing) return resized(wire, part);
  Tensor dense(with_wire_rows(m.value, layout), v.dtype);
  unpack_rows(dense, wire, slots_of(m.value, layout));
  return resized(dense, part);
}

void Exchange::messages(std::vector<Message>& list, bool batched) {
  if (list.empty()) return;
  const Family family = graph_.mesh.family_of(atom_bit(*graph_.mesh.pipeline_atom()));
  Communicator& group = groups_.of(family);
  std::vector<Tensor> wires;
  std::vector<Staged> staged;
  for (const Message& m : list) wires.push_back(on_the_wire(m));
  for (Tensor& w : wires) staged.push_back(Staged::out(group.device(), w));
  if (batched) group.group_begin();
  for (size_t i = 0; i < list.size(); ++i) {
    const Message& m = list[i];
    if (skipped(m.tag)) continue;
    announce(m.tag, family);
    const auto n = static_cast<Count>(wires[i].size());
    if (m.send)
      group.send(staged[i].data(), n, wires[i].dtype(), static_cast<int>(m.peer));
    else
      group.recv(staged[i].data(), n, wires[i].dtype(), static_cast<int>(m.peer));
  }
  if (batched) group.group_end();
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].send) continue;
    staged[i].bring_back(wires[i]);
    list[i].data = off_the_wire(list[i], wires[i]);
  }
  look_ahead();
}

// --- rings ---------------------------------------------------------------------------------------

Tensor Exchange::gather(AtomSet atoms, const Tensor& mine, const Tag& tag) {
  const Family family = family_over(graph_, atoms, false);
  Shape all = mine.shape();
  all.insert(all.begin(), groups_.of(family).size());
  return call(family, {Collective::all_gather, ReduceOp::sum, {}, {}}, mine, all, tag);
}

// PyTorch sends to the next rank by an all-to-all.
Tensor Exchange::pass_in_call(AtomSet atoms, const Tensor& out, int64_t to, const Tag& tag) {
  const Family family = family_over(graph_, atoms, false);
  const auto n = static_cast<size_t>(groups_.of(family).size());
  const auto me = static_cast<size_t>(groups_.of(family).rank()), next = static_cast<size_t>(to);
  Ask ask{Collective::all_to_all, ReduceOp::sum, std::vector<Count>(n), std::vector<Count>(n)};
  ask.sends[(me + next) % n] = ask.recvs[(me + n - next) % n] = static_cast<Count>(out.size());
  return call(family, ask, out, out.shape(), tag);
}

Tensor Exchange::pass(AtomSet atoms, const Tensor& out, int64_t to, const Tag& tag) {
  if (graph_.switches.ring != RingKind::messages) return pass_in_call(atoms, out, to, tag);
  if (skipped(tag)) return out;
  const Family family = family_over(graph_, atoms, false);
  Communicator& group = groups_.of(family);
  const int n = group.size(), next = (group.rank() + static_cast<int>(to) + n) % n;
  const int before = (group.rank() - static_cast<int>(to) + n) % n;
  const bool together = launched_together(graph_.switches.ring_launch, n);
  Tensor in(out.shape(), out.dtype());
  Staged from(group.device(), out), into = Staged::out(group.device(), in);
  const auto count = static_cast<Count>(out.size());
  if (together) group.group_begin();
  for (const bool send : {group.rank() % 2 == 0, group.rank() % 2 != 0}) {
    announce(tag, family);
    if (send)
      group.send(from.data(), count, out.dtype(), next);
    else
      group.recv(into.data(), count, in.dtype(), before);
  }
  if (together) group.group_end();
  into.bring_back(in);
  look_ahead();
  return in;
}

}  // namespace s2t

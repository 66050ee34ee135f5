// `predict --format chakra`: what one rank issues as a Chakra execution trace, which simulators
// read (ASTRA-sim: one file per rank, NAME.R.et).
//
// Messages and field numbers: mlcommons/chakra schema/protobuf/et_def.proto. Attributes: what its
// converters write and ASTRA-sim's feeder reads (is_cpu_op, comm_type, comm_size, comm_src,
// comm_dst, comm_tag, pg_name); comm_size is what the rank hands to the call. A file is
// GlobalMetadata, then nodes, each with its length in front. The first node lists the process
// groups of the rank as PyTorch notes them. Every node waits for the one before it; messages that
// are launched together wait for the same ones. Computation is not in it: this program knows none.
#include <fmt/format.h>

#include <array>
#include <map>
#include <sstream>

#include "analyzer/base/unicode.h"
#include "analyzer/program/owner.h"
#include "analyzer/report/json_writer.h"
#include "analyzer/report/protobuf.h"
#include "analyzer/report/rank_trace.h"

namespace s2t {
namespace {

// Fields of AttributeProto.
enum Attr : uint32_t {
  kName = 1,
  kInt32 = 7,
  kInt64 = 9,
  kUint64 = 13,
  kUint64List = 14,
  kBool = 27,
  kString = 29
};
// Fields of Node.
enum NodeField : uint32_t {
  kId = 1,
  kNodeName = 2,
  kType = 3,
  kDataDeps = 5,
  kInputs = 8,
  kAttr = 10
};
enum NodeType : uint64_t { kMetadataNode = 1, kSendNode = 5, kRecvNode = 6, kCollectiveNode = 7 };

// CollectiveCommType, by Collective; messages have node types of their own.
constexpr std::array<int, kCollectives> kCommType{0, 2, 7, 6, -1, -1, 5, 1};

class Node {
 public:
  Node(uint64_t id, std::string_view name, NodeType type) {
    node_.number(kId, id);
    node_.text(kNodeName, valid_utf8(name));
    node_.number(kType, type);
  }
  void waits_for(const std::vector<uint64_t>& ids) { node_.packed(kDataDeps, ids); }
  void inputs(std::string_view values) {
    ProtobufMessage io;
    io.text(1, values);
    node_.message(kInputs, io);
  }
  void number(std::string_view name, Attr type, uint64_t value) {
    ProtobufMessage attr;
    attr.text(kName, name);
    attr.number(type, value);
    node_.message(kAttr, attr);
  }
  void text(std::string_view name, std::string_view value) {
    ProtobufMessage attr;
    attr.text(kName, name);
    attr.text(kString, valid_utf8(value));
    node_.message(kAttr, attr);
  }
  void list(std::string_view name, const std::vector<uint64_t>& values) {
    ProtobufMessage attr, list;
    list.packed(1, values);
    attr.text(kName, name);
    attr.message(kUint64List, list);
    node_.message(kAttr, attr);
  }
  std::string delimited() const { return node_.delimited(); }

 private:
  ProtobufMessage node_;
};

// As PyTorch's execution trace has it: a list with one string, which is JSON.
std::string group_list(const Program& program, const std::vector<RankGroup>& groups) {
  std::string text = "['[";
  for (const RankGroup& g : groups) {
    const Family& family = program.families.at(g.family);
    text += fmt::format(R"({}{{"pg_name": "{}", "pg_desc": {}, "ranks": [)",
                        text.size() > 3 ? ", " : "", g.number, json_string(family.name));
    for (size_t i = 0; i < g.ranks.size(); ++i)
      text += fmt::format("{}{}", i ? ", " : "", g.ranks[i].value);
    text += fmt::format(R"(], "group_size": {}}})", g.ranks.size());
  }
  return text + "]']";
}

class Trace {
 public:
  Trace(const Program& program, Rank rank, std::ostream& out)
      : program_(program), rank_(rank), out_(out) {}

  void begin() {
    ProtobufMessage metadata;
    metadata.text(1, "0.0.4");
    attribute(metadata, "source", "shape2trace");
    attribute(metadata, "model", program_.model);
    out_ << metadata.delimited();
    const std::vector<RankGroup> groups = groups_of(program_, rank_);
    for (const RankGroup& g : groups) numbers_[g.family] = g.number;
    Node node(0, "## process_group:init ##", kMetadataNode);
    node.inputs(group_list(program_, groups));
    node.number("is_cpu_op", kBool, 1);
    out_ << node.delimited();
  }

  void add(const Event& e, std::optional<Rank> peer) {
    const bool together = peer && e.batch >= 0 && e.batch == batch_;
    if (!together) {
      before_ = std::move(last_);
      last_.clear();
    }
    batch_ = peer ? e.batch : -1;
    const uint64_t id = next_++;
    last_.push_back(id);
    const NodeType type = e.op == Collective::send   ? kSendNode
                          : e.op == Collective::recv ? kRecvNode
                                                     : kCollectiveNode;
    Node node(id, fmt::format("{} {} {}", to_string(e.phase), info(e.op).name, e.tensor), type);
    node.waits_for(before_);
    node.number("is_cpu_op", kBool, 0);
    if (peer)
      message(node, e, *peer);
    else
      collective(node, e);
    describe(node, e);
    out_ << node.delimited();
  }

 private:
  static void attribute(ProtobufMessage& metadata, std::string_view name, std::string_view value) {
    ProtobufMessage attr;
    attr.text(kName, name);
    attr.text(kString, valid_utf8(value));
    metadata.message(2, attr);
  }

  void collective(Node& node, const Event& e) const {
    node.number("comm_type", kInt64, static_cast<uint64_t>(kCommType[static_cast<size_t>(e.op)]));
    node.number("comm_size", kUint64, e.volume.input_bytes);
    if (e.op == Collective::broadcast || e.op == Collective::reduce) node.number("root", kInt32, 0);
  }

  void message(Node& node, const Event& e, Rank peer) {
    const bool send = e.op == Collective::send;
    node.number("comm_size", kUint64, send ? e.volume.input_bytes : e.volume.output_bytes);
    node.number("comm_src", kInt32, static_cast<uint64_t>(send ? rank_.value : peer.value));
    node.number("comm_dst", kInt32, static_cast<uint64_t>(send ? peer.value : rank_.value));
    node.number("comm_tag", kInt32, tag_of(e));
  }

  // Equal at both ends: which border, which way, which microbatch, and of several tensors which.
  // In a ring, how many messages went the same way before: both ends count alike.
  uint64_t tag_of(const Event& e) {
    if (e.ring) return passed_[{e.family, e.op}]++;
    const int64_t stage = e.chunk.value_or(0) * program_.pipeline_ranks + e.stage.value_or(0);
    const bool backward = e.phase == Phase::backward;
    const bool later_end = (e.op == Collective::recv) != backward;
    const int64_t border = later_end ? stage - 1 : stage;
    const auto tensors = static_cast<int64_t>(std::max<size_t>(
        1, program_.stages.at(static_cast<size_t>(border)).send_activation.size()));
    const int64_t one = (border * program_.microbatches + e.microbatch.value_or(0)) * 2 + backward;
    return static_cast<uint64_t>(one * tensors + seen_[one]++ % tensors);
  }

  // For people, and for tools that look further than simulators do.
  void describe(Node& node, const Event& e) const {
    node.text("pg_name", std::to_string(numbers_.at(e.family)));
    node.text("pg_desc", program_.families.at(e.family).name);
    node.text("owner", owner_of(e));
    node.text("dtype", info(e.dtype).name);
    node.number("elements", kUint64, e.volume.elements);
    node.number("output_bytes", kUint64, e.volume.output_bytes);
    node.number("wire_bytes", kUint64, e.volume.wire_bytes);
    if (e.microbatch) node.number("microbatch", kInt64, static_cast<uint64_t>(*e.microbatch));
    if (!e.splits) return;
    node.number("row_elements", kUint64, e.splits->row_elements);
    node.list("in_split_size", e.splits->send);
    node.list("out_split_size", e.splits->recv);
  }

  const Program& program_;
  const Rank rank_;
  std::ostream& out_;
  std::map<size_t, int64_t> numbers_;  // of the rank's group of each family
  std::map<int64_t, int64_t> seen_;    // messages per border, microbatch and way
  std::map<std::pair<size_t, Collective>, uint64_t> passed_;  // messages of rings, by family
  std::vector<uint64_t> before_, last_{0};  // what a node waits for; the last launch
  int64_t batch_ = -1;
  uint64_t next_ = 1;
};

}  // namespace

void write_predict_chakra(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Rank rank = traced_rank(program, options, "chakra");
  if (options.summary)
    throw UserError("shape2trace", {{"--summary", "a Chakra trace lists every call", "no --summary",
                                     "", "bad-option"}});
  Trace trace(program, rank, out);
  trace.begin();
  for_each_traced(program, options, rank,
                  [&](const Event& event, std::optional<Rank> peer) { trace.add(event, peer); });
}

}  // namespace s2t

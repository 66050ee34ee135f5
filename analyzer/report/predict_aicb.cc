// `predict --format aicb`: what one rank issues as the flat workload that AICB replays and SimAI's
// tools read.
//
// Columns and words: aliyun/aicb log_analyzer/log.py (LogItem.view_as_csv_line) and utils/utils.py
// (CommType, CommGroup). msg_size is in bytes as AICB counts them: all_reduce, broadcast and reduce
// the tensor, all_gather its output, reduce_scatter and all_to_all their input, a message itself.
// Where AICB has no word for a group, the group's own name stands there.
#include <algorithm>
#include <array>

#include "analyzer/base/unicode.h"
#include "analyzer/program/owner.h"
#include "analyzer/report/rank_trace.h"

namespace s2t {
namespace {

// By Collective.
constexpr std::array<std::string_view, kCollectives> kCommType{
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
    "isend",      "irecv",      "broadcast",      "reduce"};

struct GroupName {
  std::string_view family, group;
};
constexpr GroupName kGroups[] = {{"tp", "tp_group"},     {"dp", "dp_group"},
                                 {"pp", "pp_group"},     {"ep", "ep_group"},
                                 {"edp", "ep_dp_group"}, {"embd", "embedding_group"}};

std::string group_name(const std::string& family) {
  for (const GroupName& g : kGroups)
    if (g.family == family) return "CommGroup." + std::string(g.group);
  std::string word = "CommGroup." + family + "_group";
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
}

Count message_size(const Event& e) {
  const bool output = e.op == Collective::all_gather || e.op == Collective::recv;
  return output ? e.volume.output_bytes : e.volume.input_bytes;
}

// Upstream is "prev": activations come from there, gradients go there; in a ring the neighbours are
// told apart by their side.
std::string_view direction(const Event& e) {
  const bool send = e.op == Collective::send;
  const bool upstream = e.ring ? *e.peer_offset < 0 : send == (e.phase == Phase::backward);
  return send ? (upstream ? "send_prev" : "send_next") : (upstream ? "recv_prev" : "recv_next");
}

// "forward.attn"; no commas, quotes or line breaks, which AICB's reader does not know.
std::string stage_name(const Event& e) {
  std::string name = std::string(to_string(e.phase));
  if (e.phase == Phase::forward || e.phase == Phase::backward || e.phase == Phase::recompute)
    name += "." + valid_utf8(owner_of(e));
  for (char& c : name)
    if (c == ',' || c == '"' || c == '\n' || c == '\r') c = '_';
  return name;
}

}  // namespace

void write_predict_aicb(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Rank rank = traced_rank(program, options, "aicb");
  out << "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,"
         "algbw,busbw,count\n";
  for_each_traced(program, options, rank, [&](const Event& e, std::optional<Rank> peer) {
    const Family& family = program.families.at(e.family);
    const std::string_view dst = e.op == Collective::reduce ? "0" : "None";
    const std::string_view src = e.op == Collective::broadcast ? "0" : "None";
    out << "CommType." << kCommType[static_cast<size_t>(e.op)] << ',' << group_name(family.name)
        << ',' << (peer ? 1 : program.mesh.group_size(family)) << ',' << message_size(e) << ','
        << stage_name(e) << ',' << dst << ',' << src << ','
        << (peer ? direction(e) : std::string_view()) << ",None,None,None," << e.repeat << '\n';
  });
  out << "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1\n";
}

}  // namespace s2t

// `predict --format csv`: one line per event (RFC 4180, lines end in \n), lists joined by spaces.
#include "analyzer/base/unicode.h"
#include "analyzer/program/listing.h"
#include "analyzer/program/owner.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words.h"

namespace s2t {
namespace {

std::string cell(std::string_view text) {
  const std::string valid = valid_utf8(text);
  if (valid.find_first_of(",\"\r\n") == std::string::npos) return valid;
  std::string out = "\"";
  for (const char c : valid) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

template <class T>
std::string spaced(const std::vector<T>& numbers) {
  std::string text;
  for (const T n : numbers) text += (text.empty() ? "" : " ") + std::to_string(n);
  return text;
}

std::string spaced(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string number(std::optional<int64_t> n) {
  return n && *n >= 0 ? std::to_string(*n) : "";
}

// "all", "0 1", and above 64 ranks "pp=0".
std::string ranks(const Program& program, const Event& event) {
  if (event.ranks.along.empty() || program.mesh.world() > kExplicitRanks)
    return words(event.ranks, program.mesh);
  std::vector<int> list;
  for (const Rank rank : ranks_of(program, event)) list.push_back(rank.value);
  return static_cast<int64_t>(list.size()) == program.mesh.world() ? "all" : spaced(list);
}

// A global rank, or with its sign an offset along the pipeline axis.
std::string peer(const Event& event) {
  if (event.peer) return std::to_string(event.peer->value);
  if (!event.peer_offset) return "";
  return (*event.peer_offset > 0 ? "+" : "") + std::to_string(*event.peer_offset);
}

constexpr std::string_view kTitles =
    "id,phase,op,family,axes,tensor,node,module,owner,stage,chunk,microbatch,ranks,peer,call,batch,"
    "dtype,shape,"
    "elements,input_bytes,output_bytes,wire_bytes,send_rows,recv_rows,row_elements,members,repeat,"
    "cause,why\n";

void write_row(const Program& program, const Event& e, std::ostream& out) {
  const Family& family = program.families.at(e.family);
  const Cause& cause = program.causes.at(e.cause);
  const Splits splits = e.splits.value_or(Splits{});
  const std::string cells[] = {std::to_string(e.id),
                               std::string(to_string(e.phase)),
                               std::string(info(e.op).name),
                               family.name,
                               spaced(family.axes),
                               e.tensor,
                               e.node,
                               e.module,
                               owner_of(e),
                               number(e.stage),
                               number(e.chunk),
                               number(e.microbatch),
                               ranks(program, e),
                               peer(e),
                               number(e.call),
                               number(e.batch),
                               std::string(info(e.dtype).name),
                               spaced(e.shape),
                               std::to_string(e.volume.elements),
                               std::to_string(e.volume.input_bytes),
                               std::to_string(e.volume.output_bytes),
                               std::to_string(e.volume.wire_bytes),
                               spaced(splits.send),
                               spaced(splits.recv),
                               e.splits ? std::to_string(splits.row_elements) : "",
                               spaced(e.members),
                               std::to_string(e.repeat),
                               std::string(to_string(cause.kind)),
                               cause.why};
  std::string line;
  for (const std::string& text : cells) line += (line.empty() ? "" : ",") + cell(text);
  out << line << '\n';
}

}  // namespace

void write_predict_csv(const Program& program, const ReportOptions& options, std::ostream& out) {
  const Selection selection = selection_of(program, options);
  out << kTitles;
  const auto each = options.summary ? for_each_summary_event : for_each_event;
  each(program, [&](const Event& event) {
    if (selects(selection, program, event)) write_row(program, event, out);
  });
}

}  // namespace s2t

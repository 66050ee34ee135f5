#include "analyzer/report/byte_formula.h"

#include <fmt/format.h>

#include <numeric>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

// What the formulas speak of: n ranks, elements of `size` bytes.
struct Numbers {
  Count n = 1, elements = 0, size = 1;

  Count bytes() const { return checked_mul(elements, size); }
  ByteLine plain(std::string what) const {
    return {std::move(what), "elements x bytes of one",
            fmt::format("{} x {}", commas(elements), size), bytes()};
  }
  // n parts of which this call's count is one.
  ByteLine whole(std::string what) const {
    return {std::move(what), "n x elements x bytes of one",
            fmt::format("{} x {} x {}", n, commas(elements), size), checked_mul(n, bytes())};
  }
  ByteLine share(Count times, Count full) const {
    const auto moved = static_cast<unsigned __int128>(full) * (n - 1) * times;
    ByteLine line{"wire", times == 2 ? "2 (n-1)/n S" : "(n-1)/n S",
                  fmt::format("{}{}/{} x {}", times == 2 ? "2 x " : "", n - 1, n, commas(full)),
                  static_cast<Count>((moved + n - 1) / n)};
    if (moved % n != 0) line.numbers += ", rounded up";
    return line;
  }
};

ByteLine none(std::string what, std::string why) {
  return {std::move(what), std::move(why), "", 0};
}

std::vector<ByteLine> ragged(const Event& event, const Splits& splits, Count size) {
  const Count row = checked_mul(splits.row_elements, size);
  const auto line = [&](std::string what, const std::vector<Count>& rows) {
    std::string sum;
    for (const Count r : rows) sum += (sum.empty() ? "(" : " + ") + commas(r);
    const Count total = std::accumulate(rows.begin(), rows.end(), Count{0});
    if (rows.size() > 8) sum = "(" + commas(total);
    return ByteLine{std::move(what), "rows x bytes of one row",
                    fmt::format("{}) x {}", sum, commas(row)), checked_mul(total, row)};
  };
  const Count others = row == 0 ? 0 : event.volume.wire_bytes / row;
  return {line("input", splits.send),
          line("output", splits.recv),
          {"wire", "rows for other ranks x bytes of one row",
           fmt::format("{} x {}", commas(others), commas(row)), checked_mul(others, row)}};
}

std::vector<ByteLine> lines_of(const Event& event, const Numbers& x) {
  const Count part = x.bytes();
  switch (event.op) {
    case Collective::all_reduce:
      return {x.plain("input"), x.plain("output"), x.share(2, part)};
    case Collective::all_gather:
      return {x.plain("input"), x.whole("output"), x.share(1, checked_mul(x.n, part))};
    case Collective::reduce_scatter:
      return {x.whole("input"), x.plain("output"), x.share(1, checked_mul(x.n, part))};
    case Collective::all_to_all:
      if (event.peer_offset) return {x.plain("input"), x.plain("output"), x.plain("wire")};
      return {x.plain("input"), x.plain("output"), x.share(1, part)};
    case Collective::send:
      return {x.plain("input"), none("output", "a send gives nothing back"), x.plain("wire")};
    case Collective::recv:
      return {none("input", "a receive hands nothing over"), x.plain("output"), x.plain("wire")};
    case Collective::broadcast:
    case Collective::reduce:
      return {x.plain("input"), x.plain("output"), x.plain("wire")};
  }
  return {};
}

}  // namespace

std::vector<ByteLine> byte_lines(const Program& program, const Event& event) {
  const Family& family = program.families.at(event.family);
  const Numbers x{static_cast<Count>(program.mesh.group_size(family)), event.volume.elements,
                  size_of(event.dtype)};
  const bool rows = event.op == Collective::all_to_all && event.splits;
  std::vector<ByteLine> lines = rows ? ragged(event, *event.splits, x.size) : lines_of(event, x);
  const Volume& v = event.volume;
  if (lines[0].bytes != v.input_bytes || lines[1].bytes != v.output_bytes ||
      lines[2].bytes != v.wire_bytes)
    throw Fault("the byte formula does not give the bytes of event " + std::to_string(event.id));
  return lines;
}

}  // namespace s2t

#include "analyzer/report/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"

namespace s2t {
namespace {

constexpr size_t kLeast = 8;      // no column becomes narrower
constexpr size_t kGoodWrap = 40;  // text that wraps gives up room down to here before gaps do

void append_padded(std::string& line, std::string_view text, size_t width, bool right) {
  const size_t blank = width - std::min(width, display_width(text));
  if (right) line.append(blank, ' ');
  line += text;
  if (!right) line.append(blank, ' ');
}

// As most cells are: nothing to write out.
bool plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// The first `width` columns of UTF-8 text; `skip` drops so many before.
std::string slice(std::string_view text, size_t skip, size_t width) {
  std::string out;
  size_t column = 0;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const std::string_view point = text.substr(i, end - i);
    const size_t w = display_width(point);
    if (column >= skip && column + w <= skip + width) out += point;
    column += w;
    i = end;
  }
  return out;
}

}  // namespace

void Table::row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) throw Fault("a table row of another width");
  for (const std::string& cell : cells) {
    if (plain(cell))
      text_ += cell;
    else
      text_ += one_line(cell);
    ends_.push_back(text_.size());
  }
}

std::string_view Table::cell(size_t row, size_t column) const {
  const size_t i = row * columns_.size() + column;
  const size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(text_).substr(begin, ends_[i] - begin);
}

std::vector<std::string_view> Table::cells(size_t row) const {
  std::vector<std::string_view> list;
  for (size_t c = 0; c < columns_.size(); ++c) list.push_back(cell(row, c));
  return list;
}

std::vector<size_t> Table::used_columns() const {
  std::vector<size_t> used;
  for (size_t c = 0; c < columns_.size(); ++c)
    for (size_t r = 0; r < rows(); ++r)
      if (!cell(r, c).empty()) {
        used.push_back(c);
        break;
      }
  return used;
}

size_t Table::natural_width(size_t column) const {
  size_t w = display_width(columns_[column].title);
  for (size_t r = 0; r < rows(); ++r)  // no text is wider than it has bytes
    if (const std::string_view text = cell(r, column); text.size() > w)
      w = std::max(w, display_width(text));
  return w;
}

// Room that the columns take before a name loses its middle.
size_t Table::least_uncut(const std::vector<size_t>& used) const {
  size_t total = used.empty() ? 0 : used.size() - 1;
  for (const size_t c : used) {
    const size_t w = natural_width(c);
    total += columns_[c].kind == Column::Kind::wrapped ? std::min(w, kGoodWrap) : w;
  }
  return total;
}

Table::Measure Table::measure(const std::vector<size_t>& used, size_t room) const {
  Measure m;
  size_t total = 0;
  for (const size_t c : used) {
    m.width.push_back(natural_width(c));
    total += m.width.back();
  }
  const size_t gaps = used.empty() ? 0 : used.size() - 1;
  total += m.gap * gaps;
  give_up(used, m, total, room, kGoodWrap);
  if (total > room) {
    m.gap = 1;
    total -= gaps;
  }
  give_up(used, m, total, room, kLeast);
  return m;
}

// Takes from the widest column that can give: with `least` above kLeast only text that wraps.
void Table::give_up(const std::vector<size_t>& used, Measure& m, size_t& total, size_t room,
                    size_t least) const {
  for (; total > room; --total) {
    size_t best = used.size();
    for (size_t i = 0; i < used.size(); ++i) {
      const Column& column = columns_[used[i]];
      const bool gives = column.kind == Column::Kind::wrapped ||
                         (column.kind == Column::Kind::flexible && least == kLeast);
      if (gives && m.width[i] > std::max(least, display_width(column.title)) &&
          (best == used.size() || m.width[i] > m.width[best]))
        best = i;
    }
    if (best == used.size()) return;
    --m.width[best];
  }
}

void Table::print_row(std::ostream& out, const std::vector<std::string_view>& cells,
                      const std::vector<size_t>& used, const Measure& m, size_t indent) const {
  std::vector<std::vector<std::string>> parts;
  size_t lines = 1;
  for (size_t i = 0; i < used.size(); ++i) {
    const std::string_view cell = cells[used[i]];
    parts.push_back(columns_[used[i]].kind == Column::Kind::wrapped
                        ? wrapped(cell, m.width[i])
                        : std::vector<std::string>{shortened(cell, m.width[i])});
    lines = std::max(lines, parts.back().size());
  }
  for (size_t n = 0; n < lines; ++n) {
    std::string text(indent, ' ');
    for (size_t i = 0; i < used.size(); ++i) {
      const bool right = columns_[used[i]].kind == Column::Kind::right;
      if (i > 0) text.append(m.gap, ' ');
      append_padded(text, n < parts[i].size() ? parts[i][n] : "", m.width[i], right);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out << text << '\n';
  }
}

void Table::print(std::ostream& out, size_t indent, size_t page) const {
  std::vector<size_t> used = used_columns();
  if (least_uncut(used) > page - indent)
    std::erase_if(used, [&](size_t c) { return columns_[c].spare; });
  const Measure m = measure(used, page - indent);
  std::vector<std::string_view> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title);
  if (std::any_of(titles.begin(), titles.end(), [](const auto& t) { return !t.empty(); }))
    print_row(out, titles, used, m, indent);
  for (size_t r = 0; r < rows(); ++r) print_row(out, cells(r), used, m, indent);
}

std::string shortened(std::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  const size_t w = display_width(text);
  if (w <= width) return std::string(text);
  if (width <= 3) return slice(text, 0, width);
  const size_t head = (width - 3 + 1) / 2, tail = width - 3 - head;
  return slice(text, 0, head) + "..." + slice(text, w - tail, tail);
}

// Where the word from `at` on ends: at a space, but a list in brackets, "[0,1,2, ... 15]", stays
// whole if it fits a line.
static size_t end_of_word(std::string_view text, size_t at, size_t width) {
  const size_t first = std::min(text.find(' ', at), text.size());
  size_t end = first;
  for (;;) {
    const std::string_view word = text.substr(at, end - at);
    if (std::count(word.begin(), word.end(), '[') <= std::count(word.begin(), word.end(), ']'))
      return end;
    if (end == text.size() || word.size() > width) return first;
    end = std::min(text.find(' ', end + 1), text.size());
  }
}

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = end_of_word(text, at, width);
    std::string word(text.substr(at, end - at));
    at = end + 1;
    if (!line.empty() && display_width(line) + 1 + display_width(word) > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    for (; display_width(word) > width; word = slice(word, width, display_width(word)))
      lines.push_back(slice(word, 0, width));
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string bold(std::string_view text, bool color) {
  return color ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}
std::string faint(std::string_view text, bool color) {
  return color ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

}  // namespace s2t

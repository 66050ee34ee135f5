// Aligned text tables that fit a terminal, and the little colour that reports use.
//
// Widths are terminal columns, not bytes. A table that is too wide takes room first from `wrapped`
// columns, whose cells go on below, then from its gaps; then it does without its `spare` columns,
// and last takes from `flexible` columns, whose long cells lose their middle ("encoder.la...fc1"). Not known here: what the cells mean.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace s2t {

inline constexpr size_t kPageWidth = 100;

struct Column {
  enum class Kind : uint8_t { left, right, flexible, wrapped };
  std::string title;
  Kind kind = Kind::left;
  bool spare = false;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void row(std::vector<std::string> cells);  // as many as there are columns
  bool empty() const { return rows() == 0; }

  // Columns whose cells are all empty are left out. `indent` spaces stand before every line.
  void print(std::ostream& out, size_t indent = 2, size_t width = kPageWidth) const;

 private:
  struct Measure {
    std::vector<size_t> width;  // of each used column
    size_t gap = 2;             // between columns
  };

  std::vector<size_t> used_columns() const;
  size_t natural_width(size_t column) const;
  size_t least_uncut(const std::vector<size_t>& used) const;
  Measure measure(const std::vector<size_t>& used, size_t room) const;
  void give_up(const std::vector<size_t>& used, Measure& m, size_t& total, size_t room,
               size_t least) const;
  void print_row(std::ostream& out, const std::vector<std::string_view>& cells,
                 const std::vector<size_t>& used, const Measure& m, size_t indent) const;

  size_t rows() const { return ends_.size() / columns_.size(); }
  std::string_view cell(size_t row, size_t column) const;
  std::vector<std::string_view> cells(size_t row) const;

  std::vector<Column> columns_;
  // All cells, row by row, and where each ends: tables of a million rows fit.
  std::string text_;
  std::vector<size_t> ends_;
};

// At most `width` columns: the middle gives way to "...".
std::string shortened(std::string_view text, size_t width);

// Lines of at most `width` columns, broken at spaces.
std::vector<std::string> wrapped(std::string_view text, size_t width);

// Text in ANSI bold or faint if `color`, else as it is.
std::string bold(std::string_view text, bool color);
std::string faint(std::string_view text, bool color);

}  // namespace s2t

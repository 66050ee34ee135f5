#include "analyzer/base/diagnostics.h"

#include <algorithm>

#include "analyzer/base/text.h"
#include "analyzer/base/unicode.h"

namespace s2t {
namespace {

std::string join_lines(const std::string& file, const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& d : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(d, file);
  }
  return text;
}

}  // namespace

std::string to_string(const Diagnostic& d, const std::string& file) {
  std::string text = file + ": ";
  if (!d.pointer.empty()) text += d.pointer + ": ";
  text += d.found;
  if (!d.expected.empty()) text += "; expected " + d.expected;
  text += '.';
  if (!d.advice.empty()) text += ' ' + d.advice;
  return one_line(text) + " [" + d.slug + "]";
}

UserError::UserError(std::string file, std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join_lines(file, diagnostics)),
      file_(std::move(file)),
      diagnostics_(std::move(diagnostics)) {}

void Diagnostics::add(Diagnostic d) {
  ++reported_;
  if (full())
    ++beyond_;
  else if (std::find(list_.begin(), list_.end(), d) == list_.end())
    list_.push_back(std::move(d));
}

void Diagnostics::throw_if_any() const {
  if (!any()) return;
  std::vector<Diagnostic> all = list_;
  if (beyond_ > 0)
    all.push_back(
        {"", commas(beyond_) + " more errors", "", "Mend those above first.", "more-errors"});
  throw UserError(file_, std::move(all));
}

}  // namespace s2t

// What went wrong, said the same way everywhere.
//
// A user error is one `Diagnostic`; all independent ones are collected in a `Diagnostics` and
// thrown together as `UserError` (exit 2). A broken invariant of ours is a `Fault` (exit 3). The
// printed form is  <file>: <json pointer>: <found>; expected <what>. <do this> [slug]
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace s2t {

struct Diagnostic {
  std::string
      pointer;  // JSON pointer, "" for the whole document; for syntax errors "line 3, column 7"
  std::string found;     // what stands there, as a clause: `axis "tp" (size 3) does not divide ...`
  std::string expected;  // what should; may be empty
  std::string advice;    // what to do, a sentence; may be empty
  std::string slug;      // stable name, listed by `shape2trace list errors`

  bool operator==(const Diagnostic&) const = default;
};

std::string to_string(const Diagnostic& d, const std::string& file);

// Thrown when the input is wrong. `what()` is every diagnostic, one per line.
class UserError : public std::runtime_error {
 public:
  UserError(std::string file, std::vector<Diagnostic> diagnostics);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<Diagnostic> diagnostics_;
};

// Thrown when we broke a promise of our own; never the user's fault.
class Fault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Collects user errors of one input so that all independent ones are reported at once. From the
// 1001st on they are only counted: nobody reads them, and a hostile file could hold millions.
class Diagnostics {
 public:
  explicit Diagnostics(std::string file = "<input>") : file_(std::move(file)) {}

  void add(Diagnostic d);  // an exact repetition is kept once
  bool full() const { return list_.size() >= kMost; }
  bool any() const { return !list_.empty(); }
  size_t size() const { return list_.size(); }
  size_t reported() const { return reported_; }  // grows with every `add`
  const std::vector<Diagnostic>& list() const { return list_; }
  const std::string& file() const { return file_; }
  void throw_if_any() const;  // throws UserError

  static constexpr size_t kMost = 1000;

 private:
  std::string file_;
  std::vector<Diagnostic> list_;
  size_t reported_ = 0;
  size_t beyond_ = 0;
};

// A remark is no error: something legal that is a bug in most real programs.
struct Remark {
  std::string slug;
  std::string text;

  bool operator==(const Remark&) const = default;
};

}  // namespace s2t

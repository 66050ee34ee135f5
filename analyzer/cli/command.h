// A command of the program is a row: what it is called, what it takes, what it runs.
//
// Whoever adds a command adds a row to the table of its own file and that table to `main`. Help,
// errors, "did you mean" and the tests over the table follow. Not known here: how a command line is
// taken apart (parse.h) and where output goes (output.h).
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/units.h"

namespace s2t {

struct OptionDef {
  std::string_view flag;       // "--rank"
  std::string_view value;      // what follows it, "R"; empty: nothing, it is a switch
  std::string_view help;       // one line
  std::string_view also = {};  // other spellings, separated by spaces
  bool many = false;  // may be given several times: lines of one value; else all must agree
};

// A command line, taken apart. Only options of the command's row can be here.
class Arguments {
 public:
  std::vector<std::string> operands;           // as many as the command's row names
  std::string format;                          // one of the command's
  bool color = false;                          // to the result
  std::map<std::string, std::string> options;  // "--rank" -> "3"; a switch -> ""

  bool has(std::string_view flag) const { return options.contains(std::string(flag)); }
  std::string text(std::string_view flag) const;
  // Of an option that may be given several times, in order; none if it is not given.
  std::vector<std::string> lines(std::string_view flag) const;
  // Throws UserError unless the value is a whole number from `least` to `most`.
  std::optional<int64_t> integer(std::string_view flag, int64_t least, int64_t most) const;
};

struct Command {
  std::string_view name;
  std::vector<std::string_view> operands;  // "MODEL"; "EVENT..." is one or more, the last of them
  std::string_view summary;                // one line
  std::string_view example;                // whole command lines, the second indented by two
  std::vector<std::string> (*formats)();   // its default first
  std::span<const OptionDef> options;      // besides the common ones
  // Writes the result to `out` and remarks to `err`; returns the exit code.
  int (*run)(const Arguments&, std::ostream& out, std::ostream& err);
};
using CommandTable = std::vector<Command>;

// --format, -o, --color and --help, which every command takes.
std::span<const OptionDef> common_options();

enum ExitCode : int { kOk = 0, kMismatch = 1, kUserError = 2, kFault = 3, kSkipped = 77 };

// Something that this machine lacks: one line, exit 77.
class Absent : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

CommandTable report_commands();   // predict groups explain
CommandTable inquiry_commands();  // list doctor
CommandTable verify_commands();   // verify

}  // namespace s2t

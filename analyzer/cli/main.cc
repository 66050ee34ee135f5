// The program: joins the tables of commands, runs one, and turns what went wrong into an exit code.
#include <exception>
#include <iostream>
#include <new>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/units.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/help.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/parse.h"
#include "analyzer/io/input_file.h"

namespace s2t {
namespace {

CommandTable all_commands() {
  CommandTable all;
  for (const CommandTable& part : {report_commands(), verify_commands(), inquiry_commands()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Bytes that do not fit are those of the model in the first operand.
int run_command(const Invocation& call, std::ostream& out) try {
  return call.command->run(call.arguments, out, std::cerr);
} catch (const Overflow&) {
  const std::vector<std::string>& operands = call.arguments.operands;
  throw UserError(operands.empty() ? "shape2trace" : input_name(operands[0]),
                  {{"", "the bytes of a step do not fit in 64 bits", "less than 2^64 of a rank",
                    "Make the tensors smaller or the microbatches fewer.", "too-many-bytes"}});
}

int run(const std::vector<std::string>& words) {
  const CommandTable table = all_commands();
  const Invocation call = parse_command_line(table, words);
  Output output(call.output);
  int code = kOk;
  if (call.version)
    output.stream() << "shape2trace " S2T_VERSION "\n";
  else if (call.help && call.command)
    print_help(*call.command, output.stream());
  else if (call.help)
    print_help(table, output.stream());
  else
    code = run_command(call, output.stream());
  output.commit();
  return code;
}

// Whoever closed stderr does not want to know.
int complain(const std::string& what, ExitCode code) {
  std::cerr << what << std::endl;
  return code;
}

int report(const Diagnostic& what, ExitCode code) {
  return complain(to_string(what, "shape2trace"), code);
}

int fault(std::string what) {
  return report({"", "a fault of ours, not of your input: " + std::move(what), "",
                 "Please report it with the model and the command.", "fault"},
                kFault);
}

// Every way to fail has one exit code.
int guarded(const std::vector<std::string>& words) {
  try {
    return run(words);
  } catch (const UserError& e) {
    return complain(e.what(), kUserError);
  } catch (const Absent& e) {
    return complain(std::string("shape2trace: ") + e.what(), kSkipped);
  } catch (const std::bad_alloc&) {
    return report({"", "out of memory", "", "Make the model smaller, or end something else.",
                   "too-little-memory"},
                  kUserError);
  } catch (const std::exception& e) {
    return fault(e.what());
  }
}

}  // namespace
}  // namespace s2t

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  return s2t::guarded({argv + 1, argv + argc});
}

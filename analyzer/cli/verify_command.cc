// `verify`: executes a model and compares what ran with the prediction.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/interruption.h"
#include "analyzer/cli/plan_options.h"
#include "analyzer/cli/progress.h"
#include "analyzer/cli/verification.h"
#include "analyzer/io/input_file.h"
#include "runtime/comm/place.h"

namespace s2t {
namespace {

constexpr OptionDef kOptions[] = {
    {"--backend", "NAME", "host (threads, default), mpi or nccl"},
    {"--timeout", "SECONDS", "how long a rank waits for another, default 30"},
};

std::span<const OptionDef> all_options() {
  static const std::vector<OptionDef> all = with_plan_options(kOptions);
  return all;
}

std::vector<std::string> formats() {
  return {"text", "json"};
}

const Backend& backend_named(const std::string& name) {
  if (const Backend* b = find_backend(name)) return *b;
  std::vector<std::string> names;
  for (const Backend& b : backends()) names.emplace_back(b.name);
  throw UserError("shape2trace",
                  {{"--backend", "no backend named " + quoted(name), "one of " + quoted_list(names),
                    did_you_mean(name, names), "unknown-backend"}});
}

// What a model is read from. A launcher gives standard input to one of its ranks only.
OperandText read_model_text(const Arguments& arguments) {
  if (arguments.operands[0] == "-" && is_started_rank())
    throw UserError("shape2trace",
                    {{"MODEL", "\"-\", which a launcher gives to one of its ranks only", "a file",
                      "Name a file that all ranks can read.", "rank-stdin"}});
  return read_operand(arguments);
}

void report(const Verification& v, const std::string& format, std::ostream& out) {
  format == "json" ? write_json(v, out) : write_text(v, out);
}

int run_verify(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const std::string name = arguments.has("--backend") ? arguments.text("--backend") : "host";
  VerifyOptions options;
  options.backend = &backend_named(name);
  const int64_t seconds = arguments.integer("--timeout", 1, 86400).value_or(30);
  options.run.timeout = std::chrono::seconds(seconds);
  Progress progress;
  Model model;
  std::atomic<bool> loaded{false};
  std::optional<Interruption> interruption;  // of a rank that somebody started: that one's concern
  if (!is_started_rank())
    interruption.emplace([&] {
      progress.stop();
      report(cancelled(loaded ? model.name : input_name(arguments.operands[0]), name),
             arguments.format, out);
      out.flush();
    });
  const OperandText text = read_model_text(arguments);
  model = load_text(arguments, text).model;
  loaded = true;
  if (const Probe probe = options.backend->probe(); !probe.usable)
    throw Absent("backend " + name + " cannot run here: " + probe.why);
  // Ranks that are processes read the model again.
  const bool piped = arguments.operands[0] == "-";
  const Scratch copy = piped ? Scratch::file(".json", text.model) : Scratch();
  options.run.arguments = {"verify",    piped ? copy.path() : arguments.operands[0],
                           "--backend", name,
                           "--timeout", std::to_string(seconds)};
  for (const std::string& word : plan_words(arguments)) options.run.arguments.push_back(word);
  options.progress = [&](const std::string& doing) { progress.say(doing); };
  if (interruption)
    options.ranks_are_processes = [&](bool yes) { interruption->ranks_are_processes(yes); };
  const Verification v = verify(model, options);
  progress.stop();  // its line is gone before anything is reported
  if (interruption) interruption->over();
  if (!v.reports) return v.failures.empty() ? kOk : kMismatch;
  err << v.output;
  report(v, arguments.format, out);
  return v.match() ? kOk : kMismatch;
}

}  // namespace

CommandTable verify_commands() {
  return {{"verify",
           {"MODEL"},
           "executes the model and compares what ran, and its numbers, with the prediction",
           "shape2trace verify models/tp_mlp.json",
           formats,
           all_options(),
           run_verify}};
}

}  // namespace s2t

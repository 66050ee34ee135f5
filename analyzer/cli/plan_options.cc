#include "analyzer/cli/plan_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/cli/launch_sizes.h"
#include "analyzer/cli/launch_table.h"
#include "analyzer/cli/launch_words.h"
#include "analyzer/cli/plan_table.h"
#include "analyzer/io/hf_config.h"
#include "analyzer/io/input_file.h"
#include "analyzer/io/launch_file.h"
#include "analyzer/io/model_json.h"
#include "analyzer/io/transformer.h"

namespace s2t {
namespace {

constexpr OptionDef kSetOption{
    "--set", "SWITCH=VALUE", "config: change a switch of the profile; see list switches", "", true};
constexpr std::string_view kArgsFile = "--args-file";
constexpr OptionDef kArgsFileOption{
    kArgsFile, "FILE", "config: a launch script, its flags, or a file of settings", "", true};
constexpr OptionDef kProfileOption{"--profile", "P",
                                   "config: the framework; see shape2trace list profiles"};

// What a launch file says is wrong where it says so.
Diagnostic located(Diagnostic d, const LaunchReading& launch) {
  if (const auto it = launch.origins.find(d.pointer); it != launch.origins.end())
    d.pointer = it->second;
  for (const LaunchReading::Change& change : launch.changes)
    if (d.pointer == "--set" && d.found.find(change.assignment) != std::string::npos)
      d.pointer = change.origin;
  return d;
}

// Every wrong option is reported, not the first alone.
Plan read_plan(const Arguments& arguments, LaunchReading& launch, Diagnostics& sink) {
  Plan plan;
  for (const PlanOption& option : plan_options()) try {
      if (arguments.has(option.def.flag)) option.read(arguments, option.def.flag, plan);
    } catch (const UserError& e) {
      for (const Diagnostic& d : e.diagnostics()) {
        launch.refused.insert(d.pointer);
        sink.add(located(d, launch));
      }
    }
  return plan;
}

// Joins what several files say; `file` stands before the lines of each.
void add_file(Launch& all, Launch launch, const std::string& file) {
  if (launch.settings || all.settings)
    for (Launch* each : {&all, &launch})
      std::erase_if(each->flags, [](const LaunchFlag& flag) {
        return among(flag.name, kSettingsOfDeepSpeed) || flag.name == kSettingsOfTorchtitan;
      });
  all.settings = all.settings || launch.settings;
  for (auto member : {&Launch::flags, &Launch::stray})
    for (LaunchFlag& flag : launch.*member) {
      flag.where = file + flag.where;
      (all.*member).push_back(std::move(flag));
    }
  for (const std::string& command : launch.left_out) all.left_out.push_back(file + command);
  for (LaunchUnknown& word : launch.unknown) {
    word.where = file + word.where;
    all.unknown.push_back(std::move(word));
  }
  all.starters.merge(launch.starters);
  all.variables.merge(launch.variables);
}

// The launch files' flags beside those of the command line, which win.
LaunchReading add_launch(Arguments& arguments, const OperandText& text,
                         const Architecture* architecture, Diagnostics& sink) {
  if (!arguments.has(kArgsFile)) return {};
  Launch all;
  const bool one = text.launches.size() == 1;
  for (const LaunchText& file : text.launches) {
    Diagnostics own = file.errors;
    if (file.text) {
      Launch launch = read_launch(*file.text, own);
      if (launch.flags.empty() && !own.any())
        own.add({"", "no flag of a launch", "a script, flags, or a JSON object of them", "",
                 "empty-file"});
      add_file(all, std::move(launch), one ? "" : own.file() + ": ");
    }
    for (Diagnostic d : own.list()) {
      if (d.expected == "JSON") d.expected = "flags of a launch";
      d.pointer =
          fmt::format("{} {}{}{}", kArgsFile, own.file(), d.pointer.empty() ? "" : ": ", d.pointer);
      sink.add(std::move(d));
    }
  }
  take_autos_from_launch(all, architecture);
  const std::string lead =
      fmt::format("{} {}", kArgsFile, one ? text.launches[0].errors.file() + ": " : "");
  Diagnostics own;
  LaunchReading reading = read_launch_flags(all, arguments, architecture, own);
  for (Diagnostic d : own.list()) {
    d.pointer = lead + d.pointer;
    sink.add(std::move(d));
  }
  for (auto& [option, origin] : reading.origins) origin = lead + origin;
  for (LaunchReading::Change& change : reading.changes) change.origin = lead + change.origin;
  arguments.options.insert(reading.options.begin(), reading.options.end());
  return reading;
}

std::pair<std::string, std::string> parts_of(const std::string& assignment) {
  const size_t equals = assignment.find('=');
  return {assignment.substr(0, equals),
          equals == std::string::npos ? "" : assignment.substr(equals + 1)};
}

// What --set says, by switch.
std::map<std::string, std::string> stated_switches(const Arguments& arguments) {
  std::map<std::string, std::string> stated;
  for (const std::string& line : arguments.lines("--set")) stated.insert(parts_of(line));
  return stated;
}

// One switch has one value.
void check_stated_once(const Arguments& arguments, Diagnostics& sink) {
  const auto stated = stated_switches(arguments);
  for (const std::string& line : arguments.lines("--set")) {
    const auto [name, value] = parts_of(line);
    if (stated.at(name) != value)
      sink.add({"--set", fmt::format("{}={} and {}={}", name, stated.at(name), name, value),
                "one value", "", "contradiction"});
  }
}

bool same_value(const std::string& a, const std::string& b) {
  const auto type = parse_dtype(a);
  return a == b || (type && type == parse_dtype(b));
}

// An option and a switch that say the same and differ. A launch file's option gives way.
void compare_with_switches(const Arguments& stated, Arguments& arguments, LaunchReading& launch,
                           Diagnostics& sink) {
  check_stated_once(stated, sink);
  for (const auto& [name, value] : stated_switches(stated))
    for (const PlanOption& option : plan_options()) {
      const std::string flag(option.def.flag);
      if (!among(name, option.switches) || !arguments.has(flag) ||
          same_value(arguments.text(flag), value))
        continue;
      const std::string said = flag + " " + arguments.text(flag);
      if (stated.has(flag)) {
        sink.add({flag, fmt::format("{}, but --set {}={}", stated.text(flag), name, value),
                  "one value", fmt::format("Leave out {} or --set {}.", flag, name),
                  "contradiction"});
      } else {
        arguments.options.erase(flag);
        launch.origins.erase(flag);
        launch.remarks.push_back(
            {"flags-overridden",
             fmt::format("--set {}={} wins over {}, as the launch file says", name, value, said)});
      }
    }
}

// What a launch says to one framework and means nothing under another is left out.
bool is_foreign(const LaunchReading::Change& change, const Profile& profile) {
  const auto [name, value] = parts_of(change.assignment);
  const std::string_view now = profile[name];
  for (const ProfileSwitch& s : profile_switches())
    if (s.name == name && among(value, s.values) && !among(value, profile.values(name)))
      return true;
  return now.empty() || (!change.from.empty() && now != change.from && now != value);
}

// What --set says wins over what a launch file implies.
void change(Profile& profile, LaunchReading& launch, const Arguments& arguments,
            Diagnostics& sink) {
  for (const std::string& line : arguments.lines("--set"))
    if (const auto wrong = profile.set(line)) sink.add(*wrong);
  const auto stated = stated_switches(arguments);
  std::vector<std::string> foreign, overridden;
  for (const LaunchReading::Change& change : launch.changes) {
    const auto [name, value] = parts_of(change.assignment);
    if (const auto it = stated.find(name); it != stated.end()) {
      if (it->second != value)
        overridden.push_back(fmt::format("--set {}={} over {}", name, it->second, change.flag));
    } else if (is_foreign(change, profile)) {
      if (change.flag.starts_with("--")) foreign.push_back(change.flag);
    } else if (auto wrong = profile.set(change.assignment)) {
      wrong->pointer = change.origin;
      sink.add(*wrong);
    }
  }
  if (!overridden.empty())
    launch.remarks.push_back({"flags-overridden", "the command line wins over the launch file: " +
                                                      join(overridden, ", ")});
  if (!foreign.empty())
    launch.remarks.push_back(
        {"flags-not-read", fmt::format("flags of the launch that mean nothing under {}: {}",
                                       profile.name(), join(foreign, ", "))});
}

std::optional<Profile> read_profile(const Arguments& arguments, LaunchReading& launch,
                                    Diagnostics& sink) {
  std::vector<std::string> names;
  for (const ProfileDef& p : profiles()) names.emplace_back(p.name);
  const std::string name = arguments.text("--profile");
  std::optional<Profile> profile = find_profile(name);
  if (!arguments.has("--profile"))
    sink.add({"--profile", "a config.json does not say which framework trains it",
              "one of " + quoted_list(names), "", "missing-option"});
  else if (!profile)
    sink.add({"--profile", "unknown profile " + s2t::quoted(name), "one of " + quoted_list(names),
              did_you_mean(name, names), "bad-option"});
  if (profile) change(*profile, launch, arguments, sink);
  return profile;
}

// An option that could not be read was left at its default: what follows from that is no news.
void add_unless_told(const Diagnostics& more, const LaunchReading& launch, Diagnostics& sink) {
  std::set<std::string> told = launch.refused;
  for (const Diagnostic& d : sink.list()) told.insert(d.pointer);
  for (const Diagnostic& d : more.list())
    if (d.pointer.empty() || !told.contains(d.pointer)) sink.add(located(d, launch));
}

// The type in which parameters were published says nothing about how they are trained.
void remark_stored_type(const Architecture& a, const Arguments& arguments, Model& model) {
  if (arguments.has("--dtype") || !a.stored) return;
  const auto parameter = std::find_if(model.tensors.begin(), model.tensors.end(),
                                      [](const TensorDecl& t) { return t.parameter; });
  if (parameter == model.tensors.end() || parameter->dtype == *a.stored) return;
  model.remarks.push_back(
      {"stored-type", fmt::format("the config's parameters are stored in {}; the step is that of "
                                  "training in {}, unless --dtype says otherwise",
                                  info(*a.stored).name, info(parameter->dtype).name)});
}

std::optional<Operand> read_config(const JsonCursor& root, const OperandText& text,
                                   const Arguments& stated) {
  Diagnostics& sink = root.sink();
  const auto architecture = read_hf_config(root);
  Arguments arguments = stated;
  LaunchReading launch = add_launch(arguments, text, architecture ? &*architecture : nullptr, sink);
  compare_with_switches(stated, arguments, launch, sink);
  const Plan plan = read_plan(arguments, launch, sink);
  auto profile = read_profile(arguments, launch, sink);
  Diagnostics more(sink.file());
  if (!architecture) check_job(plan, more);
  add_unless_told(more, launch, sink);
  if (!architecture || !profile) return std::nullopt;
  auto model = build_transformer(*architecture, plan, *profile, more);
  add_unless_told(more, launch, sink);
  if (!model || sink.any()) return std::nullopt;
  remark_stored_type(*architecture, arguments, *model);
  model->remarks.insert(model->remarks.end(), launch.remarks.begin(), launch.remarks.end());
  return Operand{std::move(*model), std::move(profile)};
}

// A model file states its own mesh and batch.
void refuse_plan_options(const Arguments& arguments, Diagnostics& sink) {
  for (const OptionDef& option : with_plan_options({}))
    if (arguments.has(option.flag))
      sink.add({std::string(option.flag), "a plan for a model file, which states its own",
                "a Hugging Face config.json", "", "bad-option"});
}

bool has_key(const JsonCursor& root, std::string_view key) {
  JsonObject object(root);
  object.ignore_rest();
  return object.optional(key).present();
}

// What is clearly no model file is judged as a config, which says better why it
// is none.
bool is_config(const JsonCursor& root) {
  if (is_hf_config(root)) return true;
  if (!root.is(JsonKind::object)) return false;
  for (const char* key : {"schema", "mesh", "ops", "tensors"})
    if (has_key(root, key)) return false;
  return true;
}

}  // namespace

std::vector<OptionDef> with_plan_options(std::span<const OptionDef> own) {
  std::vector<OptionDef> all(own.begin(), own.end());
  all.push_back(kProfileOption);
  all.push_back(kSetOption);
  all.push_back(kArgsFileOption);
  for (const PlanOption& option : plan_options()) all.push_back(option.def);
  return all;
}

std::vector<std::string> plan_words(const Arguments& arguments) {
  std::vector<std::string> words;
  for (const OptionDef& option : with_plan_options({})) {
    if (!arguments.has(option.flag)) continue;
    for (const std::string& line : arguments.lines(option.flag)) {
      words.emplace_back(option.flag);
      if (!option.value.empty()) words.push_back(line);
    }
  }
  return words;
}

OperandText read_operand(const Arguments& arguments) {
  const std::string& path = arguments.operands[0];
  Diagnostics sink(input_name(path));
  std::optional<std::string> model = read_input(path, sink);
  sink.throw_if_any();
  OperandText text{std::move(model).value(), {}};
  for (const std::string& file : arguments.lines(kArgsFile)) {
    LaunchText& launch = text.launches.emplace_back(LaunchText{{}, Diagnostics(input_name(file))});
    launch.text = read_input(file, launch.errors);
  }
  return text;
}

Operand load_text(const Arguments& arguments, const OperandText& text) {
  Diagnostics sink(input_name(arguments.operands[0]));
  const std::optional<JsonDocument> document = parse_json(text.model, sink);
  sink.throw_if_any();
  const JsonCursor root(*document, sink);
  if (!root.is(JsonKind::object))
    root.wrong_type("an object: a model file, or a config.json of transformers");
  sink.throw_if_any();
  std::optional<Operand> operand;
  if (is_config(root)) {
    operand = read_config(root, text, arguments);
  } else {
    refuse_plan_options(arguments, sink);
    if (auto model = read_model(root)) operand = Operand{std::move(*model), std::nullopt};
  }
  sink.throw_if_any();
  return std::move(operand).value();
}

Model load_operand(const Arguments& arguments) {
  return load_text(arguments, read_operand(arguments)).model;
}

}  // namespace s2t

#include "analyzer/cli/launch_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/cli/launch_flags.h"
#include "analyzer/cli/launch_sizes.h"
#include "analyzer/cli/launch_words.h"
#include "analyzer/cli/launch_world.h"
#include "analyzer/cli/plan_table.h"

namespace s2t {
namespace {

template <class Row, size_t n>
const Row* find(const Row (&rows)[n], const std::string& flag) {
  const auto it = std::find_if(std::begin(rows), std::end(rows),
                               [&](const Row& row) { return row.flag == flag; });
  return it == std::end(rows) ? nullptr : it;
}

// Every plan option by the names that a launch may use: Megatron's, and ours.
std::map<std::string, const OptionDef*> options_by_name() {
  std::map<std::string, const OptionDef*> names;
  for (const PlanOption& option : plan_options())
    for (std::string& word : words_of(fmt::format("{} {}", option.def.flag, option.def.also)))
      names[std::move(word)] = &option.def;
  return names;
}

class Reader {
 public:
  Reader(const Launch& launch, const Arguments& given, const Architecture* a, Diagnostics& sink)
      : torchtitan_(is_torchtitan(launch)),
        words_(in_plan_words(launch, given)),
        launch_(words_.launch),
        given_(given),
        a_(a),
        sink_(sink),
        names_(options_by_name()) {}

  LaunchReading read() {
    for (const LaunchFlag& flag : launch_.flags) read(flag);
    for (const LaunchUnknown& word : launch_.unknown) unknown(word);
    compare_launches();
    for (const LaunchFlag& flag : launch_.stray)
      refuse(flag, "a line of its own, which is part of no launch",
             "a launch that goes on up to here: each line before it ends with a backslash",
             "A blank behind a backslash, or a comment between the lines, ends a command.",
             "launch-syntax");
    if (a_ && a_->experts && !torchtitan_) experts();
    if (a_ && given("--num-layers")) look_for_parts();
    count_ranks();
    if (!torchtitan_ && given_.text("--profile") != "torchtitan") element_types();
    batches();
    if (given_.text("--profile") == "deepspeed") look_for_settings();
    if (torchtitan_) settings_of_torchtitan();
    remark();
    return std::move(out_);
  }

 private:
  void refuse(const LaunchFlag& flag, std::string found, std::string expected,
              std::string advice = "", std::string slug = "contradiction") {
    sink_.add({flag.where + ": " + flag.shown(), std::move(found), std::move(expected),
               std::move(advice), std::move(slug)});
  }

  // A flag at the end of a command has the next command's first word behind it.
  bool takes_none(const std::string& flag) const {
    if (const auto it = names_.find(flag); it != names_.end()) return it->second->value.empty();
    const auto alone = [&](const auto& row) { return row.flag == flag && row.own.empty(); };
    const auto switches = [&](const LaunchChange& c) { return alone(c) && !c.value.empty(); };
    return std::any_of(std::begin(kMeanings), std::end(kMeanings), alone) ||
           std::any_of(std::begin(kParts), std::end(kParts), alone) ||
           std::any_of(std::begin(kChanges), std::end(kChanges), switches);
  }

  void read(const LaunchFlag& stated) {
    LaunchFlag flag = with_one_value(stated);
    flag.value = takes_none(flag.name) ? "" : without_underscores(flag.value);
    const bool again = twice(flag);
    seen_[flag.name] = flag.value;
    where_[flag.name] = flag.where;
    if (again) return;
    if (flag.conditional && matters(flag.name))
      conditional_.push_back(fmt::format("{} ({})", flag.name, flag.where));
    if (!flag.doubt.empty() && matters(flag.name))
      doubts_.push_back(fmt::format("{} ({}): {}", flag.name, flag.where, flag.doubt));
    if (const auto it = names_.find(flag.name); it != names_.end())
      return option(flag, *it->second);
    bool known = false;
    for (const LaunchMeaning& m : kMeanings)
      if (m.flag == flag.name && (known = true) && (m.own.empty() || m.own == flag.value))
        set(m.option, std::string(m.value), flag);
    for (const LaunchChange& c : kChanges)
      if (c.flag == flag.name && (known = true) &&
          (c.own.empty() || same_number(flag.value, c.own)))
        change(flag, c);
    if (const LaunchShape* s = find(kShapes, flag.name)) {
      known = true;
      shape(flag, *s);
    }
    for (const LaunchPart& p : kParts)
      if (p.flag == flag.name && (known = true) && (p.own.empty() || p.own == flag.value))
        part(flag, p);
    if (const LaunchNotPredicted* n = find(kNotPredicted, flag.name)) {
      known = true;
      if (!among(flag.value.empty() ? std::string(kNoValue) : flag.value, n->harmless))
        not_predicted(flag.shown(), n->what);
    }
    if (!known && !read_elsewhere(flag.name) && !among(flag.name, kAllotted)) slip(flag);
  }

  // Further flags, or none; or the value of the flag before it.
  void unknown(const LaunchUnknown& word) {
    const bool value = !word.behind.empty() && !takes_none(word.behind) &&
                       (matters(word.behind) || !is_named_as_flags(word.text));
    if (value) return;
    if (word.known_in_part)
      sink_.add({word.where + ": " + word.text, word.why, "flags that the file says",
                 "Give the flags of one case alone.", "contradiction"});
    else
      unknown_.insert(fmt::format("{} ({})", word.text, word.where));
  }

  // A word for each layer; all of them must be the same.
  LaunchFlag with_one_value(LaunchFlag flag) {
    if (!among(flag.name, kPerLayer)) return flag;
    std::vector<std::string> words = words_of(flag.value);
    words.insert(words.end(), flag.more.begin(), flag.more.end());
    if (words.empty()) return flag;
    flag.value = words.front();
    const auto other = std::find_if(words.begin(), words.end(),
                                    [&](const std::string& w) { return w != flag.value; });
    if (other != words.end())
      refuse(flag,
             fmt::format("{} for layer 1 and {} for layer {}", quoted(flag.value), quoted(*other),
                         other - words.begin() + 1),
             "one word, or the same word for each layer",
             "Layers that do it differently are not modelled.", "unsupported-plan");
    else if (a_ && words.size() > 1 && std::cmp_not_equal(words.size(), a_->layers))
      refuse(flag, fmt::format("{} words", words.size()),
             fmt::format("1, or {}: one for each layer", a_->layers));
    return flag;
  }

  static bool read_elsewhere(const std::string& flag) {
    return among(flag, kElsewhere) || among(flag, kRanksOfANode) || among(flag, kNodes);
  }

  bool matters(const std::string& flag) const {
    const auto changes = [&](const LaunchChange& c) { return c.flag == flag; };
    return names_.contains(flag) || find(kMeanings, flag) || find(kShapes, flag) ||
           find(kParts, flag) || find(kNotPredicted, flag) || read_elsewhere(flag) ||
           std::any_of(std::begin(kChanges), std::end(kChanges), changes);
  }

  // A script of two launches, or of two branches, does not say which is meant.
  bool twice(const LaunchFlag& flag) {
    const auto before = seen_.find(flag.name);
    if (before == seen_.end()) return false;
    const auto it = names_.find(flag.name);
    if (before->second == flag.value || !matters(flag.name) ||
        (it != names_.end() && given_.has(it->second->flag)))
      return before->second == flag.value;
    refuse(flag, fmt::format("{}, but {} is {}", flag.value, where_[flag.name], before->second),
           "one value",
           it == names_.end() ? "Leave one of them out of the file."
                              : fmt::format("Or say {} on the command line.", it->second->flag));
    return true;
  }

  bool said_on_command_line(const std::string& flag) const {
    if (const auto it = names_.find(flag); it != names_.end()) return overridden(it->second->flag);
    if (const LaunchMeaning* m = find(kMeanings, flag)) return overridden(m->option);
    return (among(flag, kRanksOfANode) || among(flag, kNodes)) && given_.has("--world");
  }

  // A flag of one launch of a script that another lacks: together they are neither.
  void compare_launches() {
    std::map<int, std::pair<std::string, std::set<std::string>>> launches;
    for (const LaunchFlag& flag : launch_.flags)
      if (flag.launch > 0)
        launches.try_emplace(flag.launch, flag.where, std::set<std::string>())
            .first->second.second.insert(flag.name);
    for (const LaunchFlag& flag : launch_.flags)
      for (const auto& [which, other] : launches)
        if (flag.launch > 0 && !other.second.contains(flag.name) && matters(flag.name) &&
            !said_on_command_line(flag.name)) {
          refuse(flag, fmt::format("the launch of {} is without it", other.first),
                 "launches with the same flags", "Give the flags of one launch alone.");
          break;
        }
  }

  void not_predicted(std::string_view flag, std::string_view what) {
    not_predicted_.push_back(fmt::format("{} ({})", flag, what));
  }

  // The command line wins, also where it says the same in another way.
  bool overridden(std::string_view option) const {
    if (given_.has(option)) return true;
    for (const std::string_view group : kOneOf)
      if (among(std::string(option), group))
        for (const std::string& other : words_of(group))
          if (given_.has(other)) return true;
    return false;
  }

  static std::string origin_of(const LaunchFlag& flag) {
    return fmt::format("{}: {}", flag.where, flag.shown());
  }
  std::string origin_of(const std::string& flag) const {
    const auto at = where_.find(flag);
    return at == where_.end() ? "no " + flag : fmt::format("{}: {}", at->second, flag);
  }

  void set(std::string_view option, const std::string& value, const LaunchFlag& flag) {
    if (overridden(option)) {
      if (!given_.has(option) || given_.text(option) != value)
        overridden_.push_back(flag.value.empty() ? flag.name : flag.name + " " + flag.value);
      return;
    }
    const auto [it, fresh] = set_by_.emplace(option, flag);
    std::string& now = out_.options[std::string(option)];
    if (fresh) {
      now = value;
      out_.origins[std::string(option)] = origin_of(flag);
    } else if (now != value) {
      refuse(flag,
             fmt::format("it means {} {}, but {} ({}) means {}", option, value, it->second.name,
                         it->second.where, now),
             "one of the two flags", fmt::format("Or say {} on the command line.", option));
    }
  }

  void set_unless_said(std::string_view option, const std::string& value, std::string origin) {
    if (!overridden(option) && out_.options.emplace(option, value).second)
      out_.origins.emplace(option, std::move(origin));
  }

  bool is_set(std::string_view name) const {
    const std::vector<std::string> lines = given_.lines("--set");
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.starts_with(fmt::format("{}=", name));
    });
  }

  void change(const LaunchFlag& flag, const LaunchChange& c) {
    if (c.value.empty() && (flag.open() || flag.value.empty()) && !is_set(c.name))
      return refuse(flag, flag.open() ? flag.why_open : "no value",
                    fmt::format("a value, or --set {}=VALUE on the command line", c.name), "",
                    "missing-option");
    out_.changes.push_back({fmt::format("{}={}", c.name, c.value.empty() ? flag.value : c.value),
                            flag.name, std::string(c.from), origin_of(flag)});
  }

  void option(const LaunchFlag& flag, const OptionDef& def) {
    if (given_.has(def.flag) || def.value.empty()) return set(def.flag, flag.value, flag);
    if (flag.open() || flag.value.empty()) out_.refused.emplace(def.flag);
    if (flag.open())
      return refuse(flag, flag.why_open,
                    fmt::format("{} {} on the command line", def.flag, def.value), "",
                    "missing-option");
    if (flag.value.empty())
      return refuse(flag, "no value", flag.name + " " + std::string(def.value), "", "bad-option");
    set(def.flag, flag.value, flag);
  }

  void shape(const LaunchFlag& flag, const LaunchShape& s) {
    if (!a_) return;
    if (flag.open()) {
      not_compared_.push_back(fmt::format("{} ({})", flag.name, flag.why_open));
      return;
    }
    const int64_t is = s.of(*a_);
    if (whole(flag.value) == is) return;
    refuse(flag, flag.value.empty() ? "no value" : flag.value,
           fmt::format("{}, as the config says", is), "The flags belong to another model.");
  }

  void part(const LaunchFlag& flag, const LaunchPart& p) {
    if (!a_ || p.present(*a_)) return;
    refuse(flag, std::string(p.what), "a model with them: the config has none",
           "The flags belong to another model.");
  }

  // A file that states the model's shape states its parts too: without their flags Megatron's model
  // has none of them.
  void look_for_parts() {
    for (const LaunchPart& p : kParts)
      if (p.own.empty() && !given(std::string(p.flag)) && p.present(*a_))
        absent_.push_back(fmt::format("{} ({})", p.flag, p.what));
  }

  // A slip of the finger in a flag that matters would change the plan unseen.
  void slip(const LaunchFlag& flag) {
    std::vector<std::string> known;
    for (const auto& [name, def] : names_)
      if (name != def->flag) known.push_back(name);
    const std::string meant = closest(flag.name, known);
    if (meant.empty()) {
      others_.insert(flag.name);
      return;
    }
    refuse(flag, "an unknown flag, close to one that matters", meant,
           "Or leave it out of the file.", "unknown-option");
  }

  void count_ranks() {
    if (const auto ranks = ranks_of_job(launch_)) {
      if (!overridden("--world") &&
          out_.options.emplace("--world", std::to_string(ranks->first)).second)
        out_.origins["--world"] = ranks->second;
      return;
    }
    if (!given_.has("--world") && !given_.has("--dp"))
      out_.remarks.push_back({"flags-not-read",
                              "the launch file does not say how many ranks there are: one replica "
                              "is assumed; give --world or --dp"});
  }

  // Megatron trains in float32 unless told; only bf16 then reduces in float32 by itself.
  void element_types() {
    if (given("--fp16") && !overridden("--dtype") && !given("--accumulate-allreduce-grads-in-fp32"))
      set_unless_said("--grad-dtype", "f16", origin_of("--fp16"));
    if (!given("--fp16") && !given("--bf16") && !given("--dtype"))
      set_unless_said("--dtype", "f32", origin_of("--bf16"));
  }

  std::optional<int64_t> stated(const char* option) const {
    if (given_.has(option)) return whole(given_.text(option));
    const auto it = out_.options.find(option);
    return it == out_.options.end() ? std::nullopt : whole(it->second);
  }

  void batches() {
    const int64_t replicas = replicas_of(out_.options, given_);
    StepBatch batch{stated("--micro-batch"), stated("--global-batch")};
    std::string origin;
    if (const auto& local = words_.local_batch; local && whole(local->value)) {
      batch = torchtitan_batch(batch, *whole(local->value), replicas);
      origin = origin_of(*local);
    } else if (launch_.settings && !torchtitan_) {
      const auto it = seen_.find("--gradient_accumulation_steps");
      for (const char* said : {"--gradient_accumulation_steps", "--micro-batch", "--global-batch"})
        if (const auto at = set_by_.find(said); at != set_by_.end())
          origin = origin_of(at->second);
        else if (where_.contains(said))
          origin = origin_of(said);
      batch =
          deepspeed_batch(batch, it == seen_.end() ? std::nullopt : whole(it->second), replicas);
    } else {
      return;
    }
    if (!batch.wrong.empty())
      sink_.add({origin, batch.wrong, "samples of a step that agree with them",
                 "Or say --global-batch on the command line.", "contradiction"});
    if (batch.micro) set_unless_said("--micro-batch", std::to_string(*batch.micro), origin);
    if (batch.total) set_unless_said("--global-batch", std::to_string(*batch.total), origin);
  }

  // The stage of ZeRO stands in DeepSpeed's own file.
  void look_for_settings() {
    for (const std::string& flag : words_of(kSettingsOfDeepSpeed))
      if (given(flag) && !seen_.at(flag).empty() && !stated("--zero"))
        sink_.add({where_.at(flag) + ": " + flag, "a file of settings that is not read",
                   "the file in an --args-file of its own, or --zero N on the command line", "",
                   "missing-option"});
  }

  void settings_of_torchtitan() {
    const auto value = [&](const char* flag) { return given(flag) ? seen_.at(flag) : ""; };
    const std::string option = value("--activation_checkpoint.selective_ac_option");
    if (value("--activation_checkpoint.mode") == "selective" && !option.empty() && option != "op" &&
        !overridden("--recompute"))
      not_predicted("--activation_checkpoint.selective_ac_option",
                    "one layer in " + option + " is computed again as a whole");
    if (!launch_.settings)
      out_.remarks.push_back({"flags-in-doubt",
                              "the launch may take more from a file of settings, which is not "
                              "read: give it to --args-file too"});
  }

  bool given(const std::string& flag) const { return seen_.contains(flag); }

  void imply(std::string assignment, const std::string& flag) {
    out_.changes.push_back(
        {std::move(assignment), given(flag) ? flag : "no " + flag, "", origin_of(flag)});
  }

  // What several flags decide together, or the lack of one.
  void experts() {
    const auto value = [&](const char* flag, const char* otherwise) {
      return given(flag) ? seen_.at(flag) : otherwise;
    };
    const double coefficient = std::strtod(value("--moe-aux-loss-coeff", "0").c_str(), nullptr);
    const std::string balancing = value("--moe-router-load-balancing-type", "aux_loss");
    for (const char* known : {"aux_loss", "seq_aux_loss", "global_aux_loss"})
      if (coefficient != 0 && balancing == known)
        imply("moe_balancing=" + balancing, "--moe-router-load-balancing-type");
    for (const char* known : {"alltoall", "allgather", "flex"})  // allgather is Megatron's default
      if (value("--moe-token-dispatcher-type", "allgather") == std::string(known))
        imply(std::string("moe_dispatcher=") + known, "--moe-token-dispatcher-type");
    const std::string capacity = value("--moe-expert-capacity-factor", "");
    if (!capacity.empty() && given("--moe-pad-expert-input-to-capacity"))
      imply("expert_capacity=" + capacity, "--moe-expert-capacity-factor");
    else if (!capacity.empty())
      not_predicted("--moe-expert-capacity-factor", "rows beyond an expert's capacity are dropped");
    const bool bias = given("--moe-router-enable-expert-bias");
    if (a_->experts->balanced_by_bias && !bias)
      imply("expert_bias=none", "--moe-router-enable-expert-bias");
    if (!a_->experts->balanced_by_bias && bias)
      not_predicted("--moe-router-enable-expert-bias", "tokens of every expert, once per step");
  }

  void remark() {
    const auto say = [&](const std::vector<std::string>& flags, const char* slug,
                         const char* lead) {
      if (!flags.empty()) out_.remarks.push_back({slug, lead + join(flags, ", ")});
    };
    say(not_predicted_, "flags-not-predicted",
        "flags of the launch change collectives in a way that is not predicted: ");
    say(overridden_, "flags-overridden", "the command line wins over what the launch file says: ");
    say(conditional_, "flags-in-a-branch",
        "flags of the launch that stand in a branch or a loop, or whose values do, are taken as if "
        "they were executed: ");
    say(doubts_, "flags-in-doubt",
        "flags of the launch whose values something that is not read may have changed: ");
    say({unknown_.begin(), unknown_.end()}, "flags-in-doubt",
        "words of the launch that may be flags, which only its shell knows: ");
    say(absent_, "flags-absent",
        "the launch has no flag for what the config has, which is predicted: ");
    say(not_compared_, "flags-not-read",
        "flags of the launch that are not compared with the config: ");
    say(launch_.left_out, "flags-not-read",
        "commands that launch no training, whose flags are left out: ");
    if (others_.empty()) return;
    const std::vector<std::string> others(others_.begin(), others_.end());
    out_.remarks.push_back(
        {"flags-not-read",
         "flags of the launch that are taken to change no collective: " + join(others, " ")});
  }

  bool torchtitan_;
  TorchtitanLaunch words_;
  const Launch& launch_;
  const Arguments& given_;
  const Architecture* a_;
  Diagnostics& sink_;
  std::map<std::string, const OptionDef*> names_;
  LaunchReading out_;
  std::map<std::string, std::string> seen_;  // and their values
  std::map<std::string, std::string> where_;
  std::map<std::string, LaunchFlag, std::less<>> set_by_;  // by option
  std::vector<std::string> overridden_, not_compared_, conditional_, absent_;
  std::vector<std::string> doubts_;
  std::set<std::string> others_, unknown_;
  std::vector<std::string> not_predicted_;
};

}  // namespace

LaunchReading read_launch_flags(const Launch& launch, const Arguments& given,
                                const Architecture* architecture, Diagnostics& sink) {
  return Reader(launch, given, architecture, sink).read();
}

}  // namespace s2t

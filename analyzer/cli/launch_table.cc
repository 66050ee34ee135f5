#include "analyzer/cli/launch_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/cli/launch_flags.h"
#include "analyzer/cli/plan_table.h"

namespace s2t {
namespace {

template <class Row, size_t n>
const Row* find(const Row (&rows)[n], const std::string& flag) {
  const auto it = std::find_if(std::begin(rows), std::end(rows),
                               [&](const Row& row) { return row.flag == flag; });
  return it == std::end(rows) ? nullptr : it;
}

// Whether `value` is one of `words`.
bool among(const std::string& value, std::string_view words) {
  const std::string all = " " + std::string(words) + " ";
  return !value.empty() && all.find(" " + value + " ") != std::string::npos;
}

// Every plan option that is also Megatron's, by Megatron's name.
std::map<std::string, const OptionDef*> options_by_name() {
  std::map<std::string, const OptionDef*> names;
  for (const PlanOption& option : plan_options()) {
    std::string word;
    for (const char c : std::string(option.def.also) + " ")
      if (c != ' ')
        word += c;
      else if (!word.empty())
        names[std::exchange(word, {})] = &option.def;
  }
  return names;
}

std::optional<int64_t> whole(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

class Reader {
 public:
  Reader(const Launch& launch, const Arguments& given, const Architecture* a, Diagnostics& sink)
      : launch_(launch), given_(given), a_(a), sink_(sink), names_(options_by_name()) {}

  LaunchReading read() {
    for (const LaunchFlag& flag : launch_.flags) read(flag);
    if (a_ && a_->experts) experts();
    count_ranks();
    element_types();
    remark();
    return std::move(out_);
  }

 private:
  void refuse(const LaunchFlag& flag, std::string found, std::string expected,
              std::string advice = "", std::string slug = "contradiction") {
    sink_.add({flag.where + ": " + flag.name, std::move(found), std::move(expected),
               std::move(advice), std::move(slug)});
  }

  void read(const LaunchFlag& flag) {
    seen_[flag.name] = flag.value;
    if (const auto it = names_.find(flag.name); it != names_.end())
      return option(flag, *it->second);
    bool known = false;
    if (const LaunchMeaning* m = find(kMeanings, flag.name)) {
      known = true;
      set(m->option, std::string(m->value));
    }
    for (const LaunchChange& c : kChanges)
      if (c.flag == flag.name && (known = true) && (c.own.empty() || c.own == flag.value))
        out_.changes.push_back(
            fmt::format("{}={}", c.name, c.value.empty() ? flag.value : c.value));
    if (const LaunchShape* s = find(kShapes, flag.name)) {
      known = true;
      shape(flag, *s);
    }
    for (const LaunchPart& p : kParts)
      if (p.flag == flag.name && (known = true) && (p.own.empty() || p.own == flag.value))
        part(flag, p);
    if (const LaunchNotPredicted* n = find(kNotPredicted, flag.name)) {
      known = true;
      if (!among(flag.value, n->harmless)) not_predicted(n->flag, n->what);
    }
    if (!known && !among(flag.name, kElsewhere)) slip(flag);
  }

  void not_predicted(std::string_view flag, std::string_view what) {
    not_predicted_.push_back(fmt::format("{} ({})", flag, what));
  }

  void set(std::string_view option, const std::string& value) {
    if (!given_.has(option)) out_.options[std::string(option)] = value;
  }

  void option(const LaunchFlag& flag, const OptionDef& def) {
    if (given_.has(def.flag)) return;
    if (!def.value.empty() && flag.open())
      return refuse(flag, "the value " + quoted(flag.value) + " is not set in the file",
                    fmt::format("{} {} on the command line", def.flag, def.value), "",
                    "missing-option");
    if (!def.value.empty() && flag.value.empty())
      return refuse(flag, "no value", flag.name + " " + std::string(def.value), "", "bad-option");
    set(def.flag, def.value.empty() ? "" : flag.value);
  }

  void shape(const LaunchFlag& flag, const LaunchShape& s) {
    if (!a_ || flag.open()) return;
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

  // A slip of the finger in a flag that matters would change the plan unseen.
  void slip(const LaunchFlag& flag) {
    std::vector<std::string> known;
    for (const auto& [name, def] : names_) known.push_back(name);
    const std::string meant = closest(flag.name, known);
    if (meant.empty()) {
      others_.insert(flag.name);
      return;
    }
    refuse(flag, "an unknown flag, close to one that matters", meant,
           "Or leave it out of the file.", "unknown-option");
  }

  std::optional<int64_t> value_of(std::initializer_list<std::string_view> flags,
                                  std::initializer_list<const char*> variables) const {
    for (const LaunchFlag& flag : launch_.flags)
      if (std::find(flags.begin(), flags.end(), flag.name) != flags.end())
        if (const auto n = whole(flag.value)) return n;
    for (const char* name : variables)
      if (const auto it = launch_.variables.find(name); it != launch_.variables.end())
        if (const auto n = whole(it->second)) return n;
    return std::nullopt;
  }

  void count_ranks() {
    const auto gpus = value_of({"--nproc_per_node", "--nproc-per-node"}, {"GPUS_PER_NODE"});
    const auto nodes = value_of({"--nnodes"}, {"NUM_NODES", "NNODES"});
    if (gpus && nodes && *gpus < 65'536 && *nodes < 65'536)
      return set("--world", std::to_string(*gpus * *nodes));
    if (!given_.has("--world") && !given_.has("--dp"))
      out_.remarks.push_back({"flags-not-read",
                              "the launch file does not say how many ranks there are: one replica "
                              "is assumed; give --world or --dp"});
  }

  // Megatron trains in float32 unless told; only bf16 then reduces in float32 by itself.
  void element_types() {
    if (given("--fp16") && !given("--accumulate-allreduce-grads-in-fp32"))
      set("--grad-dtype", "f16");
    if (!given("--fp16") && !given("--bf16")) set("--dtype", "f32");
  }

  bool given(const std::string& flag) const { return seen_.contains(flag); }

  // What several flags decide together, or the lack of one.
  void experts() {
    const auto value = [&](const char* flag, const char* otherwise) {
      return given(flag) ? seen_.at(flag) : otherwise;
    };
    const double coefficient = std::strtod(value("--moe-aux-loss-coeff", "0").c_str(), nullptr);
    const std::string balancing = value("--moe-router-load-balancing-type", "aux_loss");
    for (const char* known : {"aux_loss", "seq_aux_loss", "global_aux_loss"})
      if (coefficient != 0 && balancing == known)
        out_.changes.push_back("moe_balancing=" + balancing);
    for (const char* known : {"alltoall", "allgather", "flex"})  // allgather is Megatron's default
      if (value("--moe-token-dispatcher-type", "allgather") == std::string(known))
        out_.changes.push_back(std::string("moe_dispatcher=") + known);
    const std::string capacity = value("--moe-expert-capacity-factor", "");
    if (!capacity.empty() && given("--moe-pad-expert-input-to-capacity"))
      out_.changes.push_back("expert_capacity=" + capacity);
    else if (!capacity.empty())
      not_predicted("--moe-expert-capacity-factor", "rows beyond an expert's capacity are dropped");
    const bool bias = given("--moe-router-enable-expert-bias");
    if (a_->experts->balanced_by_bias && !bias) out_.changes.push_back("expert_bias=none");
    if (!a_->experts->balanced_by_bias && bias)
      not_predicted("--moe-router-enable-expert-bias", "tokens of every expert, once per step");
  }

  void remark() {
    if (!not_predicted_.empty())
      out_.remarks.push_back({"flags-not-predicted",
                              "flags of the launch change collectives in a way that is not "
                              "predicted: " +
                                  join(not_predicted_, ", ")});
    if (others_.empty()) return;
    const std::vector<std::string> others(others_.begin(), others_.end());
    out_.remarks.push_back(
        {"flags-not-read",
         "flags of the launch that are taken to change no collective: " + join(others, " ")});
  }

  const Launch& launch_;
  const Arguments& given_;
  const Architecture* a_;
  Diagnostics& sink_;
  std::map<std::string, const OptionDef*> names_;
  LaunchReading out_;
  std::map<std::string, std::string> seen_;  // and their values
  std::set<std::string> others_;
  std::vector<std::string> not_predicted_;
};

}  // namespace

LaunchReading read_launch_flags(const Launch& launch, const Arguments& given,
                                const Architecture* architecture, Diagnostics& sink) {
  return Reader(launch, given, architecture, sink).read();
}

}  // namespace s2t

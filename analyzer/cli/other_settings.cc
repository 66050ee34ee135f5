#include "analyzer/cli/other_settings.h"

#include "analyzer/analyze.h"
#include "analyzer/base/diagnostics.h"
#include "analyzer/base/text.h"

namespace s2t {
namespace {

// A switch whose first word is `first` and whose second is the opposite.
template <bool Switches::*member, bool first>
constexpr ModelSwitch flag(std::string_view name, std::string_view values,
                           std::string_view meaning) {
  return {name, values, meaning,
          [](const Model& m) { return size_t{(m.switches.*member) != first}; },
          [](Model& m, size_t value) { m.switches.*member = (value == 0) == first; }};
}

// A switch whose words stand in the order of its enumerators.
template <auto member>
constexpr ModelSwitch choice(std::string_view name, std::string_view values,
                             std::string_view meaning) {
  using Value = std::remove_cvref_t<decltype(Switches{}.*member)>;
  return {name, values, meaning,
          [](const Model& m) { return static_cast<size_t>(m.switches.*member); },
          [](Model& m, size_t value) { m.switches.*member = static_cast<Value>(value); }};
}

constexpr ModelSwitch kModelSwitches[] = {
    flag<&Switches::share_conversions, true>(
        "conversions", "shared per_consumer",
        "a value is converted once per target layout, or once per consumer"),
    flag<&Switches::accumulate_first, true>(
        "accumulate", "first per_consumer",
        "gradients of equal layout add before they are converted, or are converted one by one"),
    choice<&Switches::residual>(  // what a tensor states for itself stays so
        "residual", "used stored",
        "the backward reads the converted value, or repeats the conversion"),
    flag<&Switches::lazy_partial, false>(
        "partial", "eager lazy",
        "a Partial value is reduced at its first use, or passes through linear ops"),
    flag<&Switches::explicit_redistribution, false>(
        "redistribution", "implicit explicit",
        "layouts are converted where needed, or only where the model says so"),
    flag<&Switches::fused_column_linear, false>(
        "fused_column_linear", "false true",
        "the input gradient of a linear is reduced only if needed, or always"),
    choice<&Switches::ring>(
        "ring", "messages gathered exchanged",
        "operands pass by in a ring in messages between neighbours, gathered, or by all-to-alls"),
    choice<&Switches::ring_launch>(
        "ring_launch", "pairs single batched",
        "a ring's send and receive are one launch: in rings of two, never, always"),
    flag<&Switches::coalesce_model_sync, true>(
        "norm_sync", "coalesced per_parameter",
        "gradients that are partial on a model axis are reduced in one call, or one by one"),
};

using Visit = std::function<void(const Setting&, const Program&)>;

// A setting that the rest does not allow is none.
void visit_if_possible(const Setting& setting, const std::function<Model()>& model,
                       const Visit& visit) {
  std::optional<Program> program;
  try {
    program = analyze(model());
  } catch (const UserError&) {
    return;
  }
  visit(setting, *program);
}

void for_each_of_model(const Model& model, const Visit& visit) {
  for (const ModelSwitch& s : model_switches()) {
    const std::vector<std::string> words = words_of(s.values);
    const size_t now = s.get(model);
    for (size_t other = 0; other < words.size(); ++other) {
      if (other == now) continue;
      const auto changed = [&] {
        Model copy = model;
        s.set(copy, other);
        return copy;
      };
      visit_if_possible({std::string(s.name), words[now], words[other], std::string(s.meaning),
                         "\"switches\" of the model"},
                        changed, visit);
    }
  }
}

bool is_word(const std::string& value) {
  return value[0] < 'A' || value[0] > 'Z';
}

// `--set` lines, of which that of this switch says something else now.
Arguments with_setting(Arguments arguments, const std::string& name, const std::string& word) {
  std::string set = name + "=" + word;
  for (const std::string& line : arguments.lines("--set"))
    if (!line.starts_with(name + "=")) set += "\n" + line;
  arguments.options["--set"] = set;
  return arguments;
}

void for_each_of_profile(const Arguments& arguments, const OperandText& text,
                         const Profile& profile, const Visit& visit) {
  for (const ProfileSwitch& s : profile_switches()) {
    const std::string now(profile[s.name]);
    if (now.empty()) continue;
    for (const std::string& word : words_of(profile.values(s.name))) {
      if (word == now || !is_word(word)) continue;
      const auto changed = [&] {
        return load_text(with_setting(arguments, std::string(s.name), word), text).model;
      };
      visit_if_possible(
          {std::string(s.name), now, word, std::string(s.meaning), "--set SWITCH=VALUE"}, changed,
          visit);
    }
  }
}

}  // namespace

std::span<const ModelSwitch> model_switches() {
  return kModelSwitches;
}

void for_each_other_setting(const Arguments& arguments, const OperandText& text,
                            const Operand& operand, const Visit& visit) {
  if (operand.profile)
    for_each_of_profile(arguments, text, *operand.profile, visit);
  else
    for_each_of_model(operand.model, visit);
}

}  // namespace s2t

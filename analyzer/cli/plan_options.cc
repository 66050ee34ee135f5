#include "analyzer/cli/plan_options.h"

#include <fmt/format.h>

#include <charconv>

#include "analyzer/base/text.h"
#include "analyzer/io/hf_config.h"
#include "analyzer/io/input_file.h"
#include "analyzer/io/model_json.h"
#include "analyzer/io/transformer.h"

namespace s2t {
namespace {

constexpr int64_t kMostRanksAlong = int64_t{1} << 24;
constexpr int64_t kMostSamples = int64_t{1} << 32;

struct PlanOption {
  OptionDef def;
  void (*read)(const Arguments&, std::string_view flag, Plan&);
};

template <int64_t Plan::*field, int64_t least, int64_t most>
void number(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.*field = *arguments.integer(flag, least, most);
}

void read_sp(const Arguments&, std::string_view, Plan& plan) {
  plan.sp = true;
}

void read_world(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.world = arguments.integer(flag, 1, kMostRanksAlong);
}

void read_order(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.order = arguments.text(flag);
}

[[noreturn]] void refuse(std::string_view flag, std::string found, std::string expected,
                         std::string advice = "") {
  throw UserError("shape2trace", {{std::string(flag), std::move(found), std::move(expected),
                                   std::move(advice), "bad-option"}});
}

DType dtype_of(const Arguments& arguments, std::string_view flag) {
  const std::string word = arguments.text(flag);
  const auto dtype = parse_dtype(word);
  if (!dtype || !is_differentiable(*dtype))
    refuse(flag, "no floating-point type " + s2t::quoted(word), "f32, bf16, f16, f64 or f8");
  return *dtype;
}

void read_dtype(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.dtype = dtype_of(arguments, flag);
}

void read_grad_dtype(const Arguments& arguments, std::string_view flag, Plan& plan) {
  plan.grad_dtype = dtype_of(arguments, flag);
}

// A positive number at the front of `text`, which is shortened; 0 if there is
// none.
int64_t take_number(std::string_view& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || n < 1) return 0;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return n;
}

// "7,14x8,7": one stage of 7 layers, 14 of 8, one of 7.
void read_stage_layers(const Arguments& arguments, std::string_view flag, Plan& plan) {
  const std::string all = arguments.text(flag);
  const auto bad = [&] {
    refuse(flag, s2t::quoted(all),
           "layers of each stage: \"7,8,8,7\", or \"7,14x8,7\" for 14 of 8");
  };
  std::string_view rest = all;
  while (true) {
    int64_t times = 1, layers = take_number(rest);
    if (layers > 0 && rest.starts_with("x")) {
      rest.remove_prefix(1);
      times = layers;
      layers = take_number(rest);
    }
    if (layers == 0 || layers > 10'000 || times > 10'000 || plan.stage_layers.size() > 10'000)
      bad();
    plan.stage_layers.insert(plan.stage_layers.end(), static_cast<size_t>(times), layers);
    if (rest.empty()) return;
    if (!rest.starts_with(",")) bad();
    rest.remove_prefix(1);
  }
}

constexpr PlanOption kPlanOptions[] = {
    {{"--tp", "N", "config: tensor-parallel ranks"}, number<&Plan::tp, 1, kMostRanksAlong>},
    {{"--pp", "N", "config: pipeline stages"}, number<&Plan::pp, 1, kMostRanksAlong>},
    {{"--dp", "N", "config: data-parallel ranks"}, number<&Plan::dp, 1, kMostRanksAlong>},
    {{"--ep", "N", "config: expert-parallel ranks"}, number<&Plan::ep, 1, kMostRanksAlong>},
    {{"--etp", "N", "config: tensor-parallel ranks of an expert; default: as --tp"},
     number<&Plan::etp, 1, kMostRanksAlong>},
    {{"--sp", "", "config: sequence parallelism over the tensor-parallel ranks"}, read_sp},
    {{"--vpp", "N", "config: model chunks per pipeline rank (interleaved schedule)"},
     number<&Plan::vpp, 1, 10'000>},
    {{"--stage-layers", "LIST", "config: layers of each stage, 7,14x8,7; default: equal"},
     read_stage_layers},
    {{"--seq", "N", "config: tokens per sample"}, number<&Plan::seq, 1, kMostSamples>},
    {{"--micro-batch", "N", "config: samples per microbatch and rank, default 1"},
     number<&Plan::micro_batch, 1, kMostSamples>},
    {{"--global-batch", "N", "config: samples of a step; default: one microbatch per rank"},
     number<&Plan::global_batch, 1, kMostSamples>},
    {{"--zero", "N", "config: 1: sharded optimizer states; default 0"}, number<&Plan::zero, 0, 3>},
    {{"--dtype", "T", "config: of parameters and activations, default bf16"}, read_dtype},
    {{"--grad-dtype", "T", "config: of gradient reductions; default: the profile's"},
     read_grad_dtype},
    {{"--order", "O", "config: ranks, fastest first: tp-cp-ep-dp-pp; default: the profile's"},
     read_order},
    {{"--world", "N", "config: the number of ranks, checked"}, read_world},
};
constexpr OptionDef kSetOption{"--set", "SWITCH=VALUE",
                               "config: change a switch of the profile; see list switches", true};
constexpr OptionDef kProfileOption{"--profile", "P",
                                   "config: the framework; see shape2trace list profiles"};

// Every wrong option is reported, not the first alone.
Plan read_plan(const Arguments& arguments, Diagnostics& sink) {
  Plan plan;
  for (const PlanOption& option : kPlanOptions) try {
      if (arguments.has(option.def.flag)) option.read(arguments, option.def.flag, plan);
    } catch (const UserError& e) {
      for (const Diagnostic& d : e.diagnostics()) sink.add(d);
    }
  return plan;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  return lines;
}

void change(Profile& profile, const Arguments& arguments, Diagnostics& sink) {
  if (!arguments.has("--set")) return;
  for (const std::string& assignment : lines_of(arguments.text("--set")))
    if (const auto wrong = profile.set(assignment)) sink.add(*wrong);
}

std::optional<Profile> read_profile(const Arguments& arguments, Diagnostics& sink) {
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
  if (profile) change(*profile, arguments, sink);
  return profile;
}

std::optional<Model> read_config(const JsonCursor& root, const Arguments& arguments) {
  Diagnostics& sink = root.sink();
  const auto architecture = read_hf_config(root);
  const Plan plan = read_plan(arguments, sink);
  const auto profile = read_profile(arguments, sink);
  if (!architecture || !profile || sink.any()) return std::nullopt;
  return build_transformer(*architecture, plan, *profile, sink);
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
  for (const PlanOption& option : kPlanOptions) all.push_back(option.def);
  return all;
}

std::vector<std::string> plan_words(const Arguments& arguments) {
  std::vector<std::string> words;
  for (const OptionDef& option : with_plan_options({})) {
    if (!arguments.has(option.flag)) continue;
    for (const std::string& line : lines_of(arguments.text(option.flag))) {
      words.emplace_back(option.flag);
      if (!option.value.empty()) words.push_back(line);
    }
  }
  return words;
}

Model load_operand(const Arguments& arguments) {
  const std::string& path = arguments.operands[0];
  Diagnostics sink(input_name(path));
  const std::optional<std::string> text = read_input(path, sink);
  sink.throw_if_any();
  const std::optional<JsonDocument> document = parse_json(*text, sink);
  sink.throw_if_any();
  const JsonCursor root(*document, sink);
  std::optional<Model> model;
  if (is_config(root)) {
    model = read_config(root, arguments);
  } else {
    refuse_plan_options(arguments, sink);
    model = read_model(root);
  }
  sink.throw_if_any();
  return std::move(model).value();
}

}  // namespace s2t

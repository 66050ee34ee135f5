#include "analyzer/cli/launch_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/cli/plan_table.h"

namespace s2t {
namespace {

// A flag that stands for an option with a value of ours.
struct Meaning {
  std::string_view flag, option, value;
};
constexpr Meaning kMeanings[] = {
    {"--bf16", "--dtype", "bf16"},
    {"--fp16", "--dtype", "f16"},
    {"--grad-reduce-in-bf16", "--grad-dtype", "bf16"},
    {"--accumulate-allreduce-grads-in-fp32", "--grad-dtype", "f32"},
    {"--use-distributed-optimizer", "--zero", "1"},
    {"--recompute-activations", "--recompute", "selective"},
    {"--checkpoint-activations", "--recompute", "full"},
    {"--use-tp-pp-dp-mapping", "--order", "tp-cp-ep-pp-dp"},
};

// A flag that changes a switch; a value of "" is the flag's own.
struct Change {
  enum class If : uint8_t { always, zero, not_zero };  // of the flag's own value
  std::string_view flag, name, value;
  If given = If::always;
};
constexpr Change kChanges[] = {
    {"--make-vocab-size-divisible-by", "vocabulary_padding", ""},
    {"--overlap-grad-reduce", "gradient_sync", "overlapped"},
    {"--cross-entropy-loss-fusion", "cross_entropy", "fused"},
    {"--clip-grad", "grad_norm", "none", Change::If::zero},
    {"--moe-aux-loss-coeff", "moe_balancing", "aux_loss", Change::If::not_zero},
};

struct Shape {
  std::string_view flag;
  int64_t (*of)(const Architecture&);
};
constexpr Shape kShapes[] = {
    {"--num-layers", [](const Architecture& a) { return a.layers; }},
    {"--hidden-size", [](const Architecture& a) { return a.hidden; }},
    {"--ffn-hidden-size", [](const Architecture& a) { return a.ffn; }},
    {"--num-attention-heads", [](const Architecture& a) { return a.heads; }},
    {"--num-query-groups", [](const Architecture& a) { return a.kv_heads; }},
    {"--kv-channels", [](const Architecture& a) { return a.head_dim; }},
    {"--vocab-size", [](const Architecture& a) { return a.vocab; }},
    {"--num-experts", [](const Architecture& a) { return a.experts ? a.experts->experts : 0; }},
    {"--moe-router-topk", [](const Architecture& a) { return a.experts ? a.experts->top_k : 0; }},
    {"--moe-ffn-hidden-size", [](const Architecture& a) { return a.experts ? a.experts->ffn : 0; }},
};

struct Part {
  std::string_view flag;
  bool (*present)(const Architecture&);
  std::string_view what;
};
constexpr Part kParts[] = {
    {"--swiglu", [](const Architecture& a) { return a.gated; }, "gated feed-forward layers"},
    {"--untie-embeddings-and-output-weights", [](const Architecture& a) { return !a.tied; },
     "an output layer of its own"},
    {"--multi-latent-attention", [](const Architecture& a) { return a.latent.has_value(); },
     "multi-head latent attention"},
};

struct NotPredicted {
  std::string_view flag, what;
};
constexpr NotPredicted kNotPredicted[] = {
    {"--fp8-format", "one-byte gathers and the reductions of FP8 scales"},
    {"--fp8-param-gather", "parameters gathered in one byte"},
    {"--overlap-param-gather", "parameters gathered bucket by bucket before their first use"},
    {"--overlap-p2p-communication", "messages launched one by one"},
    {"--tp-comm-overlap", "copies by user buffers instead of NCCL kernels"},
    {"--num-distributed-optimizer-instances", "reductions inside and between optimizer instances"},
    {"--rampup-batch-size", "smaller batches in the first steps"},
    {"--step-batch-size-schedule", "other batches in some steps"},
    {"--mtp-num-layers", "extra prediction layers"},
    {"--use-torch-fsdp2", "FSDP instead of Megatron's data parallelism"},
    {"--use-custom-fsdp", "FSDP instead of Megatron's data parallelism"},
    {"--use-megatron-fsdp", "FSDP instead of Megatron's data parallelism"},
    {"--calculate-per-token-loss", "the number of tokens, agreed on over all stages and replicas"},
    {"--pp-partition-method", "another cut into stages; see --stage-layers"},
    {"--account-for-embedding-in-pipeline-split", "stages that count the embedding as a layer"},
    {"--account-for-loss-in-pipeline-split", "stages that count the loss as a layer"},
    {"--pipeline-model-parallel-layout", "another cut into stages; see --stage-layers"},
    {"--embed-layernorm", "a norm behind the embedding"},
    {"--hierarchical-context-parallel-sizes", "context parallelism in two levels"},
    {"--moe-enable-deepep", "exchanges of experts that are no NCCL kernels"},
};

template <class Row, size_t n>
const Row* find(const Row (&rows)[n], const std::string& flag) {
  const auto it = std::find_if(std::begin(rows), std::end(rows),
                               [&](const Row& row) { return row.flag == flag; });
  return it == std::end(rows) ? nullptr : it;
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
    seen_.insert(flag.name);
    if (const auto it = names_.find(flag.name); it != names_.end())
      return option(flag, *it->second);
    if (const Meaning* m = find(kMeanings, flag.name)) return set(m->option, std::string(m->value));
    if (const Change* c = find(kChanges, flag.name)) return change(flag, *c);
    if (const Shape* s = find(kShapes, flag.name)) return shape(flag, *s);
    if (const Part* p = find(kParts, flag.name)) return part(flag, *p);
    if (const NotPredicted* n = find(kNotPredicted, flag.name)) {
      not_predicted_.push_back(fmt::format("{} ({})", n->flag, n->what));
      return;
    }
    slip(flag);
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

  void change(const LaunchFlag& flag, const Change& c) {
    const bool zero = std::strtod(flag.value.c_str(), nullptr) == 0;
    if (c.given == (zero ? Change::If::not_zero : Change::If::zero)) return;
    const std::string value = c.value.empty() ? flag.value : std::string(c.value);
    out_.changes.push_back(std::string(c.name) + "=" + value);
  }

  void shape(const LaunchFlag& flag, const Shape& s) {
    if (!a_ || flag.open()) return;
    const int64_t is = s.of(*a_);
    if (whole(flag.value) == is) return;
    refuse(flag, flag.value.empty() ? "no value" : flag.value,
           fmt::format("{}, as the config says", is), "The flags belong to another model.");
  }

  void part(const LaunchFlag& flag, const Part& p) {
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
    if (seen_.contains("--fp16") && !seen_.contains("--accumulate-allreduce-grads-in-fp32"))
      set("--grad-dtype", "f16");
    if (!seen_.contains("--fp16") && !seen_.contains("--bf16")) set("--dtype", "f32");
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
  std::set<std::string> seen_, others_;
  std::vector<std::string> not_predicted_;
};

}  // namespace

LaunchReading read_launch_flags(const Launch& launch, const Arguments& given,
                                const Architecture* architecture, Diagnostics& sink) {
  return Reader(launch, given, architecture, sink).read();
}

}  // namespace s2t

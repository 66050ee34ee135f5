#include "analyzer/io/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/io/model_sections.h"

namespace s2t {
namespace {

constexpr int64_t kMostWorld = int64_t{1} << 24;

// "1, 2, 4 or 8"
std::string divisors(int64_t n) {
  std::vector<std::string> all;
  for (int64_t d = 1; d <= n && d <= 4096; ++d)
    if (n % d == 0) all.push_back(std::to_string(d));
  if (all.size() < 2) return join(all, ", ");
  const std::string last = all.back();
  all.pop_back();
  return join(all, ", ") + " or " + last;
}

class Checker {
 public:
  Checker(const Architecture& a, const Plan& p, Diagnostics& sink) : a_(a), p_(p), sink_(sink) {}

  void job() {
    world();
    tokens();
    batch();
  }

  void check() {
    world();
    widths();
    tokens();
    layers();
    experts();
    schedule();
    batch();
    order();
  }

 private:
  void refuse(std::string flag, std::string found, std::string expected, std::string advice = "",
              std::string slug = "plan") {
    sink_.add({std::move(flag), std::move(found), std::move(expected), std::move(advice),
               std::move(slug)});
  }

  void divides(std::string flag, int64_t by, int64_t n, std::string_view what, int64_t all) {
    if (n % by != 0)
      refuse(std::move(flag), fmt::format("{} does not divide the {} {}", by, n, what),
             divisors(all), "", "indivisible");
  }

  void world() {
    int64_t ranks = 1;
    for (const int64_t n : {p_.tp, p_.pp, p_.cp, p_.dp})
      if (ranks <= kMostWorld) ranks *= n;
    if (ranks > kMostWorld)
      return refuse("--dp", "more than 16,777,216 ranks", "at most that many", "",
                    "too-many-ranks");
    if (!p_.world || *p_.world == p_.ranks()) return;
    const int64_t replica = p_.tp * p_.pp * p_.cp;
    refuse("--world",
           fmt::format("{} ranks, but tp {} x pp {} x cp {} x dp {} are {}", *p_.world, p_.tp,
                       p_.pp, p_.cp, p_.dp, p_.ranks()),
           *p_.world % replica == 0
               ? fmt::format("--dp {}, or no --dp", *p_.world / replica)
               : fmt::format("a multiple of tp x pp x cp, which is {}", replica),
           "", "world-size");
  }

  void widths() {
    const int64_t common = std::gcd(a_.heads, a_.latent ? a_.heads : a_.kv_heads);
    if (a_.heads % p_.tp != 0)
      divides("--tp", p_.tp, a_.heads, "heads", common);
    else if (!a_.latent && a_.kv_heads % p_.tp != 0)
      divides("--tp", p_.tp, a_.kv_heads, "key-value heads", common);
    if (common % p_.tp == 0)
      divides("--tp", p_.tp, a_.ffn, "columns of the MLP", std::gcd(common, a_.ffn));
  }

  void tokens() {
    const int64_t sequence = p_.cp * (p_.sequence_parallel() ? p_.tp : 1);
    if (p_.seq == 0)
      refuse("--seq", "the number of tokens per sample is not given", "--seq N", "",
             "missing-option");
    else if (p_.seq % sequence != 0)
      refuse("--seq", fmt::format("{} tokens do not divide over {} ranks", p_.seq, sequence),
             fmt::format("a multiple of {}", sequence), "", "indivisible");
    const int64_t positions = a_.position_rows - a_.unused_positions;
    if (a_.positions == Positions::learned && p_.seq > positions)
      refuse("--seq", fmt::format("{} tokens, but the model has {} positions", p_.seq, positions),
             fmt::format("at most {}", positions));
  }

  void layers() {
    const int64_t stages = p_.pp * p_.vpp;
    if (p_.vpp > 1 && p_.pp == 1)
      refuse("--vpp", "model chunks without a pipeline", "--pp 2 or more");
    if (p_.layers_per_chunk > 0 && a_.layers != stages * p_.layers_per_chunk)
      return refuse("--layers-per-chunk",
                    fmt::format("{} layers do not divide into chunks of {} on {} pipeline ranks",
                                a_.layers, p_.layers_per_chunk, p_.pp),
                    divisors(a_.layers % p_.pp == 0 ? a_.layers / p_.pp : 1), "", "indivisible");
    if (!p_.stage_layers.empty()) return stated_layers(stages);
    if (p_.first_layers > 0 || p_.last_layers > 0) return uneven_ends();
    if (a_.layers % stages != 0)
      refuse(p_.vpp > 1 ? "--vpp" : "--pp",
             fmt::format("{} layers do not divide into {} stages", a_.layers, stages),
             divisors(a_.layers) + " stages",
             "Or say how many layers each stage has: --stage-layers 7,14x8,7.", "indivisible");
  }

  // Only what `resolved` could not divide comes here.
  void uneven_ends() {
    const int64_t ends = (p_.first_layers > 0) + (p_.last_layers > 0);
    const int64_t rest = a_.layers - p_.first_layers - p_.last_layers;
    refuse(p_.first_layers > 0 ? "--first-layers" : "--last-layers",
           fmt::format("{} layers are left for {} pipeline ranks in {} chunks each", rest,
                       p_.pp - ends, p_.vpp),
           fmt::format("a multiple of {}", std::max<int64_t>(1, (p_.pp - ends) * p_.vpp)), "",
           "indivisible");
  }

  void stated_layers(int64_t stages) {
    const int64_t sum = std::accumulate(p_.stage_layers.begin(), p_.stage_layers.end(), int64_t{0});
    if (static_cast<int64_t>(p_.stage_layers.size()) != stages)
      refuse("--stage-layers", fmt::format("{} stages", p_.stage_layers.size()),
             fmt::format("{}: pp x vpp", stages), "", "plan");
    else if (sum != a_.layers)
      refuse("--stage-layers", fmt::format("{} layers in all", sum),
             fmt::format("{}, as the model has", a_.layers));
  }

  void experts() {
    if (!a_.experts) {
      if (p_.ep > 1 || p_.etp > 1)
        refuse(p_.ep > 1 ? "--ep" : "--etp", "a model without experts", "1, or leave it out");
      return;
    }
    divides("--ep", p_.ep, a_.experts->experts, "experts", a_.experts->experts);
    divides("--etp", p_.expert_tp(), a_.experts->ffn, "columns of an expert", a_.experts->ffn);
    const int64_t replica = p_.tp * p_.cp * p_.dp, wanted = p_.expert_tp() * p_.ep;
    if (replica % wanted != 0)
      refuse(
          "--ep",
          fmt::format("etp {} x ep {} do not divide the {} ranks of a stage (tp x cp x dp)",
                      p_.expert_tp(), p_.ep, replica),
          divisors(std::gcd(a_.experts->experts, std::max<int64_t>(replica / p_.expert_tp(), 1))),
          fmt::format("Or --dp {}{}.", wanted / std::gcd(wanted, p_.tp * p_.cp),
                      p_.expert_tp() > 1 ? ", or --etp 1: experts whole on each rank" : ""),
          "indivisible");
  }

  void schedule() {
    const std::string fits = p_.vpp > 1 ? "interleaved" : "1f1b";
    if (p_.schedule.empty() || p_.schedule == fits || p_.vpp == 1) return;
    refuse("--schedule", quoted(p_.schedule) + " with several model chunks per rank",
           quoted(fits) + ", or --vpp 1", "", "schedule");
  }

  void batch() {
    const int64_t step = p_.dp * p_.micro_batch;
    if (p_.global_batch % step != 0)
      return refuse("--global-batch",
                    fmt::format("{} samples do not divide over dp {} x microbatches of {}",
                                p_.global_batch, p_.dp, p_.micro_batch),
                    fmt::format("a multiple of {}", step), "", "indivisible");
    const int64_t stages = p_.pp * p_.vpp;
    if (p_.microbatches() > kMostMicrobatches / stages)  // the limit of a model file
      return refuse("--global-batch",
                    fmt::format("{} microbatches on {} stages", commas(p_.microbatches()), stages),
                    fmt::format("at most {} of both multiplied", commas(kMostMicrobatches)), "",
                    "out-of-range");
    if (p_.vpp > 1 && p_.microbatches() % p_.pp != 0)
      refuse("--global-batch",
             fmt::format("{} microbatches with {} model chunks on {} pipeline ranks",
                         p_.microbatches(), p_.vpp, p_.pp),
             fmt::format("a multiple of {} samples", step * p_.pp), "", "schedule");
  }

  void order() {
    if (p_.order.empty()) return;
    const std::vector<std::string> words = split_order(p_.order);
    const std::set<std::string> known{"tp", "cp", "ep", "dp", "pp"};
    const std::set<std::string> named(words.begin(), words.end());
    std::vector<std::string> needed;
    for (const auto& [name, size] : {std::pair<std::string, int64_t>{"tp", p_.tp},
                                     {"cp", p_.cp},
                                     {"ep", p_.ep},
                                     {"dp", p_.dp},
                                     {"pp", p_.pp}})
      if (size > 1 && !named.contains(name)) needed.push_back(name);
    const bool words_known = std::all_of(words.begin(), words.end(),
                                         [&](const std::string& w) { return known.contains(w); });
    if (!words_known || named.size() != words.size() || !needed.empty())
      return refuse("--order", quoted(p_.order),
                    "each axis of the plan once, the fastest first: \"tp-cp-ep-dp-pp\"", "",
                    "axis-order");
    const auto place = [&](const char* axis) {
      return std::find(words.begin(), words.end(), axis);
    };
    if (p_.tp > 1 && p_.dp > 1 && place("tp") > place("dp"))
      refuse("--order", quoted(p_.order) + " has dp faster than tp",
             "tp before dp: neighbouring ranks share a layer", "", "axis-order");
    if (a_.experts && p_.pp > 1 && words.back() != "pp")
      refuse("--order", quoted(p_.order) + " with experts", "an order that ends with pp", "",
             "axis-order");
  }

  const Architecture& a_;
  const Plan& p_;
  Diagnostics& sink_;
};

}  // namespace

std::vector<std::string> split_order(const std::string& order) {
  std::vector<std::string> words(1);
  for (const char c : order)
    if (c == '-')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

namespace {

// Layers of each pipeline rank where its ends differ from the rest; empty if they do not divide.
std::vector<int64_t> with_ends(const Plan& plan, int64_t layers) {
  const int64_t ends = (plan.first_layers > 0) + (plan.last_layers > 0);
  const int64_t rest = layers - plan.first_layers - plan.last_layers, ranks = plan.pp - ends;
  const bool divides = ranks == 0 ? rest == 0 : ranks > 0 && rest > 0 && rest % ranks == 0;
  if (!divides) return {};
  std::vector<int64_t> of_ranks(static_cast<size_t>(plan.pp), ranks > 0 ? rest / ranks : 0);
  if (plan.first_layers > 0) of_ranks.front() = plan.first_layers;
  if (plan.last_layers > 0) of_ranks.back() = plan.last_layers;
  std::vector<int64_t> stages;
  for (int64_t chunk = 0; chunk < plan.vpp; ++chunk)
    for (const int64_t n : of_ranks) {
      if (n % plan.vpp != 0) return {};
      stages.push_back(n / plan.vpp);
    }
  return stages;
}

void resolve_dp(Plan& plan) {
  const int64_t replica = plan.tp * plan.pp * plan.cp;
  if (plan.dp == 0) plan.dp = plan.world && *plan.world % replica == 0 ? *plan.world / replica : 1;
}

}  // namespace

Plan resolved(Plan plan, const Architecture& a) {
  resolve_dp(plan);
  if (plan.layers_per_chunk > 0 && a.layers % (plan.pp * plan.layers_per_chunk) == 0)
    plan.vpp = a.layers / (plan.pp * plan.layers_per_chunk);
  const bool own_ends = plan.first_layers > 0 || plan.last_layers > 0;
  if (plan.stage_layers.empty() && own_ends) plan.stage_layers = with_ends(plan, a.layers);
  if (plan.stage_layers.empty() && !own_ends && a.layers % (plan.pp * plan.vpp) == 0)
    plan.stage_layers.assign(static_cast<size_t>(plan.pp * plan.vpp),
                             a.layers / (plan.pp * plan.vpp));
  return plan;
}

void check_job(Plan plan, Diagnostics& sink) {
  resolve_dp(plan);
  const Architecture unknown;
  Checker(unknown, plan, sink).job();
}

void check_plan(const Architecture& a, const Plan& plan, Diagnostics& sink) {
  Checker(a, plan, sink).check();
}

}  // namespace s2t

#include "analyzer/io/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/io/fit.h"
#include "analyzer/io/model_sections.h"

namespace s2t {
namespace {

// Two options that say one thing, and whether they may not stand together.
struct Pair {
  const char* flag;
  const char* other;
  bool (*clash)(const Plan& stated, int64_t layers);
  const char* meaning;  // of both
};

bool stages_and(const Plan& p, int64_t ends) {
  return !p.stage_layers.empty() && ends > 0;
}

// Megatron takes --num-layers-per-virtual-pipeline-stage for equal stages alone
// (training/arguments.py).
constexpr Pair kPairs[] = {
    {"--stage-layers", "--first-layers",
     [](const Plan& p, int64_t) { return stages_and(p, p.first_layers); },
     "the layers of the first stage"},
    {"--stage-layers", "--last-layers",
     [](const Plan& p, int64_t) { return stages_and(p, p.last_layers); },
     "the layers of the last stage"},
    {"--stage-layers", "--layers-per-chunk",
     [](const Plan& p, int64_t) {
       return p.layers_per_chunk > 0 &&
              std::any_of(p.stage_layers.begin(), p.stage_layers.end(),
                          [&](int64_t n) { return n != p.layers_per_chunk; });
     },
     "the layers of a stage"},
    {"--first-layers", "--layers-per-chunk",
     [](const Plan& p, int64_t) { return p.first_layers > 0 && p.layers_per_chunk > 0; },
     "the layers of the first stage"},
    {"--last-layers", "--layers-per-chunk",
     [](const Plan& p, int64_t) { return p.last_layers > 0 && p.layers_per_chunk > 0; },
     "the layers of the last stage"},
    {"--vpp", "--layers-per-chunk",
     [](const Plan& p, int64_t layers) {
       return p.vpp > 0 && p.layers_per_chunk > 0 && layers > 0 &&
              p.pp * p.vpp * p.layers_per_chunk != layers;
     },
     "the number of chunks"},
};

// " (/num_attention_heads)"
std::string place_of(const Architecture& a, const char* size) {
  const auto it = a.at.find(size);
  return it == a.at.end() ? "" : fmt::format(" ({})", it->second);
}

class Checker {
 public:
  Checker(const Architecture& a, const Plan& p, int64_t columns, Diagnostics& sink)
      : a_(a), p_(p), columns_(columns), sink_(sink) {}

  void job() {
    world();
    tokens();
    if (p_.countable()) batch();
  }

  void check() {
    world();
    widths();
    tokens();
    layers();
    schedule();
    order();
    if (!p_.countable()) return;
    experts();
    batch();
  }

 private:
  void refuse(std::string flag, std::string found, std::string expected, std::string advice = "",
              std::string slug = "plan") {
    sink_.add({std::move(flag), std::move(found), std::move(expected), std::move(advice),
               std::move(slug)});
  }

  void world() {
    if (!p_.countable())
      return refuse("--dp", "more than 16,777,216 ranks", "at most that many", "",
                    "too-many-ranks");
    if (!p_.world || *p_.world == p_.ranks()) return;
    const int64_t replica = p_.tp * p_.pp * p_.cp;
    refuse("--world",
           fmt::format("{} ranks, but tp {} x pp {} x cp {} x dp {} are {}", *p_.world, p_.tp,
                       p_.pp, p_.cp, p_.dp, p_.ranks()),
           *p_.world % replica == 0
               ? fmt::format("--dp {}, or no --dp", *p_.world / replica)
               : fmt::format("a multiple of tp x pp x cp: {}", neighbours(*p_.world, replica)),
           "", "world-size");
  }

  int64_t common_heads() const {
    return std::gcd(std::gcd(a_.heads, a_.latent ? a_.heads : a_.kv_heads), columns_);
  }

  void widths() {
    const int64_t common = common_heads();
    const auto over = [&](int64_t n, const char* what, const char* size) {
      if (n % p_.tp == 0) return true;
      refuse("--tp",
             fmt::format("{} does not divide the {} {}{}", p_.tp, n, what, place_of(a_, size)),
             divisors(
                 common, [](int64_t tp, int64_t ffn) { return ffn % tp == 0; }, a_.ffn),
             "", "indivisible");
      return false;
    };
    if (over(a_.heads, "heads", "heads") &&
        (a_.latent || over(a_.kv_heads, "key-value heads", "kv_heads")))
      over(a_.ffn, "columns of the MLP", "ffn");
  }

  void tokens() {
    const int64_t sequence = p_.cp * (p_.sequence_parallel() ? p_.tp : 1);
    const int64_t step = p_.cp > 1 ? std::lcm(2 * p_.cp, sequence) : sequence;  // a ring halves
    const bool learned = a_.positions == Positions::learned;
    const int64_t positions = a_.position_rows - a_.unused_positions;
    if (p_.seq == 0)
      refuse("--seq", "the number of tokens per sample is not given", "--seq N", "",
             "missing-option");
    else if (p_.seq % sequence != 0 && !(learned && p_.seq > positions))
      refuse("--seq",
             fmt::format("{} tokens do not divide over {} ranks ({})", p_.seq, sequence,
                         p_.sequence_parallel() ? "tp x cp" : "cp"),
             neighbours(p_.seq, step), "", "indivisible");
    if (p_.countable() && !p_.tokens_countable())
      refuse("--micro-batch",
             fmt::format("{} samples of {} tokens on each of {} data-parallel ranks",
                         commas(p_.micro_batch), commas(p_.seq), commas(p_.dp)),
             fmt::format("at most {} of all three multiplied", commas(kMostSize)), "",
             "out-of-range");
    if (learned && p_.seq > positions)
      refuse("--seq",
             fmt::format("{} tokens, but the table of learned positions has {} rows for them{}",
                         p_.seq, positions, place_of(a_, "positions")),
             fmt::format("at most {}", positions < step ? positions : positions / step * step));
  }

  void layers() {
    const int64_t stages = p_.pp * p_.vpp;
    const bool cut = p_.layers_per_chunk > 0 && p_.layers_per_chunk != a_.layers;
    if ((p_.vpp > 1 || cut) && p_.pp == 1)
      return refuse(p_.layers_per_chunk > 0 ? "--layers-per-chunk" : "--vpp",
                    "model chunks without a pipeline", "--pp 2 or more");
    const bool whole_chunks = a_.layers % (p_.pp * std::max<int64_t>(1, p_.layers_per_chunk)) == 0;
    if (p_.layers_per_chunk > 0 && a_.layers % p_.pp != 0) return indivisible_layers(p_.pp);
    if (p_.layers_per_chunk > 0 && !whole_chunks)
      return refuse("--layers-per-chunk",
                    fmt::format("{} layers{} do not divide into chunks of {} on {} pipeline ranks",
                                a_.layers, place_of(a_, "layers"), p_.layers_per_chunk, p_.pp),
                    divisors(a_.layers / p_.pp), "", "indivisible");
    if (p_.first_layers > 0 || p_.last_layers > 0) return uneven_ends();
    if (!p_.stage_layers.empty()) return stated_layers(stages);
    if (p_.layers_per_chunk == 0 && a_.layers % stages != 0) indivisible_layers(stages);
  }

  void indivisible_layers(int64_t stages) {
    const bool chunks = p_.vpp > 1 && a_.layers % p_.pp == 0;
    refuse(chunks ? "--vpp" : "--pp",
           fmt::format("{} layers{} do not divide into {} stages", a_.layers,
                       place_of(a_, "layers"), stages),
           chunks ? divisors(a_.layers / p_.pp)
                  : divisors(a_.layers) + (p_.vpp > 1 ? " stages, which are pp x vpp" : ""),
           other_stages("Or say how many layers each stage has:", stages), "indivisible");
  }

  // "Or --stage-layers 7,14x8,7."
  std::string other_stages(const char* lead, int64_t stages) const {
    const std::vector<int64_t> list = shares(a_.layers, std::min(stages, a_.layers + 1));
    return list.empty() ? "Each stage needs a layer."
                        : fmt::format("{} --stage-layers {}.", lead, run_lengths(list));
  }

  // Whether the first and the last pipeline rank may have so many layers; 0: as all others.
  bool ends_fit(int64_t first, int64_t last) const {
    const int64_t ranks = p_.pp - (first > 0) - (last > 0), rest = a_.layers - first - last;
    if (ranks < 0 || rest < 0 || first % p_.vpp != 0 || last % p_.vpp != 0) return false;
    return ranks == 0 ? rest == 0 : rest > 0 && rest % (ranks * p_.vpp) == 0;
  }

  void uneven_ends() {
    if (ends_fit(p_.first_layers, p_.last_layers)) return;
    const bool first = p_.first_layers > 0;
    if (p_.pp == 1)
      return refuse(first ? "--first-layers" : "--last-layers", "stages without a pipeline",
                    "--pp 2 or more");
    const int64_t stated = first ? p_.first_layers : p_.last_layers;
    std::vector<std::string> fit;  // the nearest that do
    for (int64_t n = 1; n < a_.layers; ++n) {
      if (!ends_fit(first ? n : 0, first ? p_.last_layers : n)) continue;
      if (n < stated) fit.clear();
      fit.push_back(std::to_string(n));
      if (n > stated) break;
    }
    const int64_t ends = first + (p_.last_layers > 0);
    refuse(first ? "--first-layers" : "--last-layers",
           fmt::format("{} of {} layers{} are left for {} pipeline ranks{}",
                       std::max<int64_t>(0, a_.layers - p_.first_layers - p_.last_layers),
                       a_.layers, place_of(a_, "layers"), std::max<int64_t>(0, p_.pp - ends),
                       p_.vpp > 1 ? fmt::format(" in {} chunks each", p_.vpp) : ""),
           fit.empty() ? "as many for each of them" : join(fit, " or "), stages_with_ends(),
           "indivisible");
  }

  // --stage-layers with the stated ends, whose options it replaces.
  std::string stages_with_ends() const {
    const int64_t first = p_.first_layers, last = p_.last_layers;
    std::vector<int64_t> list =
        p_.vpp > 1 ? std::vector<int64_t>{}
                   : shares(a_.layers - first - last, p_.pp - (first > 0) - (last > 0));
    if (list.empty()) return "";
    if (first > 0) list.insert(list.begin(), first);
    if (last > 0) list.push_back(last);
    return fmt::format("Or --stage-layers {} instead of {}.", run_lengths(list),
                       first == 0  ? "--last-layers"
                       : last == 0 ? "--first-layers"
                                   : "both");
  }

  void stated_layers(int64_t stages) {
    const int64_t sum = std::accumulate(p_.stage_layers.begin(), p_.stage_layers.end(), int64_t{0});
    const std::string advice = other_stages("For example:", stages);
    if (static_cast<int64_t>(p_.stage_layers.size()) != stages)
      refuse("--stage-layers", fmt::format("{} stages", p_.stage_layers.size()),
             fmt::format("{}: pp {} x vpp {}", stages, p_.pp, p_.vpp), advice);
    else if (sum != a_.layers)
      refuse("--stage-layers", fmt::format("{} layers in all", sum),
             fmt::format("{}, as the model has{}", a_.layers, place_of(a_, "layers")), advice);
  }

  void experts() {
    if (!a_.experts) {
      if (p_.ep > 1 || p_.etp > 1)
        refuse(p_.ep > 1 ? "--ep" : "--etp", "a model without experts", "1, or leave it out");
      return;
    }
    const Experts& e = *a_.experts;
    const int64_t etp = p_.expert_tp(), replica = p_.tp * p_.cp * p_.dp;
    const bool whole_shares = expert_shares(etp, replica);
    const std::string all = divisors(e.experts);
    const std::string fitting =
        whole_shares ? divisors(
                           e.experts, [](int64_t ep, int64_t ranks) { return ranks % ep == 0; },
                           replica / etp)
                     : all;
    if (e.experts % p_.ep != 0)
      return refuse("--ep",
                    fmt::format("{} does not divide the {} experts{}", p_.ep, e.experts,
                                place_of(a_, "experts")),
                    fitting, fitting == all ? "" : fmt::format("With more ranks: {}.", all),
                    "indivisible");
    if (whole_shares && replica % (etp * p_.ep) != 0)
      refuse("--ep",
             fmt::format("etp {} x ep {} do not divide the {} ranks of a stage (tp x cp x dp)", etp,
                         p_.ep, replica),
             fitting,
             fmt::format("Or --dp {}{}.", etp * p_.ep / std::gcd(etp * p_.ep, p_.tp * p_.cp),
                         etp > 1 ? ", or --etp 1: experts whole on each rank" : ""),
             "indivisible");
  }

  // Whether an expert, and the ranks of a stage, divide by `etp`; what is wrong with --tp alone is
  // said elsewhere.
  bool expert_shares(int64_t etp, int64_t replica) {
    const int64_t ffn = a_.experts->ffn;
    if (ffn % etp == 0 && replica % etp == 0) return true;
    const std::string found =
        ffn % etp != 0 ? fmt::format("{} does not divide the {} columns of an expert", etp, ffn)
                       : fmt::format("{} does not divide the {} ranks of a stage (tp x cp x dp)",
                                     etp, replica);
    if (p_.etp > 0)
      refuse("--etp", found,
             divisors(
                 ffn, [](int64_t n, int64_t ranks) { return ranks % n == 0; },
                 replica % p_.ep == 0 ? replica / p_.ep : replica),
             ffn % etp == 0 ? fmt::format("Or --dp {}.", etp / std::gcd(etp, p_.tp * p_.cp)) : "",
             "indivisible");
    else if (common_heads() % etp == 0)
      refuse("--tp", found, divisors(std::gcd(common_heads(), ffn)),
             "Or --etp 1: experts whole on each rank.", "indivisible");
    return false;
  }

  void schedule() {
    if (p_.schedule.empty()) return;
    const bool chunks = takes_chunks(p_.schedule);
    if (p_.pp == 1)
      refuse("--schedule", quoted(p_.schedule) + " without a pipeline",
             "--pp 2 or more, or leave it out", "", "schedule");
    else if (p_.vpp > 1 && !chunks)
      refuse("--schedule", quoted(p_.schedule) + " with several model chunks per rank",
             "--vpp 1, or leave it out", "", "schedule");
    else if (p_.vpp == 1 && chunks)
      refuse("--schedule", quoted(p_.schedule) + " with one model chunk per rank",
             "--vpp 2 or more, or \"1f1b\"", "", "schedule");
  }

  void batch() {
    const int64_t step = p_.dp * p_.micro_batch;
    if (p_.global_batch % step != 0)
      return refuse("--global-batch",
                    fmt::format("{} samples do not divide over dp {} x microbatches of {}",
                                p_.global_batch, p_.dp, p_.micro_batch),
                    neighbours(p_.global_batch, step), "", "indivisible");
    const int64_t stages = p_.pp * p_.vpp;
    if (p_.microbatches() > kMostMicrobatches / stages)  // the limit of a model file
      return refuse("--global-batch",
                    fmt::format("{} microbatches on {} stages", commas(p_.microbatches()), stages),
                    fmt::format("at most {} of both multiplied", commas(kMostMicrobatches)), "",
                    "out-of-range");
    if (p_.vpp > 1 && p_.microbatches() % p_.pp != 0)
      refuse("--global-batch",
             fmt::format("{} microbatch(es) with {} model chunks on {} pipeline ranks",
                         p_.microbatches(), p_.vpp, p_.pp),
             neighbours(p_.microbatches() * step, step * p_.pp) + ": as many microbatches as ranks",
             "", "schedule");
  }

  void order() {
    if (p_.order.empty()) return;
    const std::vector<std::string> words = split(p_.order, '-');
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
      return refuse(
          "--order", quoted(p_.order) + (needed.empty() ? "" : " lacks " + join(needed, ", ")),
          "each axis of the plan once, the fastest first: \"tp-cp-ep-dp-pp\"", "", "axis-order");
    const auto place = [&](const char* axis) {
      return std::find(words.begin(), words.end(), axis);
    };
    if (p_.tp > 1 && p_.dp > 1 && place("tp") > place("dp"))
      refuse("--order", quoted(p_.order) + " has dp faster than tp",
             "tp before dp: neighbouring ranks share a layer",
             "\"tp-cp-ep-dp-pp\", \"tp-cp-pp-ep-dp\" and \"cp-tp-ep-dp-pp\" are such orders.",
             "axis-order");
  }

  const Architecture& a_;
  const Plan& p_;
  int64_t columns_;
  Diagnostics& sink_;
};

}  // namespace

void check_contradictions(const Plan& stated, int64_t layers, Diagnostics& sink) {
  for (const Pair& pair : kPairs)
    if (pair.clash(stated, layers))
      sink.add({pair.flag, fmt::format("{} states {} too", pair.other, pair.meaning),
                "one of the two", fmt::format("Leave out {} or {}.", pair.flag, pair.other),
                "contradiction"});
}

void check_job(const Plan& stated, Diagnostics& sink) {
  const Architecture unknown;
  check_contradictions(stated, 0, sink);
  const Plan plan = resolved(stated, unknown);
  Checker(unknown, plan, 0, sink).job();
}

void check_plan(const Architecture& a, const Plan& plan, Diagnostics& sink, int64_t columns) {
  Checker(a, plan, columns, sink).check();
}

}  // namespace s2t

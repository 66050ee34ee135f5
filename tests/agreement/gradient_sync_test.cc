// Every way to synchronise gradients on small stacks, with and without a pipeline and a table that
// two stages share, with the keys drawn at random: whatever is not refused runs as it is predicted
// and leaves the gradients of the unsharded model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "analyzer/base/text.h"
#include "analyzer/io/model_json.h"
#include "tests/agreement/on_host.h"

namespace s2t {
namespace {

class RandomSync {
 public:
  explicit RandomSync(uint32_t seed) : random_(seed) {}

  std::string text() {
    const std::string schedule =
        one_of({"", "", "gpipe", "1f1b", "deepspeed", "interleaved", "interleaved_steps"});
    const bool chunks = schedule.rfind("interleaved", 0) == 0;
    stages_ = schedule.empty() ? 1 : chunks ? 4 : 2;
    tied_ = stages_ > 1 && chance(2);
    const int microbatches = schedule.empty() ? 1 << below(3) : 2 + 2 * below(2);
    make_ops();
    return fmt::format(
        R"({{"schema": "shape2trace.model/1", "mesh": {{"axes": [{}{{"name": "dp", "size": {}, "kind": "data"}}]}},
 "batch": {{"local": {}, "axes": ["dp"]}}, "microbatches": {},{}
 "gradient_sync": {{{}}},
 "tensors": {{{}}},
 "ops": [{}],
 "loss": "loss"}})",
        schedule.empty() ? "" : R"({"name": "pp", "size": 2, "kind": "pipeline"}, )", 2 + below(2),
        2 * microbatches, microbatches, pipeline(schedule, chunks), join(sync(), ", "),
        join(tensors_, ",\n  "), join(ops_, ",\n  "));
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  bool chance(int one_in) { return below(one_in) == 0; }
  std::string one_of(const std::vector<std::string>& of) {
    return of[static_cast<size_t>(below(static_cast<int>(of.size())))];
  }

  static std::string pipeline(const std::string& schedule, bool chunks) {
    if (schedule.empty()) return "";
    return fmt::format(R"( "pipeline": {{"schedule": "{}", "chunks": {}, "p2p": "{}"}},)", schedule,
                       chunks ? 2 : 1, schedule == "interleaved_steps" ? "batched" : "single");
  }

  std::string parameter(const std::string& shape) {
    const std::string name = "w" + std::to_string(parameters_.size());
    const std::string frozen = chance(10) ? R"(, "requires_grad": false)" : "";
    tensors_.push_back(fmt::format(R"("{}": {{"shape": {}, "dtype": "f64", "parameter": true{}}})",
                                   name, shape, frozen));
    parameters_.push_back('"' + name + '"');
    return name;
  }

  void add(const std::string& op, const std::string& inputs, const std::string& output, int stage) {
    ops_.push_back(fmt::format(R"({{"op": "{}", "inputs": [{}], "output": "{}", "stage": {}}})", op,
                               inputs, output, stage));
  }

  void make_ops() {
    tensors_.push_back(R"("x": {"shape": ["batch", 6], "dtype": "f64"})");
    if (tied_)
      tensors_.push_back(R"("table": {"shape": [6, 6], "dtype": "f64", "parameter": true})");
    std::string in = "x";
    int values = 0;
    const auto next = [&](const std::string& op, const std::string& with, int stage) {
      const std::string out = "v" + std::to_string(values++);
      add(op, with.empty() ? '"' + in + '"' : fmt::format(R"("{}", "{}")", in, with), out, stage);
      in = out;
    };
    for (int s = 0; s < stages_; ++s) {
      const bool front = tied_ && (s == 0 || s == stages_ - 1) && chance(2);
      if (front) next("linear", "table", s);
      for (int layers = 1 + below(2); layers > 0; --layers) {
        next("linear", parameter("[6, 6]"), s);
        if (chance(2)) next("bias_add", parameter("[6]"), s);
        next("tanh", "", s);
      }
      if (tied_ && (s == 0 || s == stages_ - 1) && !front) next("linear", "table", s);
    }
    add("mean_square", '"' + in + '"', "loss", stages_ - 1);
    std::shuffle(tensors_.begin(), tensors_.end(), random_);
  }

  // `"key": value` for each key of the kind, some left out.
  std::vector<std::string> sync() {
    const std::string kind =
        one_of({"per_parameter", "bucketed", "zero1", "zero2", "zero3", "fsdp"});
    std::vector<std::string> keys{fmt::format(R"("kind": "{}")", kind)};
    const auto maybe = [&](int one_in, const std::string& key,
                           const std::vector<std::string>& values) {
      if (chance(one_in)) keys.push_back(fmt::format(R"("{}": {})", key, one_of(values)));
    };
    const bool buckets = kind != "per_parameter" && kind != "fsdp";
    const bool zero12 = kind == "zero1" || kind == "zero2";
    maybe(3, "reduce", {R"("sum")"});
    maybe(3, "every", {R"("step")", R"("microbatch")"});
    maybe(2, "overlap", {"true", "false"});
    if (stages_ > 1) maybe(3, "tied", {R"("first")", R"("last")"});
    if (buckets) {
      maybe(2, "bucket_bytes", {"1", "100", "300", "500", "700"});
      maybe(4, "first_bucket_bytes", {"1", "300"});
      maybe(3, "close", {R"("before")"});
      maybe(2, "order", {R"("parameters")"});
    }
    if (zero12 && chance(3)) {
      keys.push_back(R"("gradients": "whole")");
      maybe(2, "update_alignment", {"1", "2", "8"});
    }
    if (kind == "zero3") maybe(3, "persistent_elements", {"6", "1000"});
    if ((kind == "zero3" || kind == "fsdp") && chance(2)) keys.push_back(units());
    if (kind == "fsdp" && chance(2)) keys.push_back(R"("reshard_after_forward": false)");
    if (kind == "fsdp" && chance(2)) keys.push_back(R"("reshard_after_backward": false)");
    return keys;
  }

  std::string units() {
    std::vector<std::string> units;
    for (size_t i = 0; i < parameters_.size(); i += 2)
      units.push_back(
          "[" +
          join({parameters_.begin() + static_cast<long>(i),
                parameters_.begin() + static_cast<long>(std::min(i + 2, parameters_.size()))},
               ", ") +
          "]");
    return fmt::format(R"("units": [{}])", join(units, ", "));
  }

  std::mt19937 random_;
  int stages_ = 1;
  bool tied_ = false;
  std::vector<std::string> tensors_, ops_, parameters_;
};

class RandomSyncs : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomSyncs, RunAsPredicted) {
  constexpr uint32_t kModels = 60;
  uint32_t ran = 0;
  std::set<SyncKind> kinds;
  for (uint32_t seed = GetParam() * kModels; seed < (GetParam() + 1) * kModels; ++seed) {
    const std::string text = RandomSync(seed).text();
    try {
      const Model model = parse_model(text);
      const Verification v = run_on_host(model);
      ASSERT_TRUE(v.match()) << "seed " << seed << "\n" << text << "\n" << text_of(v);
      ++ran;
      kinds.insert(model.gradient_sync.kind);
    } catch (const UserError&) {  // refused
    }
  }
  EXPECT_GT(ran, kModels / 2);  // a generator of refused models tests nothing
  EXPECT_EQ(kinds.size(), 6u);  // each kind that it draws
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSyncs, testing::Range(0u, 4u));

}  // namespace
}  // namespace s2t

// Small models that nobody would write: random meshes, layouts with several axes on one dim, pins
// and shape ops in any order. Whatever is not refused runs as it is predicted and computes what the
// unsharded model computes. Seeds are fixed; a failure prints its model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "analyzer/base/text.h"
#include "analyzer/io/model_json.h"
#include "tests/agreement/on_host.h"

namespace s2t {
namespace {

class RandomModel {
 public:
  explicit RandomModel(uint32_t seed) : random_(seed) {}

  std::string text() {
    make_mesh();
    value_ = leaf("[\"batch\", 8, 8]", 3, false);
    const size_t ops = 2 + below(5);
    for (size_t i = 0; i < ops; ++i) add_op();
    add("mean_square", {value_}, "loss", "");
    return fmt::format(
        R"({{"schema": "shape2trace.model/1", "mesh": {{"axes": [{}]}}, "convention": "{}",
 "batch": {{"local": 24, "axes": [{}]}}, "switches": {{{}}},
 "gradient_sync": {{"kind": "{}"}},
 "tensors": {{{}}},
 "ops": [{}],
 "loss": "loss"}})",
        join(mesh_, ", "), chance(4) ? "per_rank" : "global", join(batch_, ", "), switches(),
        chance(2) ? "per_parameter" : "none", join(tensors_, ",\n  "), join(ops_, ",\n  "));
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  std::string fresh(const char* prefix) { return prefix + std::to_string(++names_); }

  void make_mesh() {
    const size_t n = 1 + below(3);
    for (size_t i = 0; i < n; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      const bool data = chance(3);
      const bool batch = data && !chance(4);
      mesh_.push_back(fmt::format(R"({{"name": "{}", "size": {}, "kind": "{}"}})", name,
                                  chance(3) ? 4 : 2, data ? "data" : "model"));
      if (batch) batch_.push_back('"' + name + '"');
      (batch ? batch_axes_ : axes_).push_back(name);
    }
  }

  std::string switches() {
    std::vector<std::string> list;
    if (chance(4)) list.push_back(R"("conversions": "per_consumer")");
    if (chance(4)) list.push_back(R"("residual": "stored")");
    if (chance(4)) list.push_back(R"("partial": "lazy")");
    return join(list, ", ");
  }

  // Placements on the axes that do not split the batch; several may cut one dim.
  std::string layout(size_t dims, bool replicas) {
    std::vector<std::string> list;
    for (const std::string& axis : axes_) {
      if (!chance(2))
        list.push_back(fmt::format(R"json("{}": "S({})")json", axis, below(dims)));
      else if (replicas && chance(2))
        list.push_back(fmt::format(R"("{}": "R")", axis));
    }
    return join(list, ", ");
  }

  std::string leaf(const std::string& shape, size_t dims, bool parameter) {
    const std::string name = fresh(parameter ? "w" : "x");
    tensors_.push_back(fmt::format(R"("{}": {{"shape": {}, "{}": true, "layout": {{{}}}}})", name,
                                   shape, parameter ? "parameter" : "requires_grad",
                                   layout(dims, false)));
    return name;
  }

  void add(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
           const std::string& more) {
    std::vector<std::string> names;
    for (const std::string& i : inputs) names.push_back('"' + i + '"');
    ops_.push_back(fmt::format(R"({{"op": "{}", "inputs": [{}], "output": "{}"{}}})", op,
                               join(names, ", "), output, more));
  }

  void add_op() {
    const std::string in = value_;
    value_ = fresh("v");
    const std::string pin =
        chance(6) && !axes_.empty()
            ? fmt::format(R"(, "modes": {{"{}": "{}"}})", axes_[below(axes_.size())],
                          chance(2) ? "redundant" : fmt::format("split(*{})", below(3)))
            : "";
    switch (below(7)) {
      case 0:
        return add("gelu", {in}, value_, pin);
      case 1:
        return add("add", {in, chance(2) ? in : leaf("[\"batch\", 8, 8]", 3, false)}, value_, pin);
      case 2:
        return add("softmax", {in}, value_, "");
      case 3:
      case 4: {
        const std::string to = layout(3, true);
        if (to.empty()) return add("gelu", {in}, value_, "");
        return add("redistribute", {in}, value_, fmt::format(R"(, "layout": {{{}}})", to));
      }
      case 5: {  // there and back through a flattened dim
        const std::string flat = fresh("v"), out = fresh("v");
        add("reshape", {in}, flat, R"(, "rule": "x[b s d] -> y[(b s) d]")");
        add("linear", {flat, leaf("[8, 8]", 2, true)}, out, "");
        return add("reshape", {out}, value_,
                   R"(, "rule": "x[(b s) d] -> y[b s d]", "sizes": {"s": 8})");
      }
      default:
        return add("linear", {in, leaf("[8, 8]", 2, true)}, value_, pin);
    }
  }

  std::mt19937 random_;
  size_t names_ = 0;
  std::vector<std::string> mesh_, batch_, axes_, batch_axes_, tensors_, ops_;
  std::string value_;
};

enum class Outcome { matches, refused, differs };

Outcome outcome(const std::string& text, std::string& why) {
  try {
    const Verification v = run_on_host(parse_model(text));
    why = text_of(v);
    return v.match() ? Outcome::matches : Outcome::differs;
  } catch (const UserError& e) {
    why = e.what();
    return Outcome::refused;
  }
}

class RandomModels : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomModels, RunAsPredicted) {
  constexpr uint32_t kModels = 60;
  uint32_t ran = 0;
  for (uint32_t seed = GetParam() * kModels; seed < (GetParam() + 1) * kModels; ++seed) {
    const std::string text = RandomModel(seed).text();
    std::string why;
    const Outcome result = outcome(text, why);
    ASSERT_NE(result, Outcome::differs) << "seed " << seed << "\n" << text << "\n" << why;
    ran += result == Outcome::matches;
  }
  EXPECT_GT(ran, kModels / 2);  // a generator of refused models tests nothing
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomModels, testing::Range(0u, 4u));

}  // namespace
}  // namespace s2t

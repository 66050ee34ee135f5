// Attention in a ring against the same kernel on everything at once.
#include "runtime/run/ring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/device/host_device.h"

namespace s2t {
namespace {

// What travels between n threads, in the order in which it was sent.
class Mail {
 public:
  void put(int64_t from, int64_t to, Tensor t) {
    const std::lock_guard lock(mutex_);
    boxes_[{from, to}].push_back(std::move(t));
    there_.notify_all();
  }
  Tensor take(int64_t from, int64_t to) {
    std::unique_lock lock(mutex_);
    std::vector<Tensor>& box = boxes_[{from, to}];
    there_.wait(lock, [&] { return !box.empty(); });
    Tensor t = box.front();
    box.erase(box.begin());
    return t;
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::map<std::pair<int64_t, int64_t>, std::vector<Tensor>> boxes_;
};

Tensor waves(Shape shape, double phase) {
  std::vector<double> x(static_cast<size_t>(elements(shape)));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(phase + 0.7 * static_cast<double>(i));
  return Tensor::of(std::move(shape), DType::f64, x);
}

Tensor joined(const std::vector<Tensor>& parts) {
  Shape shape = parts[0].shape();
  const int64_t each = shape[2];
  shape[2] *= static_cast<int64_t>(parts.size());
  Tensor whole(shape, parts[0].dtype());
  for (size_t i = 0; i < parts.size(); ++i)
    paste(whole, parts[i], 2, static_cast<int64_t>(i) * each);
  return whole;
}

struct Job {
  int64_t n;
  bool causal;
  int64_t outer = 1;  // ways in which a slower axis cuts the queries (not the keys)
};
class RingOfRanks : public testing::TestWithParam<Job> {
 protected:
  // Two key heads of two query heads each, keys 4 and values 6 wide, 3 queries per rank.
  void SetUp() override {
    const int64_t s = 3 * GetParam().n * GetParam().outer;
    const OpDef* def = find_op("attention");
    std::string error;
    rule_ = rule_of(*def, "", 3, error).value();
    qkv_ = {waves({2, 4, s, 4}, 0.1), waves({2, 2, s, 4}, 0.2), waves({2, 2, s, 6}, 0.3)};
    gradient_ = waves({2, 4, s, 6}, 0.4);
    std::vector<Shape> shapes;
    for (const Tensor& t : qkv_) shapes.push_back(t.shape());
    bound_ = bind_op(*def, rule_, shapes, 1, {}, error).value();
    call_.op = def;
    call_.attributes["causal"] = GetParam().causal;
    call_.view = whole_view(bound_);
  }

  // o, dq, dk and dv of one rank: the ring is a row of the mesh.
  std::vector<Tensor> run(int64_t rank) {
    const int64_t n = GetParam().n, me = rank % n, first = rank - me;
    const Mesh mesh({{"tp", GetParam().outer, AxisKind::model, {}}, {"cp", n, AxisKind::data, {}}},
                    {});
    const FactorIndex s = bound_.find("s").value();
    std::vector<Mode> modes;
    for (const Atom& atom : mesh.atoms())
      modes.push_back(atom.kind == AxisKind::model ? Mode::split(s)
                                                   : Mode::ring(s, bound_.find("t").value()));
    OpCall call = call_;
    call.view = local_view(bound_, modes, mesh, Rank(static_cast<int32_t>(rank)));
    RingAttention ring(call, host_device(), n, me,
                       [&](const Tensor& out, int64_t to, RingAttention::Cargo) {
                         mail_.put(rank, first + (me + to + n) % n, out);
                         return mail_.take(first + (me - to + n) % n, rank);
                       });
    const int64_t keys = 3 * GetParam().outer;
    const std::vector<Tensor> mine{slice(qkv_[0], 2, 3 * rank, 3),
                                   slice(qkv_[1], 2, keys * me, keys),
                                   slice(qkv_[2], 2, keys * me, keys)};
    const Tensor o = ring.forward(mine);
    const auto made = ring.backward(mine, o, slice(gradient_, 2, 3 * rank, 3), {true, true, true});
    return {o, *made[0], *made[1], *made[2]};
  }

  // Queries are cut over all ranks; what rings say about the same keys adds up.
  Tensor whole(const std::vector<std::vector<Tensor>>& results, size_t i) const {
    const auto n = static_cast<size_t>(GetParam().n);
    std::vector<Tensor> parts;
    for (size_t r = 0; r < results.size(); ++r)
      if (i < 2 || r < n)
        parts.push_back(results[r][i]);
      else
        parts[r % n] = add(parts[r % n], results[r][i]);
    return joined(parts);
  }

  FactorRule rule_;
  BoundRule bound_;
  OpCall call_;
  std::vector<Tensor> qkv_;
  Tensor gradient_;
  Mail mail_;
};

TEST_P(RingOfRanks, ComputesWhatOneRankComputes) {
  const std::vector<Tensor> outputs = forward(call_, qkv_);
  const std::vector<std::optional<Tensor>> gradients{gradient_};
  const auto made = backward(call_, qkv_, outputs, gradients, {true, true, true});
  const std::vector<Tensor> expected{outputs[0], *made[0], *made[1], *made[2]};

  std::vector<std::vector<Tensor>> results(static_cast<size_t>(GetParam().n * GetParam().outer));
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < results.size(); ++r)
    ranks.emplace_back([&, r] { results[r] = run(static_cast<int64_t>(r)); });
  for (std::thread& t : ranks) t.join();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT(max_abs_difference(whole(results, i), expected[i]), 1e-12) << i;
}

INSTANTIATE_TEST_SUITE_P(Sizes, RingOfRanks,
                         testing::Values(Job{1, true}, Job{2, true}, Job{2, false}, Job{3, true},
                                         Job{5, false}, Job{5, true}, Job{2, true, 2},
                                         Job{3, true, 2}, Job{2, false, 3}),
                         [](const auto& of) {
                           return std::to_string(of.param.n) + (of.param.causal ? "_causal" : "") +
                                  (of.param.outer > 1 ? "_cut_" + std::to_string(of.param.outer)
                                                      : "");
                         });

}  // namespace
}  // namespace s2t

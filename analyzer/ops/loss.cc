#include "analyzer/ops/families.h"

namespace s2t {
namespace {

// A mean is a sum times 1/N, so its result may be Partial. Cross-entropy over a split vocabulary is
// three reductions; the max carries no gradient. PyTorch's loss parallel reduces the maximum, the
// sum of exponentials and the target's logit (torch/distributed/tensor/parallel/loss.py), Megatron
// core the target's logit before the sum (tensor_parallel/cross_entropy.py).
constexpr CompositeStep kCrossEntropy[] = {{"ce_max", "z", "max"},
                                           {"ce_pick", "z ids", "target"},
                                           {"ce_exp", "z max", "exp"},
                                           {"ce_sum", "exp", "sum_exp"},
                                           {"ce_rows", "sum_exp max target", "rows"},
                                           {"mean", "rows", "loss"}};

constexpr CompositeStep kTargetFirst[] = {
    {"ce_max", "z", "max"},         {"ce_exp", "z max", "exp"},
    {"ce_pick", "z ids", "picked"}, {"identity", "picked", "target"},
    {"ce_sum", "exp", "sum_exp"},   {"ce_rows", "sum_exp max target", "rows"},
    {"mean", "rows", "loss"}};

constexpr OpDef kOps[] = {
    {.name = "mean_square",
     .family = "loss",
     .rule = "y[*] -> loss[]",
     .saved = "y<-y",
     .summary = "mean of y^2"},
    {.name = "mse",
     .family = "loss",
     .rule = "y[*] target[*] -> loss[]",
     .saved = "y<-y,target target<-y,target",
     .summary = "mean of (y - target)^2"},
    {.name = "mean",
     .family = "loss",
     .rule = "y[*] -> loss[]",
     .linear = "{y}",
     .summary = "mean over all elements"},
    {.name = "cross_entropy",
     .family = "loss",
     .rule = "z[* v] ids[*] -> loss[]",
     .stop = "ids",
     .integers = "ids",
     .steps = kCrossEntropy,
     .summary = "mean negative log-likelihood; the vocabulary may be split"},
    {.name = "cross_entropy_target_first",
     .family = "loss",
     .rule = "z[* v] ids[*] -> loss[]",
     .stop = "ids",
     .integers = "ids",
     .steps = kTargetFirst,
     .summary = "cross_entropy, reducing the target's logit before the sum of exponentials"},
    {.name = "ce_max",
     .family = "loss",
     .rule = "z[* v] -> max[*] v~max",
     .stop = "all",
     .summary = "cross_entropy: greatest logit of a row",
     .float32_result = true},
    {.name = "ce_pick",
     .family = "loss",
     .rule = "z[* v] ids[*] -> target[*]",
     .linear = "{z}",
     .saved = "z<-ids",
     .stop = "ids",
     .integers = "ids",
     .summary = "cross_entropy: logit of the target",
     .float32_result = true},
    {.name = "ce_exp",
     .family = "loss",
     .rule = "z[* v] max[*] -> exp[* v]",
     .saved = "z<-z,max",
     .stop = "max",
     .summary = "cross_entropy: exp(z - max)",
     .float32_result = true},
    {.name = "ce_sum",
     .family = "loss",
     .rule = "exp[* v] -> sum_exp[*]",
     .linear = "{exp}",
     .summary = "cross_entropy: sum of exponentials",
     .float32_result = true},
    {.name = "ce_rows",
     .family = "loss",
     .rule = "sum_exp[*] max[*] target[*] -> rows[*]",
     .saved = "sum_exp<-sum_exp",
     .stop = "max",
     .summary = "cross_entropy: log(sum_exp) + max - target",
     .float32_result = true},
};

}  // namespace

std::span<const OpDef> loss_ops() {
  return kOps;
}

}  // namespace s2t

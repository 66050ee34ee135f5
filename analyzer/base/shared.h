// A value that many hold and nobody changes: copying it costs nothing, whatever its size.
//
//   Shared<BoundRule> rule = std::move(bound);     rule->factors, f(*rule)
//
// Not known here: who makes equal values one (graph/rules.h does).
#pragma once

#include <memory>
#include <utility>

namespace s2t {

template <class T>
class Shared {
 public:
  Shared() = default;  // holds nothing; reading it is an error
  Shared(T value) : held_(std::make_shared<const T>(std::move(value))) {}

  const T& operator*() const { return *held_; }
  const T* operator->() const { return held_.get(); }
  const T* get() const { return held_.get(); }

 private:
  std::shared_ptr<const T> held_;
};

}  // namespace s2t

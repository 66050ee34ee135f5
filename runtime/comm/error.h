// Why communication stopped, as a type: so that a report can name the rank and what it was doing.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "analyzer/base/units.h"

namespace s2t {

enum class CommReason : uint8_t {
  timeout,    // a rank waited longer than the limit
  died,       // a rank threw, or its process ended
  mismatch,   // the ranks issued different operations, or wait for each other for ever
  cancelled,  // Ctrl-C, or World::abort
  transport   // MPI, NCCL or the system refused a call
};
std::string_view name_of(CommReason reason);  // "time-out", "died", ...

// Thrown by every call of every rank once anything went wrong; all of them carry the same cause.
class CommError : public std::runtime_error {
 public:
  CommError(CommReason reason, const std::string& text, Rank culprit = {})
      : std::runtime_error(text), reason_(reason), culprit_(culprit) {}
  CommReason reason() const { return reason_; }
  Rank culprit() const { return culprit_; }  // invalid where no single rank is to blame

 private:
  CommReason reason_;
  Rank culprit_;
};

}  // namespace s2t

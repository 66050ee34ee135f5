// How a framework does what the model and the plan leave open. A *switch* is a row with the values
// it may have; a profile gives every switch one of them, each with the place in the framework's
// source that says so (docs/profiles.md). `--set` changes one.
//
// Not known here: models, plans, collectives.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/base/diagnostics.h"

namespace s2t {

struct ProfileSwitch {
  std::string_view name;
  std::string_view values;   // those that are modelled, "fused needed"; or N, a positive number;
                             // or ORDER, rank axes, fastest first; or TYPE, of elements
  std::string_view meaning;  // one line
};

struct ProfileSetting {
  std::string_view name, value, source;
};

struct ProfileDef {
  std::string_view name;
  std::string_view summary;
  std::span<const ProfileSetting> settings;  // one for every switch
  std::string_view unlisted;  // collectives of a real step that a prediction leaves out
};

std::span<const ProfileSwitch> profile_switches();
std::span<const ProfileDef> profiles();

// A profile, and what was changed in it.
class Profile {
 public:
  explicit Profile(const ProfileDef& def) : def_(&def) {}

  std::string_view name() const { return def_->name; }
  std::string_view unlisted() const { return def_->unlisted; }

  // The value of a switch. Throws Fault if the profile has none of this name.
  std::string_view operator[](std::string_view name) const;
  bool is(std::string_view name, std::string_view value) const { return (*this)[name] == value; }
  int64_t number(std::string_view name) const;

  // "switch=value". What is wrong with it, if anything.
  std::optional<Diagnostic> set(const std::string& assignment);

 private:
  const ProfileDef* def_;
  std::map<std::string, std::string, std::less<>> changed_;
};

std::optional<Profile> find_profile(std::string_view name);

}  // namespace s2t

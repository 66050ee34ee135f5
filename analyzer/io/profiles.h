// How a framework does what the model and the plan leave open. A *switch* is a row with the values
// it may have; a profile gives one of them to every switch that means something under its
// framework, each with the place in the framework's source that says so (docs/profiles.md). `--set`
// changes one. A profile may be that of another version, with some settings changed.
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
  std::string_view values;   // words that are modelled, "fused needed"; N stands for a positive
                             // whole number, X for a positive one, ORDER for rank axes, fastest
                             // first, TYPE for an element type
  std::string_view meaning;  // one line
};

inline constexpr std::string_view kOwn = "=";

struct ProfileSetting {
  std::string_view name, value, source;
  // Words of the switch that mean something under this framework; kOwn: `value` alone, a fact; "":
  // all of them.
  std::string_view values = "";
};

struct ProfileDef {
  std::string_view name;
  std::string_view summary;
  std::span<const ProfileSetting> settings;
  std::string_view unlisted;   // collectives of a real step that a prediction leaves out
  std::string_view base = "";  // the profile that has the settings which are not stated
};

std::span<const ProfileSwitch> profile_switches();
std::span<const ProfileDef> profiles();

// A profile, and what was changed in it.
class Profile {
 public:
  explicit Profile(const ProfileDef& def) : def_(&def) {}

  std::string_view name() const { return def_->name; }
  std::string_view unlisted() const { return def_->unlisted; }

  // Those of the base included, in the order of the switches.
  std::vector<ProfileSetting> settings() const;

  // The value of a switch; "" if it means nothing under this framework. Throws Fault if there is no
  // switch of this name.
  std::string_view operator[](std::string_view name) const;
  // Throws Fault if the switch has no such word.
  bool is(std::string_view name, std::string_view value) const;
  // What it may be set to here: as in ProfileSwitch.
  std::string_view values(std::string_view name) const;
  // 0 if the value is a word.
  int64_t number(std::string_view name) const;
  double real(std::string_view name) const;

  // "switch=value". What is wrong with it, if anything.
  std::optional<Diagnostic> set(const std::string& assignment);

 private:
  Diagnostic refused(const std::string& name, const std::string& value,
                     const std::string& expected) const;

  const ProfileDef* def_;
  std::map<std::string, std::string, std::less<>> changed_;
};

std::optional<Profile> find_profile(std::string_view name);

}  // namespace s2t

// How a framework does what the model and the plan leave open: a profile is a set of named
// settings, each with the place in the framework's source that says so (docs/profiles.md).
//
// Not known here: models, plans, collectives.
#pragma once

#include <span>
#include <string_view>

namespace s2t {

struct ProfileSetting {
  std::string_view name, value, source;
};

struct Profile {
  std::string_view name;
  std::string_view summary;
  std::span<const ProfileSetting> settings;
  std::string_view unlisted;  // collectives of a real step that a prediction leaves out

  // The value of a setting. Throws Fault if the profile has none of this name.
  std::string_view operator[](std::string_view setting) const;
};

std::span<const Profile> profiles();
const Profile* find_profile(std::string_view name);

}  // namespace s2t

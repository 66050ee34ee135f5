// Words of a launch, letter by letter: numbers as Python reads them, names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace s2t {

// Files of settings, which a launch may name.
inline constexpr std::string_view kSettingsOfDeepSpeed =
    "--deepspeed_config --deepspeed-config --deepspeed";
inline constexpr std::string_view kSettingsOfTorchtitan = "--job.config_file";

// From 0 on.
std::optional<int64_t> whole(const std::string& text);

// Python reads 2_048 as 2048.
std::string without_underscores(const std::string& text);

// Of two numbers 0 and 0.0 are one.
bool same_number(const std::string& value, std::string_view own);

// Whether a word that is not known stands for flags, by its name: "$EXTRA_ARGS", "$@".
bool is_named_as_flags(const std::string& word);

}  // namespace s2t

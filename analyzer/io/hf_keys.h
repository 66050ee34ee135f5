// Keys of a config.json that different models spell differently, and the limits of their values.
#pragma once

#include <initializer_list>
#include <string_view>

#include "analyzer/io/json_cursor.h"

namespace s2t {

inline constexpr int64_t kMostLayers = 10'000;
inline constexpr int64_t kMostHeads = 65'536;
inline constexpr int64_t kMostExpertsOfConfig = 65'536;
inline constexpr int64_t kMostWidth = int64_t{1} << 32;  // of any dim

using Keys = std::initializer_list<std::string_view>;

// JSON pointer of the first of `keys` that is there and not null; "" if none is.
std::string place_of(JsonObject& config, Keys keys);

// The value under the first of `keys` that is there and not null; all that are there must agree.
// nullopt, and nothing is said, if there is none.
std::optional<int64_t> optional_size(JsonObject& config, Keys keys, int64_t most = kMostWidth);

// The same; says which key is missing, and is 0, if there is none. 0 also if the value is wrong,
// which was reported.
int64_t required_size(JsonObject& config, Keys keys, int64_t most = kMostWidth);

}  // namespace s2t

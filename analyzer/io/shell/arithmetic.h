// Whole numbers in a shell: "8*(N+1)", "N > 2 ? 4 : 2". Assignments are not computed here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace s2t {

// nullopt if it cannot be computed. `value_of` gives the number, as a text, that stands for a word.
std::optional<int64_t> computed(std::string_view text,
                                const std::function<std::string(const std::string&)>& value_of);

}  // namespace s2t

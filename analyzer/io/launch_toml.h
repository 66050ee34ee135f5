// A toml file of torchtitan as the flags that say the same: `seq_len = 8192` in [training] is
// --training.seq_len 8192. Of toml only what such files have: sections, and keys with a number, a
// word, true, false or a list.
#pragma once

#include <string>

#include "analyzer/io/launch_file.h"

namespace s2t {

// Whether the first line that says something is a section.
bool is_toml(const std::string& text);

// What the file does not state is as torchtitan has it by default.
Launch read_toml(const std::string& text, Diagnostics& sink);

}  // namespace s2t

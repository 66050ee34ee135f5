// Getting the bytes of a file that the user named, or saying exactly why not.
//
// Known here: files, sizes and UTF-8. Not known here: what the text means.
#pragma once

#include <optional>
#include <string>

#include "analyzer/base/diagnostics.h"
#include "analyzer/base/units.h"

namespace s2t {

inline constexpr Count kLargestInput = Count{64} << 20;  // bytes

// How messages call the input: the path, or "<stdin>" for "-".
std::string input_name(const std::string& path);

// The text of the file at `path` ("-": standard input), without a byte order mark. It is valid
// UTF-8, not empty and at most `limit` bytes; otherwise nullopt and one diagnostic. A regular file
// that is too large is refused before it is read.
// Slugs: no-such-file, is-directory, unreadable, too-large, empty-file, invalid-utf8.
std::optional<std::string> read_input(const std::string& path, Diagnostics& sink,
                                      Count limit = kLargestInput);

// The same for an open file descriptor, which stays open.
std::optional<std::string> read_descriptor(int descriptor, Diagnostics& sink,
                                           Count limit = kLargestInput);

}  // namespace s2t

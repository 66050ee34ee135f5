// What `list` and `doctor` print: named rows, as a table or as JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "analyzer/cli/command.h"

namespace s2t {

struct Rows {
  std::vector<std::string> titles;  // also the keys in JSON
  std::vector<std::vector<std::string>> rows;
};

// `head`: members before the rows, such as {"kind", "ops"}.
void print_rows(const Rows& rows, const Arguments& arguments, const std::string& schema,
                const std::vector<std::pair<std::string, std::string>>& head, std::ostream& out);

int run_list(const Arguments& arguments, std::ostream& out, std::ostream& err);
int run_doctor(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace s2t

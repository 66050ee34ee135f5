#include "tests/support/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace s2t::test {
namespace {

[[noreturn]] void become(const std::vector<std::string>& arguments,
                         const Environment& environment) {
  for (const auto& [name, value] : environment) {
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  std::_Exit(127);
}

}  // namespace

Outcome run(const std::vector<std::string>& arguments, const Environment& environment) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    become(arguments, environment);
  }
  close(ends[1]);
  Outcome outcome{-1, ""};
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    outcome.output.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

ScratchFolder::ScratchFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "s2t-test-XXXXXX").string();
  if (!mkdtemp(path.data())) throw std::runtime_error("no folder");
  path_ = path;
}
ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Witnessed read_witness(const std::string& folder, const std::string& witness) {
  Witnessed result;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind(witness + ".", 0) != 0) continue;
    std::ifstream file(entry.path());
    std::vector<nlohmann::json> lines, kept;
    for (std::string text; std::getline(file, text);) lines.push_back(nlohmann::json::parse(text));
    const auto kind = [](const nlohmann::json& line) { return line.at("kind").get<std::string>(); };
    for (const auto& line : lines) {
      if (kind(line) != "start" && kind(line) != "end") kept.push_back(line);
    }
    if (lines.empty() || kind(lines.front()) != "start" || kind(lines.back()) != "end" ||
        lines.back().at("lines") != kept.size()) {
      throw std::runtime_error(entry.path().string() + " is cut short");
    }
    result[lines.back().at("rank")] = kept;
  }
  return result;
}

}  // namespace s2t::test

#include "analyzer/io/launch_calls.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/shell/syntax.h"

namespace s2t {
namespace {

// Programs whose words are never flags of a job.
constexpr std::string_view kNever =
    "grep egrep fgrep rg echo printf sed awk cat tee mkdir ls cp mv rm ln find rsync git pip pip3 "
    "apt apt-get wget curl tar unzip which type hash ps pgrep pkill kill killall nvidia-smi "
    "scontrol "
    "squeue head tail cut tr sort uniq wc date hostname sleep chmod chown touch test [ "
    "huggingface-cli";
// Programs that start another one, which decides.
constexpr std::string_view kBefore = "env sudo nohup time nice ionice stdbuf command";
// Programs that start the ranks of a job.
constexpr std::string_view kStarters =
    "torchrun deepspeed accelerate srun mpirun mpiexec mpiexec.hydra torch.distributed.run "
    "torch.distributed.launch torchx";
constexpr std::string_view kTraining[] = {"pretrain", "train", "finetune", "sft"};
constexpr std::string_view kNoTraining[] = {"preprocess", "convert", "util",
                                            "eval",       "export",  "download",
                                            "checkpoint", "hf_to",   "generate"};

// From what never launches a job to what surely does.
enum class Role { never, written, stray, other, starter, script, training };

template <size_t n>
bool begins_with_any(const std::string& name, const std::string_view (&begins)[n]) {
  return std::any_of(std::begin(begins), std::end(begins),
                     [&](std::string_view b) { return name.starts_with(b); });
}

// The program behind `env A=1`, `sudo -E` and the like.
size_t program_at(const std::vector<ShellText>& words) {
  size_t i = 0;
  for (bool before = false; i < words.size(); ++i) {
    const std::string word = words[i].plain();
    if (among(base_name(word), kBefore))
      before = true;
    else if (!before || (!word.starts_with("-") && !assigned_name_end(word)))
      break;
  }
  return i;
}

// What a script or a module is for, by its name and its folder.
Role role_of_script(const std::string& script, bool by_module, bool started) {
  std::string name = by_module ? script.substr(script.rfind('.') + 1) : base_name(script);
  if (by_module && script == "pip") return Role::never;
  const std::string path = "/" + script;
  if (path.find("/tools/") != path.npos || path.find("/tasks/") != path.npos ||
      begins_with_any(name, kNoTraining))
    return Role::script;
  return started || begins_with_any(name, kTraining) ? Role::training : Role::script;
}

// Its flags may go to a launch inside.
Role role_of_shell_script(const std::string& script) {
  const bool other = begins_with_any(base_name(script), kNoTraining);
  const Role role = role_of_script(script, false, false);
  return role == Role::training || other ? role : Role::starter;
}

Role role_of(const ShellCall& call) {
  const std::vector<ShellText>& words = call.words;
  size_t i = program_at(words);
  if (i == words.size()) return Role::other;
  const std::string program = words[i].plain();
  if (program.starts_with("--")) return Role::stray;
  if (among(base_name(program), kNever)) return Role::never;
  const bool shell = is_shell(program);
  bool started = false, nested = shell, open = false, harmless = false;
  for (; i < words.size(); ++i) {
    const std::string word = words[i].plain();
    const bool flag = word.starts_with("-");
    if (!words[i].open().empty() && !flag && !(i > 0 && words[i - 1].plain().starts_with("-")))
      open = true;
    started = started || among(base_name(word), kStarters);
    nested = nested || is_shell(word);
    harmless = harmless || among(base_name(word), kNever);
    const bool module = i > 0 && words[i - 1].plain() == "-m" && !among(word, kStarters);
    if (!flag && word.ends_with(".sh")) return role_of_shell_script(word);
    if (!flag && (module || word.ends_with(".py")))
      return role_of_script(word, module, started || open);
  }
  if (shell || (started && nested)) return Role::starter;
  if (started && harmless) return Role::never;
  return started || open ? Role::training : Role::other;
}

// A here-document that a script writes to a file.
struct Written {
  int first, last;  // lines
  bool read;        // the script names the file again: something may execute it
};

bool names_again(const std::string& script, const std::string& file) {
  const std::string name = base_name(file);
  const size_t first = script.find(name);
  return name.empty() || script.find(name, first + 1) != std::string::npos;
}

void find_written(const ShellList& list, const std::string& script, std::vector<Written>& found) {
  for (const ShellItem& item : list)
    for (const ShellPipeline& pipeline : item.pipelines)
      for (const ShellCommand& c : pipeline.commands) {
        for (const ShellList& part : c.parts) find_written(part, script, found);
        if (!c.to_file || c.words.empty() || c.words[0].text() != "cat") continue;
        const std::string file = c.redirections.empty() ? "" : c.redirections.back().text();
        for (const auto& d : c.documents)
          found.push_back({d->line(), d->source->lines[d->end], names_again(script, file)});
      }
}

std::vector<Written> written_documents(const std::string& script) {
  const ShellSource source(script);
  std::vector<Written> found;
  const ShellList list = parse_shell(source);
  find_written(list, script, found);
  return found;
}

bool has_flags(const ShellCall& call) {
  return std::any_of(call.words.begin(), call.words.end(),
                     [](const ShellText& w) { return w.plain().starts_with("--"); });
}

// "python tools/preprocess_data.py": up to its first flag.
LaunchCommands::Other shown(const ShellCall& call) {
  std::string text = call.words[0].plain();
  if (!text.starts_with("--"))
    for (size_t i = 1; i < call.words.size() && !call.words[i].plain().starts_with("-"); ++i)
      text += " " + call.words[i].plain();
  return {text.substr(0, 80), call.words[0].line()};
}

// What a command is in this script: flags in a file are no slip, and what is never executed is
// nothing at all.
Role role_in(const ShellCall& call, const std::vector<Written>& documents) {
  const int line = call.words[0].line();
  const Role role = role_of(call);
  for (const Written& w : documents)
    if (w.first <= line && line < w.last) {
      if (!w.read) return Role::written;
      if (role == Role::stray) return Role::starter;
    }
  return role;
}

}  // namespace

LaunchCommands launching(std::vector<ShellCall> calls, const std::string& script) {
  const std::vector<Written> documents = written_documents(script);
  std::vector<Role> roles;
  for (const ShellCall& call : calls) roles.push_back(role_in(call, documents));
  const auto last = std::max_element(roles.begin(), roles.end());
  // A script of no telling name is no reason to pass over the others.
  const bool known = last != roles.end() && *last == Role::training;
  LaunchCommands out;
  int launches = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (roles[i] == Role::never) continue;
    if (!known || roles[i] == Role::starter)
      out.calls.push_back({std::move(calls[i])});
    else if (roles[i] == *last)
      out.calls.push_back({std::move(calls[i]), ++launches});
    else if (has_flags(calls[i]))
      (roles[i] == Role::stray ? out.stray : out.left_out).push_back(shown(calls[i]));
  }
  return out;
}

std::vector<std::string> starters_of(const ShellCall& call) {
  std::vector<std::string> found;
  for (size_t i = program_at(call.words); i < call.words.size(); ++i) {
    const std::string word = call.words[i].plain();
    if (!word.starts_with("-") && word.ends_with(".py")) break;
    if (among(base_name(word), kStarters)) found.push_back(base_name(word));
  }
  return found;
}

std::vector<std::pair<std::string, ShellText>> short_flags(const ShellCall& call) {
  std::vector<std::pair<std::string, ShellText>> found;
  std::string starter;
  for (size_t i = program_at(call.words); i + 1 < call.words.size(); ++i) {
    const std::string word = call.words[i].plain();
    if (word.ends_with(".py") || is_shell(word) || base_name(word).starts_with("python")) break;
    if (among(base_name(word), kStarters)) starter = base_name(word);
    const bool slurm = starter == "srun", mpi = starter.starts_with("mpi");
    if ((slurm || mpi) && (word == "-n" || word == "-np"))
      found.emplace_back("--ntasks", call.words[i + 1]);
    if (slurm && word == "-N") found.emplace_back("--nodes", call.words[i + 1]);
  }
  return found;
}

}  // namespace s2t

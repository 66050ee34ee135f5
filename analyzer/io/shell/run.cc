#include "analyzer/io/shell/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/shell/assignment.h"
#include "analyzer/io/shell/builtins.h"
#include "analyzer/io/shell/expansion.h"
#include "analyzer/io/shell/syntax.h"

namespace s2t {
namespace {

constexpr int kDeepest = 24;             // calls and scripts in each other
constexpr size_t kMostWork = 2'000'000;  // values that are copied, and commands

using Kind = ShellCommand::Kind;
using After = ShellPipeline::After;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_shell(const std::string& word) {
  return is_one_of(word.substr(word.rfind('/') + 1), {"bash", "sh", "dash", "zsh", "ksh"});
}

class Runner {
 public:
  ShellRun run(const std::string& script) {
    script_of(sources_.emplace_back(script));
    return {std::move(calls_), std::move(state_)};
  }

 private:
  // Text is followed where it stands.
  void script_of(const ShellSource& source) {
    lists_.push_back(parse_shell(source));
    run(lists_.back());
  }

  void run(const ShellList& list) {
    for (const ShellItem& item : list) {
      if (state_.dead) return;
      if (item.background)
        apart([&] { run(item); });
      else
        run(item);
    }
  }

  void run(const ShellItem& item) {
    for (const ShellPipeline& pipeline : item.pipelines)
      if (pipeline.after == After::any)
        run(pipeline);
      else
        perhaps([&] { run(pipeline); });
  }

  void run(const ShellPipeline& pipeline) {
    if (pipeline.commands.size() == 1) return run(pipeline.commands.front());
    for (const ShellCommand& command : pipeline.commands) apart([&] { run(command); });
    feed(pipeline);
  }

  // cat <<EOF | bash
  void feed(const ShellPipeline& pipeline) {
    const ShellCommand& last = pipeline.commands.back();
    if (last.kind != Kind::simple || last.words.empty() || !is_shell(last.words[0].text())) return;
    for (const auto& document : pipeline.commands.front().documents) read_document(*document, true);
  }

  // Loops in loops, and lists that grow in many branches, have no end in sight.
  void work(size_t more) {
    work_ += more;
    if (work_ > kMostWork) throw ShellError{line_, "more branches and loops than are followed"};
  }

  // A subshell: what it sets is lost.
  template <class Body>
  void apart(const Body& body) {
    work(state_.weight());
    const ShellState before = state_;
    const auto returns = returns_, breaks = breaks_;
    body();
    state_ = before;
    returns_ = returns;
    breaks_ = breaks;
  }

  // A body that is executed or not.
  template <class Body>
  void perhaps(const Body& body) {
    work(2 * state_.weight());
    ShellState before = state_;
    ++conditional_;
    body();
    --conditional_;
    before.join(state_);
    state_ = std::move(before);
  }

  struct Deeper {
    explicit Deeper(int& depth, int line) : depth_(depth) {
      if (++depth_ > kDeepest)
        throw ShellError{line, "functions or scripts too deep in each other"};
    }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    int& depth_;
  };

  void run(const ShellCommand& c) {
    if (state_.dead) return;
    line_ = c.line;
    work(1);
    for (const ShellWord& word : c.redirections) expand(word);
    switch (c.kind) {
      case Kind::simple:
        return simple(c);
      case Kind::group:
        return run(c.parts[0]);
      case Kind::subshell:
        return apart([&] { run(c.parts[0]); });
      case Kind::branches:
        return branches(c);
      case Kind::cases:
        return cases(c);
      case Kind::times:
        return times(c);
      case Kind::loop:
        return loop(
            c.line, false, [&] { run(c.parts[0]); }, [&] { run(c.parts[1]); });
      case Kind::arithmetic:
        return arithmetic(c);
      case Kind::question:
        for (const ShellWord& word : c.words) expand(word);
        return;
      case Kind::function:
        return define(c);
    }
  }

  // Compound commands.

  void branches(const ShellCommand& c) {
    ShellState after;
    after.dead = true;
    for (size_t i = 0; i + 1 < c.parts.size(); i += 2) {
      run(c.parts[i]);
      const ShellState otherwise = state_;
      branch(c.parts[i + 1], after);
      state_ = otherwise;
    }
    if (c.exhaustive) branch(c.parts.back(), after);
    if (!c.exhaustive) after.join(state_);
    state_ = std::move(after);
  }

  void branch(const ShellList& body, ShellState& after) {
    work(3 * state_.weight());
    ++conditional_;
    run(body);
    --conditional_;
    after.join(state_);
  }

  void cases(const ShellCommand& c) {
    expand(c.words[0]);
    const ShellState before = state_;
    ShellState after;
    after.dead = true;
    for (const ShellList& body : c.parts) {
      state_ = before;
      branch(body, after);
    }
    if (!c.exhaustive) after.join(before);
    state_ = std::move(after);
  }

  void times(const ShellCommand& c) {
    const std::string name = c.words[0].text();
    std::vector<ShellText> words;
    for (size_t i = 1; i < c.words.size(); ++i)
      for (ShellText& word : expand(c.words[i])) words.push_back(std::move(word));
    const bool known = !words.empty() && std::all_of(words.begin(), words.end(), [](const auto& w) {
      return w.open().empty();
    });
    const auto next = [&] {
      ShellState any;
      any.dead = true;
      for (const ShellText& word : words) {
        ShellState one = state_;
        one.set(name, value_of(word, c.line));
        any.join(one);
      }
      if (words.empty()) any = state_;
      state_ = std::move(any);
      if (!known)
        state_.open(name, fmt::format("{} changes in the loop of line {}", name, c.line), c.line);
    };
    loop(c.line, known, next, [&] { run(c.parts[0]); });
  }

  // Followed until nothing changes; commands count the last time. `always`: the body of a loop over
  // words that are there, which is executed.
  template <class Next, class Body>
  void loop(int line, bool always, const Next& next, const Body& body) {
    const auto outer = std::exchange(breaks_, ShellState());
    breaks_.dead = true;
    ++loops_;
    ++conditional_;
    ShellState before = state_;
    ++quiet_;
    for (int pass = 0; pass < 2; ++pass) {
      work(3 * state_.weight());
      next();
      body();
      state_.join(breaks_);
      state_.join(before);
      if (pass == 1) state_.widen(before, line);
      before = state_;
    }
    --quiet_;
    next();
    const ShellState asked = state_;
    body();
    --conditional_;
    state_.join(breaks_);
    if (!always) state_.join(asked);
    --loops_;
    breaks_ = outer;
  }

  // ((TP *= 2)), for ((TP = 1; TP < 4; TP++))
  void arithmetic(const ShellCommand& c) {
    change(c.words[0].text(), c.line);
    expansion().quoted(c.words[0]);
    if (!c.parts.empty())
      loop(
          c.line, false, [&] { change(c.words[0].text(), c.line); }, [&] { run(c.parts[0]); });
  }

  void change(const std::string& arithmetic, int line) {
    for (const std::string& name : changed_names(arithmetic))
      state_.open(name, quoted("((" + arithmetic.substr(0, 80) + "))") + " cannot be computed here",
                  line);
  }

  void define(const ShellCommand& c) {
    std::vector<const ShellCommand*>& bodies = functions_[c.words[0].text()];
    if (conditional_ == 0) bodies.clear();
    if (std::find(bodies.begin(), bodies.end(), &c) == bodies.end()) bodies.push_back(&c);
  }

  // Simple commands.

  ShellExpansion expansion() {
    return {state_, [this](const ShellRange& inside) { substitute(inside); }};
  }

  std::vector<ShellText> expand(const ShellWord& word) {
    std::vector<ShellText> words = expansion().words(word);
    for (const ShellText& each : words) work(each.size() / 4);
    return words;
  }

  // $(...): what it prints is not known; what it starts is.
  void substitute(const ShellRange& inside) {
    const Deeper deeper(depth_, inside.line());
    const ShellText text = as_written(inside);
    apart([&] { script_of(sources_.emplace_back(text)); });
  }

  static ShellValue value_of(ShellText text, int line) {
    return {.words = {std::move(text)}, .line = line};
  }

  void simple(const ShellCommand& c) {
    size_t first = 0;
    std::vector<ShellAssignment> assignments;
    const bool assigns = !c.words.empty() && c.words[0].text().find('=') != std::string::npos;
    const ShellState before = assigns ? state_ : ShellState();
    for (; first < c.words.size(); ++first) {
      auto a = read_assignment(c.words[first], expansion());
      if (!a) break;
      for (const ShellText& word : a->value.words) work(word.size() / 4);
      assign(state_, *a);
      assignments.push_back(std::move(*a));
    }
    if (first == c.words.size()) return;
    // Before a command they hold for that alone, and not for its words.
    if (!assignments.empty()) state_ = before;
    const std::string name = c.words[first].text();
    if (is_declaration(name))
      return declare({c.words.begin() + static_cast<std::ptrdiff_t>(first), c.words.end()}, state_,
                     locals_.empty() ? nullptr : &locals_.back(), expansion());
    std::vector<ShellText> words;
    for (size_t i = first; i < c.words.size(); ++i)
      for (ShellText& word : expand(c.words[i])) words.push_back(std::move(word));
    while (words.size() > 1 && is_one_of(words[0].plain(), {"command", "builtin"}))
      words.erase(words.begin());
    if (words.empty()) return;
    if (assignments.empty()) return call(c, words);
    const ShellState outside = state_;
    for (const ShellAssignment& a : assignments) {
      assign(state_, a);
      state_.mark(a.name, &ShellValue::exported);
    }
    call(c, words);
    for (const ShellAssignment& a : assignments) restore(a.name, outside);
  }

  void restore(const std::string& name, const ShellState& outside) {
    state_.unset(name);
    if (const auto* values = outside.find(name)) state_.put(name, *values);
  }

  // What a name calls: a function, the shell itself, or a program.
  void call(const ShellCommand& c, std::vector<ShellText>& words) {
    const std::string name = words[0].plain();
    if (const auto it = functions_.find(name); it != functions_.end())
      return call_function(it->second, {words.begin() + 1, words.end()}, c.line);
    if (words[0].open().ends_with("given to the script when it runs")) perhaps_functions(c.line);
    if (builtin(c, words)) return;
    if (quiet_ == 0) calls_.push_back({words, conditional_ > 0});
    scripts(c, words);
  }

  void call_function(const std::vector<const ShellCommand*>& bodies, std::vector<ShellText> given,
                     int line) {
    const Deeper deeper(depth_, line);
    const ShellState before = state_;
    ShellState after;
    after.dead = true;
    conditional_ += bodies.size() > 1 ? 1 : 0;
    for (const ShellCommand* body : std::vector(bodies)) {
      state_ = before;
      one_call(*body, given, line);
      after.join(state_);
    }
    conditional_ -= bodies.size() > 1 ? 1 : 0;
    state_ = std::move(after);
    restore("@", before);
  }

  void one_call(const ShellCommand& body, const std::vector<ShellText>& given, int line) {
    ShellValue arguments;
    arguments.words = given;
    arguments.array = true;
    arguments.line = line;
    state_.unset("@");
    state_.set("@", std::move(arguments));
    const auto returns = std::exchange(returns_, ShellState());
    returns_.dead = true;
    const int loops = std::exchange(loops_, 0);
    locals_.emplace_back();
    run(body.parts[0]);
    loops_ = loops;
    state_.join(returns_);
    returns_ = returns;
    for (const auto& [name, values] : locals_.back()) {
      state_.unset(name);
      if (!values.empty()) state_.put(name, values);
    }
    locals_.pop_back();
  }

  // A command that only the shell of the day knows may be any function.
  void perhaps_functions(int line) {
    const auto all = functions_;
    for (const auto& [name, bodies] : all)
      if (depth_ < 2) perhaps([&, &bodies = bodies] { call_function(bodies, {}, line); });
  }

  // Outside a function there is nothing to return from, outside a loop nothing to break.
  void leave(const std::string& how, const std::vector<ShellText>& words, int line) {
    const bool function = how == "return", loop = how == "break" || how == "continue";
    if ((function && locals_.empty()) || (loop && loops_ == 0)) return;
    if (loop && words.size() > 1) throw ShellError{line, "a loop in a loop that is left at once"};
    if (function) returns_.join(state_);
    if (loop) breaks_.join(state_);
    state_.dead = true;
  }

  // What the shell does itself. False: it is a program.
  bool builtin(const ShellCommand& c, std::vector<ShellText>& words) {
    const std::string name = words[0].plain();
    if (is_one_of(name, {"exit", "return", "break", "continue"})) {
      leave(name, words, c.line);
      return true;
    }
    if (name == "exec") {
      words.erase(words.begin());
      if (words.empty()) return true;
      call(c, words);
      state_.dead = true;
      return true;
    }
    if (name == "eval") {
      evaluate(words, c.line);
      return true;
    }
    if (name == "cat" && c.to_file) documents(c);
    return run_builtin(state_, words, c.line);
  }

  void evaluate(const std::vector<ShellText>& words, int line) {
    const Deeper deeper(depth_, line);
    ShellText all;
    for (size_t i = 1; i < words.size(); ++i) {
      if (i > 1) all.add({" ", line});
      all.add(words[i]);
    }
    if (!all.open().empty()) state_.doubt(fmt::format("eval (line {})", line));
    inner(all);
  }

  void inner(const ShellText& text) {
    const ShellSource& source = sources_.emplace_back(text);
    const int more = source.conditional ? 1 : 0;
    conditional_ += more;
    script_of(source);
    conditional_ -= more;
  }

  void documents(const ShellCommand& c) {
    ++conditional_;
    for (const auto& document : c.documents) read_document(*document, false);
    --conditional_;
  }

  // A script of its own, if it is one.
  void read_document(const ShellDocument& d, bool surely) {
    const ShellText text = d.verbatim ? as_written(d) : expansion().quoted(d);
    if (text.plain().find(" --") == std::string::npos) return;
    const Deeper deeper(depth_, d.line());
    try {
      apart([&] {
        state_ = state_.environment();
        inner(text);
      });
    } catch (const ShellError&) {
      if (surely) throw;
    }
  }

  // bash -c "...", and here-documents that a program reads.
  void scripts(const ShellCommand& c, const std::vector<ShellText>& words) {
    bool shell = false;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string word = words[i].plain();
      shell = shell || is_shell(word);
      if (!shell || !word.starts_with("-") || word.starts_with("--") || !word.ends_with("c"))
        continue;
      if (i + 1 < words.size()) nested(words, i + 1, c.line);
      break;
    }
    if (is_one_of(words[0].plain(), {"ssh", "pdsh"}) && words.size() > 2)
      nested(words, words.size() - 1, c.line);
    for (const auto& document : c.documents) read_document(*document, is_shell(words[0].plain()));
  }

  void nested(const std::vector<ShellText>& words, size_t text, int line) {
    const Deeper deeper(depth_, line);
    apart([&] {
      assign_environment(words, text, state_);
      state_ = state_.environment();
      inner(words[text]);
    });
  }

  std::deque<ShellSource> sources_;
  std::deque<ShellList> lists_;
  std::map<std::string, std::vector<const ShellCommand*>> functions_;
  ShellState state_, returns_, breaks_;  // and where it is if a function returns, a loop is left
  std::vector<ShellLocals> locals_;
  std::vector<ShellCall> calls_;
  size_t work_ = 0;
  int line_ = 1, conditional_ = 0, quiet_ = 0, depth_ = 0, loops_ = 0;
};

}  // namespace

ShellRun run_shell(const std::string& script) {
  return Runner().run(script);
}

}  // namespace s2t

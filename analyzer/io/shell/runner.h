// Follows a script command by command: what variables are at each, and which programs it starts.
// Lists, pipelines and compound commands are in run.cc, simple commands in call.cc.
//
// Not known here: what any program or flag means.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/io/shell/assignment.h"
#include "analyzer/io/shell/expansion.h"
#include "analyzer/io/shell/run.h"
#include "analyzer/io/shell/syntax.h"

namespace s2t {

class Runner {
 public:
  ShellRun run(const std::string& script);

 private:
  // Text is followed where it stands.
  void script_of(const ShellSource& source);

  void run(const ShellList& list);

  void run(const ShellItem& item);

  void run(const ShellPipeline& pipeline);

  // cat <<EOF | bash
  void feed(const ShellPipeline& pipeline);

  // Loops in loops, and lists that grow in many branches, have no end in sight.
  void work(size_t more);

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

  void run(const ShellCommand& c);

  // Compound commands.

  void branches(const ShellCommand& c);

  void branch(const ShellList& body, ShellState& after);

  void cases(const ShellCommand& c);

  std::optional<bool> is_case(const ShellText& text, const std::vector<ShellWord>& patterns);
  void times(const ShellCommand& c);
  std::vector<ShellText> words_of(const ShellCommand& loop);
  void repeat(const ShellCommand& c);
  void question(const ShellCommand& c);

  // Once for each word, or as often as the condition says; nullopt: it does not say.
  using Turn = std::function<std::optional<bool>()>;
  bool exactly(const Turn& turn, const ShellList& body);
  void one_turn(const ShellList& body);
  // Followed until nothing changes; commands count the last time. `always`: the body of a loop over
  // words that are there, which is executed.
  using Step = std::function<void()>;
  void loop(int line, bool always, const Step& next, const Step& body);

  // ((TP *= 2)), for ((TP = 1; TP < 4; TP++))
  void arithmetic(const ShellCommand& c);

  void define(const ShellCommand& c);

  // Simple commands.

  ShellExpansion expansion();

  std::vector<ShellText> expand(const ShellWord& word);

  // $(...): what it prints is not known; what it starts is.
  void substitute(const ShellRange& inside);

  static ShellValue value_of(ShellText text, int line) {
    return {.words = {std::move(text)}, .line = line};
  }

  void simple(const ShellCommand& c);
  void test(const std::vector<ShellText>& words);

  void restore(const std::string& name, const ShellState& outside);

  // What a name calls: a function, the shell itself, or a program.
  void call(const ShellCommand& c, std::vector<ShellText>& words);

  void call_function(const std::vector<const ShellCommand*>& bodies, std::vector<ShellText> given,
                     int line);

  void one_call(const ShellCommand& body, const std::vector<ShellText>& given, int line);

  // A command that only the shell of the day knows may be any function.
  void perhaps_functions(int line);

  // Outside a function there is nothing to return from, outside a loop nothing to break.
  void leave(const std::string& how, const std::vector<ShellText>& words, int line);

  // What the shell does itself. False: it is a program.
  bool builtin(const ShellCommand& c, std::vector<ShellText>& words);

  void evaluate(const std::vector<ShellText>& words, int line);

  void inner(const ShellText& text);

  void documents(const ShellCommand& c);

  // A script of its own, if it is one.
  void read_document(const ShellDocument& d, bool surely);

  // bash -c "...", and here-documents that a program reads.
  void scripts(const ShellCommand& c, const std::vector<ShellText>& words);

  void nested(const std::vector<ShellText>& words, size_t text, int line);

  std::deque<ShellSource> sources_;
  std::deque<ShellList> lists_;
  std::map<std::string, std::vector<const ShellCommand*>> functions_;
  ShellState state_, returns_, breaks_;  // and where it is if a function returns, a loop is left
  std::vector<ShellLocals> locals_;
  std::vector<ShellCall> calls_;
  size_t work_ = 0;
  std::optional<bool> status_;  // whether the command before has succeeded, if that is known
  bool broken_ = false, continued_ = false;  // a turn of a loop may have been left
  int line_ = 1, conditional_ = 0, quiet_ = 0, depth_ = 0, loops_ = 0, abstract_ = 0;
  static constexpr int kDeepest = 24;             // calls and scripts in each other
  static constexpr size_t kMostWork = 2'000'000;  // values that are copied, and commands
};

}  // namespace s2t

#include "analyzer/io/shell/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <tuple>
#include <utility>

#include "analyzer/base/text.h"
#include "analyzer/io/shell/condition.h"
#include "analyzer/io/shell/runner.h"
#include "analyzer/io/shell/sum.h"

namespace s2t {
namespace {

constexpr int kMostTurns = 64;  // of a loop that is followed turn by turn

using Kind = ShellCommand::Kind;
using After = ShellPipeline::After;

}  // namespace

ShellRun Runner::run(const std::string& script) {
  script_of(sources_.emplace_back(script));
  return {std::move(calls_), std::move(state_)};
}

// Text is followed where it stands.
void Runner::script_of(const ShellSource& source) {
  lists_.push_back(parse_shell(source));
  run(lists_.back());
}

void Runner::run(const ShellList& list) {
  for (const ShellItem& item : list) {
    if (state_.dead) return;
    if (item.background)
      apart([&] { run(item); });
    else
      run(item);
  }
}

void Runner::run(const ShellItem& item) {
  for (const ShellPipeline& pipeline : item.pipelines) {
    const bool first = pipeline.after == After::any;
    if (first || (status_ && *status_ == (pipeline.after == After::success))) {
      run(pipeline);
    } else if (!status_) {
      perhaps([&] { run(pipeline); });
      status_.reset();
    }
  }
}

void Runner::run(const ShellPipeline& pipeline) {
  if (pipeline.commands.size() == 1) {
    run(pipeline.commands.front());
    if (pipeline.negated && status_) status_ = !*status_;
    return;
  }
  for (const ShellCommand& command : pipeline.commands) apart([&] { run(command); });
  feed(pipeline);
  status_.reset();
}

// cat <<EOF | bash
void Runner::feed(const ShellPipeline& pipeline) {
  const ShellCommand& last = pipeline.commands.back();
  if (last.kind != Kind::simple || last.words.empty() || !is_shell(last.words[0].text())) return;
  for (const auto& document : pipeline.commands.front().documents) read_document(*document, true);
}

// Loops in loops, and lists that grow in many branches, have no end in sight.
void Runner::work(size_t more) {
  work_ += more;
  if (work_ > kMostWork) throw ShellError{line_, "more branches and loops than are followed"};
}

void Runner::run(const ShellCommand& c) {
  if (state_.dead) return;
  line_ = c.line;
  work(1);
  status_.reset();
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
      return repeat(c);
    case Kind::arithmetic:
      return arithmetic(c);
    case Kind::question:
      return question(c);
    case Kind::function:
      return define(c);
  }
}

void Runner::branches(const ShellCommand& c) {
  ShellState after = ShellState::nowhere();
  bool perhaps = false;  // one of the branches before
  for (size_t i = 0; i + 1 < c.parts.size(); i += 2) {
    run(c.parts[i]);
    const std::optional<bool> holds = status_;
    if (holds == false) continue;
    if (holds == true && !perhaps) return run(c.parts[i + 1]);
    const ShellState otherwise = state_;
    branch(c.parts[i + 1], after);
    perhaps = true;
    state_ = otherwise;
    state_.dead = state_.dead || holds == true;
  }
  status_ = true;
  if (!perhaps) return c.exhaustive ? run(c.parts.back()) : void();
  if (c.exhaustive) branch(c.parts.back(), after);
  if (!c.exhaustive) after.join(state_);
  state_ = std::move(after);
  status_.reset();
}

void Runner::branch(const ShellList& body, ShellState& after) {
  work(3 * state_.weight());
  ++conditional_;
  run(body);
  --conditional_;
  after.join(state_);
}

void Runner::cases(const ShellCommand& c) {
  const ShellText text = expansion().value(c.words[0]);
  const ShellState before = state_;
  ShellState after = ShellState::nowhere();
  bool perhaps = false;  // one of the cases before
  std::optional<bool> is = false;
  for (size_t i = 0; i < c.parts.size() && is != true; ++i) {
    is = is_case(text, c.patterns[i]);
    if (is == false) continue;
    state_ = before;
    if (is == true && !perhaps) return run(c.parts[i]);
    branch(c.parts[i], after);
    perhaps = true;
  }
  status_ = perhaps ? std::nullopt : std::optional(true);
  if (!perhaps) return;
  if (is != true && !c.exhaustive) after.join(before);
  state_ = std::move(after);
}

std::optional<bool> Runner::is_case(const ShellText& text, const std::vector<ShellWord>& patterns) {
  std::optional<bool> any = false;
  for (const ShellWord& pattern : patterns) {
    const ShellOperand operand = operand_of(pattern, expansion());
    const auto one = abstract_ > 0 ? std::nullopt : matches(text, operand);
    if (any == true || one == true)
      any = true;
    else if (!one)
      any.reset();
  }
  return any;
}

void Runner::question(const ShellCommand& c) {
  std::vector<ShellOperand> words;
  for (const ShellWord& word : c.words) words.push_back(operand_of(word, expansion()));
  if (abstract_ == 0) status_ = tested(words);
}

// {1..4} is four words; other brackets, and letters that stand for files, are known to the shell.
std::vector<ShellText> Runner::words_of(const ShellCommand& loop) {
  static const std::regex kRange(R"(\{(\d{1,6})\.\.(\d{1,6})\})");
  std::vector<ShellText> words;
  for (size_t i = 1; i < loop.words.size(); ++i) {
    const ShellWord& word = loop.words[i];
    const std::string raw = word.text();
    std::smatch m;
    const int from = std::regex_match(raw, m, kRange) ? std::stoi(m[1]) : 0;
    const int to = m.empty() ? -1 : std::stoi(m[2]);
    if (!m.empty() && from <= to && to - from < kMostTurns) {
      for (int n = from; n <= to; ++n) words.push_back(ShellText({std::to_string(n), word.line()}));
    } else if (raw.find_first_of("$'\"\\") == raw.npos && raw.find_first_of("{*?[") != raw.npos) {
      words.push_back(ShellText({raw, word.line(), false, quoted(raw) + " is several words"}));
    } else {
      for (ShellText& each : expand(word)) words.push_back(std::move(each));
    }
  }
  const auto* given = loop.given ? state_.find("@") : nullptr;
  if (given && given->size() == 1 && !given->front().conditional) words = given->front().words;
  return words;
}

void Runner::times(const ShellCommand& c) {
  const std::string name = c.words[0].text();
  const std::vector<ShellText> words = words_of(c);
  const bool known = !words.empty() && std::all_of(words.begin(), words.end(),
                                                   [](const auto& w) { return w.open().empty(); });
  size_t turn = 0;
  const Turn each = [&]() -> std::optional<bool> {
    if (turn == words.size()) return false;
    state_.set(name, value_of(words[turn], c.line));
    return !words[turn++].conditional();
  };
  if (known && !c.chosen && exactly(each, c.parts[0])) return;
  const auto next = [&] {
    ShellState any = ShellState::nowhere();
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

// Nothing is started in it, and all that it asks is known. False: nothing has happened.
bool Runner::exactly(const Turn& turn, const ShellList& body) {
  if (abstract_ > 0 || quiet_ > 0) return false;
  work(3 * state_.weight());
  const ShellState before = state_, returns = returns_;
  const ShellState outer = std::exchange(breaks_, ShellState());
  const auto left = std::pair(broken_, continued_);
  const size_t calls = calls_.size();
  ++loops_;
  bool known = true, more = true;
  for (int turns = 0; known && more && !state_.dead; ++turns) {
    const std::optional<bool> goes_on = turn();
    known = goes_on && (!*goes_on || turns < kMostTurns) && calls_.size() == calls;
    more = known && *goes_on;
    if (!more) break;
    one_turn(body);
    // Left in one way, or not at all, whatever the run knows.
    known = calls_.size() == calls && (breaks_.dead || (state_.dead && broken_ != continued_));
    if (known && !breaks_.dead) {
      state_ = breaks_;
      more = !broken_;
    }
  }
  --loops_;
  breaks_ = outer;
  std::tie(broken_, continued_) = left;
  status_.reset();
  if (known) return true;
  state_ = before;
  returns_ = returns;
  calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(calls), calls_.end());
  return false;
}

void Runner::one_turn(const ShellList& body) {
  breaks_ = ShellState::nowhere();
  broken_ = continued_ = false;
  run(body);
}

// Commands count the last time.
void Runner::loop(int line, bool always, const Step& next, const Step& body) {
  const auto outer = std::exchange(breaks_, ShellState::nowhere());
  const auto left = std::pair(broken_, continued_);
  ++loops_;
  ++conditional_;
  ++abstract_;
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
  --abstract_;
  state_.join(breaks_);
  if (!always) state_.join(asked);
  --loops_;
  breaks_ = outer;
  std::tie(broken_, continued_) = left;
  status_.reset();
}

void Runner::repeat(const ShellCommand& c) {
  const Turn asked = [&]() -> std::optional<bool> {
    run(c.parts[0]);
    return status_ ? std::optional(*status_ != c.until) : std::nullopt;
  };
  if (exactly(asked, c.parts[1])) return;
  loop(
      c.line, false, [&] { run(c.parts[0]); }, [&] { run(c.parts[1]); });
}

// ((TP *= 2)), for ((TP = 1; TP < 4; TP++))
void Runner::arithmetic(const ShellCommand& c) {
  const std::string name = quoted("((" + c.words[0].text().substr(0, 80) + "))");
  if (c.parts.empty()) {
    const ShellText text = expansion().quoted(c.words[0]);
    const ShellPiece result = calculated(text, name, state_);
    const bool known =
        result.open.empty() && !result.conditional && result.doubt.empty() && !result.assumed;
    if (known && abstract_ == 0) status_ = result.text != "0";
    return;
  }
  const Step change = [&] {
    for (const std::string& changed : changed_names(c.words[0].text()))
      state_.open(changed, name + " cannot be computed here", c.line);
  };
  change();
  expansion().quoted(c.words[0]);
  loop(c.line, false, change, [&] { run(c.parts[0]); });
}

void Runner::define(const ShellCommand& c) {
  std::vector<const ShellCommand*>& bodies = functions_[c.words[0].text()];
  if (conditional_ == 0) bodies.clear();
  if (std::find(bodies.begin(), bodies.end(), &c) == bodies.end()) bodies.push_back(&c);
}

ShellRun run_shell(const std::string& script) {
  return Runner().run(script);
}

}  // namespace s2t

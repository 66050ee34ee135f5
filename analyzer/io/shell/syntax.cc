#include "analyzer/io/shell/syntax.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "analyzer/base/text.h"

namespace s2t {
namespace {

constexpr int kDeepest = 64;  // commands in each other

using Kind = ShellCommand::Kind;

class Parser {
 public:
  explicit Parser(const ShellSource& source) : source_(source), text_(source.text) {}

  ShellList script() {
    ShellList all = list();
    if (at_ < text_.size()) fail("unexpected " + quoted(at_word() ? peek() : text_.substr(at_, 1)));
    return all;
  }

 private:
  [[noreturn]] void fail(std::string what) const {
    throw ShellError{source_.lines[std::min(at_, text_.size())], std::move(what)};
  }

  bool sees(std::string_view what) const { return text_.compare(at_, what.size(), what) == 0; }
  char letter(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // Letters.

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (sees("\\\n"))
        at_ += 2;
      else if (letter() == ' ' || letter() == '\t')
        ++at_;
      else if (letter() == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        return;
    }
  }

  // Also over lines.
  void skip_newlines() {
    for (skip_blanks(); letter() == '\n'; skip_blanks()) end_line();
  }

  void end_line() {
    ++at_;
    for (Pending& p : std::exchange(pending_, {})) read_document(p);
  }

  struct Pending {
    std::shared_ptr<ShellDocument> document;
    std::string end;
    bool tabs;
  };

  void read_document(const Pending& p) {
    p.document->begin = at_;
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string line = text_.substr(at_, end - at_);
      if (p.tabs) line.erase(0, std::min(line.find_first_not_of('\t'), line.size()));
      p.document->end = at_;
      at_ = std::min(end + 1, text_.size());
      if (line == p.end) return;
    }
    p.document->end = text_.size();
  }

  static bool ends_word(char c) {
    return std::string_view(" \t\n;&|()<>").find(c) != std::string_view::npos;
  }
  bool at_word() const { return at_ < text_.size() && !ends_word(letter()); }

  size_t word_end(size_t at) const {
    while (at < text_.size() && !ends_word(text_[at])) at = behind_quoted(source_, at);
    return at;
  }

  // The word here, as written; what stands in quotes is no keyword.
  std::string peek() const { return at_word() ? text_.substr(at_, word_end(at_) - at_) : ""; }

  ShellWord word() {
    skip_blanks();
    const size_t begin = at_;
    const bool substitution = (letter() == '<' || letter() == '>') && letter(1) == '(';
    at_ = substitution ? behind_bracket(source_, at_ + 1) : word_end(at_);
    if (at_ == begin)
      fail(at_ < text_.size() ? "unexpected " + quoted(text_.substr(at_, 1))
                              : "the script ends here");
    ShellWord w;
    w.source = &source_;
    w.begin = begin;
    w.end = at_;
    return w;
  }

  void expect(std::string_view keyword) {
    skip_newlines();
    const bool bracket = keyword == ")";
    if (bracket ? letter() != ')' : peek() != keyword)
      fail("no " + quoted(keyword) + " where it must stand");
    at_ += keyword.size();
  }

  bool take(std::string_view what) {
    skip_blanks();
    if (!sees(what)) return false;
    at_ += what.size();
    return true;
  }

  // Lists.

  bool ends_list() const {
    if (at_ >= text_.size() || letter() == ')' || sees(";;")) return true;
    return among(peek(), "then else elif fi do done esac }");
  }

  ShellList list() {
    if (++depth_ > kDeepest) fail("commands too deep in each other");
    ShellList all;
    for (skip_newlines(); !ends_list(); skip_newlines()) all.push_back(item());
    --depth_;
    return all;
  }

  ShellItem item() {
    using After = ShellPipeline::After;
    ShellItem item;
    for (After after = After::any;;) {
      item.pipelines.push_back(pipeline());
      item.pipelines.back().after = after;
      if (!take("&&") && !take("||")) break;
      after = text_[at_ - 1] == '&' ? After::success : After::failure;
      skip_newlines();
    }
    skip_blanks();
    item.background = letter() == '&';
    if (item.background || (letter() == ';' && !sees(";;")))
      ++at_;
    else if (at_ < text_.size() && letter() != '\n' && !ends_list())
      fail("unexpected " + quoted(peek().empty() ? text_.substr(at_, 1) : peek()));
    return item;
  }

  ShellPipeline pipeline() {
    ShellPipeline all;
    skip_blanks();
    while (among(peek(), "! time -p")) {
      all.negated = all.negated != (peek() == "!");
      at_ += peek().size();
      skip_blanks();
    }
    do {
      skip_newlines();
      all.commands.push_back(command());
      skip_blanks();
    } while (!sees("||") && (take("|&") || take("|")));
    return all;
  }

  // Commands.

  ShellCommand command() {
    skip_blanks();
    ShellCommand c;
    c.line = source_.lines[at_];
    if (letter() == '(') {
      bracketed(c);
    } else if (!compound(c)) {
      simple(c);
      return c;
    }
    for (skip_blanks(); is_redirection(); skip_blanks()) redirection(c);
    return c;
  }

  // ((...)) or ( ... ).
  void bracketed(ShellCommand& c) {
    if (sees("((") && arithmetic(c)) return;
    c.kind = Kind::subshell;
    ++at_;
    c.parts.push_back(list());
    expect(")");
  }

  bool arithmetic(ShellCommand& c) {
    const size_t end = behind_bracket(source_, at_);
    if (text_.compare(end - 2, 2, "))") != 0) return false;
    c.kind = Kind::arithmetic;
    ShellWord inside;
    inside.source = &source_;
    inside.begin = at_ + 2;
    inside.end = end - 2;
    c.words.push_back(inside);
    at_ = end;
    return true;
  }

  bool compound(ShellCommand& c) {
    const std::string keyword = peek();
    if (keyword == "coproc") fail("a coprocess");
    if (!among(keyword, "{ if while until for select case function [[")) return false;
    at_ += keyword.size();
    if (keyword == "{") {
      c.kind = Kind::group;
      c.parts.push_back(list());
      expect("}");
    } else if (keyword == "if") {
      branches(c);
    } else if (keyword == "while" || keyword == "until") {
      c.kind = Kind::loop;
      c.until = keyword == "until";
      c.parts.push_back(list());
      body(c);
    } else if (keyword == "for" || keyword == "select") {
      c.chosen = keyword == "select";
      times(c);
    } else if (keyword == "case") {
      cases(c);
    } else if (keyword == "[[") {
      question(c);
    } else {
      c.words.push_back(word());
      if (take("(")) expect(")");
      function(c);
    }
    return true;
  }

  void body(ShellCommand& c) {
    expect("do");
    c.parts.push_back(list());
    expect("done");
  }

  void branches(ShellCommand& c) {
    c.kind = Kind::branches;
    while (true) {
      c.parts.push_back(list());
      expect("then");
      c.parts.push_back(list());
      if (peek() != "elif") break;
      expect("elif");
    }
    if (peek() == "else") {
      expect("else");
      c.exhaustive = true;
      c.parts.push_back(list());
    }
    expect("fi");
  }

  void times(ShellCommand& c) {
    skip_blanks();
    if (sees("((")) {
      if (!arithmetic(c)) fail("a loop that is not understood");
    } else {
      c.kind = Kind::times;
      c.words.push_back(word());
      skip_newlines();
      c.given = peek() != "in";
      if (!c.given) {
        at_ += 2;
        for (skip_blanks(); at_word(); skip_blanks()) c.words.push_back(word());
      }
    }
    if (take(";")) skip_newlines();
    skip_newlines();
    if (peek() == "{") {
      expect("{");
      c.parts.push_back(list());
      return expect("}");
    }
    body(c);
  }

  void cases(ShellCommand& c) {
    c.kind = Kind::cases;
    c.words.push_back(word());
    expect("in");
    for (skip_newlines(); peek() != "esac"; skip_newlines()) {
      take("(");
      c.patterns.emplace_back();
      do {
        c.patterns.back().push_back(word());
        c.exhaustive = c.patterns.back().back().text() == "*" || c.exhaustive;
      } while (take("|"));
      expect(")");
      c.parts.push_back(list());
      if (sees(";;&")) fail("\";;&\" in a case");
      if (!take(";;") && peek() != "esac") fail("a case that is not closed by \";;\"");
    }
    expect("esac");
  }

  // Of what stands between words.
  ShellWord sign() {
    ShellWord w;
    w.source = &source_;
    w.begin = at_;
    at_ += sees("&&") || sees("||") ? 2 : 1;
    w.end = at_;
    return w;
  }

  void question(ShellCommand& c) {
    c.kind = Kind::question;
    for (skip_newlines(); peek() != "]]"; skip_newlines()) {
      if (at_ >= text_.size()) fail("\"[[\" that is closed nowhere");
      c.words.push_back(at_word() ? word() : sign());
    }
    expect("]]");
  }

  void function(ShellCommand& c) {
    c.kind = Kind::function;
    skip_newlines();
    ShellItem item;
    item.pipelines.emplace_back();
    if (++depth_ > kDeepest) fail("commands too deep in each other");
    item.pipelines.back().commands.push_back(command());
    --depth_;
    c.parts.emplace_back();
    c.parts.back().push_back(std::move(item));
  }

  // Assignments, words and redirections.
  void simple(ShellCommand& c) {
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
      if (is_redirection()) {
        redirection(c);
        continue;
      }
      const bool substitution = (letter() == '<' || letter() == '>') && letter(1) == '(';
      if (!at_word() && !substitution) {
        if (c.words.size() == 1 && letter() == '(' && take("(") && take(")")) return function(c);
        break;
      }
      c.words.push_back(word());
      if (letter() == '(' && c.words.back().text().ends_with("=")) elements(c.words.back());
    }
    if (c.words.empty() && c.redirections.empty() && c.documents.empty()) word();  // reports
  }

  void elements(ShellWord& array) {
    if (assigned_name_end(array.text()) == 0) fail("a bracket that is not understood");
    array.array = true;
    ++at_;
    for (skip_newlines(); letter() != ')'; skip_newlines()) array.elements.push_back(word());
    ++at_;
  }

  bool is_redirection() const {
    size_t at = at_;
    while (at < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at])) != 0) ++at;
    if (text_.compare(at, 2, "&>") == 0) return at == at_;
    if (at >= text_.size() || (text_[at] != '<' && text_[at] != '>')) return false;
    return text_.compare(at + 1, 1, "(") != 0;
  }

  void redirection(ShellCommand& c) {
    while (std::isdigit(static_cast<unsigned char>(letter())) != 0) ++at_;
    c.to_file = c.to_file || letter() == '>' || letter() == '&';
    for (const std::string_view op :
         {"<<<", "<<-", "<<", "<&", "<>", "<", "&>>", "&>", ">>", ">&", ">|", ">"})
      if (take(op)) {
        if (op == "<<" || op == "<<-") return document(c, op == "<<-");
        c.redirections.push_back(word());
        return;
      }
  }

  void document(ShellCommand& c, bool tabs) {
    std::string end = word().text();
    const bool verbatim = end.find_first_of("\"'\\") != std::string::npos;
    std::erase_if(end, [](char q) { return q == '"' || q == '\'' || q == '\\'; });
    auto document = std::make_shared<ShellDocument>();
    document->source = &source_;
    document->verbatim = verbatim;
    c.documents.push_back(document);
    pending_.push_back({std::move(document), std::move(end), tabs});
  }

  const ShellSource& source_;
  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace

ShellList parse_shell(const ShellSource& source) {
  return Parser(source).script();
}

}  // namespace s2t

#include "analyzer/base/slugs.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace s2t {
namespace {

using Words = std::set<std::string>;

// Hyphenated words of the sources that are no slugs.
const Words kNoSlugs{"warm-up", "time-out", "tp-pp-dp", "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-cp",
                     "stand-in", "all-gathers", "all-to-alls", "s2t-r", "rsvg-convert",
                     "huggingface-cli",
                     // names inside the HTML report
                     "aria-sort", "events-body", "events-count", "events-head", "of-family",
                     "of-op", "of-phase", "of-rank", "one-rank", "rank-calls", "rank-groups",
                     "rank-place", "zoom-fit", "zoom-in", "zoom-out"};

// Every source below a folder but the table itself.
std::string sources(const std::string& folder) {
  std::ostringstream all;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(S2T_SOURCE_DIR) + "/" + folder)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    if ((extension == ".cc" || extension == ".h") && name != "slugs.cc")
      all << std::ifstream(entry.path()).rdbuf();
  }
  return all.str();
}

// Lines that hold a string with a hyphen somewhere.
std::string hyphenated(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (line.find('"') != std::string::npos && line.find('-') != std::string::npos)
      kept += line + "\n";
  return kept;
}

void collect(const std::string& text, const std::string& pattern, const std::string& prefix,
             Words& words) {
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    std::string word = prefix + (*it)[1].str();
    std::replace(word.begin(), word.end(), ' ', '-');
    words.insert(word);
  }
}

// Slugs that a reader makes of what it looked for: "unknown-" and the word.
Words made_of_words(const std::string& text) {
  Words words;
  for (const char* pattern :
       {R"re(unknown\("([a-z_ ]+)")re", R"re(one_of(?:<[\w:]+>)?\(\w+, "([a-z_ ]+)")re",
        R"re(read_flag\([^;]*"([a-z_ ]+)"\))re", R"re(\bflag\("([a-z_]+)", \{)re",
        R"re(read_word\([^;"]*"[a-z0-9_]+"\), \w+, "([a-z0-9_]+)")re",
        R"re(read_word\(\w+, \w+, "([a-z0-9_]+)")re"})
    collect(text, pattern, "unknown-", words);
  return words;
}

Words table() {
  Words words;
  for (const Slug& slug : slugs()) words.emplace(slug.name);
  return words;
}

TEST(Slugs, AreNamedOnceAndSayWhatTheyMean) {
  EXPECT_EQ(table().size(), slugs().size());
  for (const Slug& slug : slugs()) EXPECT_FALSE(slug.meaning.empty()) << slug.name;
}

TEST(Slugs, EveryOneInTheSourcesIsInTheTable) {
  Words used = made_of_words(sources("analyzer/io"));
  for (const char* folder : {"analyzer", "runtime"})
    collect(hyphenated(sources(folder)), R"re("([a-z][a-z0-9]*(?:-[a-z0-9]+)+)")re", "", used);
  const Words known = table();
  for (const std::string& word : used) {
    EXPECT_TRUE(known.contains(word) || kNoSlugs.contains(word)) << word;
  }
}

TEST(Slugs, EveryOneInTheTableIsInTheSources) {
  const std::string text = sources("analyzer") + sources("runtime");
  const Words made = made_of_words(sources("analyzer/io"));
  for (const std::string& word : table())
    EXPECT_TRUE(made.contains(word) || text.find('"' + word + '"') != std::string::npos) << word;
}

}  // namespace
}  // namespace s2t

#include "analyzer/io/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace s2t {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test; messages name files relative to it.
class InputFile : public testing::Test {
 protected:
  void SetUp() override {
    old_ = fs::current_path();
    std::string pattern = (fs::temp_directory_path() / "s2t_input_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    fs::permissions(folder_, fs::perms::all);
    fs::current_path(folder_);
  }
  void TearDown() override {
    fs::current_path(old_);
    fs::remove_all(folder_);
  }

  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // The one message that reading `path` gives, or the text in angle brackets.
  static std::string outcome(const std::string& path, Count limit = kLargestInput) {
    Diagnostics sink(input_name(path));
    const auto text = read_input(path, sink, limit);
    EXPECT_EQ(text.has_value(), !sink.any());
    if (text) return "<" + *text + ">";
    EXPECT_EQ(sink.size(), 1u);
    return to_string(sink.list().at(0), sink.file());
  }

  fs::path old_, folder_;
};

TEST_F(InputFile, IsReadWholeWithoutItsByteOrderMark) {
  write("a.json", "{}\n");
  write("bom.json", "\xEF\xBB\xBF{}");
  EXPECT_EQ(outcome("a.json"), "<{}\n>");
  EXPECT_EQ(outcome("bom.json"), "<{}>");
}

TEST_F(InputFile, MissingNamesTheNearestFileBesideIt) {
  write("mlp.json", "{}");
  EXPECT_EQ(outcome("mpl.json"),
            "mpl.json: no such file; expected a file to read. Did you mean \"mlp.json\"? "
            "[no-such-file]");
  EXPECT_EQ(outcome("nowhere/else"),
            "nowhere/else: no such file; expected a file to read. [no-such-file]");
  EXPECT_EQ(outcome(""), ": no such file; expected a file to read. [no-such-file]");
}

TEST_F(InputFile, PathThroughAFileIsUnreadable) {
  write("a.json", "{}");
  EXPECT_EQ(outcome("a.json/b"),
            "a.json/b: cannot be opened (Not a directory); expected a readable file. [unreadable]");
}

TEST_F(InputFile, DirectoryIsNoFile) {
  fs::create_directory("models");
  EXPECT_EQ(outcome("models"),
            "models: is a directory; expected a file. Name a file in it. [is-directory]");
}

TEST_F(InputFile, UnreadableSaysWhy) {
  write("secret.json", "{}");
  fs::permissions("secret.json", fs::perms::none);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);  // root may read everything
  }
  const std::string message = outcome("secret.json");
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(message,
            "secret.json: cannot be opened (Permission denied); expected a readable file. "
            "[unreadable]");
}

TEST_F(InputFile, EmptyIsRefusedAlsoWithAByteOrderMark) {
  write("empty.json", "");
  write("bom.json", "\xEF\xBB\xBF");
  EXPECT_EQ(outcome("empty.json"), "empty.json: is empty; expected JSON. [empty-file]");
  EXPECT_EQ(outcome("bom.json"), "bom.json: is empty; expected JSON. [empty-file]");
}

TEST_F(InputFile, OneGigabyteIsRefusedBeforeItIsRead) {
  write("huge.json", "{");
  fs::resize_file("huge.json", Count{1} << 30);  // a hole, no blocks
  EXPECT_EQ(outcome("huge.json"),
            "huge.json: has 1,073,741,824 bytes; expected at most 67,108,864 bytes. [too-large]");
}

TEST_F(InputFile, ExactlyTheLimitIsAllowed) {
  write("a.json", "[1]");
  EXPECT_EQ(outcome("a.json", 3), "<[1]>");
  EXPECT_EQ(outcome("a.json", 2), "a.json: has 3 bytes; expected at most 2 bytes. [too-large]");
}

TEST_F(InputFile, EndlessDeviceStopsAtTheLimit) {
  EXPECT_EQ(outcome("/dev/zero", 100000),
            "/dev/zero: has more than 100,000 bytes; expected at most 100,000 bytes. [too-large]");
}

TEST_F(InputFile, PipeIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "[1, 2]", 6), 6);
  ::close(ends[1]);
  Diagnostics sink("<stdin>");
  EXPECT_EQ(read_descriptor(ends[0], sink), "[1, 2]");
  ::close(ends[0]);
  EXPECT_FALSE(sink.any());
}

TEST_F(InputFile, ClosedDescriptorIsUnreadable) {
  Diagnostics sink(input_name("-"));
  EXPECT_EQ(read_descriptor(-1, sink), std::nullopt);
  EXPECT_EQ(to_string(sink.list().at(0), sink.file()),
            "<stdin>: cannot be read (Bad file descriptor); expected a readable file. "
            "[unreadable]");
}

TEST_F(InputFile, InvalidUtf8HasLineAndColumn) {
  write("a.json", "{\n \"\xC3\xA9\": \"\xFF\"}");
  EXPECT_EQ(
      outcome("a.json"),
      "a.json: line 2, column 8: byte 0xFF is not UTF-8; expected UTF-8 text. [invalid-utf8]");
}

TEST_F(InputFile, Utf16IsRecognised) {
  write("a.json", std::string("\xFF\xFE{\0", 4));
  EXPECT_EQ(outcome("a.json"),
            "a.json: line 1, column 1: byte 0xFF is not UTF-8; expected UTF-8 text. It looks like "
            "UTF-16: save it as UTF-8. [invalid-utf8]");
}

TEST_F(InputFile, EveryMalformedSequenceIsRefused) {
  for (const char* bad :
       {"\x80", "\xC0\xAF", "\xC1\x81", "\xE0\x80\x80", "\xED\xA0\x80", "\xE2\x82",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x9F\x98"}) {
    write("a.json", bad);
    EXPECT_NE(outcome("a.json").find("line 1, column 1: byte 0x"), std::string::npos);
  }
}

TEST_F(InputFile, EveryLengthOfSequenceIsAccepted) {
  const std::string text =
      "a\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF";
  write("a.json", text);
  EXPECT_EQ(outcome("a.json"), "<" + text + ">");
}

}  // namespace
}  // namespace s2t

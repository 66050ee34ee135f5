// Too few files to start ranks as processes: refused with the limit and what to do.
#include "runtime/run/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "analyzer/base/diagnostics.h"

namespace s2t {
namespace {

TEST(OpenFiles, TooFewAreRefusedWithTheLimitAndWhatToDo) {
  EXPECT_NO_THROW(require_open_files(8, open_files_needed(8)));
  try {
    require_open_files(8, 64);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "shape2trace: a process may have 64 files open here (ulimit -n); expected at "
                 "least 80 to start 8 ranks. Run \"ulimit -n 80\" first, or verify on the backend "
                 "host, whose ranks are threads. [too-few-files]");
  }
}

TEST(OpenFiles, ALimitOfOneselfIsRaised) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(allow_open_files(50), 50u);
  EXPECT_EQ(allow_open_files(30), 50u);  // never lowered
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace s2t

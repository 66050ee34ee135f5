// The plugin's older and newer tables, and the CUPTI listener, loaded without NCCL or a GPU.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/process.h"

namespace s2t::test {
namespace {

// An event as NCCL lays it out: values at byte offsets.
class Raw {
 public:
  template <class T>
  Raw& at(size_t offset, T value) {
    std::memcpy(bytes_ + offset, &value, sizeof value);
    return *this;
  }
  void* data() { return bytes_; }

 private:
  alignas(8) unsigned char bytes_[112] = {};
};

using Start = int (*)(void*, void**, void*);
using Finalize = int (*)(void*);
using InitV4 = int (*)(void**, int*, const char*, uint64_t, int, int, int, void*);
using InitV6 = int (*)(void**, uint64_t, int*, const char*, int, int, int, void*);

void* open_witness(const std::string& name) {
  void* library =
      dlopen((std::string(S2T_WITNESS_LIBRARIES) + "/libs2t_" + name + ".so").c_str(), RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}

// Sets a variable of this process while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(ProfilerTables, FourAndSixReadTheirOwnLayouts) {
  ScratchFolder folder;
  const Variable where("S2T_WITNESS_DIR", folder.path()), rank("S2T_RANK", "5");
  void* library = open_witness("ncclprof");
  void** v4 = static_cast<void**>(dlsym(library, "ncclProfiler_v4"));
  void** v6 = static_cast<void**>(dlsym(library, "ncclProfiler_v6"));
  ASSERT_TRUE(v4 && v6);
  void* context = nullptr;
  void* handle = nullptr;
  int mask = 0;

  reinterpret_cast<InitV4>(v4[1])(&context, &mask, "old", 7, 1, 4, 2, nullptr);
  EXPECT_EQ(mask, 2 + 4 + 64);
  // In v4 the type is one byte; what follows it is padding that may hold anything.
  Raw reduce = Raw()
                   .at<uint64_t>(0, 0xAAAAAAAAAAAAAA02)
                   .at(32, "AllReduce")
                   .at<size_t>(56, 6)
                   .at(72, "ncclFloat16");
  reinterpret_cast<Start>(v4[2])(context, &handle, reduce.data());
  EXPECT_NE(handle, nullptr);
  reinterpret_cast<Finalize>(v4[5])(context);

  reinterpret_cast<InitV6>(v6[1])(&context, 7, &mask, "new", 1, 4, 3, nullptr);
  EXPECT_EQ(mask, 2 + 4 + 64 + 2048 + 4096);
  Raw send =
      Raw().at<uint64_t>(0, 4).at(24, "Send").at(40, "ncclFloat32").at<size_t>(48, 3).at(56, 1);
  Raw copied =
      Raw().at<uint64_t>(0, 4096).at(32, "AllGather").at<size_t>(56, 12).at(72, "ncclInt8");
  Raw unknown = Raw().at<uint64_t>(0, 2).at(32, "Novelty").at<size_t>(56, 12).at(72, "ncclInt8");
  for (Raw* event : {&send, &copied, &unknown}) {
    reinterpret_cast<Start>(v6[2])(context, &handle, event->data());
  }
  reinterpret_cast<Finalize>(v6[5])(context);

  const auto lines = read_witness(folder.path(), "ncclprof").at(5);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].at("op"), "all_reduce");
  EXPECT_EQ(lines[0].at("bytes"), 12);
  EXPECT_EQ(lines[0].at("comm_rank"), 2);
  EXPECT_EQ(lines[2].at("op"), "send");
  EXPECT_EQ(lines[2].at("bytes"), 12);
  EXPECT_EQ(lines[2].at("peer"), 1);
  EXPECT_EQ(lines[3].at("call"), "CeColl");
  EXPECT_EQ(lines[4].at("kind"), "uncovered");
}

TEST(CuptiWitness, WithoutADriverItSaysWhyItSawNothing) {
  if (!std::filesystem::exists(std::string(S2T_WITNESS_LIBRARIES) + "/libs2t_cupti.so")) {
    GTEST_SKIP() << "built without CUPTI";
  }
  ScratchFolder folder;
  const Variable where("S2T_WITNESS_DIR", folder.path());
  void* library = open_witness("cupti");
  const auto start = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  ASSERT_NE(start, nullptr);
  EXPECT_EQ(start(), 1);
  const Witnessed seen = read_witness(folder.path(), "cupti");
  if (seen.empty()) GTEST_SKIP() << "a driver is here";
  const auto& lines = seen.begin()->second;
  EXPECT_EQ(lines.at(0).at("kind"), "error");
  EXPECT_EQ(lines.at(0).at("call"), "cuptiActivityEnable");
}

}  // namespace
}  // namespace s2t::test

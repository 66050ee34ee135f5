// What a profiler would see: every NVTX range that a process opens, one line each, appended to the
// file that S2T_NVTX_FILE names. NVTX loads this library when NVTX_INJECTION64_PATH names it.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

namespace {

int NVTX_API push(const char* message) {
  if (std::FILE* file = std::fopen(std::getenv("S2T_NVTX_FILE"), "a")) {
    std::fprintf(file, "%s\n", message);
    std::fclose(file);
  }
  return 0;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0)
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  return 1;
}

#include "analyzer/cli/watch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "analyzer/base/text.h"
#include "runtime/comm/place.h"
#include "runtime/comm/witnesses.h"

namespace s2t {
namespace {

namespace fs = std::filesystem;

bool has_witnesses(const std::string& backend) {
  for (const Witness& w : witnesses())
    if (w.backend == backend) return true;
  return false;
}

// Records of another run would be taken for this one's.
void require_fresh(const std::string& folder) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (!fs::is_directory(folder, error))
    refuse_folder(kWitnessFolder, s2t::quoted(folder) + ", which is no folder", "an empty folder");
  if (!fs::is_empty(folder, error) || error)
    refuse_folder(kWitnessFolder, s2t::quoted(folder) + ", where files are", "an empty folder");
}

// Why a witness cannot be loaded; "" if it can.
std::string why_not_loaded(const Witness& w, bool stand_in) {
  if (w.needs_gpu && stand_in) return "it watches a GPU, and these are stand-ins";
  return library_of(w).empty() ? fmt::format("{} was not built, or not found here", w.file) : "";
}

}  // namespace

Watch::Watch(const Backend& backend, bool stand_in)
    : backend_(backend.name), stand_in_(stand_in), starts_ranks_(!is_started_rank()) {
  if (!has_witnesses(backend_)) return;
  const char* given = std::getenv(kWitnessFolder);
  folder_ = given ? given : "";
  if (!starts_ranks_) return;
  if (!folder_.empty()) {
    require_fresh(folder_);
    return;
  }
  temporary_ = Scratch::folder();
  folder_ = temporary_.path();
}

void Watch::load_into(std::map<std::string, std::string>& environment) const {
  if (!starts_ranks_ || folder_.empty()) return;
  environment[kWitnessFolder] = folder_;
  for (const Witness& w : witnesses())
    if (w.backend == backend_ && why_not_loaded(w, stand_in_).empty())
      load_by_environment(w, library_of(w), environment);
}

std::vector<Heard> Watch::hear() const {
  std::vector<Heard> all;
  for (const Witness& w : witnesses()) {
    if (w.backend != backend_) continue;
    Heard heard{std::string(w.name), true, "", {}};
    if (starts_ranks_)
      heard.why_not = why_not_loaded(w, stand_in_);
    else if (w.needs_gpu)
      heard.why_not = "it writes when a process ends, after this report";
    if (heard.why_not.empty() && !folder_.empty())
      heard.records = read_witness_records(folder_, heard.witness);
    if (!starts_ranks_ && heard.why_not.empty() && heard.records.empty())
      heard.why_not = "nobody loaded it into the ranks (docs/evidence.md says how)";
    heard.took_part = heard.why_not.empty();
    all.push_back(std::move(heard));
  }
  return all;
}

}  // namespace s2t

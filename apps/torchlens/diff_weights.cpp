#include "diff_weights.h"

#include <system_error>
#include <utility>

#include "archive/model_weights.h"
#include "core/error.h"

namespace tl::cli {
namespace {

namespace fs = std::filesystem;

class LazyWeights final : public WeightSource {
 public:
  explicit LazyWeights(fs::path model) : model_(std::move(model)) {}

  std::optional<WeightValue> find(std::string_view address) const override {
    return guarded(std::optional<WeightValue>(), [&](const WeightSource& source) { return source.find(address); });
  }

  std::vector<std::string> quantised() const override {
    return guarded(std::vector<std::string>(), [](const WeightSource& source) { return source.quantised(); });
  }

 private:
  template <typename Result, typename Read>
  Result guarded(Result otherwise, const Read& read) const {
    try {
      if (!tried_) {
        tried_ = true;
        source_ = read_model_weights(model_);
      }
      return source_ ? read(*source_) : otherwise;
    } catch (const Error&) {
      return otherwise;
    }
  }

  fs::path model_;
  mutable bool tried_ = false;
  mutable std::unique_ptr<WeightSource> source_;
};

}  // namespace

std::unique_ptr<WeightSource> weights_of_model(fs::path model) {
  return std::make_unique<LazyWeights>(std::move(model));
}

fs::path model_beside(const fs::path& recording, const Trace& trace) {
  const fs::path name = trace.run.model_file;
  if (name.empty() || name != name.filename()) return {};
  auto directory = recording;
  if (!directory.has_filename()) directory = directory.parent_path();
  for (const auto& candidate : {directory.parent_path() / name, name}) {
    std::error_code failed;
    const auto size = fs::is_regular_file(candidate, failed) ? fs::file_size(candidate, failed) : 0;
    if (!failed && size > 0 && static_cast<std::int64_t>(size) == trace.run.model_bytes) return candidate;
  }
  return {};
}

}  // namespace tl::cli

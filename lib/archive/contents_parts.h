#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "archive/model_contents.h"
#include "archive/pickle_value.h"
#include "archive/torchscript_scan.h"
#include "archive/zip_directory.h"

namespace tl {

/// Digests of many tensors: those of whole entries are there already if `zip` had them taken with the checksums; of the
/// others each element is read once (views of the same elements are taken together), by several threads.
class TensorDigests {
 public:
  /// `zip` may be null, else it must outlive the object.
  explicit TensorDigests(const ZipDirectory* zip = nullptr) : zip_(zip) {}

  /// Sets `tensors[row].digest` at the end. `prefix` goes in front of it.
  void want(std::size_t row, std::vector<HostTensor> parts, std::string prefix = {});
  /// Takes the digests. What a tensor in `tensors` has is replaced.
  void take(std::vector<ModelTensor>& tensors, unsigned threads);

 private:
  struct Job {
    std::size_t row;
    std::vector<HostTensor> parts;
    std::string prefix;
  };
  /// By where their bytes lie.
  std::unordered_map<const std::byte*, const ZipEntry*> stored_entries() const;

  const ZipDirectory* zip_;
  std::vector<Job> jobs_;
};

/// Collects the tensors below a value of a pickle under dotted names, and asks for their digests.
void add_tensors(const PickleValue& value, const std::string& name, ModelTensor::Kind kind, ModelContents& contents,
                 TensorDigests& digests);

/// Operators of a scan as names and counts.
std::vector<std::pair<std::string, std::uint64_t>> operator_counts(const TorchScriptScan& scan);

/// Element type of most bytes among the parameters; of all tensors where none is one. Empty without any.
std::string main_dtype(const std::vector<ModelTensor>& tensors);

/// `a · b`, leaving out what is empty.
std::string joined_details(const std::vector<std::string>& parts);

ModelContents torchscript_contents(const ZipDirectory& zip, unsigned threads);
ModelContents exported_contents(const ZipDirectory& zip, unsigned threads);

}  // namespace tl

#include "core/error.h"
#include "core/text.h"
#include "tensor/npy.h"
#include "tlspec/foreign_base64.h"
#include "tlspec/foreign_files.h"
#include "tlspec/foreign_json.h"
#include "tlspec/foreign_notes.h"
#include "tlspec/foreign_readers.h"
#include "tlspec/foreign_torch.h"
#include "tlspec/stored_tensor.h"

namespace tl {
namespace {

std::string shown(std::string_view name) { return elide(escape_for_terminal(name), 120); }

class PolygraphyReader {
 public:
  PolygraphyReader(const std::filesystem::path& path, const JsonTape& json) : path_(path), json_(json) {}

  Dump read() {
    dump_.kind = "Polygraphy results";
    dump_.producer = "Polygraphy";
    const auto root = json_.root();
    if (root.is_array()) {
      read_feeds(root);
    } else {
      read_runners(ForeignObject(json_, root, "the document"));
    }
    left_out_.append_to(dump_.notes);
    return std::move(dump_);
  }

 private:
  /// A list of (name, iterations): all runners ran the same model, so one of them is the recording.
  void read_runners(const ForeignObject& results) {
    const auto runners = results.list("lst");
    if (!runners || runners.size() == 0) results.fail("lst", "holds no runner");
    std::string others;
    bool first = true;
    for (const auto runner : runners.items()) {
      if (!runner.is_array() || runner.size() != 2) results.fail("lst", "is no list of runners and their iterations");
      auto part = runner.items().begin();
      const auto name = *part;
      ++part;
      if (!name.is_string() || !(*part).is_array()) results.fail("lst", "is no list of runners and their iterations");
      if (first) {
        dump_.engine = std::string(name.string());
        read_iterations(*part);
      } else {
        others += (others.empty() ? "" : ", ") + shown(name.string());
      }
      first = false;
    }
    if (!others.empty()) {
      dump_.notes.push_back("of several runners " + shown(dump_.engine) + " is read, not " + others);
    }
  }

  void read_iterations(JsonRef iterations) {
    std::int64_t call = 0;
    for (const auto iteration : iterations.items()) {
      const ForeignObject record(json_, iteration, "an iteration");
      ++call;
      const auto outputs = record.object("outputs");
      if (!outputs) record.fail("outputs", "is missing");
      for (const auto& [name, value] : outputs->value().members()) read_array(name, value, call, dump_.entries);
    }
  }

  void read_feeds(JsonRef feeds) {
    dump_.kind = "Polygraphy feeds";
    std::int64_t call = 0;
    for (const auto feed : feeds.items()) {
      const ForeignObject record(json_, feed, "a feed");
      ++call;
      for (const auto& [name, value] : record.value().members()) read_array(name, value, call, dump_.inputs);
    }
  }

  void read_array(std::string_view name, JsonRef value, std::int64_t call, std::vector<DumpEntry>& entries) {
    DumpEntry entry;
    entry.name = std::string(name);
    entry.call = call;
    const ForeignObject outer(json_, value, "an array");
    const auto inner = outer.object("values");  // of a LazyArray
    const auto& record = inner ? *inner : outer;
    HostTensor tensor;
    if (const auto array = record.string("array"); !array.empty()) {
      const auto bytes = decoded(record, "array", array);
      tensor = read_npy(*bytes, bytes, path_.string() + ": " + shown(name));
    } else if (const auto saved = record.string("tensor"); !saved.empty()) {
      tensor = read_torch_tensor(decoded(record, "tensor", saved), path_.string() + ": " + shown(name));
    } else {
      left_out_.add(shown(name) + " is no array");
      return;
    }
    entry.dtype = tensor.dtype;
    entry.sizes = tensor.sizes;
    entry.value = stored_tensor(std::move(tensor));
    entries.push_back(std::move(entry));
  }

  static std::shared_ptr<const std::vector<std::byte>> decoded(const ForeignObject& record, std::string_view key,
                                                               const std::string& text) {
    auto bytes = decode_base64(text);
    if (!bytes) record.fail(key, "is no base64");
    return std::make_shared<const std::vector<std::byte>>(std::move(*bytes));
  }

  std::filesystem::path path_;
  const JsonTape& json_;
  Dump dump_;
  ForeignNotes left_out_{"values are no arrays"};
};

}  // namespace

Dump read_polygraphy(const std::filesystem::path& path, const JsonTape& json) {
  return PolygraphyReader(path, json).read();
}

}  // namespace tl

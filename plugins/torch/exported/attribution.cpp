#include "exported/attribution.h"

#include <algorithm>
#include <array>
#include <optional>

#include "archive/python_calls.h"

namespace tl::lt {
namespace {

/// Files that torch.fx makes up for the code of its graphs.
constexpr std::string_view kGeneratedFile = "<eval_with_key>";

/// Frames of the exporter itself, between the user's: they say nothing about the model.
bool is_exporter_frame(const ExportedSourceFrame& frame) {
  static constexpr std::array<std::string_view, 7> kParts = {
      "/torch/_dynamo/",    "/torch/_export/",           "/torch/export/", "/torch/fx/",
      "/torch/_functorch/", "/torch/_higher_order_ops/", "/torch/_ops.py"};
  if (frame.file.starts_with(kGeneratedFile)) return true;
  return std::ranges::any_of(kParts, [&](auto part) { return frame.file.find(part) != std::string::npos; });
}

std::string without_call_number(const std::string& fqn) { return fqn.substr(0, fqn.rfind('@')); }

/// Strict exports wrap the root once more inside subgraphs: `_export_root.a` is `a`. nullopt for the wrapper itself.
std::optional<std::string> real_path(const std::string& path) {
  static constexpr std::string_view kWrapper = "_export_root";
  if (path == kWrapper) return std::nullopt;
  if (path.starts_with(kWrapper) && path[kWrapper.size()] == '.') return path.substr(kWrapper.size() + 1);
  return path;
}

}  // namespace

Attribution::Attribution(const ExportedProgram& program, StaticTables& tables)
    : program_(program), tables_(tables), call_sites_(tables) {
  std::unordered_map<std::string, std::string> classes;
  for (const auto& stack : program.module_stacks) {
    for (const auto& frame : stack) {
      const auto path = real_path(frame.path);
      if (!path) continue;
      if (auto& name = classes[*path]; name.empty()) name = frame.class_name;
    }
  }
  module_row("", classes[""]);
  for (const auto& call : program.module_calls) {
    const auto path = without_call_number(call.fqn);
    module_row(path, classes[path]);
  }
  for (const auto& stack : program.module_stacks) {
    for (const auto& frame : stack) {
      if (const auto path = real_path(frame.path)) module_row(*path, classes[*path]);
    }
  }
}

std::int32_t Attribution::module_row(const std::string& path, const std::string& class_name) {
  if (const auto found = modules_.find(path); found != modules_.end()) return found->second;
  std::int32_t parent = -1;
  if (!path.empty()) {
    const auto dot = path.rfind('.');
    parent = module_row(dot == std::string::npos ? std::string() : path.substr(0, dot), "");
  }
  auto& table = tables_.modules;
  const auto row = static_cast<std::int32_t>(table.address.size());
  const auto address = tables_.strings.intern(path.empty() ? "self" : path);
  const auto dot = class_name.rfind('.');
  table.address.push_back(address);
  table.all_addresses.push_back(address);
  table.class_name.push_back(
      tables_.strings.intern(dot == std::string::npos ? class_name : class_name.substr(dot + 1)));
  table.qualified_class.push_back(tables_.strings.intern(class_name));
  table.parent.push_back(parent);
  table.training.push_back(2);
  table.num_calls.push_back(0);
  modules_.emplace(path, row);
  return row;
}

std::int32_t Attribution::owner_of(const std::string& name) const {
  for (auto dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    if (const auto found = modules_.find(name.substr(0, dot)); found != modules_.end()) return found->second;
  }
  return 0;
}

std::int32_t Attribution::site_of(const ExportedSourceFrame& frame) {
  const bool columns = frame.column > 0 && frame.column_end >= frame.column;
  return call_sites_.row(frame.file, frame.line, columns ? static_cast<std::int64_t>(frame.column) - 1 : -1,
                         columns ? static_cast<std::int64_t>(frame.column_end) - 1 : -1, frame.function);
}

std::vector<Attribution::Frame> Attribution::frames_of(const ExportedNode& node, std::size_t levels) {
  std::vector<Frame> frames;
  if (node.source < 0) return frames;
  const auto& stack = program_.source_stacks[static_cast<std::size_t>(node.source)];
  const bool all_foreign = std::ranges::all_of(stack, is_exporter_frame);
  std::int32_t level = -1;
  for (const auto& frame : stack) {
    if (!all_foreign && is_exporter_frame(frame)) continue;
    // A frame of a `forward` begins the next module of the stack, as long as there is one; what is called in between
    // belongs to the forward it is called from.
    const bool begins = frame.function == "forward" && level + 1 < static_cast<std::int32_t>(levels);
    if (begins || level < 0) ++level;
    frames.push_back({site_of(frame), level, &frame});
  }
  return frames;
}

// Nodes in the subgraphs of a non-strict export all state the line that calls the higher-order operator. What tells
// them apart is their line in the code that the exporter made of the subgraph, which nobody wants to see.
std::int32_t Attribution::innermost_site(const ExportedNode& node, const Frame& frame) {
  const auto& last = program_.source_stacks[static_cast<std::size_t>(node.source)].back();
  const auto& shown = *frame.source;
  if (&last == &shown || shown.column > 0 || !last.file.starts_with(kGeneratedFile)) return frame.site;
  return call_sites_.row(shown.file, shown.line, -1, last.line, shown.function);
}

NodePlace Attribution::place(const ExportedNode& node, const NodePlace& base) {
  const auto key = std::pair(node.modules, node.source);
  const bool cached = node.modules >= 0;
  if (cached) {
    if (const auto found = places_.find(key); found != places_.end()) return found->second;
  }
  NodePlace place;
  if (node.modules >= 0) {
    for (const auto& frame : program_.module_stacks[static_cast<std::size_t>(node.modules)]) {
      const auto path = real_path(frame.path);
      // Inside subgraphs, strict exports name the root twice: as itself and as the wrapper around it.
      if (!path || (path->empty() && !place.levels.empty())) continue;
      place.levels.push_back({frame.key, module_row(*path, ""), frame.call, -1});
    }
  }
  if (place.levels.empty()) place.levels = base.levels;
  const auto frames = frames_of(node, place.levels.size());
  const auto innermost = static_cast<std::int32_t>(place.levels.size()) - 1;
  for (const auto& frame : frames) {
    for (std::size_t level = 1; level < place.levels.size(); ++level) {
      // The last frame at or above the parent's level is the line that calls the module.
      if (frame.level < static_cast<std::int32_t>(level)) place.levels[level].call_site = frame.site;
    }
  }
  if (!frames.empty()) {
    place.call_site = innermost_site(node, frames.back());
    for (std::size_t i = 0; i + 1 < frames.size(); ++i) {
      if (frames[i].level == innermost) place.frames.push_back(frames[i].site);
    }
  } else {
    place.call_site = call_sites_.row("", 0, -1, -1, "forward");
    for (std::size_t level = 1; level < place.levels.size(); ++level) place.levels[level].call_site = place.call_site;
  }
  if (cached) places_.emplace(key, place);
  return place;
}

std::int32_t Attribution::subgraph_site(const NodePlace& place, const std::string& graph) {
  const auto& sites = tables_.call_sites;
  const auto row = static_cast<std::size_t>(place.call_site);
  return call_sites_.row(std::string(tables_.strings[sites.file[row]]), sites.line[row], -1, -1, graph);
}

void Attribution::note_call(const ExportedNode& node, const NodePlace& place, std::string_view func_name,
                            std::uint32_t call, std::uint32_t instruction) {
  const auto frames = frames_of(node, place.levels.size());
  if (frames.empty() || frames.back().source->column > 0) return;
  calls_on_line_[{call, place.call_site, place.frames, std::string(func_name)}].push_back(
      {instruction, frames.back().source});
}

void Attribution::split_lines() {
  for (const auto& [key, calls] : calls_on_line_) {
    const auto& frame = *calls.front().source;
    const auto names = calls.size() < 2 ? std::vector<std::size_t>() : calls_in_line(frame.code, std::get<3>(key));
    if (names.size() < 2 || calls.size() % names.size() != 0) continue;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      // Columns are not stated: what tells the calls apart is where the name stands in the text of the line.
      tables_.instructions.call_site.mut(calls[i].instruction) = call_sites_.row(
          frame.file, frame.line, -1, static_cast<std::int64_t>(names[i % names.size()]), frame.function);
    }
  }
  calls_on_line_.clear();
}

}  // namespace tl::lt

#include "dump_screen.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "json_output.h"
#include "payload_glance.h"
#include "table.h"
#include "text_format.h"

namespace tl::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::kFull:
      return "full";
    case Evidence::kSampled:
      return "sampled";
    case Evidence::kStatistics:
      return "statistics";
    case Evidence::kShape:
      break;
  }
  return "shape";
}

/// blocks.0:2/logits
std::string label_of(const DumpEntry& entry) {
  return entry.name + ":" + std::to_string(entry.call) + (entry.path.empty() ? "" : "/" + entry.path);
}

std::string type_of(const DumpEntry& entry) {
  if (!entry.scalar.empty()) return entry.scalar;
  const auto dtype = entry.dtype == DType::kNone ? "?" : std::string(short_name(entry.dtype));
  return entry.has_sizes ? dtype + "[" + format_sizes(entry.sizes) + "]" : dtype;
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const auto& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : separator) + part;
  }
  return text;
}

std::string statistics_text(const DumpStatistics& statistics) {
  std::string text;
  const auto add = [&](std::string_view name, const std::optional<double>& value) {
    if (value) text += (text.empty() ? "" : " ") + std::string(name) + "=" + format_number(*value, 6);
  };
  add("abs_mean", statistics.abs_mean);
  add("sum", statistics.sum);
  add("min", statistics.min);
  add("max", statistics.max);
  add("mean", statistics.mean);
  add("std", statistics.std);
  add("l2", statistics.l2);
  return text;
}

Json statistics_json(const DumpStatistics& statistics) {
  Json json = Json::object();
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) json[name] = json_number(*value);
  };
  add("min", statistics.min);
  add("max", statistics.max);
  add("sum", statistics.sum);
  add("mean", statistics.mean);
  add("abs_mean", statistics.abs_mean);
  add("std", statistics.std);
  add("l2", statistics.l2);
  return json;
}

Json entry_json(const DumpEntry& entry) {
  Json json;
  json["name"] = entry.name;
  json["call"] = entry.call;
  json["path"] = entry.path;
  json["kind"] = entry.is_tap ? "tap" : entry.is_op ? "op" : "value";
  json["class"] = entry.class_name;
  json["operation"] = entry.operation;
  json["module"] = entry.module;
  json["dtype"] = short_name(entry.dtype);
  json["shape"] = entry.has_sizes && entry.scalar.empty() ? Json(entry.sizes) : Json();
  json["evidence"] = to_string(entry.evidence);
  json["statistics"] = statistics_json(entry.statistics);
  json["scalar"] = entry.scalar;
  json["file"] = entry.file;
  json["line"] = entry.line;
  return json;
}

Json entries_json(const std::vector<DumpEntry>& entries) {
  Json list = Json::array();
  for (const auto& entry : entries) list.push_back(entry_json(entry));
  return list;
}

std::string what_of(const DumpEntry& entry) {
  if (entry.is_tap) return "tap";
  return entry.class_name.empty() ? entry.operation : entry.class_name;
}

void print_entries(Output& out, const Dump& dump) {
  std::map<std::pair<std::string, std::string>, std::int64_t> calls;
  for (const auto& entry : dump.entries) ++calls[{entry.name, entry.path}];
  Table table(
      {{"name", 44, false}, {"kind", 16, false}, {"calls", 0, true}, {"output", 28, false}, {"evidence", 0, false}});
  for (const auto& entry : dump.entries) {
    const auto found = calls.find({entry.name, entry.path});
    if (found->second == 0) continue;
    table.add({entry.name + (entry.path.empty() ? "" : "/" + entry.path), what_of(entry), std::to_string(found->second),
               type_of(entry), std::string(to_string(entry.evidence))});
    found->second = 0;
  }
  table.print(out, "  ");
}

}  // namespace

void print_dump_screen(Output& out, const std::string& name, const Dump& dump) {
  const auto seed = dump.seed ? "seed " + std::to_string(*dump.seed) : std::string();
  const auto facts = joined(
      {dump.kind, dump.model_class, dump.engine.empty() ? dump.producer : dump.engine, dump.mode, dump.device, seed},
      " · ");
  out.line(Style::kBold, name, "   " + facts);
  for (const auto& input : dump.inputs) out.line("  " + input.name + "  " + type_of(input));
  out.line();
  if (!dump.entries.empty()) print_entries(out, dump);
  auto counts = counted(static_cast<std::int64_t>(dump.entries.size()), "tensor");
  if (!dump.params.empty()) {
    counts += " · " + counted(static_cast<std::int64_t>(dump.params.size()), "parameter and buffer digest");
  }
  out.line("  " + counts);
  if (dump.outcome != "complete") {
    out.line(Style::kError, "PARTIAL ", dump.outcome + "   " + dump.reason.substr(0, dump.reason.find('\n')));
  }
  for (const auto& note : dump.notes) out.line("note: " + note);
}

Json dump_screen_json(const Dump& dump) {
  Json body;
  body["kind"] = dump.kind;
  body["producer"] = dump.producer;
  body["engine"] = dump.engine;
  body["model_class"] = dump.model_class;
  body["mode"] = dump.mode;
  body["device"] = dump.device;
  body["seed"] = dump.seed ? Json(*dump.seed) : Json();
  body["outcome"] = {{"status", dump.outcome}, {"reason", dump.reason}};
  body["inputs"] = entries_json(dump.inputs);
  body["entries"] = entries_json(dump.entries);
  body["outputs"] = entries_json(dump.outputs);
  body["params"] = Json::array();
  for (const auto& param : dump.params) {
    body["params"].push_back({{"address", param.address},
                              {"other_addresses", param.other_addresses},
                              {"kind", param.is_buffer ? "buffer" : "parameter"},
                              {"dtype", short_name(param.dtype)},
                              {"shape", param.sizes},
                              {"digest", param.digest}});
  }
  body["notes"] = dump.notes;
  return body;
}

std::vector<const DumpEntry*> find_dump_entries(const Dump& dump, const std::string& key) {
  std::vector<const DumpEntry*> found;
  std::vector<std::string> names;
  for (const auto* entries : {&dump.inputs, &dump.entries, &dump.outputs}) {
    for (const auto& entry : *entries) {
      const auto label = label_of(entry);
      if (key == entry.name || key == label || label.starts_with(key + "/")) found.push_back(&entry);
      if (names.empty() || names.back() != entry.name) names.push_back(entry.name);
    }
  }
  if (!found.empty()) return found;
  std::string close;
  for (const auto& name : did_you_mean(key, names)) close += (close.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::kLookupNotFound, "no entry has the key '" + key + "'",
              close.empty() ? "torchlens show TRACE lists the names" : "did you mean " + close + "?",
              "a key is a name, NAME:CALL or NAME:CALL/PATH");
}

void print_dump_entries(Output& out, const std::vector<const DumpEntry*>& entries) {
  for (const auto* entry : entries) {
    const auto what = joined({what_of(*entry), entry->module}, " in ");
    out.line(Style::kBold, label_of(*entry), what.empty() ? "" : "   " + what);
    if (entry->value) {
      out.line("  " + tensor_glance(type_of(*entry), *entry->value));
    } else {
      out.line("  " + type_of(*entry) + (entry->scalar.empty() ? "   (no value)" : ""));
    }
    const auto statistics = statistics_text(entry->statistics);
    if (!statistics.empty()) out.line("  " + statistics);
    if (!entry->file.empty()) out.line("  " + entry->file + ":" + std::to_string(entry->line));
  }
}

Json dump_entries_json(const std::vector<const DumpEntry*>& entries) {
  Json list = Json::array();
  for (const auto* entry : entries) {
    auto json = entry_json(*entry);
    json["glance"] = entry->value ? Json(tensor_glance(type_of(*entry), *entry->value)) : Json();
    list.push_back(std::move(json));
  }
  return {{"entries", list}};
}

}  // namespace tl::cli

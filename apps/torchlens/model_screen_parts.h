#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "archive/model_kind.h"
#include "archive/tensor_walk.h"
#include "archive/torchscript_scan.h"
#include "archive/torchscript_summary.h"
#include "archive/zip_directory.h"
#include "core/mapped_file.h"
#include "engine/known_operators.h"
#include "output.h"

namespace tl::cli {

/// A model file that is being looked at.
struct ModelLook {
  const ModelFileInfo& info;
  const std::shared_ptr<const MappedFile>& file;
  const ZipDirectory* zip = nullptr;      ///< null where it is none
  const KnownOperators* known = nullptr;  ///< null where that is not known
};

/// How the files of one kind are shown: one row of kScreenParts in model_screen.cpp, one source a kind.
struct ModelScreenPart {
  ModelKind kind;
  void (*fill)(nlohmann::ordered_json& screen, const ModelLook& look);
  void (*print)(Output& out, const nlohmann::ordered_json& screen, bool everything);
};

void fill_torchscript(nlohmann::ordered_json& screen, const ModelLook& look);
void print_torchscript(Output& out, const nlohmann::ordered_json& screen, bool everything);

void fill_exported(nlohmann::ordered_json& screen, const ModelLook& look);
void print_exported(Output& out, const nlohmann::ordered_json& screen, bool everything);

void fill_tensor_file(nlohmann::ordered_json& screen, const ModelLook& look);
void print_tensor_file(Output& out, const nlohmann::ordered_json& screen, bool everything);

void fill_lite_interpreter(nlohmann::ordered_json& screen, const ModelLook& look);
void print_lite_interpreter(Output& out, const nlohmann::ordered_json& screen, bool everything);

void fill_aot_inductor(nlohmann::ordered_json& screen, const ModelLook& look);
void print_aot_inductor(Output& out, const nlohmann::ordered_json& screen, bool everything);

/// Operators, classes, what of them the engine does not know and what is unsafe, as keys of the screen.
void fill_operators(nlohmann::ordered_json& screen, const TorchScriptScan& scan, const KnownOperators* known);
void print_operators(Output& out, const nlohmann::ordered_json& screen, bool everything);
/// The tree of `modules` with parameters and bytes; long ones are cut unless everything is wanted.
void print_module_table(Output& out, const nlohmann::ordered_json& modules, bool everything);
/// Totals of parameters, buffers and constants, and tied names.
void print_tensors(Output& out, const nlohmann::ordered_json& screen);

nlohmann::ordered_json totals_json(const TensorTotals& totals);
/// `47 tensors, 374 K elements, 1.4 MB`
std::string totals_text(const nlohmann::ordered_json& totals);

/// A paragraph `name  items, separated by commas`, wrapped to 80 columns behind its name. Items are escaped here.
void print_items(Output& out, const std::string& name, const std::vector<std::string>& items);
/// A paragraph of pieces that are not broken, likewise.
void print_pieces(Output& out, Style style, const std::string& name, const std::vector<std::string>& pieces);
/// A paragraph of words, likewise; a word is not cut. `text` is escaped here.
void print_words(Output& out, Style style, const std::string& name, const std::string& text);
/// The signature of a method, indented and wrapped likewise.
void print_signature(Output& out, const std::string& signature);
/// Column at which what follows the name of a paragraph begins.
inline constexpr std::size_t kParagraphIndent = 12;

/// The names of uses, the most used first, as `aten::relu ×17`; at most `most`, then how many more there are.
std::vector<std::string> most_used(const nlohmann::ordered_json& uses, std::size_t most);

}  // namespace tl::cli

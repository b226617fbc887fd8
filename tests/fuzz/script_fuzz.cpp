// TorchScript sources: tokens, names, class statements.

#include "archive/script_lexer.h"
#include "archive/script_outline.h"
#include "archive/torchscript_scan.h"
#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view source = tl::fuzz::as_text(data, size);
  tl::fuzz::answers([&] {
    tl::ScriptClasses classes;
    const tl::TorchScriptScan scan = tl::scan_torchscript_source(source, "code/__torch__/m.py", &classes);
    tl::unsafe_uses(scan);
    for (const auto& [name, script_class] : classes) {
      tl::demangled_class(name);
      for (const auto& method : script_class.methods) method.signature();
    }
  });
  return 0;
}

// Prints the outlines of Python texts for check_outlines.py, which compares them with Python's own ast. stdin: for each
// text its size in bytes on a line, then its bytes. stdout: for each text a line `text N` or `unknown N`, and under it
// the conditionals and tests with their spans in bytes.
#include <iostream>
#include <string>

#include "postprocess/python_outline.h"

namespace {

void print(const char* name, tl::TextSpan span) { std::cout << ' ' << name << ' ' << span.begin << ' ' << span.end; }

void print_outline(const tl::PythonOutline& outline) {
  for (const auto& conditional : outline.conditionals) {
    std::cout << (conditional.ternary ? "ifexp" : "chain");
    print("span", conditional.span);
    std::cout << " exit " << conditional.has_exit << '\n';
    for (const auto& arm : conditional.arms) {
      std::cout << "arm " << static_cast<int>(arm.kind) << " at " << arm.keyword;
      print("test", arm.test);
      print("body", arm.body);
      std::cout << " ends " << arm.ends << '\n';
    }
  }
  for (const auto& test : outline.tests) {
    std::cout << "test " << static_cast<int>(test.context);
    print("span", test.span);
    std::cout << '\n';
  }
  for (const auto at : outline.asserts) std::cout << "assert " << at << '\n';
}

}  // namespace

int main() {
  std::string line;
  for (std::size_t number = 0; std::getline(std::cin, line); ++number) {
    std::string text(std::stoul(line), '\0');
    std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
    const auto outline = tl::outline_python(text);
    std::cout << (outline ? "text " : "unknown ") << number << '\n';
    if (outline) print_outline(*outline);
  }
  return 0;
}

#include "archive/script_code.h"

#include <gmock/gmock.h>

namespace tl {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::vector<ScriptUnit> units_of(const std::string& source, const std::string& file = "code/__torch__/net.py") {
  std::vector<std::string> names;
  return script_units(source, file, names);
}

constexpr const char* kNet = R"(class Net(Module):
  __parameters__ = ["weight", ]
  weight : Tensor
  eps : Final[float] = 1.0000000000000001e-05
  def forward(self: __torch__.net.Net,
    x: Tensor) -> Tensor:
    weight = self.weight
    y, z, = torch.max(x, 0)
    for i in range(3):
      y = torch.add(y, weight, alpha=1)
    return y
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST(ScriptCode, CutsASourceIntoClassesAndFunctions) {
  std::vector<std::string> names;
  const auto units = script_units(std::string(kNet) + "def relu(x: Tensor) -> Tensor:\n  return torch.relu(x)\n",
                                  "code/__torch__/a/___torch_mangle_3.py", names);
  ASSERT_THAT(units, SizeIs(2));
  EXPECT_EQ(units[0].name, "a.Net");
  EXPECT_EQ(units[1].name, "a.relu");
  EXPECT_THAT(names, ElementsAre("__torch__.a.___torch_mangle_3.Net", "__torch__.a.___torch_mangle_3.relu"));
  EXPECT_EQ(units[1].first_line, 12u);
}

TEST(ScriptCode, LocalNamesLayoutAndManglingSayNothing) {
  const auto net = units_of(kNet);
  ASSERT_THAT(net, SizeIs(1));
  for (const auto& [from, to] : {std::pair("y", "hidden"), std::pair("z", "unused"), std::pair("i", "step")}) {
    std::string source = kNet;
    for (const char* before : {" ", "("}) {
      for (const char* after : {" ", ",", "\n"}) {
        source = replaced(source, before + std::string(from) + after, before + std::string(to) + after);
      }
    }
    EXPECT_EQ(units_of(source)[0].tokens, net[0].tokens) << from;
  }
  const auto mangled = replaced(kNet, "__torch__.net.Net", "__torch__.net.___torch_mangle_7.Net");
  EXPECT_EQ(units_of(mangled)[0].tokens, net[0].tokens);
  EXPECT_EQ(units_of("# a comment\n\n" + std::string(kNet))[0].tokens, net[0].tokens);
  EXPECT_EQ(units_of(kNet, "code/__torch__/net.py")[0].tokens, net[0].tokens);
}

TEST(ScriptCode, WhatMayChangeAValueChangesTheTokens) {
  const auto net = units_of(kNet)[0];
  const std::vector<std::pair<std::string, std::string>> edits = {{"alpha=1", "alpha=2"},
                                                                  {"alpha=1", "beta=1"},
                                                                  {"torch.add", "torch.sub"},
                                                                  {"self.weight", "self.w"},
                                                                  {"1.0000000000000001e-05", "9.9999999999999995e-07"},
                                                                  {"range(3)", "range(4)"},
                                                                  {"(y, weight, alpha", "(weight, y, alpha"},
                                                                  {"    return y", "    return z"},
                                                                  {"      y = torch", "    y = torch"}};
  for (const auto& [from, to] : edits) {
    const auto other = units_of(replaced(kNet, from, to))[0];
    EXPECT_NE(other.tokens, net.tokens) << from << " -> " << to;
  }
}

TEST(ScriptCode, TellsTheLineOfAToken) {
  const auto net = units_of(kNet)[0];
  const auto other = units_of(replaced(kNet, "alpha=1", "alpha=2"))[0];
  const auto [at, there] = std::ranges::mismatch(net.tokens, other.tokens);
  const auto token = static_cast<std::size_t>(at - net.tokens.begin());
  EXPECT_EQ(net.lines[token], 10u);
  EXPECT_EQ(net.line_of(token), "y = torch.add(y, weight, alpha=1)");
  EXPECT_EQ(other.line_of(token), "y = torch.add(y, weight, alpha=2)");
}

}  // namespace
}  // namespace tl

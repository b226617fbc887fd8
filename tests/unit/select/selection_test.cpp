#include "select/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "postprocess/pipeline.h"
#include "select/term_marks.h"
#include "support/trace_fixtures.h"
#include "trace/finiteness.h"

namespace tl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// input -> enc.0 (linear, relu twice in a loop) -> enc.1 (linear) -> add with the input of the model -> output.
Trace made() {
  return run_pipeline(test::capture_from_text(
      "trace 1\n"
      "call_site s0 file=m.py line=3 column=4 column_end=9\n"
      "call_site s1 file=m.py line=7 column=4 column_end=9\n"
      "call_site s2 file=m.py line=8 column=4 column_end=9\n"
      "module self class_name=Net\n"
      "module enc class_name=ModuleList parent=self\n"
      "module enc.0 class_name=Block parent=enc all_addresses=\"enc.0,alias\"\n"
      "module enc.1 class_name=Linear parent=enc\n"
      "context c0 module=self\n"
      "context c1 module=enc.0\n"
      "context c2 module=enc.1\n"
      "instruction i0 op_name=aten::linear func_name=linear layer_type=linear call_site=s0\n"
      "instruction i1 op_name=aten::relu_ func_name=relu_ layer_type=relu call_site=s1\n"
      "instruction i2 op_name=aten::add overload=Tensor func_name=__add__ layer_type=add call_site=s2\n"
      "param enc.0.weight module=enc.0 dtype=f32 shape=[4,4] bytes=64 trainable=1\n"
      "param enc.1.weight module=enc.1 dtype=f32 shape=[8,4] bytes=128\n"
      "buffer enc.0.count module=enc.0 dtype=i64 shape=[] bytes=8\n"
      "call self:1 first_op=a end_op=end output_op=f\n"
      "call enc.0:1 parent_call=self:1 first_op=u end_op=e output_op=d\n"
      "call enc.1:1 parent_call=self:1 first_op=e end_op=f output_op=e\n"
      "op a input out=f32[2,4] address=input.x\n"
      "op u buffer out=i64[] address=enc.0.count call=enc.0:1 context=c1\n"
      "op b i0 out=f32[2,4] parents=a@0,u@1 params=enc.0.weight@1 call=enc.0:1 context=c1\n"
      "op c i1 out=f32[2,4] parents=b@0 call=enc.0:1 context=c1 flags=in_place\n"
      "op d i1 out=f32[2,4] parents=c@0 call=enc.0:1 context=c1 flags=in_place\n"
      "op e i0 out=bf16[2,8] parents=d@0 params=enc.1.weight@1 call=enc.1:1 context=c2\n"
      "op f i2 out=f32[2,8] parents=e@0,a@1\n"
      "op g output out=f32[2,8] parents=f@0 address=output.logits\n"));
}

const Trace& trace() {
  static const Trace made_once = made();
  return made_once;
}

std::vector<std::string> keys(std::string_view source, NoMatch no_match = NoMatch::kRefuse) {
  std::vector<std::string> labels;
  try {
    for (const auto& site : resolve(Selector::parse(source), trace(), no_match).sites) {
      labels.push_back(Selection::key(trace(), site));
    }
  } catch (const Error& error) {
    labels.push_back("error[" + std::string(to_string(error.code)) + "] " + error.message);
  }
  return labels;
}

Error refused(std::string_view source) {
  try {
    (void)resolve(Selector::parse(source), trace());
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << source << " was resolved";
  return {ErrorCode::kInternal, ""};
}

TEST(Selection, EachTerm) {
  EXPECT_THAT(keys("func(\"relu_\")"), ElementsAre("relu_1_2:1", "relu_1_2:2"));
  EXPECT_THAT(keys("func(\"relu\")", NoMatch::kAllow), IsEmpty());
  EXPECT_THAT(keys("func(\"relu*\")"), ElementsAre("relu_1_2:1", "relu_1_2:2"));
  EXPECT_THAT(keys("func(\"add\")"), ElementsAre("add_1_4"));
  EXPECT_THAT(keys("func(\"__add__\")"), ElementsAre("add_1_4"));
  EXPECT_THAT(keys("func(\"aten::add\")"), ElementsAre("add_1_4"));
  EXPECT_THAT(keys("func(\"aten::add.Tensor\")"), ElementsAre("add_1_4"));
  EXPECT_THAT(keys("module(\"enc.0\")"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("module(\"alias\")"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("module(\"enc.0:1\")"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("module(\"enc.*\")"), ElementsAre("relu_1_2:2", "linear_2_3"));
  EXPECT_THAT(keys("module(\"self\")"), ElementsAre("add_1_4"));
  EXPECT_THAT(keys("in_module(\"enc.1\")"), ElementsAre("linear_2_3"));
  EXPECT_THAT(keys("in_module(\"enc\")"),
              ElementsAre("buffer_1", "linear_1_1", "relu_1_2:1", "relu_1_2:2", "linear_2_3"));
  EXPECT_THAT(keys("label(\"relu_1_2:2\")"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("label(\"relu_1_2:all\")"), ElementsAre("relu_1_2:1", "relu_1_2:2"));
  EXPECT_THAT(keys("label(\"relu_1_2:last\")"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("contains(\"near\")"), ElementsAre("linear_1_1", "linear_2_3"));
  EXPECT_THAT(keys("regex(\"^(add|relu).*[14]$\")"), ElementsAre("relu_1_2:1", "add_1_4"));
  EXPECT_THAT(keys("input"), ElementsAre("input_1"));
  EXPECT_THAT(keys("input(\"x\")"), ElementsAre("input_1"));
  EXPECT_THAT(keys("output"), ElementsAre("output_1"));
  EXPECT_THAT(keys("output(\"output.logits\")"), ElementsAre("output_1"));
  EXPECT_THAT(keys("buffer(\"*.count\")"), ElementsAre("buffer_1"));
  EXPECT_THAT(keys("followed_by(module(\"enc.1\"))"),
              ElementsAre("input_1", "buffer_1", "linear_1_1", "relu_1_2:1", "relu_1_2:2"));
  EXPECT_THAT(keys("preceded_by(func(\"relu_\"))"), ElementsAre("relu_1_2:2", "linear_2_3", "add_1_4", "output_1"));
}

TEST(Selection, KeysGoThroughTheLookupOrder) {
  EXPECT_THAT(keys("relu_1_2"), ElementsAre("relu_1_2:1", "relu_1_2:2"));
  EXPECT_THAT(keys("relu_1_2:1"), ElementsAre("relu_1_2:1"));
  EXPECT_THAT(keys("enc.0"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("enc.0:1"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("input.x"), ElementsAre("input_1"));
  EXPECT_THAT(keys("enc.0.weight"), ElementsAre("linear_1_1"));
  EXPECT_THAT(keys("enc.0.count"), ElementsAre("buffer_1"));
  EXPECT_THAT(keys("-1"), ElementsAre("output_1"));
  EXPECT_THAT(keys("ops[2]"), ElementsAre("linear_1_1"));
  EXPECT_THAT(keys("ops[2:4]"), ElementsAre("linear_1_1", "relu_1_2:1"));
  EXPECT_THAT(keys("ops[-2:]"), ElementsAre("add_1_4", "output_1"));
  EXPECT_THAT(keys("layers[-2]"), ElementsAre("add_1_4"));
  EXPECT_THAT(keys("layers.recurrent"), ElementsAre("relu_1_2:1", "relu_1_2:2"));
  EXPECT_THAT(keys("params.trainable"), ElementsAre("linear_1_1"));
  EXPECT_THAT(keys("ops.input"), ElementsAre("input_1"));
}

TEST(Selection, Expressions) {
  EXPECT_THAT(keys("where(numel > 8 and dtype == \"bfloat16\")"), ElementsAre("linear_2_3"));
  EXPECT_THAT(keys("where(dtype in [\"bf16\", \"int64\"])"), ElementsAre("buffer_1", "linear_2_3"));
  EXPECT_THAT(keys("where(shape == [2, 8])"), ElementsAre("linear_2_3", "add_1_4", "output_1"));
  EXPECT_THAT(keys("where(8 in shape and not is_output)"), ElementsAre("linear_2_3", "add_1_4"));
  EXPECT_THAT(keys("where(\"relu_1_2:1\" in parents)"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("where(\"lin\" in func_name)"), ElementsAre("linear_1_1", "linear_2_3"));
  EXPECT_THAT(keys("where(module == none and is_compute)"), ElementsAre("add_1_4"));
  EXPECT_THAT(keys("where(num_params >= 1.6e1)"), ElementsAre("linear_1_1", "linear_2_3"));
  EXPECT_THAT(keys("where(num_passes == 2 and pass_index != 1)"), ElementsAre("relu_1_2:2"));
  EXPECT_THAT(keys("where(is_inplace == true)"), ElementsAre("relu_1_2:1", "relu_1_2:2"));
}

TEST(Selection, ExpressionErrors) {
  const auto unknown = refused("where(nummel > 3)");
  EXPECT_EQ(unknown.code, ErrorCode::kUnknownField);
  EXPECT_THAT(unknown.hint, HasSubstr("did you mean numel"));
  EXPECT_EQ(unknown.note, "where(nummel > 3)\n      ^");
  EXPECT_THAT(refused("where(numel > \"big\")").message, HasSubstr("integer is compared with a text"));
  EXPECT_THAT(refused("where(dtype == \"float33\")").message, HasSubstr("no element type"));
  EXPECT_THAT(refused("where(3 in numel)").message, HasSubstr("'in' needs a list"));
  EXPECT_THAT(refused("where(\"relu\")").code, ErrorCode::kSiteNotFound);
}

TEST(Selection, ALayerWithPassesIsNoSite) {
  const auto error = refused("label(\"relu_1_2\")");
  EXPECT_EQ(error.code, ErrorCode::kMultipassBareLabel);
  EXPECT_THAT(error.note, HasSubstr("relu_1_2:1, relu_1_2:2"));
  EXPECT_EQ(refused("label(\"relu_1_2:3\")").code, ErrorCode::kPassOutOfRange);
  EXPECT_EQ(refused("label(\"relu_9_9\")").code, ErrorCode::kLookupNotFound);
  EXPECT_EQ(refused("ops[relu_1_2]").code, ErrorCode::kAmbiguousOpLookup);
  EXPECT_EQ(refused("ops[99]").code, ErrorCode::kIndexOutOfRange);
}

TEST(Selection, NothingMatchedNamesWhatComesClosest) {
  const auto function = refused("func(\"lineer\") & in_module(\"enc\")");
  EXPECT_EQ(function.code, ErrorCode::kSiteNotFound);
  EXPECT_EQ(function.message, "func(\"lineer\") & in_module(\"enc\") matches 0 of 8 ops");
  EXPECT_EQ(function.hint, "did you mean linear?");
  EXPECT_THAT(refused("module(\"enc.00\")").hint, HasSubstr("enc.0"));
  EXPECT_THAT(refused("func(\"zzz\")").hint, HasSubstr("the functions are linear, relu_, __add__"));
  EXPECT_EQ(refused("relu_1_2 & enc.1").code, ErrorCode::kSiteNotFound);
  EXPECT_THAT(keys("func(\"zzz\") | label(\"zzz_1_1\")", NoMatch::kAllow), IsEmpty());
}

TEST(Selection, NothingMatchedByPartsThatMatchAlone) {
  const auto both = refused("func(\"linear\") & ~func(\"linear\")");
  EXPECT_EQ(both.code, ErrorCode::kSiteNotFound);
  EXPECT_EQ(both.note, "func(\"linear\") & ~func(\"linear\")\n^");
  EXPECT_EQ(both.hint, "alone, func(\"linear\") takes 2, ~func(\"linear\") takes 6");
  const auto inner = refused("(input & output) - func(\"linear\")");
  EXPECT_EQ(inner.hint, "alone, input takes 1, output takes 1");
  EXPECT_EQ(inner.note, "(input & output) - func(\"linear\")\n ^");
  const auto condition = refused("where(numel > 100 and is_view)");
  EXPECT_EQ(condition.note, "where(numel > 100 and is_view)\n^");
  EXPECT_THAT(condition.hint, HasSubstr("--columns label,numel,is_view"));
}

TEST(Selection, WhatWasNotLookedAtIsNeitherFiniteNorNot) {
  auto partly = made();
  partly.ops.flags.rows()[2] |= kOpFinite;
  partly.ops.flags.rows()[3] |= kOpNonFinite;
  const auto count = [&](std::string_view source) {
    return resolve(Selector::parse(source), partly, NoMatch::kAllow).sites.size();
  };
  EXPECT_EQ(count("where(has_nonfinite)"), 1u);
  EXPECT_EQ(count("where(has_nonfinite == false)"), 1u);
  EXPECT_EQ(count("where(has_nonfinite == none)"), 6u);
}

TEST(Selection, EvidenceOfEveryOp) {
  auto partly = made();
  partly.payloads.first_op.assign({2, 3});
  partly.payloads.encoding.assign({0, 0});
  partly.payloads.shard.assign({0, 0});
  partly.ops.payload.rows()[2] = 0;
  partly.ops.sample.rows()[3] = 1;
  partly.statistics.op.assign({4});
  const auto row = [&](std::string_view source) {
    return resolve(Selector::parse(source), partly, NoMatch::kAllow).sites.front().op.value;
  };
  EXPECT_EQ(row("where(evidence == \"full\")"), 2u);
  EXPECT_EQ(row("where(evidence == \"sampled\")"), 3u);
  EXPECT_EQ(row("where(evidence == \"statistics\")"), 4u);
  EXPECT_EQ(row("where(evidence == \"shape\")"), 0u);
}

TEST(Selection, TiedWeightsBelongToEveryModuleThatHasThem) {
  auto tied = made();
  tied.params.all_addresses.rows()[0] = tied.strings.intern("enc.0.weight,enc.1.tied");
  const FieldContext context(tied);
  const auto rows = select_rows(Selector::parse("in_module(\"enc.1\")"), context, TableId::k_params);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].row, 0u);
  EXPECT_EQ(rows[1].row, 1u);
}

TEST(Selection, Provenance) {
  const auto selection = resolve(Selector::parse("func(\"add\") | module(\"enc.*\") | ~in_module(\"enc\")"), trace());
  std::vector<std::string> got;
  for (const auto& site : selection.sites) {
    got.push_back(Selection::key(trace(), site) + " by " + std::string(selection.provenance(site)));
  }
  EXPECT_THAT(got, ElementsAre("input_1 by ", "relu_1_2:2 by module(\"enc.*\")", "linear_2_3 by module(\"enc.*\")",
                               "add_1_4 by func(\"add\")", "output_1 by "));
}

TEST(Selection, RowsOfOtherTables) {
  const FieldContext context(trace());
  const auto rows = [&](std::string_view source, TableId table) {
    std::vector<std::uint32_t> numbers;
    for (const auto& row : select_rows(Selector::parse(source), context, table, NoMatch::kAllow))
      numbers.push_back(row.row);
    return numbers;
  };
  EXPECT_THAT(rows("func(\"relu_\")", TableId::k_layers), ElementsAre(3));
  EXPECT_THAT(rows("func(\"linear\")", TableId::k_modules), ElementsAre(2, 3));
  EXPECT_THAT(rows("in_module(\"enc\")", TableId::k_modules), ElementsAre(1, 2, 3));
  EXPECT_THAT(rows("module(\"enc.*\")", TableId::k_module_calls), ElementsAre(1, 2));
  EXPECT_THAT(rows("in_module(\"enc.1\")", TableId::k_params), ElementsAre(1));
  EXPECT_THAT(rows("linear_1_1", TableId::k_params), ElementsAre(0));
  EXPECT_THAT(rows("params[1] | enc.0.weight", TableId::k_params), ElementsAre(0, 1));
  EXPECT_THAT(rows("where(bytes > 100)", TableId::k_params), ElementsAre(1));
  EXPECT_THAT(rows("input.x", TableId::k_edges), IsEmpty());
  EXPECT_THAT(rows("add_1_4", TableId::k_edges), ElementsAre(5, 6));
  EXPECT_THAT(rows("buffer", TableId::k_buffers), ElementsAre(0));
  EXPECT_THAT(rows("func(\"linear\")", TableId::k_call_sites), ElementsAre(0));
}

// Laws of sets, on recordings drawn at random.

const char* kPool[] = {"func(\"*a*\")",
                       "in_module(\"*1*\")",
                       "where(numel > 4)",
                       "contains(\"1\")",
                       "input",
                       "followed_by(output)",
                       "regex(\"[02468]$\")",
                       "preceded_by(input)",
                       "where(is_view)",
                       "where(pass_index == 1)",
                       "buffer",
                       "module(\"*\")",
                       "ops[2:9]",
                       "layers.recurrent",
                       "ops.compute",
                       "func(\"nothing\")"};

std::vector<OpId> sites(const Trace& random, const std::string& source) {
  std::vector<OpId> ops;
  for (const auto& site : resolve(Selector::parse(source), random, NoMatch::kAllow).sites) ops.push_back(site.op);
  return ops;
}

TEST(SelectionProperties, LawsOfSetsAndOrder) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const auto random = run_pipeline(test::random_capture(seed, 60));
    for (const std::string a : kPool) {
      for (const std::string b : kPool) {
        EXPECT_THAT(sites(random, a + " & ~" + a), IsEmpty());
        EXPECT_EQ(sites(random, "~(" + a + " & " + b + ")"), sites(random, "~" + a + " | ~" + b));
        EXPECT_EQ(sites(random, "~(" + a + " | " + b + ")"), sites(random, "~" + a + " & ~" + b));
        EXPECT_EQ(sites(random, a + " - " + b), sites(random, a + " & ~" + b));
        EXPECT_EQ(sites(random, "~~" + a), sites(random, a));
        const auto either = sites(random, a + " | " + b);
        EXPECT_TRUE(std::ranges::is_sorted(either));
        EXPECT_EQ(std::ranges::adjacent_find(either), either.end());
        EXPECT_EQ(sites(random, a + " | ~" + a).size(), random.num_ops());
      }
    }
  }
}

TEST(SelectionProperties, RelativesAreTheClosureOfParents) {
  for (std::uint64_t seed = 20; seed < 26; ++seed) {
    const auto random = run_pipeline(test::random_capture(seed, 50));
    const auto chosen = sites(random, "where(numel > 4) & ops.compute");
    std::vector<std::vector<bool>> reaches(random.num_ops(), std::vector<bool>(random.num_ops(), false));
    for (std::size_t op = 0; op < random.num_ops(); ++op) {
      for (const auto parent : parents(random, OpId{static_cast<std::uint32_t>(op)})) {
        reaches[op][parent.index()] = true;
        for (std::size_t far = 0; far < op; ++far) {
          if (reaches[parent.index()][far]) reaches[op][far] = true;
        }
      }
    }
    std::vector<OpId> before;
    std::vector<OpId> after;
    for (std::uint32_t op = 0; op < random.num_ops(); ++op) {
      if (std::ranges::any_of(chosen, [&](OpId other) { return reaches[other.index()][op]; }))
        before.push_back(OpId{op});
      if (std::ranges::any_of(chosen, [&](OpId other) { return reaches[op][other.index()]; }))
        after.push_back(OpId{op});
    }
    EXPECT_EQ(sites(random, "followed_by(where(numel > 4) & ops.compute)"), before);
    EXPECT_EQ(sites(random, "preceded_by(where(numel > 4) & ops.compute)"), after);
  }
}

}  // namespace
}  // namespace tl

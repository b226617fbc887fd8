#include "tensor/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "data_files.h"
#include "tensor/decode.h"
#include "tensor/sample.h"

namespace tl {
namespace {

using test::data_path;
using test::error_of;
using test::tensor_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr CompareOptions kTolerance = {.rtol = 1.0 / 64, .atol = 1.0 / 16};  // those of make_compare_data.py

template <typename T>
HostTensor make(DType dtype, const std::vector<T>& values, std::vector<std::int64_t> sizes = {}) {
  if (sizes.empty()) sizes = {static_cast<std::int64_t>(values.size())};
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return make_host_tensor(dtype, std::move(sizes), std::move(bytes));
}

HostTensor floats(const std::vector<float>& values) { return make(DType::kF32, values); }

/// Equal to 1e-12 of the expected value, or both the same infinity.
testing::AssertionResult close(double found, double expected, double absolute = 0) {
  if (found == expected || std::fabs(found - expected) <= absolute + 1e-12 * std::fabs(expected)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << testing::PrintToString(found) << " instead of "
                                     << testing::PrintToString(expected);
}

/// Holds a comparison against a row of make_compare_data.py's expected.
void expect_comparison(const TensorComparison& found, const HostTensor& row_tensor) {
  std::vector<double> row(static_cast<std::size_t>(row_tensor.numel()));
  std::memcpy(row.data(), to_contiguous(row_tensor).storage.data(), row.size() * sizeof(double));
  ASSERT_EQ(row.size(), 25U);
  EXPECT_EQ(found.numel, row[0]);
  EXPECT_EQ(found.compared, row[1]);
  EXPECT_EQ(found.differing, row[2]) << "differing";
  EXPECT_EQ(found.mismatched, row[3]) << "mismatched";
  EXPECT_EQ(found.nan_only_reference, row[4]);
  EXPECT_EQ(found.nan_only_subject, row[5]);
  EXPECT_EQ(found.nan_both, row[6]);
  EXPECT_EQ(found.inf_disagreements, row[7]);
  EXPECT_EQ(found.inf_both, row[8]);
  EXPECT_EQ(found.sign_disagreements, row[9]) << "signs";
  EXPECT_EQ(found.nonfinite_disagreements, row[4] + row[5] + row[7]);
  EXPECT_EQ(found.worst_index, row[10]) << "worst index";
  if (row[11] < 0) {
    EXPECT_FALSE(found.max_ulp.has_value());
  } else {
    EXPECT_EQ(static_cast<double>(found.max_ulp.value()), row[11]) << "ulp";
  }
  EXPECT_TRUE(close(found.max_abs, row[12])) << "max_abs";
  EXPECT_TRUE(close(found.mean_abs, row[13])) << "mean_abs";
  EXPECT_TRUE(close(found.mse, row[14])) << "mse";
  EXPECT_TRUE(close(found.max_rel, row[15])) << "max_rel";
  EXPECT_TRUE(close(found.mean_rel, row[16])) << "mean_rel";
  EXPECT_TRUE(close(found.reference_l2, row[17])) << "reference_l2";
  EXPECT_TRUE(close(found.subject_l2, row[18])) << "subject_l2";
  EXPECT_TRUE(close(found.reference_max, row[19])) << "reference_max";
  EXPECT_TRUE(close(found.rel_l2, row[20])) << "rel_l2";
  EXPECT_TRUE(close(found.sqnr_db, row[21], 1e-10)) << "sqnr";
  EXPECT_TRUE(close(found.cosine, row[22], 1e-12)) << "cosine";
  EXPECT_TRUE(close(found.needed_atol, row[23], 1e-15)) << "needed_atol";
  EXPECT_TRUE(close(found.needed_rtol, row[24])) << "needed_rtol";
}

const SafetensorsFile& cases() {
  static const SafetensorsFile file = SafetensorsFile::open(data_path("compare.safetensors"));
  return file;
}

TEST(Compare, AgreesWithExactArithmeticOnEveryPairOfDtypes) {
  const std::vector<std::string> dtypes = {"u8",   "i8",   "i16",  "u16",      "i32",     "u32",  "i64",
                                           "u64",  "f16",  "bf16", "f32",      "f64",     "e5m2", "e4m3",
                                           "bool", "e8m0", "c64",  "e5m2fnuz", "e4m3fnuz"};
  for (const std::string& a : dtypes) {
    for (const std::string& b : dtypes) {
      SCOPED_TRACE(a + " against " + b);
      const HostTensor reference = tensor_of(cases(), "r." + a);
      const HostTensor subject = tensor_of(cases(), "s." + b);
      expect_comparison(compare_tensors(reference, subject, kTolerance), tensor_of(cases(), "e." + a + "." + b));
    }
  }
}

TEST(Compare, AgreesWithExactArithmeticOnAdversarialCases) {
  for (const std::string name :
       {"noise_f32", "noise_bf16", "noise_f16", "noise_f64", "holed_f32", "both_holed_f32", "last_element",
        "masked_f16", "big_f64", "tiny_f64", "zero_reference", "zero_subject", "zeros", "tiny_difference_f64", "scalar",
        "empty", "subnormal_f32", "wide_i64", "permuted"}) {
    SCOPED_TRACE(name);
    const HostTensor reference = tensor_of(cases(), "case." + name + ".r");
    const HostTensor subject = tensor_of(cases(), "case." + name + ".s");
    expect_comparison(compare_tensors(reference, subject, kTolerance), tensor_of(cases(), "case." + name + ".e"));
  }
}

TEST(Compare, ATensorDoesNotDifferFromItself) {
  for (const std::string name : {"u64", "f16", "bf16", "f32", "f64", "e4m3", "bool", "c64"}) {
    SCOPED_TRACE(name);
    const HostTensor tensor = tensor_of(cases(), "r." + name);
    const TensorComparison found = compare_tensors(tensor, tensor);
    EXPECT_TRUE(found.bitwise_equal);
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.max_abs, 0);
    EXPECT_EQ(found.rel_l2, 0);
    EXPECT_EQ(found.mismatch_share(), 0);
    EXPECT_EQ(found.sqnr_db, kInfinity);
    EXPECT_EQ(found.cosine, 1);
    EXPECT_EQ(found.worst_index, -1);
    EXPECT_EQ(found.needed_atol, 0);
    EXPECT_EQ(found.needed_rtol, 0);
  }
}

TEST(Compare, ExchangingTheSidesKeepsTheSymmetricMetrics) {
  for (const std::string name : {"noise_f32", "noise_bf16", "holed_f32", "masked_f16", "big_f64", "wide_i64"}) {
    SCOPED_TRACE(name);
    const HostTensor a = tensor_of(cases(), "case." + name + ".r");
    const HostTensor b = tensor_of(cases(), "case." + name + ".s");
    const TensorComparison there = compare_tensors(a, b);
    const TensorComparison back = compare_tensors(b, a);
    EXPECT_EQ(there.max_abs, back.max_abs);
    EXPECT_EQ(there.mean_abs, back.mean_abs);
    EXPECT_EQ(there.mse, back.mse);
    EXPECT_EQ(there.max_rel, back.max_rel);
    EXPECT_EQ(there.mean_rel, back.mean_rel);
    EXPECT_NEAR(there.cosine, back.cosine, 1e-15);
    EXPECT_EQ(there.max_ulp, back.max_ulp);
    EXPECT_EQ(there.differing, back.differing);
    EXPECT_EQ(there.worst_index, back.worst_index);
    EXPECT_EQ(there.nan_only_reference, back.nan_only_subject);
    EXPECT_EQ(there.sign_disagreements, back.sign_disagreements);
  }
}

TEST(Compare, PermutedElementsDifferThoughTheirStatisticsAgree) {
  const HostTensor reference = tensor_of(cases(), "case.permuted.r");
  const HostTensor subject = tensor_of(cases(), "case.permuted.s");
  EXPECT_GT(compare_tensors(reference, subject).rel_l2, 1);
  const StatsComparison by_stats =
      compare_statistics(known_stats(compute_stats(reference)), known_stats(compute_stats(subject)));
  EXPECT_LT(by_stats.rel_l2_at_least, 1e-12);
}

TEST(Compare, StridesChangeNothing) {
  // The same matrix row by row, and as the transpose of its transpose.
  std::vector<float> rows(70 * 40);
  std::vector<float> columns(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = std::sin(static_cast<float>(i));
    columns[i % 40 * 70 + i / 40] = rows[i];
  }
  const HostTensor packed = make(DType::kF32, rows, {70, 40});
  HostTensor strided = make(DType::kF32, columns, {70, 40});
  strided.strides = {1, 70};
  rows[1500] += 1;
  const HostTensor other = make(DType::kF32, rows, {70, 40});
  EXPECT_TRUE(compare_tensors(packed, strided).bitwise_equal);
  const TensorComparison a = compare_tensors(packed, other);
  const TensorComparison b = compare_tensors(strided, other);
  EXPECT_EQ(a.rel_l2, b.rel_l2);
  EXPECT_EQ(b.differing, 1);
  EXPECT_THAT(coordinates_of(b.worst_index, packed.sizes), ElementsAre(37, 20));
}

TEST(Compare, UnalignedElementsAreReadAsTheyAre) {
  std::vector<std::byte> shifted(4096 * 4 + 1);
  std::vector<float> values(4096, 1.5F);
  std::memcpy(shifted.data() + 1, values.data(), 4096 * 4);
  HostTensor unaligned = floats(values);
  unaligned.storage = std::span<const std::byte>(shifted).subspan(1);
  EXPECT_TRUE(compare_tensors(unaligned, floats(values)).bitwise_equal);
  values[4000] = 2;
  EXPECT_EQ(compare_tensors(floats(values), unaligned).max_abs, 0.5);
}

TEST(Compare, NanAndInfinityAreEqualToThemselvesUnlessAskedOtherwise) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const HostTensor tensor = floats({nan, inf, -inf, 1});
  EXPECT_TRUE(compare_tensors(tensor, tensor).equal());
  const TensorComparison strict = compare_tensors(tensor, tensor, {.equal_nan = false, .equal_inf = false});
  EXPECT_TRUE(strict.bitwise_equal);
  EXPECT_EQ(strict.nonfinite_disagreements, 3);
  EXPECT_EQ(strict.mismatched, 3);
  EXPECT_EQ(strict.worst_index, 0);
  const HostTensor payload = floats({std::bit_cast<float>(0x7fc00001U), inf, -inf, 1});
  EXPECT_TRUE(compare_tensors(tensor, payload).equal());
  EXPECT_FALSE(compare_tensors(tensor, payload).bitwise_equal);
}

TEST(Compare, ADisagreementIsTheWorstElementAndAMismatchAtAnyTolerance) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TensorComparison found = compare_tensors(floats({1, 2, 3}), floats({100, nan, 3}), {.rtol = 1e6, .atol = 1e6});
  EXPECT_EQ(found.worst_index, 1);
  EXPECT_EQ(found.mismatched, 1);
  EXPECT_EQ(found.max_abs, 99);
}

TEST(Compare, IntegersBeyondDoubleAreExact) {
  constexpr std::int64_t kBig = (1LL << 53) + 1;
  const TensorComparison signed_ints =
      compare_tensors(make<std::int64_t>(DType::kI64, {kBig, 3}), make<std::int64_t>(DType::kI64, {kBig - 1, 3}));
  EXPECT_EQ(signed_ints.max_abs, 1);
  EXPECT_EQ(signed_ints.differing, 1);
  const TensorComparison mixed =
      compare_tensors(make<std::uint64_t>(DType::kU64, {~0ULL}), make<std::int64_t>(DType::kI64, {-1}));
  EXPECT_EQ(mixed.max_abs, 0x1p64);
  const TensorComparison with_float =
      compare_tensors(make<std::int64_t>(DType::kI64, {kBig}), make<double>(DType::kF64, {0x1p53}));
  EXPECT_EQ(with_float.max_abs, 1);
}

TEST(Compare, ComplexPartsOfEveryWidth) {
  // (3 + 4i) against (0 + 0i) and (1 + 0i) against (0 + 1i): |d| is 5 and √2; half precision codes of 3, 4 and 1.
  const HostTensor halves = make<std::uint16_t>(DType::kC32, {0x4200, 0x4400, 0x3c00, 0}, {2});
  const HostTensor doubles = make<double>(DType::kC128, {0, 0, 0, 1}, {2});
  const TensorComparison found = compare_tensors(halves, doubles);
  EXPECT_DOUBLE_EQ(found.max_abs, 5);
  EXPECT_DOUBLE_EQ(found.mean_abs, (5 + std::sqrt(2.0)) / 2);
  EXPECT_EQ(found.cosine, 0);
  const HostTensor huge = make<double>(DType::kC128, {1e308, 1e308}, {1});
  EXPECT_EQ(compare_tensors(huge, make<double>(DType::kC128, {0, 0}, {1})).rel_l2, 1);
}

TEST(Compare, TheNeededTolerancesAreTheLeastThatPass) {
  const HostTensor reference = tensor_of(cases(), "case.noise_bf16.r");
  const HostTensor subject = tensor_of(cases(), "case.noise_bf16.s");
  const TensorComparison strict = compare_tensors(reference, subject, {.rtol = 1e-3, .atol = 1e-2});
  ASSERT_GT(strict.mismatched, 0);
  const auto mismatched = [&](double rtol, double atol) {
    return compare_tensors(reference, subject, {.rtol = rtol, .atol = atol}).mismatched;
  };
  EXPECT_EQ(mismatched(1e-3, strict.needed_atol), 0);
  EXPECT_EQ(mismatched(1e-3, std::nextafter(strict.needed_atol, 0)), 1);
  EXPECT_EQ(mismatched(strict.needed_rtol, 1e-2), 0);
  EXPECT_EQ(mismatched(strict.needed_rtol * (1 - 1e-15), 1e-2), 1);
}

TEST(Compare, QuantisedIntegersStandForTheirValues) {
  const auto doubles = [](const HostTensor& tensor) {
    std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
    decode_doubles(tensor.dtype, to_contiguous(tensor).storage, values);
    return values;
  };
  const Quantiser quantiser{.scales = doubles(tensor_of(cases(), "q.scales")),
                            .zero_points = doubles(tensor_of(cases(), "q.zero_points")),
                            .axis = 1};
  CompareOptions options = kTolerance;
  options.reference_quantiser = &quantiser;
  const HostTensor integers = tensor_of(cases(), "q.r");
  expect_comparison(compare_tensors(integers, tensor_of(cases(), "q.s"), options), tensor_of(cases(), "q.e"));

  const Quantiser other{.scales = {0.5}, .zero_points = {0}};
  options.subject_quantiser = &other;
  EXPECT_FALSE(compare_tensors(integers, integers, options).bitwise_equal);
  options.subject_quantiser = &quantiser;
  EXPECT_TRUE(compare_tensors(integers, integers, options).bitwise_equal);

  const Quantiser misfit{.scales = {1, 2}, .zero_points = {0, 0}, .axis = 1};
  options.subject_quantiser = &misfit;
  const auto [code, message] = error_of([&] { compare_tensors(integers, integers, options); });
  EXPECT_EQ(code, ErrorCode::kFileDamaged);
  EXPECT_THAT(message, HasSubstr("2 scales and 2 zero points for 4 channels"));
}

TEST(CompareSamples, MeetsTheFullTensorAtTheSamePositions) {
  const HostTensor reference = tensor_of(cases(), "case.noise_f32.r");
  const HostTensor subject = tensor_of(cases(), "case.noise_f32.s");
  const TensorComparison both = compare_samples(sample_elements(reference, 100), sample_elements(subject, 100), 2600);
  const TensorComparison one = compare_samples(reference, sample_elements(subject, 100), 2600);
  const TensorComparison shorter =
      compare_samples(sample_elements(reference, 400), sample_elements(subject, 100), 2600);
  EXPECT_EQ(both.numel, 100);
  EXPECT_GT(both.max_abs, 0);
  EXPECT_EQ(one.rel_l2, both.rel_l2);
  EXPECT_EQ(shorter.rel_l2, both.rel_l2);
  const auto value = [](const HostTensor& tensor, std::int64_t i) {
    float found = 0;
    std::memcpy(&found, to_contiguous(tensor).storage.data() + i * 4, 4);
    return static_cast<double>(found);
  };
  EXPECT_EQ(std::fabs(value(subject, both.worst_index) - value(reference, both.worst_index)), both.max_abs);
  EXPECT_EQ(compare_samples(reference, subject, 2600).numel, 2600);
}

TEST(CompareTopK, CountsRowsWithTheSameLargestElements) {
  const HostTensor reference = make<float>(DType::kF32, {1, 5, 3, 2, 9, 8, 7, 6, 0, 0, 1, 1}, {3, 4});
  const HostTensor subject = make<float>(DType::kF32, {1, 5, 2, 3, 8, 9, 7, 6, 0, 0, 1, 1}, {3, 4});
  const TopKAgreement found = compare_top_k(reference, subject, 2).value();
  EXPECT_EQ(found.rows, 3);
  EXPECT_EQ(found.top1_agree, 2);   // the second row's first two are exchanged
  EXPECT_EQ(found.order_agree, 1);  // the first row's second differs
  EXPECT_DOUBLE_EQ(found.mean_overlap, (0.5 + 1 + 1) / 3);
  EXPECT_EQ(compare_top_k(reference, subject, 9)->k, 4);
  EXPECT_FALSE(compare_top_k(reference, make<float>(DType::kF32, {1}, {1}), 1).has_value());
}

TEST(CompareStatistics, BoundsHoldAndFindADifference) {
  const HostTensor reference = tensor_of(cases(), "case.noise_f32.r");
  const HostTensor subject = tensor_of(cases(), "case.both_holed_f32.s");
  for (const std::string name : {"noise_f32", "noise_f64", "last_element", "permuted", "zero_reference"}) {
    SCOPED_TRACE(name);
    const HostTensor a = tensor_of(cases(), "case." + name + ".r");
    const HostTensor b = tensor_of(cases(), "case." + name + ".s");
    const TensorComparison truth = compare_tensors(a, b);
    const StatsComparison found = compare_statistics(known_stats(compute_stats(a)), known_stats(compute_stats(b)));
    EXPECT_TRUE(found.any && found.same_counts);
    EXPECT_LE(found.max_abs_at_least, truth.max_abs);
    EXPECT_LE(found.mean_abs_at_least, truth.mean_abs * (1 + 1e-12) + 1e-15);
    EXPECT_LE(found.rel_l2_at_least, truth.rel_l2 * (1 + 1e-12) + 1e-15);
  }
  const StatsComparison holes =
      compare_statistics(known_stats(compute_stats(reference)), known_stats(compute_stats(subject)));
  EXPECT_FALSE(holes.same_counts);
}

TEST(CompareStatistics, WorksOnWhatIsThere) {
  KnownStats reference{.mean = 1.0, .abs_mean = 2.0};
  KnownStats subject{.abs_mean = 2.5};
  const StatsComparison found = compare_statistics(reference, subject);
  EXPECT_TRUE(found.any);
  EXPECT_EQ(found.mean_abs_at_least, 0.5);
  EXPECT_DOUBLE_EQ(found.drift, 0.2);
  EXPECT_EQ(found.rel_l2_at_least, 0);
  EXPECT_FALSE(compare_statistics({}, subject).any);
  subject.abs_mean = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(compare_statistics(reference, subject).same_counts);
}

}  // namespace
}  // namespace tl

#include "exported/python_functions.h"

#include <ATen/core/ivalue_inl.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>

#include "executor/executor.h"

namespace tl::lt {
namespace {

using Args = std::vector<c10::IValue>;

[[noreturn]] void raise(const char* type, const char* text) { throw UserError(text, type); }

bool is_real(const c10::IValue& value) { return value.isDouble(); }

std::int64_t integer(const c10::IValue& value) {
  if (value.isBool()) return value.toBool() ? 1 : 0;
  if (value.isInt()) return value.toInt();
  raise("TypeError", "a number is needed");
}

double real(const c10::IValue& value) {
  return value.isDouble() ? value.toDouble() : static_cast<double>(integer(value));
}

bool truth(const c10::IValue& value) {
  if (value.isBool()) return value.toBool();
  return value.isDouble() ? value.toDouble() != 0 : integer(value) != 0;
}

[[noreturn]] void overflow() { raise("OverflowError", "integer result does not fit 64 bits"); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) raise("ZeroDivisionError", "integer division or modulo by zero");
  if (a == std::numeric_limits<std::int64_t>::min() && b == -1) overflow();
  const auto quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

/// Quotient and rest as CPython reckons them (float_divmod of floatobject.c): a / b may round up to the next integer.
std::pair<double, double> divided(double a, double b) {
  auto rest = std::fmod(a, b);
  auto quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  } else if (rest == 0) {
    rest = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), rest};
  const auto whole = std::floor(quotient);
  return {quotient - whole > 0.5 ? whole + 1 : whole, rest};
}

double floor_divide(double a, double b) {
  if (b == 0) raise("ZeroDivisionError", "float floor division by zero");
  return divided(a, b).first;
}

double modulo(double a, double b) {
  if (b == 0) raise("ZeroDivisionError", "float modulo");
  return divided(a, b).second;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

c10::IValue power(const c10::IValue& a, const c10::IValue& b) {
  if (!is_real(a) && !is_real(b) && integer(b) >= 0) return integer_power(integer(a), integer(b));
  return std::pow(real(a), real(b));
}

std::int64_t whole(double value) {
  if (!(value >= -0x1.0p63 && value < 0x1.0p63)) overflow();
  return static_cast<std::int64_t>(value);
}

template <typename Integers, typename Reals>
auto arithmetic(Integers integers, Reals reals) {
  return [=](const Args& args) -> c10::IValue {
    if (is_real(args[0]) || is_real(args[1])) return reals(real(args[0]), real(args[1]));
    return integers(integer(args[0]), integer(args[1]));
  };
}

template <typename Compare>
auto comparison(Compare compare) {
  return arithmetic([=](std::int64_t a, std::int64_t b) { return compare(a, b); },
                    [=](double a, double b) { return compare(a, b); });
}

template <typename Bits>
auto bitwise(Bits bits) {
  return [=](const Args& args) -> c10::IValue {
    const auto result = bits(integer(args[0]), integer(args[1]));
    if (args[0].isBool() && args[1].isBool()) return result != 0;
    return result;
  };
}

c10::IValue negated(const c10::IValue& value) {
  if (is_real(value)) return -value.toDouble();
  std::int64_t result = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, integer(value), &result)) overflow();
  return result;
}

c10::IValue sum_of(const Args& args) {
  const auto items = args[0].isList() ? args[0].toListRef().vec() : args;
  c10::IValue total = std::int64_t{0};
  for (const auto& item : items) {
    if (is_real(total) || is_real(item)) {
      total = real(total) + real(item);
    } else {
      std::int64_t result = 0;
      if (__builtin_add_overflow(integer(total), integer(item), &result)) overflow();
      total = result;
    }
  }
  return total;
}

std::int64_t shifted(std::int64_t value, std::int64_t by, bool left) {
  if (by < 0) raise("ValueError", "negative shift count");
  if (!left) return value >> std::min<std::int64_t>(by, 63);
  if (value == 0) return 0;
  if (by > 62 || (value << by) >> by != value) overflow();
  return value << by;
}

template <double (*function)(double)>
auto real_function() {
  return [](const Args& args) -> c10::IValue { return function(real(args[0])); };
}

template <double (*function)(double)>
auto whole_function() {
  return [](const Args& args) -> c10::IValue {
    return is_real(args[0]) ? c10::IValue(whole(function(args[0].toDouble()))) : c10::IValue(integer(args[0]));
  };
}

using Table = std::unordered_map<std::string_view, PythonFunction>;

void add_operators(Table& table) {
  const auto binary = [&](std::string_view target, const char* name, auto call) {
    table.emplace(target, PythonFunction{2, 2, name, call});
  };
  const auto unary = [&](std::string_view target, const char* name, auto call) {
    table.emplace(target, PythonFunction{1, 1, name, call});
  };
  binary("_operator.add", "add",
         arithmetic(
             [](std::int64_t a, std::int64_t b) {
               std::int64_t r = 0;
               if (__builtin_add_overflow(a, b, &r)) overflow();
               return r;
             },
             [](double a, double b) { return a + b; }));
  binary("_operator.sub", "sub",
         arithmetic(
             [](std::int64_t a, std::int64_t b) {
               std::int64_t r = 0;
               if (__builtin_sub_overflow(a, b, &r)) overflow();
               return r;
             },
             [](double a, double b) { return a - b; }));
  binary("_operator.mul", "mul",
         arithmetic(
             [](std::int64_t a, std::int64_t b) {
               std::int64_t r = 0;
               if (__builtin_mul_overflow(a, b, &r)) overflow();
               return r;
             },
             [](double a, double b) { return a * b; }));
  binary("_operator.floordiv", "floordiv",
         arithmetic([](std::int64_t a, std::int64_t b) { return floor_divide(a, b); },
                    [](double a, double b) { return floor_divide(a, b); }));
  binary("_operator.mod", "mod",
         arithmetic(
             [](std::int64_t a, std::int64_t b) {
               if (b == -1) return std::int64_t{0};
               return a - floor_divide(a, b) * b;
             },
             [](double a, double b) { return modulo(a, b); }));
  binary("_operator.truediv", "truediv", [](const Args& args) -> c10::IValue {
    const auto divisor = real(args[1]);
    if (divisor == 0) raise("ZeroDivisionError", "division by zero");
    return real(args[0]) / divisor;
  });
  binary("_operator.pow", "pow", [](const Args& args) { return power(args[0], args[1]); });
  binary("_operator.eq", "eq", comparison([](auto a, auto b) { return a == b; }));
  binary("_operator.ne", "ne", comparison([](auto a, auto b) { return a != b; }));
  binary("_operator.lt", "lt", comparison([](auto a, auto b) { return a < b; }));
  binary("_operator.le", "le", comparison([](auto a, auto b) { return a <= b; }));
  binary("_operator.gt", "gt", comparison([](auto a, auto b) { return a > b; }));
  binary("_operator.ge", "ge", comparison([](auto a, auto b) { return a >= b; }));
  binary("_operator.and_", "and_", bitwise([](std::int64_t a, std::int64_t b) { return a & b; }));
  binary("_operator.or_", "or_", bitwise([](std::int64_t a, std::int64_t b) { return a | b; }));
  binary("_operator.xor", "xor", bitwise([](std::int64_t a, std::int64_t b) { return a ^ b; }));
  binary("_operator.lshift", "lshift",
         [](const Args& args) -> c10::IValue { return shifted(integer(args[0]), integer(args[1]), true); });
  binary("_operator.rshift", "rshift",
         [](const Args& args) -> c10::IValue { return shifted(integer(args[0]), integer(args[1]), false); });
  unary("_operator.neg", "neg", [](const Args& args) { return negated(args[0]); });
  unary("_operator.pos", "pos",
        [](const Args& args) -> c10::IValue { return is_real(args[0]) ? args[0] : c10::IValue(integer(args[0])); });
  unary("_operator.abs", "abs",
        [](const Args& args) -> c10::IValue { return real(args[0]) < 0 ? negated(args[0]) : args[0]; });
  unary("_operator.not_", "not_", [](const Args& args) -> c10::IValue { return !truth(args[0]); });
  unary("_operator.truth", "truth", [](const Args& args) -> c10::IValue { return truth(args[0]); });
}

void add_symbolic(Table& table) {
  const auto function = [&](std::string_view target, std::size_t least, std::size_t most, const char* name, auto call) {
    table.emplace(target, PythonFunction{least, most, name, call});
  };
  function("torch.sym_max", 2, 2, "sym_max",
           arithmetic([](std::int64_t a, std::int64_t b) { return std::max(a, b); },
                      [](double a, double b) { return std::max(a, b); }));
  function("torch.sym_min", 2, 2, "sym_min",
           arithmetic([](std::int64_t a, std::int64_t b) { return std::min(a, b); },
                      [](double a, double b) { return std::min(a, b); }));
  function("torch.sym_float", 1, 1, "sym_float", [](const Args& args) -> c10::IValue { return real(args[0]); });
  function("torch.sym_int", 1, 1, "sym_int", whole_function<std::trunc>());
  function("torch.sym_not", 1, 1, "sym_not", [](const Args& args) -> c10::IValue { return !truth(args[0]); });
  function("torch.sym_ite", 3, 3, "sym_ite", [](const Args& args) { return truth(args[0]) ? args[1] : args[2]; });
  function("torch.sym_sum", 1, 64, "sym_sum", sum_of);
  for (const auto* name : {"torch.sym_sqrt", "torch._sym_sqrt", "math.sqrt"}) {
    function(name, 1, 1, "sqrt", [](const Args& args) -> c10::IValue {
      if (real(args[0]) < 0) raise("ValueError", "math domain error");
      return std::sqrt(real(args[0]));
    });
  }
  function("torch._sym_log2", 1, 1, "log2", real_function<std::log2>());
  function("torch._sym_sin", 1, 1, "sin", real_function<std::sin>());
  function("torch._sym_cos", 1, 1, "cos", real_function<std::cos>());
  function("torch._sym_exp", 1, 1, "exp", real_function<std::exp>());
  function("math.trunc", 1, 1, "trunc", whole_function<std::trunc>());
  function("math.floor", 1, 1, "floor", whole_function<std::floor>());
  function("math.ceil", 1, 1, "ceil", whole_function<std::ceil>());
  function("builtins.round", 1, 1, "round", whole_function<std::nearbyint>());
}

}  // namespace

const PythonFunction* python_function(std::string_view target) {
  static const Table table = [] {
    Table made;
    add_operators(made);
    add_symbolic(made);
    return made;
  }();
  const auto found = table.find(target);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace tl::lt

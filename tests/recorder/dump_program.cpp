// A program as an engineer would write it, with the header of `torchlens recorder cpp`. Usage: dump_program OUT.tlspec
#include "torchlens_dump.h"

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string path = argv[1];
  const float values[6] = {0, 1, 2, 3, 4, 5};
  torchlens::dump("before.open", values, torchlens::f32, {6});  // nothing

  torchlens::open(path, false, "toy runtime 1.0");
  torchlens::input("x", values, torchlens::f32, {2, 3});
  torchlens::dump("blocks.0", values, torchlens::f32, {2, 3});
  torchlens::dump("blocks.0", values, torchlens::f32, {3, 2}, {1, 3});  // transposed
  const std::int64_t ids[2] = {-1, std::int64_t{1} << 62};
  torchlens::dump("ids", ids, torchlens::i64, {2}, {}, "left");
  torchlens::dump("ids", ids, torchlens::i64, {}, {}, "right");
  torchlens::dump("empty", nullptr, torchlens::bf16, {0, 4});
  torchlens::dump("na\"me\n\xff", values, torchlens::f32, {1});
  const std::uint16_t halves[2] = {0x3f80, 0xc000};
  torchlens::dump("halves", halves, torchlens::bf16, {2});
  torchlens::parameter("fc.weight", values, torchlens::f32, {2, 3});
  for (int i = 0; i < 300; ++i) torchlens::dump("loop", &values[i % 6], torchlens::f32, {1});
  torchlens::close();
  torchlens::close();

  int failures = 0;
  const auto expect_throw = [&](const char* what, auto body) {
    try {
      body();
      std::cerr << what << ": no exception\n";
      ++failures;
    } catch (const std::runtime_error&) {
    }
  };
  expect_throw("an existing recording", [&] { torchlens::Recording again(path); });
  try {
    torchlens::Recording broken(path + ".failed");
    broken("a", values, torchlens::f32, {6});
    expect_throw("a negative size", [&] { broken("b", values, torchlens::f32, {-1}); });
    expect_throw("a huge shape", [&] { broken("b", values, torchlens::f32, {1 << 30, 1 << 30}); });
    expect_throw("no data", [&] { broken("b", nullptr, torchlens::f32, {1}); });
    expect_throw("strides of another rank", [&] { broken("b", values, torchlens::f32, {1}, {1, 1}); });
    throw std::logic_error("the model failed");
  } catch (const std::logic_error&) {
  }
  unsigned char bytes[5000];
  for (int i = 0; i < 5000; ++i) bytes[i] = static_cast<unsigned char>(i % 251);
  for (const int size : {0, 1, 3, 4, 8, 9, 16, 17, 33, 65, 97, 128, 129, 160, 161, 240, 241, 1024, 1025, 2049, 5000}) {
    std::cout << size << " " << torchlens::detail::Xxh3::hex(bytes, static_cast<std::size_t>(size)) << "\n";
  }
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#include "archive/unpickler.h"

#include <gmock/gmock.h>

#include <cstring>
#include <map>

#include "archive/limits.h"
#include "archive/zip_directory.h"
#include "tensor/safetensors.h"
#include "test_files.h"

namespace tl {
namespace {

using namespace std::literals;
using test::as_bytes;
using test::error_of;
using test::fixture;
using test::make_zip;
using test::stored;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PickleValue& at(const PickleValue& value, std::string_view key) {
  const PickleValue* found = value.dict() ? value.dict()->find(key) : nullptr;
  if (!found) throw Error(ErrorCode::kInternal, "no key " + std::string(key));
  return *found;
}

template <typename T>
std::vector<T> elements(const HostTensor& tensor) {
  const HostTensor packed = to_contiguous(tensor);
  std::vector<T> values(static_cast<std::size_t>(packed.numel()));
  if (!values.empty()) std::memcpy(values.data(), packed.storage.data(), values.size() * sizeof(T));
  return values;
}

// Expected values: the literals in data/make_fixtures.py.
TEST(Unpickler, ReadsPlainValuesOfEveryProtocol) {
  for (const char* name : {"values.pt", "values_protocol4.pt", "values_protocol5.pt"}) {
    SCOPED_TRACE(name);
    const PickleValue root = read_torch_pickle(fixture(name));
    EXPECT_TRUE(at(root, "none").is_none());
    EXPECT_TRUE(*at(root, "true").boolean());
    EXPECT_FALSE(*at(root, "false").boolean());
    EXPECT_EQ(*at(root, "int").integer(), 3);
    EXPECT_EQ(*at(root, "negative").integer(), -5);
    EXPECT_EQ(*at(root, "big").integer(), std::int64_t{1} << 40);
    EXPECT_EQ(std::get<PickleBigInt>(at(root, "huge").data).digits, "1180591620717411303424");
    EXPECT_EQ(std::get<PickleBigInt>(at(root, "minus_huge").data).digits, "-1180591620717411303424");
    EXPECT_EQ(*at(root, "float").real(), 1.5);
    EXPECT_EQ(*at(root, "inf").real(), std::numeric_limits<double>::infinity());
    EXPECT_EQ(*at(root, "complex").complex(), std::complex<double>(3, 4));
    EXPECT_EQ(*at(root, "str").string(), "é");
    EXPECT_EQ(*at(root, "bytes").bytes(), "ab\xff");
    const PickleSequence& tuple = *at(root, "tuple").sequence();
    EXPECT_TRUE(tuple.is_tuple);
    ASSERT_EQ(tuple.items.size(), 3u);
    EXPECT_EQ(*tuple.items[1].sequence()->items[0].integer(), 2);
    EXPECT_TRUE(tuple.items[2].sequence()->items.empty());
    EXPECT_FALSE(at(root, "list").sequence()->is_tuple);
    const PickleDict& ordered = *at(root, "ordered").dict();
    EXPECT_TRUE(ordered.ordered);
    EXPECT_EQ(*ordered.items[0].first.string(), "b");
    EXPECT_EQ(*ordered.items[1].second.integer(), 2);
    EXPECT_EQ(std::get<DType>(at(root, "dtype").data), DType::kF16);
    EXPECT_EQ(std::get<PickleDevice>(at(root, "device").data).name, "cuda:1");
    EXPECT_EQ(at(root, "size").sequence()->items.size(), 2u);
    EXPECT_EQ(*root.dict()->items.back().first.integer(), 7);
    EXPECT_EQ(type_name(at(root, "tuple")), "tuple");
    EXPECT_EQ(type_name(root), "dict");
  }
}

TEST(Unpickler, KeepsViewsOfSharedStorages) {
  const PickleValue root = read_torch_pickle(fixture("views.pt"));
  const HostTensor& base = *at(root, "base").tensor();
  const HostTensor& row = *at(root, "row").tensor();
  const HostTensor& transposed = *at(root, "transposed").tensor();
  EXPECT_EQ(row.storage.data(), base.storage.data());
  EXPECT_EQ(row.offset, 4);
  EXPECT_THAT(elements<float>(row), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(transposed.sizes, ElementsAre(4, 3));
  EXPECT_THAT(transposed.strides, ElementsAre(1, 4));
  EXPECT_THAT(elements<float>(transposed), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(elements<float>(*at(root, "expanded").tensor()), ElementsAre(7, 7, 7, 7, 7, 7));
  EXPECT_THAT(elements<std::int64_t>(*at(root, "scalar").tensor()), ElementsAre(5));
  EXPECT_TRUE(at(root, "scalar").tensor()->sizes.empty());
  EXPECT_THAT(at(root, "empty").tensor()->sizes, ElementsAre(0, 3));
  EXPECT_THAT(elements<float>(*at(root, "parameter").tensor()), ElementsAre(1, 1));
}

TEST(Unpickler, KnowsEveryDType) {
  const PickleValue root = read_torch_pickle(fixture("dtypes.pt"));
  std::vector<DType> dtypes;
  for (const PickleValue& item : root.sequence()->items) {
    ASSERT_NE(item.tensor(), nullptr) << type_name(item);
    dtypes.push_back(item.tensor()->dtype);
    EXPECT_THAT(item.tensor()->sizes, ElementsAre(3));
  }
  using enum DType;
  EXPECT_THAT(dtypes, ElementsAre(kU8, kI8, kI16, kI32, kI64, kF16, kF32, kF64, kC64, kC128, kBool, kBF16, kF8E5M2,
                                  kF8E4M3, kU16, kU32, kU64));
  EXPECT_THAT(elements<std::uint16_t>(*root.sequence()->items[5].tensor()),
              ElementsAre(0, 0x3c00, 0x3c00));  // 1 in f16
  EXPECT_THAT(elements<std::uint16_t>(*root.sequence()->items[11].tensor()),
              ElementsAre(0, 0x3f80, 0x3f80));                                                            // in bf16
  EXPECT_THAT(elements<std::uint8_t>(*root.sequence()->items[13].tensor()), ElementsAre(0, 0x38, 0x38));  // in e4m3
}

TEST(Unpickler, ReadsSparseAndQuantisedTensorsAsParts) {
  const PickleValue sparse = read_torch_pickle(fixture("sparse.pt"));
  const PickleSparseTensor& coo = *at(sparse, "coo").sparse_tensor();
  EXPECT_EQ(coo.layout, "sparse_coo");
  EXPECT_THAT(coo.sizes, ElementsAre(3, 2));
  EXPECT_THAT(elements<std::int64_t>(coo.indices), ElementsAre(0, 2, 1, 0));
  EXPECT_THAT(elements<float>(coo.values), ElementsAre(1, 2));
  const PickleSparseTensor& csr = *at(sparse, "csr").sparse_tensor();
  EXPECT_EQ(csr.layout, "sparse_csr");
  EXPECT_THAT(elements<std::int64_t>(csr.compressed), ElementsAre(0, 1, 2));
  EXPECT_THAT(elements<std::int64_t>(csr.indices), ElementsAre(1, 0));
  EXPECT_THAT(elements<float>(csr.values), ElementsAre(3, 4));

  const PickleValue quantised = read_torch_pickle(fixture("quantised.pt"));
  const PickleQuantisedTensor& tensor = *at(quantised, "tensor").quantised_tensor();
  EXPECT_EQ(tensor.dtype, DType::kQI8);
  EXPECT_EQ(tensor.int_repr.dtype, DType::kI8);
  EXPECT_THAT(elements<std::int8_t>(tensor.int_repr), ElementsAre(3, 5));  // x / 0.5 + 3
  EXPECT_EQ(tensor.scale, 0.5);
  EXPECT_EQ(tensor.zero_point, 3);
  const PickleQuantisedTensor& channel = *at(quantised, "channel").quantised_tensor();
  EXPECT_TRUE(channel.per_channel);
  EXPECT_THAT(elements<double>(channel.scales), ElementsAre(0.5, 0.25));
  EXPECT_THAT(elements<std::uint8_t>(channel.int_repr), ElementsAre(2, 9));  // 1 / 0.5 + 0, 2 / 0.25 + 1
}

TEST(Unpickler, ReadsRezippedFilesAndOtherDevices) {
  for (const char* name : {"plain.pt", "deflated.pt", "unaligned.pt", "cuda.pt"}) {
    const PickleValue root = read_torch_pickle(fixture(name));
    const HostTensor& tensor = *root.sequence()->items[0].tensor();
    EXPECT_THAT(elements<double>(tensor), ElementsAre(0, 1, 2, 3, 4, 5)) << name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.storage.data()) % 8, 0u) << name;
    EXPECT_EQ(*root.sequence()->items[1].string(), "x");
  }
}

TEST(Unpickler, TensorsOutliveTheFile) {
  PickleValue root = read_torch_pickle(fixture("plain.pt"));
  const HostTensor tensor = *root.sequence()->items[0].tensor();
  root = {};
  EXPECT_THAT(elements<double>(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Unpickler, RefusesByName) {
  const Error shell = error_of([] { read_torch_pickle(fixture("shell.pt")); });
  EXPECT_EQ(shell.code, ErrorCode::kUnsafePickle);
  EXPECT_THAT(shell.message, HasSubstr("\"posix.system\""));
  EXPECT_EQ(error_of([] { read_torch_pickle(fixture("conjugate.pt")); }).code, ErrorCode::kUnsupportedKind);
  EXPECT_EQ(error_of([] { read_torch_pickle(fixture("big_endian.pt")); }).code, ErrorCode::kUnsupportedKind);
  EXPECT_EQ(error_of([] { read_torch_pickle(fixture("short_storage.pt")); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([] { read_torch_pickle(fixture("legacy.pt")); }).code, ErrorCode::kNotAModel);
  for (const std::string_view global :
       {"os.system", "builtins.eval", "torch.load", "torch.hub.load", "torch._utils.os",
        "torch._tensor._rebuild_from_type_v2", "__torch__.Model", "torch.FloatTensor"}) {
    const std::size_t dot = global.rfind('.');
    const std::string pickle =
        "\x80\x02"
        "c" +
        std::string(global.substr(0, dot)) + "\n" + std::string(global.substr(dot + 1)) + "\n.";
    const Error error = error_of([&] { unpickle(as_bytes(pickle), "p"); });
    EXPECT_EQ(error.code, ErrorCode::kUnsafePickle) << global;
    EXPECT_THAT(error.message, HasSubstr(std::string(global)));
  }
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// pickle.dumps of CPython 3.11, protocols 2 and 4, of vendor.shapes: the named tuple Point(x=1, y=(2, 3)), the
// dataclass Result(logits=7, loss=None), and ModelOutput(logits=8, loss=None), a dataclass and OrderedDict as
// transformers writes it.
TEST(Unpickler, TakesObjectsOfNamedClassesApart) {
  const std::map<std::string, std::vector<std::string>> pickles = {
      {"Point",
       {"80026376656e646f722e7368617065730a506f696e740a71004b014b024b038671018671028171032e",
        "80049527000000000000008c0d76656e646f722e736861706573948c05506f696e749493944b014b024b038694869481942e"}},
      {"Result",
       {"80026376656e646f722e7368617065730a526573756c740a7100298171017d71022858060000006c6f6769747371034b0758040000006c"
        "6f"
        "737371044e75622e",
        "80049537000000000000008c0d76656e646f722e736861706573948c06526573756c749493942981947d94288c066c6f67697473944b07"
        "8c04"
        "6c6f7373944e75622e"}},
      {"ModelOutput",
       {"80026376656e646f722e7368617065730a4d6f64656c4f75747075740a71004b084e86710152710258060000006c6f6769747371034b08"
        "73"
        "7d71042868034b0858040000006c6f737371054e75622e",
        "80049545000000000000008c0d76656e646f722e736861706573948c0b4d6f64656c4f75747075749493944b084e869452948c066c6f67"
        "6974"
        "73944b08737d942868054b088c046c6f7373944e75622e"}}};
  for (const auto& [name, texts] : pickles) {
    for (const auto& text : texts) {
      const auto pickle = from_hex(text);
      const auto refused = error_of([&] { unpickle(as_bytes(pickle), "p", {.records = {"Pose", "vendor.shapes"}}); });
      EXPECT_EQ(refused.code, ErrorCode::kUnsafePickle) << name;
      EXPECT_THAT(refused.message, HasSubstr("vendor.shapes." + name));
      const auto value = unpickle(as_bytes(pickle), "p", {.records = {name}});
      ASSERT_NE(value.object(), nullptr) << name;
      EXPECT_EQ(value.object()->class_name, "vendor.shapes." + name);
      if (name == "Point") {
        ASSERT_EQ(value.object()->args.size(), 2U);
        EXPECT_EQ(*value.object()->args[1].sequence()->items.at(1).integer(), 3);
        EXPECT_TRUE(value.object()->state.is_none());
      } else {
        EXPECT_EQ(*at(value.object()->state, "logits").integer(), name == "Result" ? 7 : 8);
        EXPECT_EQ(value.object()->state.dict()->find("loss") != nullptr, name == "Result") << "an item is not None";
      }
    }
  }
}

TEST(Unpickler, RefusesAllowedNamesOutsideTheirPlace) {
  // A bare function, a bare storage class, a call of a storage class, extension codes, protocol 0 opcodes.
  EXPECT_EQ(error_of([] { unpickle(as_bytes("ctorch._utils\n_rebuild_tensor_v2\n."sv), "p"); }).code,
            ErrorCode::kUnsafePickle);
  EXPECT_EQ(error_of([] { unpickle(as_bytes("ctorch\nFloatStorage\n)R."sv), "p"); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([] { unpickle(as_bytes("\x82\1."sv), "p"); }).code, ErrorCode::kUnsafePickle);
  EXPECT_EQ(error_of([] { unpickle(as_bytes("(S'ls'\nios\nsystem\n."sv), "p"); }).code, ErrorCode::kUnsafePickle);
  EXPECT_EQ(error_of([] { unpickle(as_bytes("\x8f."sv), "p"); }).code, ErrorCode::kUnsafePickle);
}

/// A torch.save file of `_rebuild_from_type_v2(function, type, arguments, state)`; globals as protocol 0 writes them.
std::string saved_from_type(const std::string& function, const std::string& type, const std::string& state) {
  const std::string storage =
      "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
      "0X\x03\0\0\0cpuK\x02tQ"s;
  const std::string arguments = "(" + storage +
                                "K\0K\x02\x85K\x01\x85\x89"
                                "ccollections\nOrderedDict\n)Rt"s;
  const std::string pickle =
      "\x80\x02"
      "ctorch._tensor\n_rebuild_from_type_v2\n(" +
      function + type + arguments + state + "tR.";
  return make_zip({stored("m/data.pkl", pickle), stored("m/data/0", std::string("\0\0\x80\x3f\0\0\0\x40", 8))});
}

Error error_of_saved(const std::string& file, const UnpickleOptions& options = {}) {
  const ZipDirectory zip(as_bytes(file), "m.pt");
  return error_of([&] { read_torch_pickle(zip, "m/data.pkl", "m/data/", options); });
}

TEST(Unpickler, DropsTheAttributesOfPlainTensors) {
  const std::string function = "ctorch._utils\n_rebuild_tensor_v2\n";
  const std::string state = "}X\x03\0\0\0tagK\x01s"s;
  for (const std::string type : {"ctorch\nTensor\n", "ctorch.nn.parameter\nParameter\n", "ctorch.nn\nParameter\n"}) {
    SCOPED_TRACE(type);
    const std::string file = saved_from_type(function, type, state);
    const ZipDirectory zip(as_bytes(file), "m.pt");
    const PickleValue value = read_torch_pickle(zip, "m/data.pkl", "m/data/");
    ASSERT_NE(value.tensor(), nullptr);
    EXPECT_THAT(elements<float>(*value.tensor()), ElementsAre(1, 2));
  }
  const std::string other = "ctorch.testing\nSubclass\n";
  EXPECT_THAT(error_of_saved(saved_from_type(function, other, state)).message, HasSubstr("torch.testing.Subclass"));
  // Names that are known, but not as types or as functions that rebuild.
  for (const auto& [called, type] : {std::pair{function, "ccollections\nOrderedDict\n"s},
                                     {"ctorch\nSize\n"s, "ctorch\nTensor\n"s},
                                     {"ctorch._tensor\n_rebuild_from_type_v2\n"s, "ctorch\nTensor\n"s}}) {
    EXPECT_EQ(error_of_saved(saved_from_type(called, type, state)).code, ErrorCode::kUnsafePickle) << called << type;
  }
  EXPECT_EQ(error_of_saved(saved_from_type(function, "K\x01", state)).code, ErrorCode::kFileDamaged);
  const Error script = error_of_saved(saved_from_type(function, "ctorch\nTensor\n", state), {.script_classes = true});
  EXPECT_EQ(script.code, ErrorCode::kUnsafePickle) << "TorchScript's pickler never writes it";
  EXPECT_THAT(script.message, HasSubstr("torch._tensor._rebuild_from_type_v2"));
}

TEST(Unpickler, RefusesCyclesTowersAndDoublings) {
  EXPECT_EQ(error_of([] { read_torch_pickle(fixture("cycle.pt")); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([] { read_torch_pickle(fixture("doubling.pt")); }).code, ErrorCode::kFileLimits);  // 2^40 leaves
  const std::string outward = "N" + std::string(200'000, '\x85') + ".";  // ((((None,),),),)
  EXPECT_EQ(error_of([&] { unpickle(as_bytes(outward), "p"); }).code, ErrorCode::kFileLimits);
  const std::string inward = std::string(200'000, ']') + std::string(199'999, 'a') + ".";  // [[[[]]]]
  EXPECT_EQ(error_of([&] { unpickle(as_bytes(inward), "p"); }).code, ErrorCode::kFileLimits);
  // A tower and a cycle that are thrown away again do no harm.
  const std::string dropped = "N" + std::string(200'000, '\x85') + "0]q" + '\0' + "h" + '\0' + "a0K\x05.";
  EXPECT_EQ(*unpickle(as_bytes(dropped), "p").integer(), 5);
  std::string within = "N" + std::string(limits::kPickleDepth, '\x85') + ".";
  EXPECT_EQ(unpickle(as_bytes(within), "p").sequence()->items.size(), 1u);
  within.insert(1, "\x85");
  EXPECT_EQ(error_of([&] { unpickle(as_bytes(within), "p"); }).code, ErrorCode::kFileLimits);
}

TEST(Unpickler, RefusesDamage) {
  for (const std::string_view pickle :
       {"."sv, "NN."sv, "(N."sv, "t."sv, "h\0."sv, "Na."sv, "]NNs."sv, "}(Nu."sv, "}NN"sv, "NR."sv, "N)R."sv, "Nb."sv,
        "\x80\x06N."sv, "X\x03\0\0\0ab."sv, "ccollections\nOrderedDict\nNR."sv, "K\1Q."sv, "(NK\1(s."sv}) {
    EXPECT_EQ(error_of([&] { unpickle(as_bytes(pickle), "p"); }).code, ErrorCode::kFileDamaged) << pickle;
  }
  const Error twice = error_of([] { unpickle(as_bytes("}(X\1\0\0\0aNX\1\0\0\0aNu."sv), "p"); });
  EXPECT_EQ(twice.code, ErrorCode::kFileHostile);
}

TEST(Unpickler, RefusesTensorsThatDoNotFit) {
  // torch._utils._rebuild_tensor_v2(storage of `count` floats, offset, (size,), (stride,), False, OrderedDict())
  const auto archive = [](int count, const std::string& offset, const std::string& size, const std::string& stride) {
    const std::string pickle =
        "\x80\x02"
        "ctorch._utils\n_rebuild_tensor_v2\n((X\x07" +
        std::string(3, '\0') + "storagectorch\nFloatStorage\nX\x01" + std::string(3, '\0') + "0X\x03" +
        std::string(3, '\0') + "cpuK" + static_cast<char>(count) + "tQ" + offset + size + "\x85" + stride +
        "\x85\x89"
        "ccollections\nOrderedDict\n)RtR.";
    return test::make_zip({test::stored("m/data.pkl", pickle), test::stored("m/data/0", std::string(16, '\0'))});
  };
  const auto read = [](const std::string& file) {
    const ZipDirectory zip(as_bytes(file), "m.pt");
    return read_torch_pickle(zip, "m/data.pkl", "m/data/");
  };
  EXPECT_THAT(read(archive(4, "K\x01", "K\x03", "K\x01")).tensor()->sizes, ElementsAre(3));
  const std::string huge = "\x8a\x08" + std::string(7, '\xff') + "\x7f";  // 2^63 - 1
  const std::string minus = "J" + std::string(4, '\xff');                 // -1
  EXPECT_EQ(error_of([&] { read(archive(5, "K\x00"s, "K\x01", "K\x01")); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([&] { read(archive(4, "K\x02", "K\x03", "K\x01")); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([&] { read(archive(4, huge, "K\x02", "K\x01")); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([&] { read(archive(4, "K\x01", "K\x02", huge)); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([&] { read(archive(4, "K\x01", "K\x02", minus)); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([&] { read(archive(4, minus, "K\x02", "K\x01")); }).code, ErrorCode::kFileDamaged);
  EXPECT_EQ(error_of([&] { read(archive(4, "K\x01", minus, "K\x01")); }).code, ErrorCode::kFileDamaged);
  // Four floats must not become 2^63 - 1 by a stride of 0.
  EXPECT_EQ(error_of([&] { read(archive(4, "K\x01", huge, std::string("K\0", 2))); }).code, ErrorCode::kFileLimits);
}

/// Numbers leaves as torch.utils._pytree does: depth first, dicts in insertion order, None is a leaf.
void collect_leaves(const PickleValue& value, std::vector<const PickleValue*>& leaves) {
  if (const PickleSequence* sequence = value.sequence()) {
    for (const PickleValue& item : sequence->items) collect_leaves(item, leaves);
  } else if (const PickleDict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) collect_leaves(item, leaves);
  } else {
    leaves.push_back(&value);
  }
}

TEST(Unpickler, ZooInputsEqualTheirSafetensors) {
  TL_NEEDS_SHARED(test::shared_dir() / "zoo");
  std::size_t compared = 0;
  for (const auto& path : test::shared_files("zoo", ".inputs.pt")) {
    SCOPED_TRACE(path.filename().string());
    PickleValue root;
    try {
      root = read_torch_pickle(path);
    } catch (const Error& error) {
      // The one file whose inputs hold a namedtuple of the model's own.
      EXPECT_EQ(error.code, ErrorCode::kUnsafePickle) << error.message;
      EXPECT_THAT(error.message, HasSubstr("zoo_models."));
      continue;
    }
    std::vector<const PickleValue*> leaves;
    collect_leaves(root, leaves);
    auto reference = path;
    const SafetensorsFile file = SafetensorsFile::open(reference.replace_extension(".safetensors"));
    for (const SafetensorsEntry& entry : file.entries()) {
      const auto number = static_cast<std::size_t>(std::stoi(entry.name.substr(entry.name.rfind('.') + 1)));
      ASSERT_LT(number, leaves.size());
      ASSERT_NE(leaves[number]->tensor(), nullptr) << entry.name;
      const HostTensor ours = to_contiguous(*leaves[number]->tensor());
      const HostTensor theirs = file.tensor(entry);
      EXPECT_EQ(ours.dtype, theirs.dtype);
      EXPECT_EQ(ours.sizes, theirs.sizes);
      ASSERT_EQ(ours.storage.size(), theirs.storage.size());
      EXPECT_EQ(std::memcmp(ours.storage.data(), theirs.storage.data(), ours.storage.size()), 0) << entry.name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 20u);
}

TEST(Unpickler, ReadsThePicklesOfEveryTorchScriptFile) {
  TL_NEEDS_SHARED(test::shared_dir() / "zoo");
  const UnpickleOptions options{.script_classes = true, .tensors_without_data = true};
  std::size_t objects = 0;
  for (const char* ending : {".ts.pt", ".trace.pt"}) {
    for (const auto& path : test::shared_files("zoo", ending)) {
      if (path.filename() == "neg_truncated.ts.pt") continue;
      SCOPED_TRACE(path.filename().string());
      const auto file = MappedFile::open(path);
      const ZipDirectory zip(file->bytes(), path.filename().string(), file);
      const std::string root = archive_root(zip);
      EXPECT_NO_THROW(read_torch_pickle(zip, root + "constants.pkl", root + "constants/", options));
      const PickleValue module = read_torch_pickle(zip, root + "data.pkl", root + "data/", options);
      ASSERT_NE(module.object(), nullptr);
      EXPECT_TRUE(module.object()->class_name.starts_with("__torch__."));
      ++objects;
      if (!zip.find(root + "traced_inputs.pkl")) continue;
      EXPECT_NO_THROW(read_torch_pickle(zip, root + "traced_inputs.pkl", root + "traced_inputs/", options));
      EXPECT_EQ(error_of([&] { read_torch_pickle(zip, root + "data.pkl", root + "data/"); }).code,
                ErrorCode::kUnsafePickle);
    }
  }
  EXPECT_GT(objects, 80u);
}

}  // namespace
}  // namespace tl

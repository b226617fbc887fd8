#pragma once

#include <cstddef>
#include <cstdint>

/// The bounds that reading an untrusted model file keeps to, each with its reason. They sit well above what writers of
/// models produce (figures in brackets: the largest of 269 archives from small and
/// medium models) and below what harms the reader.
namespace tl::limits {

/// Entries of an archive [3,009]: about one a parameter and source file. 200k records are tens of megabytes.
inline constexpr std::size_t kZipEntries = 200'000;

/// Bytes of an entry's name [128]. Longer than any qualified Python name; PATH_MAX is 4096.
inline constexpr std::size_t kZipNameBytes = 2'048;

/// Inflated : compressed bytes. Deflate cannot exceed 1032, so a larger claim is a lie and nothing is allocated for it.
inline constexpr std::uint64_t kInflateRatio = 1'032;

/// Inflated bytes of one compressed entry. Weights are stored, not compressed; what is compressed (a re-zipped file, an
/// npz) fits. Guards against a bomb that is honest about its size.
inline constexpr std::uint64_t kInflatedEntryBytes = std::uint64_t{4} << 30;

/// Inflated bytes of all compressed entries of an archive together, for the same reason.
inline constexpr std::uint64_t kInflatedTotalBytes = std::uint64_t{16} << 30;

/// Inflated bytes of all compressed entries over those of the file, from 512 MiB on. Weights compress by a few percent,
/// sources fivefold; what gains more is a bomb that is honest about its size (two megabytes for two gigabytes).
inline constexpr std::uint64_t kInflateTotalRatio = 20;
inline constexpr std::uint64_t kInflateFreeBytes = std::uint64_t{512} << 20;

/// Bytes of one pickle [147 kB]. A pickle holds structure, storages lie beside it.
inline constexpr std::size_t kPickleBytes = std::size_t{256} << 20;

/// Values in a pickle [9,006], counted with repetition: an object that the memo shares counts at every place it
/// appears, so that whoever walks the tree later is bounded too. Reading takes up to 130 bytes a value.
inline constexpr std::uint64_t kPickleValues = 4'000'000;

/// Nesting of containers in a pickle [16]. Walking and destroying a value recurse once a level.
inline constexpr std::size_t kPickleDepth = 256;

/// Arguments of a call in a pickle; torch's functions take at most 8. Calls can share a tuple of arguments, so walking
/// it must be cheap.
inline constexpr std::size_t kPickleArguments = 64;

/// Dimensions of a tensor; LibTorch's own bound for most operators.
inline constexpr std::size_t kTensorRank = 64;

/// Elements' bytes of an expanded (stride 0) or overlapping tensor over those of its storage, from 1 GiB on: a file of
/// four bytes must not make a reader materialise terabytes.
inline constexpr std::uint64_t kExpandRatio = 1'024;
inline constexpr std::uint64_t kExpandFreeBytes = std::uint64_t{1} << 30;

/// Bytes of one TorchScript source [148 kB] and of all of one archive [488 kB]. LibTorch's compiler makes many times
/// that of them.
inline constexpr std::size_t kScriptSourceBytes = std::size_t{32} << 20;
inline constexpr std::size_t kScriptTotalBytes = std::size_t{128} << 20;

/// Open brackets in a TorchScript source [4]. LibTorch's parser and compiler recurse once a bracket and overflow a
/// stack of 8 MB between 2,000 and 8,000 (measured, as are the next three); the writer breaks expressions up long
/// before.
inline constexpr std::size_t kScriptBracketDepth = 256;

/// Indentation levels in a TorchScript source [16], for the same reason. An elif chain of n arms is n levels.
inline constexpr std::size_t kScriptIndentDepth = 256;

/// Operators and postfix calls in a row, summed over the open brackets [below 12]: `a + b + c …` is a tree as deep as
/// it is long, and the recursion overflows between 8,000 and 30,000.
inline constexpr std::size_t kScriptChainLength = 1'000;

/// `elif` arms in a row [0: the writer nests]. The parser recurses once an arm.
inline constexpr std::size_t kScriptElifArms = 256;

/// Bytes of the JSON of an exported program [1.4 MB; 10,000 nodes are 20 to 30 MB] and of a payload configuration.
inline constexpr std::size_t kProgramJsonBytes = std::size_t{512} << 20;

/// Values and keys in it [210,000]; 24 bytes each while it is read.
inline constexpr std::size_t kProgramJsonTokens = std::size_t{32} << 20;

/// Bytes of one string in it: the history of a node (`from_node`), JSON within the JSON, is the longest [30 kB].
inline constexpr std::size_t kProgramStringBytes = std::size_t{16} << 20;

/// Graphs within graphs of an exported program [2]: bodies of cond, while_loop … Readers and runners recurse once a
/// graph, and a graph is nested in nine lists and objects of the one around it.
inline constexpr std::size_t kProgramGraphDepth = 32;
inline constexpr std::size_t kProgramJsonDepth = 9 * kProgramGraphDepth + 32;

/// Names in the path of a module of an exported program [7]. Every module of a path is a row of tables, so that a text
/// of n bytes could stand for n²/4 bytes of paths.
inline constexpr std::size_t kModulePathParts = 256;

/// Nesting of the inputs or outputs of an exported program [4 containers, of two JSON levels each].
inline constexpr std::size_t kPytreeJsonDepth = 128;

/// Bytes at the head of a file that are looked at to tell what it is.
inline constexpr std::size_t kSniffBytes = 4'096;

}  // namespace tl::limits

#pragma once

// TL_VECTOR_CLONES before a function makes a second copy of it for processors with AVX2, chosen at load time. Both give
// the same bits if the function's lanes are fixed and multiply-add is not contracted (-ffp-contract=off).
#if defined(__x86_64__) && defined(__linux__)
#define TL_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TL_VECTOR_CLONES
#endif

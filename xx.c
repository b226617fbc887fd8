#define XXH_INLINE_ALL
#include <xxhash.h>
#include <stdio.h>
void dig(const void*p,size_t n,char*o){XXH128_hash_t h=XXH3_128bits(p,n);sprintf(o,"%016llx%016llx",(unsigned long long)h.high64,(unsigned long long)h.low64);}
/* Telling AddressSanitizer, where we run under it, which memory nobody may touch. */

#ifndef SLUICE_BASE_SANITIZER_H
#define SLUICE_BASE_SANITIZER_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ADDRESS_SANITIZER 1
#endif

#if defined(UNDER_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#define POISON(memory, bytes) __asan_poison_memory_region((memory), (bytes))
#define UNPOISON(memory, bytes) __asan_unpoison_memory_region((memory), (bytes))
#else
#define POISON(memory, bytes) ((void)(memory), (void)(bytes))
#define UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#endif /* SLUICE_BASE_SANITIZER_H */

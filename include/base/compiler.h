/* What we ask of the compiler beyond the language, each under one name. */

#ifndef SLUICE_BASE_COMPILER_H
#define SLUICE_BASE_COMPILER_H

/* The result says whether it worked: not looking is an error. */
#define MUST_USE __attribute__((warn_unused_result))

/* Argument number @text is a printf format, its values start at number @first. */
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* A function that is seldom called: kept out of the way of the one that calls it. */
#define COLD __attribute__((cold))

/* A function of which each caller has a copy of its own, cut to the constants
 * that it is called with. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* A function with a frame of its own, however the one that calls it is optimised. */
#define NEVER_INLINE __attribute__((noinline))

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* The struct @type that holds the member @member at @pointer. */
#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif /* SLUICE_BASE_COMPILER_H */

/* Macros for compiler features beyond the language. */

#ifndef SLUICE_BASE_COMPILER_H
#define SLUICE_BASE_COMPILER_H

/* The result reports success or failure: ignoring it is a compiler warning. */
#define MUST_USE __attribute__((warn_unused_result))

/* Argument number @text is a printf format; its values start at argument number @first. */
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* A function that is seldom called: the compiler keeps it away from hot code. */
#define COLD __attribute__((cold))

/* A function that is inlined at each call and specialised for the constant arguments there. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* A function that always has its own stack frame, whatever the optimisation of its callers. */
#define NEVER_INLINE __attribute__((noinline))

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* The struct @type that holds the member @member at @pointer. */
#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif /* SLUICE_BASE_COMPILER_H */

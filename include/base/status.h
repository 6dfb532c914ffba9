/* What can go wrong, one list for the whole program. */

#ifndef SLUICE_BASE_STATUS_H
#define SLUICE_BASE_STATUS_H

/* X(NAME, text for people) */
#define STATUS_LIST(X)                                                                             \
    X(OK, "ok")                                                                                    \
    X(NO_MEMORY, "out of memory")                                                                  \
    X(INVALID, "invalid input")                                                                    \
    X(TOO_LARGE, "too large")                                                                      \
    X(NOT_FOUND, "not found")                                                                      \
    X(FULL, "full")                                                                                \
    X(TIMEOUT, "timed out")                                                                        \
    X(UNREACHABLE, "unreachable")                                                                  \
    X(REFUSED, "refused by the store")                                                             \
    X(IN_USE, "already in use")                                                                    \
    X(IO, "input or output failed")

enum status {
#define STATUS_ENUM(name, text) STATUS_##name,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
};

/* A short static text for people, never NULL. */
const char *status_text(enum status status);

#endif /* SLUICE_BASE_STATUS_H */

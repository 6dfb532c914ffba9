/* The status codes of the whole program, and panic() for what no caller can handle. */

#ifndef SLUICE_BASE_STATUS_H
#define SLUICE_BASE_STATUS_H

#include "base/compiler.h"

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
    X(CROWDED, "too many decisions of this client")                                                \
    X(IN_USE, "already in use")                                                                    \
    X(NO_PORT, "no local port is left")                                                            \
    X(IO, "input or output failed")

enum status {
#define STATUS_ENUM(name, text) STATUS_##name,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
};

/* A short static text for people, never NULL. */
const char *status_text(enum status status);

/* Write "sluice: panic: @message" to standard error, bypassing the log, and abort. For corrupt data
 * of our own after which a release build, which has no assert(), would read memory out of
 * bounds. */
_Noreturn COLD void panic(const char *message);

#endif /* SLUICE_BASE_STATUS_H */

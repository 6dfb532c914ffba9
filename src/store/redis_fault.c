#include "store/redis_fault.h"

#include <assert.h>
#include <stddef.h>

enum { SLOTS = 16384 };

#define CODED(name, code, reaction, counts, is_lasting)                                            \
    {                                                                                              \
        name, code, STATUS_REFUSED, reaction, counts, is_lasting                                   \
    }

static const struct redis_fault_row ROWS[REDIS_FAULT_COUNT] = {
    [REDIS_FAULT_NONE] = {"none", NULL, STATUS_OK, REDIS_IGNORE, false, false},

    [REDIS_FAULT_NOT_FOUND] = {"not_found", NULL, STATUS_UNREACHABLE, REDIS_DROP, false, false},
    [REDIS_FAULT_REFUSED] = {"refused", NULL, STATUS_UNREACHABLE, REDIS_DROP, false, false},
    [REDIS_FAULT_RESET] = {"reset", NULL, STATUS_UNREACHABLE, REDIS_DROP, false, false},
    [REDIS_FAULT_HALF_OPEN] = {"half_open", NULL, STATUS_TIMEOUT, REDIS_DROP, false, false},
    [REDIS_FAULT_SWITCHED] = {"switched", NULL, STATUS_UNREACHABLE, REDIS_DROP, false, false},
    [REDIS_FAULT_MALFORMED] = {"malformed", NULL, STATUS_INVALID, REDIS_DROP, false, false},

    [REDIS_FAULT_DEADLINE] = {"deadline", NULL, STATUS_TIMEOUT, REDIS_FAIL, true, false},
    [REDIS_FAULT_LATE] = {"late", NULL, STATUS_TIMEOUT, REDIS_IGNORE, false, false},

    [REDIS_FAULT_NOSCRIPT] = CODED("noscript", "NOSCRIPT", REDIS_SEND_SCRIPT, false, false),
    [REDIS_FAULT_READONLY] = CODED("readonly", "READONLY", REDIS_DROP, false, false),
    [REDIS_FAULT_MASTERDOWN] = CODED("masterdown", "MASTERDOWN", REDIS_DROP, false, false),
    [REDIS_FAULT_MOVED] = CODED("moved", "MOVED", REDIS_REDIRECT, false, true),
    [REDIS_FAULT_ASK] = CODED("ask", "ASK", REDIS_REDIRECT, false, false),
    [REDIS_FAULT_TRYAGAIN] = CODED("tryagain", "TRYAGAIN", REDIS_FAIL, false, false),
    [REDIS_FAULT_CROSSSLOT] = CODED("crossslot", "CROSSSLOT", REDIS_FAIL, false, true),
    [REDIS_FAULT_CLUSTERDOWN] = CODED("clusterdown", "CLUSTERDOWN", REDIS_FAIL, true, false),
    [REDIS_FAULT_LOADING] = CODED("loading", "LOADING", REDIS_FAIL, true, false),
    [REDIS_FAULT_BUSY] = CODED("busy", "BUSY", REDIS_FAIL, true, false),
    [REDIS_FAULT_OOM] = CODED("oom", "OOM", REDIS_FAIL, true, false),
    [REDIS_FAULT_MISCONF] = CODED("misconf", "MISCONF", REDIS_FAIL, true, false),
    [REDIS_FAULT_NOREPLICAS] = CODED("noreplicas", "NOREPLICAS", REDIS_FAIL, true, false),
    [REDIS_FAULT_NOAUTH] = CODED("noauth", "NOAUTH", REDIS_DROP, false, true),
    [REDIS_FAULT_WRONGPASS] = CODED("wrongpass", "WRONGPASS", REDIS_DROP, false, true),
    [REDIS_FAULT_NOPERM] = CODED("noperm", "NOPERM", REDIS_FAIL, true, true),
    [REDIS_FAULT_WRONGTYPE] = CODED("wrongtype", "WRONGTYPE", REDIS_FAIL, false, true),
    [REDIS_FAULT_CLOCK] = {"clock", "CLOCK", STATUS_INVALID, REDIS_FAIL, false, true},
    [REDIS_FAULT_OTHER] = {"other", NULL, STATUS_REFUSED, REDIS_FAIL, true, true},
};

const struct redis_fault_row *redis_fault_row(enum redis_fault fault)
{
    assert(fault < REDIS_FAULT_COUNT);

    return &ROWS[fault];
}

struct span redis_fault_code(struct span text)
{
    return span_of(text.data, span_find(text, ' '));
}

static enum redis_fault fault_of_code(struct span text)
{
    const struct span code = redis_fault_code(text);
    for (size_t i = 0; i < REDIS_FAULT_COUNT; i++) {
        if (ROWS[i].code != NULL && span_equals(code, span_of_text(ROWS[i].code))) {
            return (enum redis_fault)i;
        }
    }
    return REDIS_FAULT_OTHER;
}

/* Remove "@user_script:41:" or "@user_script: 41:" from the front of @rest, if present. */
static bool cut_line_number(struct span *rest)
{
    struct span after = *rest;
    struct span name;
    struct span number;
    uint64_t line;
    if (!span_split(&after, ':', &name) || !span_equals(span_trim(name), SPAN("@user_script")) ||
        !span_split(&after, ':', &number) || !span_to_u64(span_trim(number), UINT32_MAX, &line)) {
        return false;
    }
    *rest = after;
    return true;
}

/* Redis before 7 reports a command that failed within a script as "ERR Error running script (call
 * to f_<sha>): @user_script:41: @user_script: 41: -OOM command not allowed …". Returns the error of
 * the command; empty: @text is no such error. */
static struct span said_within_script(struct span text)
{
    struct span rest = text;
    struct span head;
    if (!span_starts_with(text, SPAN("ERR Error running script (call to f_")) ||
        !span_split(&rest, ':', &head) || !cut_line_number(&rest)) {
        return SPAN("");
    }
    (void)cut_line_number(&rest);
    rest = span_trim(rest);
    return span_starts_with(rest, SPAN("-")) ? span_of(rest.data + 1, rest.len - 1) : rest;
}

/* Whether @fault is accepted from a command within a script. A fault after which the call is
 * repeated is not: that is safe only before the script runs, when nothing has changed. */
static bool is_of_commands(enum redis_fault fault)
{
    const enum redis_reaction reaction = redis_fault_row(fault)->reaction;
    return reaction != REDIS_SEND_SCRIPT && reaction != REDIS_REDIRECT &&
           fault != REDIS_FAULT_TRYAGAIN;
}

enum redis_fault redis_fault_of(struct span text)
{
    const struct span said = said_within_script(text);
    const enum redis_fault fault = fault_of_code(said.len > 0 ? said : text);
    return said.len == 0 || is_of_commands(fault) ? fault : REDIS_FAULT_OTHER;
}

/* "host:port"; an IPv6 host has colons too, so the last colon counts. */
static bool read_endpoint(struct span endpoint, struct redis_redirect *redirect)
{
    uint64_t port;
    size_t colon = endpoint.len;
    while (colon > 0 && endpoint.data[colon - 1] != ':') {
        colon--;
    }
    if (colon == 0 ||
        !span_to_u64(span_of(endpoint.data + colon, endpoint.len - colon), UINT16_MAX, &port) ||
        port == 0) {
        return false;
    }
    redirect->host = span_of(endpoint.data, colon - 1);
    redirect->port = (uint16_t)port;
    return true;
}

bool redis_fault_read_redirect(struct span text, struct redis_redirect *redirect)
{
    struct span rest = text;
    struct span code;
    struct span slot_text;
    uint64_t slot;
    if (!span_split(&rest, ' ', &code) || !span_split(&rest, ' ', &slot_text) ||
        !span_to_u64(slot_text, SLOTS - 1, &slot) || !read_endpoint(rest, redirect)) {
        return false;
    }
    redirect->slot = (uint16_t)slot;
    return true;
}

/* An explanation as it is written: its JSON document and, in step with it, its text. A function of
 * explain_write.c reports a fact once, as a member of the document and as words of the text. */

#ifndef SLUICE_APP_EXPLAIN_EXPLAIN_OUTPUT_H
#define SLUICE_APP_EXPLAIN_EXPLAIN_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "app/command.h"
#include "app/explain/explanation.h"
#include "base/span.h"

struct explain_output {
    const struct explanation *explanation;
    json_t *root;
    bool is_short; /* of memory: the document is not whole */
    FILE *text;    /* NULL: only the document is wanted */
    bool has_line; /* of the text: one has been begun */
};

/* --- the document --- */

/* As json_of_bytes(); null if there are none. */
json_t *explain_json_or_null(struct span span);

/* Put @value, which is NULL without memory, into @object. Returns it; NULL: it is not there. */
json_t *explain_set(struct explain_output *out, json_t *object, const char *key, json_t *value);
void explain_set_number(struct explain_output *out, json_t *object, const char *key,
                        uint64_t number);
void explain_set_list(struct explain_output *out, json_t *object, const char *key,
                      const struct span *spans, size_t n);

/* As explain_set(), at the end of @list. */
json_t *explain_append(struct explain_output *out, json_t *list, json_t *value);

/* --- the text --- */

enum { EXPLAIN_VALUE_BYTES_MAX = 1024 }; /* of one text from outside; the rest is cut */

/* A span for `%.*s`, cut. */
#define EXPLAIN_VALUE(span)                                                                        \
    (int)((span).len < EXPLAIN_VALUE_BYTES_MAX ? (span).len : EXPLAIN_VALUE_BYTES_MAX), (span).data

/* Continue the line, with a format as of printf(); what comes from outside is made printable. */
#define explain_say(out, ...) print_printable((out)->text, __VA_ARGS__)

/* Begin a line; the title has a column of its own, and the rest is as for explain_say(). */
#define explain_line(out, title, ...)                                                              \
    (explain_end_line(out), explain_say(out, "%-11s", title), explain_say(out, __VA_ARGS__))

/* End the line, if one has been begun. */
void explain_end_line(struct explain_output *out);

/* Item @i of @n, and what is before it: a comma, or @before_last. */
void explain_say_item(const struct explain_output *out, struct span item, size_t i, size_t n,
                      const char *before_last);
void explain_say_list(const struct explain_output *out, const struct span *spans, size_t n,
                      const char *before_last);

struct word explain_time(uint64_t us);
struct word explain_address(const struct address *address);

/* --- parts of the explanation --- */

/* What each limit of the route says. */
void explain_limits(struct explain_output *out);

#endif /* SLUICE_APP_EXPLAIN_EXPLAIN_OUTPUT_H */

/* The types of single values in a policy, with their names and parsers. */

#ifndef SLUICE_POLICY_LOAD_VALUE_TYPES_H
#define SLUICE_POLICY_LOAD_VALUE_TYPES_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/key.h"
#include "policy/load/section.h"

/* Each type parses a text into the named type. */
extern const struct value_type VALUE_TEXT;   /* struct spec_text */
extern const struct value_type VALUE_SECRET; /* struct spec_text, never shown */
extern const struct value_type VALUE_NAME;   /* struct spec_text: a limit, route or upstream */
extern const struct value_type VALUE_CONTENT_TYPE; /* struct spec_text: a header field's value */
extern const struct value_type VALUE_METHOD;       /* struct spec_text: a token */
extern const struct value_type VALUE_PROTOCOL;     /* struct spec_text: as in Upgrade */
extern const struct value_type VALUE_LOG_TARGET;   /* struct spec_text: stdout, syslog or a file */
extern const struct value_type VALUE_COUNTRY;      /* struct spec_country */
extern const struct value_type VALUE_ASN;          /* struct spec_asn */
extern const struct value_type VALUE_FILE;         /* struct spec_text: the path of a file */
extern const struct value_type VALUE_FILE_OR_URL;  /* likewise, or a URL */
extern const struct value_type VALUE_SHARE;        /* uint32_t: ppm */
extern const struct value_type VALUE_HOST_RULE; /* struct spec_text: preserve, server or a host */
extern const struct value_type VALUE_HOST_PATTERN;   /* struct spec_text: host or *.host */
extern const struct value_type VALUE_HOST_WITH_PORT; /* likewise, with or without a port */
extern const struct value_type VALUE_REDIRECT;       /* struct spec_text */
extern const struct value_type VALUE_ORIGIN;         /* struct spec_text: an origin, or * */
extern const struct value_type VALUE_BOOL;           /* bool */
extern const struct value_type VALUE_BYTE_RATE;      /* uint64_t: bytes a second; 0: off */
extern const struct value_type VALUE_COST_SOURCE;    /* struct spec_cost_source */
extern const struct value_type VALUE_METHOD_COST;    /* struct spec_method_cost */
extern const struct value_type VALUE_ANSWER;         /* struct spec_answer */
extern const struct value_type VALUE_LISTEN;         /* struct spec_endpoint */
extern const struct value_type VALUE_MODE;           /* uint32_t: permissions of a file */
extern const struct value_type VALUE_NAME_SERVER;    /* struct spec_endpoint */
extern const struct value_type VALUE_SERVER;         /* struct spec_endpoint */
extern const struct value_type VALUE_REDIS;          /* struct spec_redis */
extern const struct value_type VALUE_PREFIX;         /* struct address_prefix */
extern const struct value_type VALUE_RATE;           /* struct spec_rate */
extern const struct value_type VALUE_PERIOD_RATE;    /* struct spec_period_rate */
extern const struct value_type VALUE_PLAN_RATE;      /* struct spec_rate; 0 units: none */
extern const struct value_type VALUE_PLAN_SOURCES;   /* struct spec_plan_sources */
extern const struct value_type VALUE_KEY_PART;       /* struct spec_key_part */
extern const struct value_type VALUE_ALGORITHM;      /* const struct algorithm * */
extern const struct value_type VALUE_HEADER;         /* struct spec_text */
extern const struct value_type VALUE_PARAMETER;      /* struct spec_text: of a query */
extern const struct value_type VALUE_CLAIM;          /* struct spec_text: of a token */
extern const struct value_type VALUE_FIELD;          /* struct spec_field */
extern const struct value_type VALUE_ANSWER_FIELD;   /* the same, of answers that any client gets */
extern const struct value_type VALUE_FIELD_NAME;     /* struct spec_text */

/* Parsers for types with their own bounds. */
bool value_parse_number(const struct value_input *input, void *out);
bool value_parse_duration(const struct value_input *input, void *out);
bool value_parse_size(const struct value_input *input, void *out);

/* Read one part of a key, `header.x-api-key | client.ip`: alternatives with "|" between them. Names
 * are copied to @arena. False: @problem describes the error, for use after `key "VALUE": `. */
MUST_USE bool value_parse_key_part(struct span span, struct arena *arena, struct key_part *part,
                                   struct text *problem);

/* Whether @method is a valid request method; else @problem says why not. */
bool value_check_method(struct span method, struct text *problem);

/* Parts of patterns for schemas, without anchors. */
#define PATTERN_TOKEN "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
#define PATTERN_DURATION                                                                           \
    "(?=[0-9])([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?([0-9]+us)?"
#define PATTERN_SIZE "[0-9]+([KMGT]i)?B"

/* Types of values, for initialisers; each may end with further members, `.pattern = "…"`. */

/* A struct spec_text that a check accepts, or NULL. */
#define VALUE_STRING_TYPE(noun_, ...)                                                              \
    {                                                                                              \
        .kind = VALUE_STRING, .noun = (noun_), .bytes = sizeof(struct spec_text),                  \
        .has_node = true, .check = __VA_ARGS__                                                     \
    }

/* Parsed into a @type_. */
#define VALUE_SCALAR_TYPE(noun_, type_, ...)                                                       \
    {                                                                                              \
        .kind = VALUE_SCALAR, .noun = (noun_), .bytes = sizeof(type_), .parse = __VA_ARGS__        \
    }

/* Parsed into a @struct_, which begins with its node: parse() writes from @member_ on. */
#define VALUE_NODE_TYPE(noun_, struct_, member_, ...)                                              \
    {                                                                                              \
        .kind = VALUE_SCALAR, .noun = (noun_), .bytes = sizeof(struct_),                           \
        .offset = offsetof(struct_, member_), .has_node = true, .parse = __VA_ARGS__               \
    }

/* Members of a type that may be a whole number in the file. */
#define VALUE_IS_NUMBER(min_, max_) .min = (min_), .max = (max_), .form = FORM_NUMBER

/* A whole number into a uint32_t, a duration into us and a size into bytes, both uint64_t. */
#define VALUE_NUMBER_TYPE(min_, max_)                                                              \
    VALUE_SCALAR_TYPE("a whole number", uint32_t, value_parse_number, VALUE_IS_NUMBER(min_, max_))
#define VALUE_DURATION_TYPE(min_, max_)                                                            \
    VALUE_SCALAR_TYPE("a duration such as 500ms or 10s", uint64_t, value_parse_duration,           \
                      .min = (min_), .max = (max_), .pattern = "^(" PATTERN_DURATION ")$")
#define VALUE_SIZE_TYPE(min_, max_)                                                                \
    VALUE_SCALAR_TYPE("a size such as 16KiB", uint64_t, value_parse_size, .min = (min_),           \
                      .max = (max_), .pattern = "^(" PATTERN_SIZE ")$")

/* Whether @text can be the value of a header field; else @problem says why not. */
bool value_check_field(struct span text, struct text *problem);

/* Whether @node is `true` or `false`, not quoted. */
MUST_USE bool value_is_switch(const struct node *node);

/* Whether a policy may read the request field @name. It must not be a hop-by-hop field, one that
 * the upstream gets otherwise, or one that is refused in requests. False: @problem says why. */
MUST_USE bool value_check_read_field(struct span name, struct text *problem);

/* --- for tables of sections --- */

#define MS(n) (UINT64_C(1000) * (n))
#define KIB(n) (UINT64_C(1024) * (n))
#define HOUR_MS UINT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

#define SECTION_TYPE(fields_, struct_) SHORT_SECTION_TYPE(fields_, struct_, NULL)
#define SHORT_SECTION_TYPE(fields_, struct_, shorthand_)                                           \
    {                                                                                              \
        .kind = VALUE_SECTION, .noun = "a mapping", .bytes = sizeof(struct_),                      \
        .section = SHORT_SECTION(fields_, shorthand_)                                              \
    }
#define SHORT_SECTION(fields_, shorthand_)                                                         \
    (&(const struct section){                                                                      \
        .fields = (fields_), .n_fields = ARRAY_LEN(fields_), .shorthand = (shorthand_)})

/* Types of one key, within its row. */
#define NUMBER(min_, max_) (&(const struct value_type)VALUE_NUMBER_TYPE(min_, max_))
#define DURATION(min_, max_) (&(const struct value_type)VALUE_DURATION_TYPE(min_, max_))
#define SIZE(min_, max_) (&(const struct value_type)VALUE_SIZE_TYPE(min_, max_))
#define NUMBER_OR_AUTO(min_, max_)                                                                 \
    (&(const struct value_type)VALUE_SCALAR_TYPE(                                                  \
        "auto or a whole number", uint32_t, value_parse_number, .zero_word = "auto",               \
        VALUE_IS_NUMBER(min_, max_), .pattern = "^auto$"))

/* The row of a key, whose value goes to @member_ of a struct @of_: a single value, a list, a map, a
 * map of lists. Last the doc, and .presence of a key that is not simply optional. */
#define KEY(key_, type_, of_, member_, fallback_, ...)                                             \
    {                                                                                              \
        (key_), SHAPE_ONE, (type_), offsetof(struct of_, member_), (fallback_), .doc = __VA_ARGS__ \
    }
#define LIST_KEY(key_, type_, of_, member_, ...)                                                   \
    {                                                                                              \
        (key_), SHAPE_LIST, (type_), offsetof(struct of_, member_), .doc = __VA_ARGS__             \
    }
#define MAP_KEY(key_, type_, of_, member_, ...)                                                    \
    {                                                                                              \
        (key_), SHAPE_MAP, (type_), offsetof(struct of_, member_), .doc = __VA_ARGS__              \
    }
#define LISTS_KEY(key_, type_, of_, member_, ...)                                                  \
    {                                                                                              \
        (key_), SHAPE_MAP_OF_LISTS, (type_), offsetof(struct of_, member_), .doc = __VA_ARGS__     \
    }

/* The words in the order of their values, which begin at 0. */
#define WORD_TYPE(noun_, ...)                                                                      \
    {                                                                                              \
        .kind = VALUE_WORD, .noun = (noun_), .bytes = sizeof(int), .words = (const char *const[])  \
        {                                                                                          \
            __VA_ARGS__, NULL                                                                      \
        }                                                                                          \
    }

#endif /* SLUICE_POLICY_LOAD_VALUE_TYPES_H */

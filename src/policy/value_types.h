/* The kinds of single values in a policy: what each is called, and how it is read. */

#ifndef SLUICE_POLICY_VALUE_TYPES_H
#define SLUICE_POLICY_VALUE_TYPES_H

#include "policy/section.h"

/* Each reads node->text into what is named. */
extern const struct value_type VALUE_TEXT;   /* struct spec_text */
extern const struct value_type VALUE_SECRET; /* struct spec_text, that nobody is shown */
extern const struct value_type VALUE_NAME;   /* struct spec_text: a limit, route or upstream */
extern const struct value_type VALUE_CONTENT_TYPE; /* struct spec_text: a header field's value */
extern const struct value_type VALUE_METHOD;       /* struct spec_text: a token */
extern const struct value_type VALUE_PROTOCOL;     /* struct spec_text: as in Upgrade */
extern const struct value_type VALUE_LOG_TARGET;   /* struct spec_text: stdout, syslog or a file */
extern const struct value_type VALUE_SHARE;        /* uint32_t: ppm */
extern const struct value_type VALUE_HOST_RULE; /* struct spec_text: preserve, server or a host */
extern const struct value_type VALUE_HOST_PATTERN; /* struct spec_text: host or *.host */
extern const struct value_type VALUE_BOOL;         /* bool */
extern const struct value_type VALUE_BYTE_RATE;    /* uint64_t: bytes a second; 0: off */
extern const struct value_type VALUE_COST_SOURCE;  /* struct spec_cost_source */
extern const struct value_type VALUE_METHOD_COST;  /* struct spec_method_cost */
extern const struct value_type VALUE_ANSWER;       /* struct spec_answer */
extern const struct value_type VALUE_LISTEN;       /* struct spec_endpoint */
extern const struct value_type VALUE_MODE;         /* uint32_t: permissions of a file */
extern const struct value_type VALUE_NAME_SERVER;  /* struct spec_endpoint */
extern const struct value_type VALUE_SERVER;       /* struct spec_endpoint */
extern const struct value_type VALUE_REDIS;        /* struct spec_redis */
extern const struct value_type VALUE_PREFIX;       /* struct address_prefix */
extern const struct value_type VALUE_RATE;         /* struct spec_rate */
extern const struct value_type VALUE_KEY_PART;     /* struct spec_key_part */
extern const struct value_type VALUE_ALGORITHM;    /* const struct algorithm * */
extern const struct value_type VALUE_HEADER;       /* struct spec_header */
extern const struct value_type VALUE_CHECK_PATH;   /* struct spec_text: a path, perhaps a query */
extern const struct value_type VALUE_FAILURES;     /* uint32_t; 0: off */
extern const struct value_type VALUE_FIELD;        /* struct spec_field */
extern const struct value_type VALUE_FIELD_NAME;   /* struct spec_text */
extern const struct value_type VALUE_BALANCE;      /* struct spec_balance */

/* For types with bounds of their own. */
bool value_parse_number(const struct value_type *type, const struct node *node, struct arena *arena,
                        void *out, struct text *problem);
bool value_parse_auto(const struct value_type *type, const struct node *node, struct arena *arena,
                      void *out, struct text *problem);
bool value_parse_duration(const struct value_type *type, const struct node *node,
                          struct arena *arena, void *out, struct text *problem);
bool value_parse_size(const struct value_type *type, const struct node *node, struct arena *arena,
                      void *out, struct text *problem);

/* Whether requests can have @method; else @problem says why not. */
bool value_check_method(struct span method, struct text *problem);

/* What schemas say of texts: parts of patterns, without anchors. */
#define PATTERN_TOKEN "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
#define PATTERN_DURATION                                                                           \
    "(?=[0-9])([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?([0-9]+us)?"
#define PATTERN_SIZE "[0-9]+([KMGT]i)?B"

#define VALUE_SCALAR_TYPE(noun_, type_, parse_)                                                    \
    {                                                                                              \
        .kind = VALUE_SCALAR, .noun = (noun_), .bytes = sizeof(type_), .parse = (parse_)           \
    }

/* One whose texts have a form. */
#define VALUE_PATTERN_TYPE(noun_, type_, parse_, pattern_)                                         \
    {                                                                                              \
        .kind = VALUE_SCALAR, .noun = (noun_), .bytes = sizeof(type_), .parse = (parse_),          \
        .pattern = "^(" pattern_ ")$"                                                              \
    }

/* A whole number into a uint32_t, a duration into us and a size into bytes, both uint64_t. */
#define VALUE_NUMBER_TYPE(min_, max_)                                                              \
    {                                                                                              \
        .kind = VALUE_SCALAR, .noun = "a whole number", .bytes = sizeof(uint32_t),                 \
        .parse = value_parse_number, .min = (min_), .max = (max_), .form = FORM_NUMBER             \
    }
/* Likewise, or auto, which is 0. */
#define VALUE_AUTO_TYPE(min_, max_)                                                                \
    {                                                                                              \
        .kind = VALUE_SCALAR, .noun = "auto or a whole number", .bytes = sizeof(uint32_t),         \
        .parse = value_parse_auto, .min = (min_), .max = (max_), .form = FORM_NUMBER,              \
        .pattern = "^auto$"                                                                        \
    }
#define VALUE_DURATION_TYPE(min_, max_)                                                            \
    {                                                                                              \
        .kind = VALUE_SCALAR, .noun = "a duration such as 500ms or 10s",                           \
        .bytes = sizeof(uint64_t), .parse = value_parse_duration, .min = (min_), .max = (max_),    \
        .pattern = "^(" PATTERN_DURATION ")$"                                                      \
    }
#define VALUE_SIZE_TYPE(min_, max_)                                                                \
    {                                                                                              \
        .kind = VALUE_SCALAR, .noun = "a size such as 16KiB", .bytes = sizeof(uint64_t),           \
        .parse = value_parse_size, .min = (min_), .max = (max_), .pattern = "^(" PATTERN_SIZE ")$" \
    }

/* Whether a policy may read the request field @name: not where it belongs to one connection, or
 * requests with it are refused. Says in @problem why not. */
MUST_USE bool value_check_read_field(struct span name, struct text *problem);

#endif /* SLUICE_POLICY_VALUE_TYPES_H */

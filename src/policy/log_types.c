/* The values of log. */

#include "policy/value_types.h"

#include "base/limits.h"
#include "policy/spec_values.h"

enum {
    PPM_A_PERCENT = 10000,
    PERCENT_DIGITS_MAX = 4, /* behind the point: to the ppm */
};

static bool parse_log_target(const struct value_type *type, const struct node *node,
                             struct arena *arena, void *out, struct text *problem)
{
    const bool is_syslog =
        span_equals(node->text, SPAN("syslog")) || span_starts_with(node->text, SPAN("syslog:/"));
    (void)arena;
    if (node->text.len == 0 || span_find(node->text, '\0') < node->text.len ||
        (!is_syslog && span_starts_with(node->text, SPAN("syslog:")))) {
        text_add_format(problem, "must be %s", type->noun);
        return false;
    }
    if (is_syslog && node->text.len > SPAN("syslog:").len + SYSLOG_PATH_BYTES_MAX) {
        text_add_format(problem, "must be at most %d bytes behind \"syslog:\"",
                        SYSLOG_PATH_BYTES_MAX);
        return false;
    }
    *(struct spec_text *)out = (struct spec_text){.node = node, .text = node->text};
    return true;
}

/* "12.5" in ppm. */
static bool parse_percent(struct span span, uint32_t *ppm)
{
    const size_t point = span_find(span, '.');
    const bool has_digits = point < span.len;
    const struct span digits =
        has_digits ? span_of(span.data + point + 1, span.len - point - 1) : SPAN("0");
    uint64_t whole;
    uint64_t part;
    if (!span_to_u64(span_of(span.data, point), 100, &whole) || digits.len > PERCENT_DIGITS_MAX ||
        !span_to_u64(digits, UINT32_MAX, &part)) {
        return false;
    }
    for (size_t i = digits.len; i < PERCENT_DIGITS_MAX; i++) {
        part *= 10;
    }
    *ppm = (uint32_t)(whole * PPM_A_PERCENT + part);
    return *ppm <= 100 * PPM_A_PERCENT;
}

static bool parse_share(const struct value_type *type, const struct node *node, struct arena *arena,
                        void *out, struct text *problem)
{
    const struct span text = node->text;
    (void)arena;
    if (text.len < 2 || text.data[text.len - 1] != '%' ||
        !parse_percent(span_of(text.data, text.len - 1), out)) {
        text_add_format(problem, "must be %s, of at most 4 digits behind the point", type->noun);
        return false;
    }
    return true;
}

const struct value_type VALUE_LOG_TARGET = VALUE_SCALAR_TYPE(
    "stdout, syslog, syslog:/path or the path of a file", struct spec_text, parse_log_target);
const struct value_type VALUE_SHARE =
    VALUE_PATTERN_TYPE("a share such as 10% or 0.1%", uint32_t, parse_share,
                       "(100(\\.0{1,4})?|[0-9]{1,2}(\\.[0-9]{1,4})?)%");

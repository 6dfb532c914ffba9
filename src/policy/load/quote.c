#include "policy/load/quote.h"

#include "policy/load/endpoint.h"

struct span quote_clip(struct span value)
{
    return span_of(value.data, value.len < QUOTE_BYTES_MAX ? value.len : QUOTE_BYTES_MAX);
}

/* Remove all up to the last "@" from @url: it may be a password, which may contain any byte.
 * Returns the scheme with "://"; empty if @url is unchanged. */
static struct span cut_user(struct span *url)
{
    struct span rest = *url;
    if (endpoint_cut_scheme(&rest).len == 0) {
        return span_of(url->data, 0);
    }
    const struct span front = span_of(url->data, (size_t)(rest.data - url->data));
    size_t at = rest.len;
    while (at > 0 && rest.data[at - 1] != '@') {
        at--;
    }
    if (at == 0) {
        return span_of(url->data, 0);
    }
    *url = span_of(rest.data + at - 1, rest.len - at + 1);
    return front;
}

void quote_write(struct text *text, struct span value)
{
    const struct span front = cut_user(&value);
    text_add_literal(text, "\"");
    if (front.len > 0) {
        text_add(text, quote_clip(front));
        text_add_literal(text, "***");
    }
    text_add(text, quote_clip(value));
    text_add(text, value.len > QUOTE_BYTES_MAX ? SPAN("\xe2\x80\xa6\"") : SPAN("\""));
}

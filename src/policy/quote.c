#include "policy/quote.h"

struct span quote_clip(struct span value)
{
    return span_of(value.data, value.len < QUOTE_BYTES_MAX ? value.len : QUOTE_BYTES_MAX);
}

void quote_write(struct text *text, struct span value)
{
    text_add_literal(text, "\"");
    text_add(text, quote_clip(value));
    text_add(text, value.len > QUOTE_BYTES_MAX ? SPAN("\xe2\x80\xa6\"") : SPAN("\""));
}

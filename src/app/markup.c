#include "app/markup.h"

#include "base/text.h"

enum { TEXT_BYTES = 4096 };

void markup_print_text(FILE *out, struct span span)
{
    char buffer[TEXT_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_printable(&text, span);
    for (size_t i = 0; i < text.len; i++) {
        switch (text.data[i]) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(text.data[i], out);
        }
    }
}

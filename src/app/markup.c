#include "app/markup.h"

#include "base/text.h"

enum {
    PIECE_BYTES_MAX = 1024,
    WORST_BYTES = 4, /* that one byte becomes as text_add_printable shows it */
    CHARACTER_BYTES_MAX = 4,
};

/* Cut a piece off the front of @rest that ends where a character does. */
static struct span next_piece(struct span *rest)
{
    size_t len = rest->len;
    if (len > PIECE_BYTES_MAX) {
        len = PIECE_BYTES_MAX;
        while (len > PIECE_BYTES_MAX - CHARACTER_BYTES_MAX + 1 &&
               ((uint8_t)rest->data[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    const struct span piece = span_of(rest->data, len);
    *rest = span_of(rest->data + len, rest->len - len);
    return piece;
}

static void print_escaped(FILE *out, struct span text)
{
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

void markup_print_text(FILE *out, struct span text)
{
    while (text.len > 0) {
        char buffer[PIECE_BYTES_MAX * WORST_BYTES];
        struct text printable = text_of(buffer, sizeof(buffer));
        text_add_printable(&printable, next_piece(&text));
        print_escaped(out, text_span(&printable));
    }
}

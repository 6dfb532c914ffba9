#include "base/utf8.h"

#include "base/compiler.h"

/* Lead bytes with what may follow them: only the second byte's range differs. */
static const struct {
    uint8_t lead_first, lead_last;
    uint8_t len;
    uint8_t second_first, second_last;
} FORMS[] = {
    {0x00, 0x7f, 1, 0x00, 0x00}, {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static uint8_t byte_at(struct span span, size_t i)
{
    return (uint8_t)span.data[i];
}

static size_t checked(struct span span, size_t form)
{
    size_t len = FORMS[form].len;

    if (len > span.len) {
        return 0;
    }
    if (len > 1 && (byte_at(span, 1) < FORMS[form].second_first ||
                    byte_at(span, 1) > FORMS[form].second_last)) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if ((byte_at(span, i) & 0xc0) != 0x80) {
            return 0;
        }
    }
    return len;
}

size_t utf8_front(struct span span)
{
    if (span.len == 0) {
        return 0;
    }
    for (size_t form = 0; form < ARRAY_LEN(FORMS); form++) {
        if (byte_at(span, 0) >= FORMS[form].lead_first &&
            byte_at(span, 0) <= FORMS[form].lead_last) {
            return checked(span, form);
        }
    }
    return 0;
}

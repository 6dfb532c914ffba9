#include "proxy/core/via.h"

#include <assert.h>

enum { NAME_AT = 9 }; /* behind "Via: 1.1 " */

void via_init(struct via *via, const uint8_t id[VIA_ID_BYTES])
{
    static const struct span VERSIONS[] = {
        [VIA_HTTP_1_0] = {"1.0", 3}, [VIA_HTTP_1_1] = {"1.1", 3}, [VIA_HTTP_2] = {"2.0", 3}};
    for (size_t i = 0; i < VIA_PROTOCOLS; i++) {
        struct text line = text_of(via->lines[i], sizeof(via->lines[i]));
        text_add_literal(&line, "Via: ");
        text_add(&line, VERSIONS[i]);
        text_add_literal(&line, " sluice-");
        text_add_hex(&line, id, VIA_ID_BYTES);
        text_add_literal(&line, "\r\n");
        assert(line.len == VIA_LINE_BYTES && !line.truncated);
    }
}

struct span via_name(const struct via *via)
{
    return span_of(via->lines[0] + NAME_AT, VIA_NAME_BYTES);
}

void via_write(const struct via *via, enum via_protocol protocol, struct text *text)
{
    text_add(text, span_of(via->lines[protocol], VIA_LINE_BYTES));
}

/* Bytes up to white space. */
static size_t word_len(struct span span)
{
    size_t len = 0;
    while (len < span.len && span.data[len] != ' ' && span.data[len] != '\t') {
        len++;
    }
    return len;
}

/* The second word of a member. A member is: protocol, received-by, optional comment. */
static struct span received_by(struct span member)
{
    const size_t protocol_len = word_len(member);
    const struct span rest =
        span_trim(span_of(member.data + protocol_len, member.len - protocol_len));
    return span_of(rest.data, word_len(rest));
}

/* Quotes are ignored: they are legal only in comments, and an open quote must not hide later
 * members. */
static bool names_us(struct span own_name, struct span list)
{
    struct span member;
    while (span_split(&list, ',', &member)) {
        if (span_equals_ignore_case(received_by(span_trim(member)), own_name)) {
            return true;
        }
    }
    return false;
}

bool via_has_passed(struct span own_name, const struct head *request)
{
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        if (field->id == FIELD_VIA && names_us(own_name, field->value)) {
            return true;
        }
    }
    return false;
}

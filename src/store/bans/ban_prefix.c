#include "store/bans/ban_prefix.h"

static const struct span CLIENT = {"{client.ip:", 11};

bool ban_prefix_read_client(struct span identity, struct address_prefix *prefix)
{
    if (!span_starts_with(identity, CLIENT) || identity.data[identity.len - 1] != '}') {
        return false;
    }
    const size_t start = span_find(identity, '=') + 1;
    return start < identity.len &&
           address_prefix_parse(span_of(identity.data + start, identity.len - start - 1), prefix);
}

bool ban_prefix_read(struct span identity, struct address_prefix *prefix)
{
    return ban_prefix_read_client(identity, prefix) &&
           prefix->bits < (prefix->base.family == ADDRESS_IPV4 ? 32 : 128);
}

void ban_prefix_write(const struct address_prefix *prefix, struct text *identity)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text written = text_of(buffer, sizeof(buffer));
    address_write(&prefix->base, &written);
    text_add_char(&written, '/');
    text_add_u64(&written, prefix->bits);
    text_add(identity, CLIENT);
    text_add_u64(identity, written.len);
    text_add_char(identity, '=');
    text_add(identity, text_span(&written));
    text_add_char(identity, '}');
}

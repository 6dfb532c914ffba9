#include "store/bans/ban_record.h"

/* The largest number of milliseconds that a double, and so a script, holds exactly. */
static const uint64_t MS_MAX = UINT64_C(1) << 53;

static const struct span NOTHING = {"-", 1};

struct span ban_record_kind(enum ban_kind kind)
{
    return kind == BAN_REFUSES ? SPAN("ban") : SPAN("exempt");
}

void ban_record_write_field(struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES],
                            struct text *text)
{
    text_add(text, limit);
    text_add_char(text, ':');
    text_add_hex(text, hash, HASH_IDENTITY_BYTES);
}

static void add_word(struct text *text, struct span word)
{
    if (word.len == 0) {
        text_add(text, NOTHING);
    }
    for (size_t i = 0; i < word.len; i++) {
        const char c = word.data[i];
        text_add_char(text, c > ' ' && c < 0x7f ? c : '_');
    }
    text_add_char(text, ' ');
}

void ban_record_write_rest(const struct ban *ban, struct text *text)
{
    add_word(text, ban->by);
    add_word(text, ban->identity);
    text_add(text, ban->reason);
}

void ban_record_write(const struct ban *ban, struct text *text)
{
    text_add(text, ban_record_kind(ban->kind));
    text_add_char(text, ' ');
    text_add_u64(text, ban->until_ms);
    text_add_char(text, ' ');
    text_add_u64(text, ban->set_ms);
    text_add_char(text, ' ');
    ban_record_write_rest(ban, text);
}

static bool hex_digit(char c, uint8_t *value)
{
    if (c >= '0' && c <= '9') {
        *value = (uint8_t)(c - '0');
        return true;
    }
    *value = (uint8_t)(c - 'a' + 10);
    return c >= 'a' && c <= 'f';
}

static bool read_hash(struct span digits, uint8_t hash[HASH_IDENTITY_BYTES])
{
    for (size_t i = 0; i < HASH_IDENTITY_BYTES; i++) {
        uint8_t high;
        uint8_t low;
        if (!hex_digit(digits.data[2 * i], &high) || !hex_digit(digits.data[2 * i + 1], &low)) {
            return false;
        }
        hash[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool ban_record_read_field(struct span field, struct ban *ban)
{
    const size_t digits = 2 * HASH_IDENTITY_BYTES;
    if (field.len < digits + 2 || field.len > BAN_FIELD_BYTES_MAX ||
        field.data[field.len - digits - 1] != ':') {
        return false;
    }
    ban->limit = span_of(field.data, field.len - digits - 1);
    return read_hash(span_of(field.data + field.len - digits, digits), ban->hash);
}

/* Cuts the first word and the space after it from @rest. False: no word, or no space after it. */
static bool take_word(struct span *rest, struct span *word)
{
    const size_t len = span_find(*rest, ' ');
    if (len == 0 || len == rest->len) {
        return false;
    }
    *word = span_of(rest->data, len);
    *rest = span_of(rest->data + len + 1, rest->len - len - 1);
    return true;
}

static bool take_kind(struct span *rest, enum ban_kind *kind)
{
    struct span word;
    if (!take_word(rest, &word)) {
        return false;
    }
    *kind = span_equals(word, SPAN("ban")) ? BAN_REFUSES : BAN_EXEMPTS;
    return span_equals(word, ban_record_kind(*kind));
}

static bool take_ms(struct span *rest, uint64_t *ms)
{
    struct span word;
    return take_word(rest, &word) && span_to_u64(word, MS_MAX, ms);
}

static bool take_known(struct span *rest, size_t len_max, struct span *word)
{
    if (!take_word(rest, word) || word->len > len_max) {
        return false;
    }
    if (span_equals(*word, NOTHING)) {
        *word = SPAN("");
    }
    return true;
}

bool ban_record_read(struct span field, struct span value, struct ban *ban)
{
    struct span rest = value;
    const bool is_sound = ban_record_read_field(field, ban) && take_kind(&rest, &ban->kind) &&
                          take_ms(&rest, &ban->until_ms) && take_ms(&rest, &ban->set_ms) &&
                          take_known(&rest, BAN_BY_BYTES_MAX, &ban->by) &&
                          take_known(&rest, KEY_TEXT_BYTES_MAX, &ban->identity) &&
                          rest.len <= BAN_REASON_BYTES_MAX;
    ban->reason = rest;
    return is_sound;
}

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

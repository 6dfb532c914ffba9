#include "http2/hpack_encoder.h"

#include <stdlib.h>
#include <string.h>

enum {
    ENTRY_BYTES = 32, /* that an entry counts beside its text: RFC 7541 section 4.1 */
    STATIC_ENTRIES = 61,
    NAME_BYTES_MAX = 64, /* of a line that is indexed */
    WORD_BYTES = 8,
    /* Representations: their first bits, and how many bits of a number the first byte has. */
    INDEXED = 0x80,
    INDEXED_BITS = 7,
    LITERAL_ADDED = 0x40,
    LITERAL_ADDED_BITS = 6,
    LITERAL_NEVER = 0x10,
    LITERAL = 0x00,
    LITERAL_BITS = 4,
    RESIZED = 0x20,
    RESIZED_BITS = 5,
    STRING_BITS = 7,
};

struct hpack_entry {
    uint32_t hash;
    uint16_t name_len, value_len;
    char text[]; /* the name, and the value */
};

/* The static table (RFC 7541 appendix A): its names by their lengths, with the first index. */
static const struct static_name {
    const char *name;
    uint8_t len;
    uint8_t index;
} STATIC_NAMES[] = {
    {"age", 3, 21},
    {"via", 3, 60},
    {"date", 4, 33},
    {"etag", 4, 34},
    {"from", 4, 37},
    {"host", 4, 38},
    {"link", 4, 45},
    {"vary", 4, 59},
    {":path", 5, 4},
    {"allow", 5, 22},
    {"range", 5, 50},
    {"accept", 6, 19},
    {"cookie", 6, 32},
    {"expect", 6, 35},
    {"server", 6, 54},
    {":method", 7, 2},
    {":scheme", 7, 6},
    {":status", 7, 8},
    {"expires", 7, 36},
    {"referer", 7, 51},
    {"refresh", 7, 52},
    {"if-match", 8, 39},
    {"if-range", 8, 42},
    {"location", 8, 46},
    {":authority", 10, 1},
    {"set-cookie", 10, 55},
    {"user-agent", 10, 58},
    {"retry-after", 11, 53},
    {"content-type", 12, 31},
    {"max-forwards", 12, 47},
    {"accept-ranges", 13, 18},
    {"authorization", 13, 23},
    {"cache-control", 13, 24},
    {"content-range", 13, 30},
    {"if-none-match", 13, 41},
    {"last-modified", 13, 44},
    {"accept-charset", 14, 15},
    {"content-length", 14, 28},
    {"accept-encoding", 15, 16},
    {"accept-language", 15, 17},
    {"content-encoding", 16, 26},
    {"content-language", 16, 27},
    {"content-location", 16, 29},
    {"www-authenticate", 16, 61},
    {"if-modified-since", 17, 40},
    {"transfer-encoding", 17, 57},
    {"proxy-authenticate", 18, 48},
    {"content-disposition", 19, 25},
    {"if-unmodified-since", 19, 43},
    {"proxy-authorization", 19, 49},
    {"strict-transport-security", 25, 56},
    {"access-control-allow-origin", 27, 20},
};

/* Its lines with a value. */
static const struct static_line {
    struct static_name name;
    const char *value;
} STATIC_LINES[] = {
    {{":status", 7, 8}, "200"},   {{":method", 7, 2}, "GET"},  {{":scheme", 7, 6}, "http"},
    {{":scheme", 7, 7}, "https"}, {{":path", 5, 4}, "/"},      {{":method", 7, 3}, "POST"},
    {{":status", 7, 9}, "204"},   {{":status", 7, 10}, "206"}, {{":status", 7, 11}, "304"},
    {{":status", 7, 12}, "400"},  {{":status", 7, 13}, "404"}, {{":status", 7, 14}, "500"},
};

/* Names of lines whose values are secrets: not even a hop on the way indexes them. */
static const struct static_name SECRETS[] = {
    {"cookie", 6, 32},
    {"set-cookie", 10, 55},
    {"authorization", 13, 23},
    {"proxy-authorization", 19, 49},
};

/* --- the table --- */

void hpack_encoder_init(struct hpack_encoder *encoder, bool has_table)
{
    *encoder = (struct hpack_encoder){
        .has_table = has_table,
        .capacity = HPACK_TABLE_BYTES,
        .least = HPACK_TABLE_BYTES,
    };
}

static uint32_t entry_size(const struct hpack_entry *entry)
{
    return (uint32_t)ENTRY_BYTES + entry->name_len + entry->value_len;
}

static struct hpack_entry **place_of(struct hpack_encoder *encoder, uint32_t number)
{
    return &encoder->entries[number % HPACK_ENTRIES_MAX];
}

static void evict(struct hpack_encoder *encoder, uint32_t most)
{
    while (encoder->n > 0 && (encoder->size > most || encoder->n == HPACK_ENTRIES_MAX)) {
        struct hpack_entry **oldest = place_of(encoder, encoder->n_inserted - encoder->n);
        encoder->size -= entry_size(*oldest);
        encoder->n--;
        free(*oldest);
        *oldest = NULL;
    }
}

void hpack_encoder_free(struct hpack_encoder *encoder)
{
    for (size_t i = 0; i < HPACK_ENTRIES_MAX; i++) {
        free(encoder->entries[i]);
        encoder->entries[i] = NULL;
    }
    encoder->n = 0;
}

void hpack_encoder_resize(struct hpack_encoder *encoder, uint32_t bytes)
{
    const uint32_t capacity = bytes < HPACK_TABLE_BYTES ? bytes : HPACK_TABLE_BYTES;
    if (capacity == encoder->capacity) {
        return;
    }
    encoder->is_resized = true;
    encoder->capacity = capacity;
    encoder->least = capacity < encoder->least ? capacity : encoder->least;
    if (encoder->size > capacity) {
        evict(encoder, capacity);
    }
}

size_t hpack_encoder_memory(const struct hpack_encoder *encoder)
{
    return encoder->size + encoder->n * sizeof(struct hpack_entry);
}

/* --- lines --- */

static uint64_t load_word(const char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof(word));
    return word;
}

static uint64_t load_u32(const char *from)
{
    uint32_t word;
    memcpy(&word, from, sizeof(word));
    return word;
}

/* Of the last bytes of a text of @len, WORD_BYTES of them if it has as many. */
static uint64_t load_end(const char *text, size_t len)
{
    if (len >= WORD_BYTES) {
        return load_word(text + len - WORD_BYTES);
    }
    if (len >= WORD_BYTES / 2) {
        return load_u32(text) | load_u32(text + len - WORD_BYTES / 2) << 32;
    }
    return len == 0 ? 0
                    : (uint64_t)(uint8_t)text[0] | (uint64_t)(uint8_t)text[len / 2] << 8 |
                          (uint64_t)(uint8_t)text[len - 1] << 16;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint64_t hash_text(uint64_t hash, struct span text)
{
    for (size_t i = 0; i + WORD_BYTES < text.len; i += WORD_BYTES) {
        hash = mix(hash, load_word(text.data + i));
    }
    return mix(hash, load_end(text.data, text.len));
}

/* Never 0. Who makes lines that have the same one gains a longer block, no more. */
static uint32_t hash_line(struct span name, struct span value)
{
    const uint64_t lengths = (uint64_t)value.len << 32 | name.len;
    return (uint32_t)hash_text(hash_text(lengths, name), value) | 1U << 31;
}

static uint64_t lower_word(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t low = word & ones * 0x7f;
    const uint64_t is_above = low + ones * (0x80 - 'A');  /* bit 7: at least 'A' */
    const uint64_t is_beyond = low + ones * (0x7f - 'Z'); /* bit 7: above 'Z' */
    const uint64_t is_capital = is_above & ~is_beyond & ~word & ones * 0x80;
    return word | is_capital >> 2;
}

/* Copies @name to @to in lower case. */
static void lower(char *to, struct span name)
{
    size_t i = 0;
    for (; i + WORD_BYTES <= name.len; i += WORD_BYTES) {
        const uint64_t word = lower_word(load_word(name.data + i));
        memcpy(to + i, &word, sizeof(word));
    }
    for (; i < name.len; i++) {
        to[i] = ascii_lower(name.data[i]);
    }
}

static bool is_named(const struct static_name *known, struct span name)
{
    return known->len == name.len && memcmp(known->name, name.data, name.len) == 0;
}

/* 0: the static table does not have the name. */
static uint32_t find_name(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(STATIC_NAMES) && STATIC_NAMES[i].len <= name.len; i++) {
        if (is_named(&STATIC_NAMES[i], name)) {
            return STATIC_NAMES[i].index;
        }
    }
    return 0;
}

static uint32_t find_static(struct span name, struct span value)
{
    for (size_t i = 0; i < ARRAY_LEN(STATIC_LINES); i++) {
        const struct static_line *line = &STATIC_LINES[i];
        if (value.len == strlen(line->value) && memcmp(line->value, value.data, value.len) == 0 &&
            is_named(&line->name, name)) {
            return line->name.index;
        }
    }
    return 0;
}

static bool is_secret(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(SECRETS); i++) {
        if (is_named(&SECRETS[i], name)) {
            return true;
        }
    }
    return false;
}

/* Where the number of an entry with @hash stands: either of two places. */
static uint32_t *slot_of(struct hpack_encoder *encoder, uint32_t hash, unsigned which)
{
    return &encoder->slots[(which == 0 ? hash : hash / HPACK_SLOTS) % HPACK_SLOTS];
}

/* The index of a line in the dynamic table; 0: it is not there. */
static uint32_t find_dynamic(struct hpack_encoder *encoder, uint32_t hash, struct span name,
                             struct span value)
{
    for (unsigned which = 0; which < 2; which++) {
        const uint32_t number = *slot_of(encoder, hash, which) - 1;
        const uint32_t age = encoder->n_inserted - 1 - number; /* of one that is there: below n */
        const struct hpack_entry *entry = *place_of(encoder, number);
        if (age < encoder->n && entry->hash == hash && entry->name_len == name.len &&
            entry->value_len == value.len && memcmp(entry->text, name.data, name.len) == 0 &&
            memcmp(entry->text + name.len, value.data, value.len) == 0) {
            return STATIC_ENTRIES + 1 + age;
        }
    }
    return 0;
}

/* False: there is no room or memory. */
static bool insert(struct hpack_encoder *encoder, uint32_t hash, struct span name,
                   struct span value)
{
    const uint32_t size = (uint32_t)(ENTRY_BYTES + name.len + value.len);
    if (size > encoder->capacity) {
        return false;
    }
    struct hpack_entry *entry = malloc(sizeof(*entry) + name.len + value.len);
    if (entry == NULL) {
        return false;
    }
    *entry = (struct hpack_entry){
        .hash = hash, .name_len = (uint16_t)name.len, .value_len = (uint16_t)value.len};
    memcpy(entry->text, name.data, name.len);
    memcpy(entry->text + name.len, value.data, value.len);
    evict(encoder, encoder->capacity - size);
    *place_of(encoder, encoder->n_inserted) = entry;
    const uint32_t first = *slot_of(encoder, hash, 0);
    const bool is_taken = first != 0 && encoder->n_inserted - first < encoder->n;
    *slot_of(encoder, hash, is_taken) = ++encoder->n_inserted;
    encoder->n++;
    encoder->size += size;
    return true;
}

/* --- representations --- */

/* RFC 7541 section 5.1 */
static char *put_number(char *at, unsigned first, unsigned bits, size_t number)
{
    const unsigned most = (1U << bits) - 1;
    if (number < most) {
        *at++ = (char)(first | number);
        return at;
    }
    *at++ = (char)(first | most);
    for (number -= most; number >= 0x80; number >>= 7) {
        *at++ = (char)(0x80 | (number & 0x7f));
    }
    *at++ = (char)number;
    return at;
}

static char *put_string(char *at, struct span text)
{
    at = put_number(at, 0, STRING_BITS, text.len);
    if (text.len > 0) {
        memcpy(at, text.data, text.len);
    }
    return at + text.len;
}

/* @name is in lower case, or is made so. */
static char *put_literal(char *at, unsigned kind, unsigned bits, struct span name,
                         struct span value)
{
    const uint32_t index = find_name(name);
    at = put_number(at, kind, bits, index);
    if (index == 0) {
        at = put_number(at, 0, STRING_BITS, name.len);
        lower(at, name);
        at += name.len;
    }
    return put_string(at, value);
}

char *hpack_encode_begin(struct hpack_encoder *encoder, char *at)
{
    if (!encoder->is_resized) {
        return at;
    }
    if (encoder->least < encoder->capacity) {
        at = put_number(at, RESIZED, RESIZED_BITS, encoder->least);
    }
    encoder->is_resized = false;
    encoder->least = encoder->capacity;
    return put_number(at, RESIZED, RESIZED_BITS, encoder->capacity);
}

char *hpack_encode_line(struct hpack_encoder *encoder, char *at, struct span name,
                        struct span value)
{
    char lowered[NAME_BYTES_MAX];
    if (name.len > NAME_BYTES_MAX) {
        return put_literal(at, LITERAL, LITERAL_BITS, name, value);
    }
    lower(lowered, name);
    name.data = lowered;
    if (is_secret(name)) {
        return put_literal(at, LITERAL_NEVER, LITERAL_BITS, name, value);
    }
    if (name.len + value.len > HPACK_INDEXED_BYTES_MAX) {
        return put_literal(at, LITERAL, LITERAL_BITS, name, value);
    }
    uint32_t index = name.len > 0 && name.data[0] == ':' ? find_static(name, value) : 0;
    if (index != 0) {
        return put_number(at, INDEXED, INDEXED_BITS, index);
    }
    if (!encoder->has_table) {
        return put_literal(at, LITERAL, LITERAL_BITS, name, value);
    }
    const uint32_t hash = hash_line(name, value);
    index = find_dynamic(encoder, hash, name, value);
    if (index != 0) {
        return put_number(at, INDEXED, INDEXED_BITS, index);
    }
    uint32_t *seen = &encoder->seen[hash % HPACK_SEEN];
    const bool is_again = *seen == hash;
    *seen = hash;
    if (is_again && insert(encoder, hash, name, value)) {
        return put_literal(at, LITERAL_ADDED, LITERAL_ADDED_BITS, name, value);
    }
    return put_literal(at, LITERAL, LITERAL_BITS, name, value);
}

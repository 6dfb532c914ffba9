#include "tls/ticket_keys.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

enum {
    HOUR_S = 3600,
    HOUR_BYTES = 4,
};

/* --- secrets --- */

static bool read_digit(char c, unsigned *digit)
{
    c = ascii_lower(c);
    *digit = (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool read_secret(struct span line, unsigned char secret[TICKET_SECRET_BYTES])
{
    if (line.len != (size_t)2 * TICKET_SECRET_BYTES) {
        return false;
    }
    for (size_t i = 0; i < TICKET_SECRET_BYTES; i++) {
        unsigned high;
        unsigned low;
        if (!read_digit(line.data[2 * i], &high) || !read_digit(line.data[2 * i + 1], &low)) {
            return false;
        }
        secret[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool read_lines(struct span text, struct ticket_secrets *secrets, size_t *line)
{
    struct span rest = text;
    struct span content;
    secrets->n = 0;
    for (*line = 1; span_split(&rest, '\n', &content); ++*line) {
        content.len -= content.len > 0 && content.data[content.len - 1] == '\r';
        content = span_trim(content);
        if (content.len == 0 || content.data[0] == '#') {
            continue;
        }
        if (secrets->n == TICKET_SECRETS_MAX) {
            *line = 0;
            return false;
        }
        if (!read_secret(content, secrets->secrets[secrets->n])) {
            return false;
        }
        secrets->n++;
    }
    *line = 0;
    return secrets->n > 0;
}

bool ticket_secrets_parse(struct span text, struct ticket_secrets *secrets, size_t *line)
{
    const bool is_good = read_lines(text, secrets, line);
    if (!is_good) {
        secret_wipe(secrets, sizeof(*secrets));
    }
    return is_good;
}

/* --- identity --- */

/* One after another: so that no two lists of pieces give the same. */
static void add_piece(unsigned char identity[TICKET_IDENTITY_BYTES], struct span piece)
{
    hash_derive(span_of((const char *)identity, TICKET_IDENTITY_BYTES), piece, identity,
                TICKET_IDENTITY_BYTES);
}

void ticket_identity(const struct span *names, size_t n_names, unsigned client_rule,
                     struct span client_files_digest, unsigned char identity[TICKET_IDENTITY_BYTES])
{
    const char rule = (char)client_rule;
    assert(client_rule <= UINT8_MAX);
    memset(identity, 0, TICKET_IDENTITY_BYTES);
    add_piece(identity, span_of(&rule, 1));
    add_piece(identity, client_files_digest);
    for (size_t i = 0; i < n_names; i++) {
        add_piece(identity, names[i]);
    }
}

/* --- keys --- */

uint32_t ticket_hour(int64_t now_s)
{
    return now_s > 0 ? (uint32_t)(now_s / HOUR_S) : 0;
}

static void write_hour(uint32_t hour, unsigned char bytes[HOUR_BYTES])
{
    for (size_t i = 0; i < HOUR_BYTES; i++) {
        bytes[i] = (unsigned char)(hour >> 8 * (HOUR_BYTES - 1 - i));
    }
}

uint32_t ticket_name_hour(const unsigned char name[TICKET_NAME_BYTES])
{
    uint32_t hour = 0;
    for (size_t i = 0; i < HOUR_BYTES; i++) {
        hour = hour << 8 | name[i];
    }
    return hour;
}

static void make_key(const unsigned char secret[TICKET_SECRET_BYTES],
                     const unsigned char identity[TICKET_IDENTITY_BYTES], uint32_t hour,
                     struct ticket_key *key)
{
    static const char PURPOSE[] = "sluice ticket key 1";
    enum { PURPOSE_BYTES = sizeof(PURPOSE) }; /* with its NUL */
    enum { NAME_REST_BYTES = TICKET_NAME_BYTES - HOUR_BYTES };
    unsigned char info[PURPOSE_BYTES + HOUR_BYTES + TICKET_IDENTITY_BYTES];
    unsigned char derived[NAME_REST_BYTES + 2 * TICKET_KEY_BYTES];

    memcpy(info, PURPOSE, PURPOSE_BYTES);
    write_hour(hour, info + PURPOSE_BYTES);
    memcpy(info + PURPOSE_BYTES + HOUR_BYTES, identity, TICKET_IDENTITY_BYTES);
    hash_derive(span_of((const char *)secret, TICKET_SECRET_BYTES),
                span_of((const char *)info, sizeof(info)), derived, sizeof(derived));
    write_hour(hour, key->name);
    memcpy(key->name + HOUR_BYTES, derived, NAME_REST_BYTES);
    memcpy(key->cipher_key, derived + NAME_REST_BYTES, TICKET_KEY_BYTES);
    memcpy(key->mac_key, derived + NAME_REST_BYTES + TICKET_KEY_BYTES, TICKET_KEY_BYTES);
    secret_wipe(derived, sizeof(derived));
}

void ticket_key_to_encrypt(const struct ticket_secrets *secrets,
                           const unsigned char identity[TICKET_IDENTITY_BYTES], int64_t now_s,
                           struct ticket_key *key)
{
    assert(secrets->n > 0);

    make_key(secrets->secrets[0], identity, ticket_hour(now_s), key);
}

bool ticket_key_to_decrypt(const struct ticket_secrets *secrets,
                           const unsigned char identity[TICKET_IDENTITY_BYTES],
                           const unsigned char name[TICKET_NAME_BYTES], int64_t now_s,
                           struct ticket_key *key, bool *is_current)
{
    const uint32_t hour = ticket_name_hour(name);
    const int64_t age = (int64_t)ticket_hour(now_s) - hour;
    if (age < -TICKET_HOURS_AFTER || age > TICKET_HOURS_BEFORE) {
        return false;
    }
    for (size_t i = 0; i < secrets->n; i++) {
        make_key(secrets->secrets[i], identity, hour, key);
        if (memcmp(key->name, name, TICKET_NAME_BYTES) == 0) {
            *is_current = age == 0 && i == 0;
            return true;
        }
    }
    secret_wipe(key, sizeof(*key));
    return false;
}

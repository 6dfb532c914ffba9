/* client_address_find(): whoever is not trusted is himself; who is trusted names the right-most
 * address that is not, and nothing that stands to the left of that one counts.
 *
 * The first byte of the input chooses the peer; then each line is a field, whose
 * first byte chooses its name. */

#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/text.h"
#include "fuzz/must_hold.h"
#include "proxy/client_address.h"

enum {
    FIELDS_MAX = 16,
    JOINED_BYTES = 16 * 1024,
};

static struct address_prefix trusted[4];
static const struct policy policy = {
    .trusted_proxies = trusted,
    .n_trusted_proxies = ARRAY_LEN(trusted),
};

static void trust(void)
{
    static const struct span prefixes[] = {
        {"10.0.0.0/8", 10}, {"2001:db8::/32", 13}, {"127.0.0.1", 9}, {"::1", 3}};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        MUST_HOLD(address_prefix_parse(prefixes[i], &trusted[i]));
    }
}

static bool is_trusted(const struct address *address)
{
    return address_is_in(address, trusted, ARRAY_LEN(trusted));
}

static size_t read_fields(struct span lines, struct field *fields)
{
    static const enum field_id ids[] = {FIELD_X_FORWARDED_FOR, FIELD_FORWARDED, FIELD_X_REAL_IP};
    struct span line;
    size_t n = 0;
    while (n < FIELDS_MAX && span_split(&lines, '\n', &line)) {
        if (line.len == 0 || !field_is_value(line)) {
            continue;
        }
        const enum field_id id = ids[(uint8_t)line.data[0] % ARRAY_LEN(ids)];
        fields[n++] = (struct field){
            .name = field_name(id),
            .value = span_trim(span_of(line.data + 1, line.len - 1)),
            .id = id,
        };
    }
    return n;
}

static struct address find(const struct address *peer, struct field *fields, size_t n)
{
    const struct head head = {.fields = fields, .n_fields = n};
    return client_address_find(&policy, peer, &head);
}

/* All X-Forwarded-For in one line, behind @left. */
static struct field join(const struct field *fields, size_t n, struct span left, struct text *text)
{
    text_add(text, left);
    for (size_t i = 0; i < n; i++) {
        if (fields[i].id == FIELD_X_FORWARDED_FOR) {
            text_add(text, text->len == 0 ? SPAN("") : SPAN(", "));
            text_add(text, fields[i].value);
        }
    }
    MUST_HOLD(!text->truncated);
    return (struct field){.name = field_name(FIELD_X_FORWARDED_FOR),
                          .value = text_span(text),
                          .id = FIELD_X_FORWARDED_FOR};
}

/* Several lines are one list, and what is put before an address that nobody
 * vouches for changes nothing. */
static void check_joined(const struct address *peer, const struct address *client,
                         const struct field *fields, size_t n)
{
    char bytes[JOINED_BYTES];
    struct text text = text_of(bytes, sizeof(bytes));
    struct field joined = join(fields, n, SPAN(""), &text);
    struct span rest = joined.value;
    struct span member;
    size_t n_members = 0;
    while (field_list_next(&rest, &member)) {
        n_members++;
    }
    if (n_members == 0 || memchr(joined.value.data, '"', joined.value.len) != NULL) {
        return; /* a quoted string that one line does not end goes on in no other */
    }
    struct address found = find(peer, &joined, 1);
    MUST_HOLD(address_equals(&found, client));
    if (n_members < FORWARDED_HOPS_MAX && !is_trusted(client) && !address_equals(client, peer)) {
        text = text_of(bytes, sizeof(bytes));
        joined = join(fields, n, SPAN("192.0.2.99"), &text);
        found = find(peer, &joined, 1);
        MUST_HOLD(address_equals(&found, client));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct span peers[] = {{"10.1.2.3", 8}, {"2001:db8::7", 11}, {"198.51.100.7", 12}};
    struct field fields[FIELDS_MAX];
    struct address peer;
    if (size < 1 || size > JOINED_BYTES / 4) {
        return 0;
    }
    trust();
    MUST_HOLD(address_parse(peers[data[0] % ARRAY_LEN(peers)], &peer));
    const size_t n = read_fields(span_of((const char *)data + 1, size - 1), fields);
    const struct address client = find(&peer, fields, n);
    MUST_HOLD(client.family != ADDRESS_NONE);
    if (!is_trusted(&peer)) {
        MUST_HOLD(address_equals(&client, &peer));
        return 0;
    }
    check_joined(&peer, &client, fields, n);
    return 0;
}

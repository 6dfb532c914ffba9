#include "proxy/client_address.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"

enum { FIELDS_MAX = 4, VALUE_BYTES_MAX = 2048 };

static struct address address_of(const char *text)
{
    struct address address;
    ck_assert_msg(address_parse(span_of_text(text), &address), "%s", text);
    return address;
}

static const char *const TRUSTED[] = {"10.0.0.0/8", "192.0.2.128/25", "2001:db8:ffff::/48"};

static struct address_prefix trusted[ARRAY_LEN(TRUSTED)];
static struct policy policy;

static void set_up(void)
{
    for (size_t i = 0; i < ARRAY_LEN(TRUSTED); i++) {
        ck_assert(address_prefix_parse(span_of_text(TRUSTED[i]), &trusted[i]));
    }
    policy = (struct policy){.trusted_proxies = trusted, .n_trusted_proxies = ARRAY_LEN(TRUSTED)};
}

static void assert_client(const struct address *peer, const struct head *request,
                          const char *expected)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    struct client_walk walk;
    const struct address client = client_address_find(&policy, peer, request);
    const struct address walked = client_address_walk(&policy, peer, request, &walk);
    ck_assert(address_equals(&client, &walked));
    address_write(&client, &text);
    ck_assert_msg(span_equals(text_span(&text), span_of_text(expected)), "%.*s is not %s",
                  SPAN_ARGS(text_span(&text)), expected);
}

#define XFF FIELD_X_FORWARDED_FOR
#define FWD FIELD_FORWARDED

static const struct walk {
    const char *story;
    const char *peer;
    struct {
        enum field_id id;
        const char *value;
    } fields[FIELDS_MAX];
    const char *client;
} WALKS[] = {
    {"no field", "203.0.113.1", {{FIELD_OTHER, NULL}}, "203.0.113.1"},
    {"no field, trusted", "10.0.0.1", {{FIELD_OTHER, NULL}}, "10.0.0.1"},
    {"an untrusted peer says what it likes", "203.0.113.1", {{XFF, "198.51.100.7"}}, "203.0.113.1"},
    {"also in Forwarded", "203.0.113.1", {{FWD, "for=198.51.100.7"}}, "203.0.113.1"},

    /* CVE-2026-110724, CVE-2020-28483: what stands leftmost is the client's own word. */
    {"the right-most counts", "10.0.0.1", {{XFF, "1.1.1.1, 198.51.100.7"}}, "198.51.100.7"},
    {"trusted hops are passed over",
     "10.0.0.1",
     {{XFF, "1.1.1.1, 198.51.100.7, 10.9.9.9, 192.0.2.200"}},
     "198.51.100.7"},
    {"a trusted address behind an untrusted one is not reached",
     "10.0.0.1",
     {{XFF, "10.1.1.1, 198.51.100.7"}},
     "198.51.100.7"},
    {"all are trusted: the farthest", "10.0.0.1", {{XFF, "10.3.3.3, 10.2.2.2"}}, "10.3.3.3"},
    {"the edge of a prefix", "10.0.0.1", {{XFF, "192.0.2.127, 192.0.2.128"}}, "192.0.2.127"},

    /* Several lines are one list. */
    {"lines are joined in order",
     "10.0.0.1",
     {{XFF, "1.1.1.1"}, {XFF, "198.51.100.7"}},
     "198.51.100.7"},
    {"other lines between them",
     "10.0.0.1",
     {{XFF, "198.51.100.7"}, {FIELD_OTHER, "9.9.9.9"}, {XFF, "10.2.2.2"}},
     "198.51.100.7"},
    {"empty members and lines are nothing",
     "10.0.0.1",
     {{XFF, ", 198.51.100.7 ,,"}, {XFF, ""}},
     "198.51.100.7"},
    {"nothing but commas", "10.0.0.1", {{XFF, " , ,"}}, "10.0.0.1"},

    /* Garbage counts when it is met: whoever stands to the right of it wrote or passed it. */
    {"garbage right-most", "10.0.0.1", {{XFF, "198.51.100.7, unknown"}}, "10.0.0.1"},
    {"garbage behind trusted hops",
     "10.0.0.1",
     {{XFF, "198.51.100.7, junk, 10.2.2.2"}},
     "10.0.0.1"},
    {"garbage that is never reached", "10.0.0.1", {{XFF, "junk, 198.51.100.7"}}, "198.51.100.7"},
    {"too large an octet", "10.0.0.1", {{XFF, "198.51.100.256"}}, "10.0.0.1"},
    {"octal is not read", "10.0.0.1", {{XFF, "0198.051.100.7"}}, "10.0.0.1"},
    {"two addresses without a comma", "10.0.0.1", {{XFF, "198.51.100.7 198.51.100.8"}}, "10.0.0.1"},

    /* CVE-2026-30827: every notation of an address is one value. */
    {"with a port", "10.0.0.1", {{XFF, "198.51.100.7:4711"}}, "198.51.100.7"},
    {"mapped", "10.0.0.1", {{XFF, "::ffff:198.51.100.7"}}, "198.51.100.7"},
    {"mapped, in hex", "10.0.0.1", {{XFF, "::ffff:c633:6407"}}, "198.51.100.7"},
    {"NAT64", "10.0.0.1", {{XFF, "64:ff9b::c633:6407"}}, "198.51.100.7"},
    {"a mapped trusted hop", "10.0.0.1", {{XFF, "198.51.100.7, ::ffff:10.2.2.2"}}, "198.51.100.7"},
    {"in brackets with a port", "10.0.0.1", {{XFF, "[2001:DB8::7]:443"}}, "2001:db8::7"},
    {"with a zone", "10.0.0.1", {{XFF, "fe80::1%eth0"}}, "fe80::1"},
    {"a trusted peer over IPv6", "2001:db8:ffff::1", {{XFF, "2001:db8::7"}}, "2001:db8::7"},
    {"a mapped peer is trusted as what it is",
     "::ffff:10.0.0.1",
     {{XFF, "198.51.100.7"}},
     "198.51.100.7"},

    /* RFC 7239. */
    {"Forwarded", "10.0.0.1", {{FWD, "for=198.51.100.7"}}, "198.51.100.7"},
    {"in any case, among others",
     "10.0.0.1",
     {{FWD, "by=10.9.9.9;FOR=198.51.100.7;proto=http;host=a.example"}},
     "198.51.100.7"},
    {"quoted IPv6 with a port", "10.0.0.1", {{FWD, "for=\"[2001:db8::7]:4711\""}}, "2001:db8::7"},
    {"right to left",
     "10.0.0.1",
     {{FWD, "for=1.1.1.1, for=198.51.100.7;by=x, for=10.2.2.2"}},
     "198.51.100.7"},
    {"hidden", "10.0.0.1", {{FWD, "for=198.51.100.7, for=_hidden"}}, "10.0.0.1"},
    {"unknown", "10.0.0.1", {{FWD, "for=unknown"}}, "10.0.0.1"},
    {"an element without for", "10.0.0.1", {{FWD, "for=198.51.100.7, proto=http"}}, "10.0.0.1"},
    {"an obfuscated port", "10.0.0.1", {{FWD, "for=\"198.51.100.7:_port\""}}, "198.51.100.7"},
    {"an obfuscated port of IPv6",
     "10.0.0.1",
     {{FWD, "for=\"[2001:db8::7]:_p.o-r_t\""}},
     "2001:db8::7"},
    {"an obfuscated port that is none",
     "10.0.0.1",
     {{FWD, "for=\"198.51.100.7:_\xc3\""}},
     "10.0.0.1"},
    {"two for in one element",
     "10.0.0.1",
     {{FWD, "for=198.51.100.7;for=198.51.100.7"}},
     "10.0.0.1"},
    {"a for within quotes is none of ours",
     "10.0.0.1",
     {{FWD, "host=\";for=6.6.6.6;\";for=198.51.100.7"}},
     "198.51.100.7"},
    {"a for behind an escaped quote is none of ours",
     "10.0.0.1",
     {{FWD, "host=\"\\\";for=6.6.6.6\";for=198.51.100.7"}},
     "198.51.100.7"},
    {"a comma within quotes ends nothing",
     "10.0.0.1",
     {{FWD, "for=1.1.1.1, for=198.51.100.7;host=\"a, for=6.6.6.6\""}},
     "198.51.100.7"},
    {"the lines of Forwarded are joined",
     "10.0.0.1",
     {{FWD, "for=198.51.100.7"}, {FWD, "for=10.2.2.2"}},
     "198.51.100.7"},
    {"without a value", "10.0.0.1", {{FWD, "for="}}, "10.0.0.1"},
    {"without an equals sign", "10.0.0.1", {{FWD, "for"}}, "10.0.0.1"},

    /* Quotes of a client's do not swallow what a proxy appends. */
    {"an open quote in front", "10.0.0.1", {{XFF, "\"1.1.1.1, 198.51.100.7"}}, "198.51.100.7"},
    {"an open quote in Forwarded",
     "10.0.0.1",
     {{FWD, "for=\"1.1.1.1, for=198.51.100.7"}},
     "198.51.100.7"},
    {"an open quote before quotes",
     "10.0.0.1",
     {{FWD, "for=\"1.1.1.1, for=\"[2001:db8::7]\";host=\"a\""}},
     "2001:db8::7"},
    {"an open quote that ends in a backslash",
     "10.0.0.1",
     {{FWD, "x=\"\\, for=198.51.100.7;host=\"a\""}},
     "198.51.100.7"},
    {"an open quote on a line of its own",
     "10.0.0.1",
     {{FWD, "for=\"1.1.1.1"}, {FWD, "for=198.51.100.7"}},
     "198.51.100.7"},

    {"X-Forwarded-For comes before it",
     "10.0.0.1",
     {{FWD, "for=1.1.1.1"}, {XFF, "198.51.100.7"}},
     "198.51.100.7"},
};

START_TEST(the_client_is_the_first_who_is_not_trusted_from_the_right)
{
    const struct walk *walk = &WALKS[_i];
    struct field fields[FIELDS_MAX];
    size_t n_fields = 0;
    for (size_t i = 0; i < FIELDS_MAX && walk->fields[i].value != NULL; i++) {
        fields[n_fields++] = (struct field){
            .id = walk->fields[i].id,
            .value = span_of_text(walk->fields[i].value),
        };
    }
    const struct head request = {.fields = fields, .n_fields = n_fields};
    const struct address peer = address_of(walk->peer);
    assert_client(&peer, &request, walk->client);
}
END_TEST

START_TEST(by_default_nobody_is_believed)
{
    struct field field = {.id = XFF, .value = SPAN("198.51.100.7")};
    const struct head request = {.fields = &field, .n_fields = 1};
    const struct address peer = address_of("10.0.0.1");
    policy.n_trusted_proxies = 0;
    assert_client(&peer, &request, "10.0.0.1");
}
END_TEST

/* "198.51.100.7, 10.0.0.1, 10.0.0.1 …": @n_hops in all. */
static struct span many_hops(char *buffer, size_t capacity, unsigned n_hops)
{
    struct text text = text_of(buffer, capacity);
    text_add_literal(&text, "198.51.100.7");
    for (unsigned i = 1; i < n_hops; i++) {
        text_add_literal(&text, ",10.0.0.1");
    }
    ck_assert(!text.truncated);
    return text_span(&text);
}

START_TEST(more_hops_than_the_maximum_are_not_believed)
{
    char buffer[VALUE_BYTES_MAX];
    const struct address peer = address_of("10.0.0.1");
    struct field field = {.id = XFF,
                          .value = many_hops(buffer, sizeof(buffer), FORWARDED_HOPS_MAX)};
    const struct head request = {.fields = &field, .n_fields = 1};
    assert_client(&peer, &request, "198.51.100.7");
    field.value = many_hops(buffer, sizeof(buffer), FORWARDED_HOPS_MAX + 1);
    assert_client(&peer, &request, "10.0.0.1");
}
END_TEST

START_TEST(however_many_a_client_puts_before_it_the_right_most_counts)
{
    char buffer[VALUE_BYTES_MAX];
    const struct address peer = address_of("10.0.0.1");
    struct field fields[2] = {
        {.id = XFF, .value = many_hops(buffer, sizeof(buffer), 4 * FORWARDED_HOPS_MAX)},
        {.id = XFF, .value = SPAN("203.0.113.9, 10.0.0.2")},
    };
    const struct head request = {.fields = fields, .n_fields = 2};
    assert_client(&peer, &request, "203.0.113.9");
}
END_TEST

START_TEST(more_hops_than_the_maximum_in_several_lines_are_not_believed_either)
{
    char buffer[VALUE_BYTES_MAX];
    const struct address peer = address_of("10.0.0.1");
    struct field fields[2] = {
        {.id = XFF, .value = many_hops(buffer, sizeof(buffer), FORWARDED_HOPS_MAX)},
        {.id = XFF, .value = SPAN("10.0.0.1")},
    };
    const struct head request = {.fields = fields, .n_fields = 2};
    assert_client(&peer, &request, "10.0.0.1");
}
END_TEST

START_TEST(a_peer_without_an_address_is_itself)
{
    struct field field = {.id = XFF, .value = SPAN("198.51.100.7")};
    const struct head request = {.fields = &field, .n_fields = 1};
    const struct address peer = {.family = ADDRESS_NONE};
    assert_client(&peer, &request, "unix");
}
END_TEST

static const struct reported {
    const char *value;
    enum client_hop_kind kinds[4];
    size_t n_hops;
    size_t n_left;
} REPORTED[] = {
    {"1.1.1.1, 198.51.100.7, 10.2.2.2", {CLIENT_HOP_TRUSTED, CLIENT_HOP_FOUND}, 2, 1},
    {"10.3.3.3, 10.2.2.2", {CLIENT_HOP_TRUSTED, CLIENT_HOP_TRUSTED}, 2, 0},
    {"1.1.1.1, junk, 10.2.2.2", {CLIENT_HOP_TRUSTED, CLIENT_HOP_NO_ADDRESS}, 2, 1},
    {"", {CLIENT_HOP_FOUND}, 0, 0},
};

START_TEST(a_walk_tells_what_it_looked_at_and_what_it_did_not)
{
    const struct reported *reported = &REPORTED[_i];
    const struct address peer = address_of("10.0.0.1");
    struct field field = {.id = XFF, .value = span_of_text(reported->value)};
    const struct head request = {.fields = &field, .n_fields = 1};
    struct client_walk walk;
    (void)client_address_walk(&policy, &peer, &request, &walk);
    ck_assert(walk.peer_is_trusted);
    ck_assert_uint_eq(walk.n_hops, reported->n_hops);
    ck_assert_uint_eq(walk.n_left, reported->n_left);
    for (size_t i = 0; i < walk.n_hops; i++) {
        ck_assert_int_eq(walk.hops[i].kind, reported->kinds[i]);
    }
}
END_TEST

START_TEST(a_walk_is_no_longer_than_the_maximum)
{
    char buffer[VALUE_BYTES_MAX];
    const struct address peer = address_of("10.0.0.1");
    struct field field = {.id = XFF,
                          .value = many_hops(buffer, sizeof(buffer), 3 * FORWARDED_HOPS_MAX)};
    const struct head request = {.fields = &field, .n_fields = 1};
    struct client_walk walk;
    (void)client_address_walk(&policy, &peer, &request, &walk);
    ck_assert_uint_eq(walk.n_hops, FORWARDED_HOPS_MAX + 1);
    ck_assert_int_eq(walk.hops[FORWARDED_HOPS_MAX].kind, CLIENT_HOP_TOO_FAR);
}
END_TEST

START_TEST(of_an_untrusted_peer_no_field_is_read)
{
    const struct address peer = address_of("203.0.113.1");
    struct field field = {.id = XFF, .value = SPAN("198.51.100.7")};
    const struct head request = {.fields = &field, .n_fields = 1};
    struct client_walk walk;
    (void)client_address_walk(&policy, &peer, &request, &walk);
    ck_assert(!walk.peer_is_trusted && walk.n_hops == 0 && walk.n_left == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/client_address");
    TCase *all = tcase_create("client_address");

    tcase_add_checked_fixture(all, set_up, NULL);
    tcase_add_loop_test(all, the_client_is_the_first_who_is_not_trusted_from_the_right, 0,
                        ARRAY_LEN(WALKS));
    tcase_add_test(all, by_default_nobody_is_believed);
    tcase_add_test(all, more_hops_than_the_maximum_are_not_believed);
    tcase_add_test(all, however_many_a_client_puts_before_it_the_right_most_counts);
    tcase_add_test(all, more_hops_than_the_maximum_in_several_lines_are_not_believed_either);
    tcase_add_test(all, a_peer_without_an_address_is_itself);
    tcase_add_loop_test(all, a_walk_tells_what_it_looked_at_and_what_it_did_not, 0,
                        ARRAY_LEN(REPORTED));
    tcase_add_test(all, a_walk_is_no_longer_than_the_maximum);
    tcase_add_test(all, of_an_untrusted_peer_no_field_is_read);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

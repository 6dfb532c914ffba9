#include "base/address.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct address address_at(const char *text)
{
    struct address address;

    ck_assert_msg(address_parse(span_of_text(text), &address), "%s", text);
    return address;
}

static struct address_prefix prefix_at(const char *text)
{
    struct address_prefix prefix;

    ck_assert_msg(address_prefix_parse(span_of_text(text), &prefix), "%s", text);
    return prefix;
}

static const char *written(const struct address *address)
{
    static char buffer[ADDRESS_TEXT_MAX + 1];
    struct text text = text_of(buffer, ADDRESS_TEXT_MAX);

    address_write(address, &text);
    ck_assert(!text.truncated);
    buffer[text.len] = '\0';
    return buffer;
}

/* --- parse --- */

static const struct {
    const char *notation;
    const char *canonical;
} NOTATIONS[] = {
    {"192.0.2.1", "192.0.2.1"},
    {"192.0.2.1:80", "192.0.2.1"},
    {"192.0.2.1:65535", "192.0.2.1"},
    {"0.0.0.0", "0.0.0.0"},
    {"255.255.255.255", "255.255.255.255"},
    {"::ffff:192.0.2.1", "192.0.2.1"},
    {"::ffff:c000:0201", "192.0.2.1"},
    {"::ffff:0102:0304", "1.2.3.4"},
    {"::FFFF:192.0.2.1", "192.0.2.1"},
    {"0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1"},
    {"0000:0000:0000:0000:0000:ffff:c000:0201", "192.0.2.1"},
    {"[::ffff:192.0.2.1]:443", "192.0.2.1"},
    {"64:ff9b::192.0.2.1", "192.0.2.1"},
    {"64:ff9b::c000:201", "192.0.2.1"},
    {"64:ff9b:1::c000:201", "64:ff9b:1::c000:201"},
    {"2001:db8::1", "2001:db8::1"},
    {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
    {"[2001:db8::1]", "2001:db8::1"},
    {"[2001:db8::1]:443", "2001:db8::1"},
    {"fe80::1%eth0", "fe80::1"},
    {"[fe80::1%25eth0]:80", "fe80::1"},
    {"fe80::1%3", "fe80::1"},
    {"::", "::"},
    {"::1", "::1"},
    {"::192.0.2.1", "::c000:201"},
    {"2001:db8::80", "2001:db8::80"},
};

START_TEST(every_notation_of_an_address_is_one_value)
{
    struct address address = address_at(NOTATIONS[_i].notation);
    struct address canonical = address_at(NOTATIONS[_i].canonical);

    ck_assert_msg(address_equals(&address, &canonical), "%s", NOTATIONS[_i].notation);
    ck_assert_str_eq(written(&address), NOTATIONS[_i].canonical);
}
END_TEST

static const char *const NOT_ADDRESSES[] = {
    "",
    "unknown",
    "_hidden",
    "192.0.2",
    "192.0.2.1.5",
    "192.0.2.256",
    "192.0.2.01",
    "0x7f.0.0.1",
    "2130706433",
    "192.0.2.1:",
    "192.0.2.1:65536",
    "192.0.2.1:http",
    "192.0.2.1:000080",
    "192.0.2.1%eth0",
    " 192.0.2.1",
    "192.0.2.1 ",
    "192.0.2.1/24",
    "[192.0.2.1]",
    "[2001:db8::1",
    "2001:db8::1]",
    "[]",
    "[2001:db8::1]443",
    "[2001:db8::1]:",
    "[2001:db8::1]:65536",
    "[[::1]]",
    "2001:db8::1::2",
    "2001:db8:::1",
    "12345::",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7",
    "fe80::1%",
    "fe80::1%eth0 x",
    "fe80::1%a/b",
    "::ffff:1.2.3",
    "example.com",
    ":",
    "%",
    "[",
    "]",
    "2001:0db8:0000:0000:0000:0000:0000:0001:0000:0000:0000:0000:0000:0000:0001",
};

START_TEST(anything_else_is_no_address_and_leaves_the_result_alone)
{
    struct address address = address_at("198.51.100.7");
    struct address before = address;

    ck_assert_msg(!address_parse(span_of_text(NOT_ADDRESSES[_i]), &address), "%s",
                  NOT_ADDRESSES[_i]);
    ck_assert(address_equals(&address, &before));
}
END_TEST

START_TEST(a_nul_does_not_end_an_address)
{
    struct address address;

    ck_assert(!address_parse(SPAN("192.0.2.1\0"), &address));
    ck_assert(!address_parse(SPAN("192.0.2.1\0x"), &address));
    ck_assert(!address_parse(SPAN("::1\0"), &address));
    ck_assert(!address_parse(span_of(NULL, 0), &address));
}
END_TEST

/* --- prefixes --- */

static const struct {
    const char *prefix;
    const char *base;
    uint8_t bits;
} PREFIXES[] = {
    {"10.0.0.0/8", "10.0.0.0", 8},
    {"10.1.2.3/8", "10.0.0.0", 8},
    {"10.1.2.3", "10.1.2.3", 32},
    {"10.255.255.255/31", "10.255.255.254", 31},
    {"0.0.0.0/0", "0.0.0.0", 0},
    {"2001:db8::/32", "2001:db8::", 32},
    {"2001:db8:1:2:3:4:5:6/64", "2001:db8:1:2::", 64},
    {"2001:db8:1:2ff::/57", "2001:db8:1:280::", 57},
    {"::1", "::1", 128},
    {"::/0", "::", 0},
    {"::ffff:10.0.0.0/104", "10.0.0.0", 8},
    {"::ffff:0:0/96", "0.0.0.0", 0},
    {"::ffff:10.1.2.3", "10.1.2.3", 32},
    {"64:ff9b::10.0.0.0/104", "10.0.0.0", 8},
    {"::ffff:10.0.0.0/80", "::", 80},
};

START_TEST(a_prefix_is_its_base_cleared_behind_its_bits)
{
    struct address_prefix prefix = prefix_at(PREFIXES[_i].prefix);

    ck_assert_str_eq(written(&prefix.base), PREFIXES[_i].base);
    ck_assert_uint_eq(prefix.bits, PREFIXES[_i].bits);
}
END_TEST

static const char *const NOT_PREFIXES[] = {
    "",         "/8",     "10.0.0.0/",       "10.0.0.0/33", "10.0.0.0/-1",   "10.0.0.0/8/8",
    "10.0.0/8", "::/129", "[2001:db8::]/32", "fe80::%1/64", "10.0.0.0:80/8", "10.0.0.0/255.0.0.0",
    "::/ 1",
};

START_TEST(anything_else_is_no_prefix)
{
    struct address_prefix prefix;

    ck_assert_msg(!address_prefix_parse(span_of_text(NOT_PREFIXES[_i]), &prefix), "%s",
                  NOT_PREFIXES[_i]);
}
END_TEST

static const struct {
    const char *prefix;
    const char *address;
    bool covers;
} COVERS[] = {
    {"10.0.0.0/8", "10.255.255.255", true},
    {"10.0.0.0/8", "11.0.0.0", false},
    {"10.0.0.0/8", "::ffff:10.1.1.1", true},
    {"10.0.0.0/8", "64:ff9b::10.1.1.1", true},
    {"::ffff:10.0.0.0/104", "10.1.1.1", true},
    {"192.0.2.128/25", "192.0.2.127", false},
    {"192.0.2.128/25", "192.0.2.128", true},
    {"192.0.2.1", "192.0.2.1", true},
    {"192.0.2.1", "192.0.2.2", false},
    {"0.0.0.0/0", "203.0.113.9", true},
    {"0.0.0.0/0", "2001:db8::1", false},
    {"::/0", "2001:db8::1", true},
    {"::/0", "203.0.113.9", false},
    {"2001:db8::/33", "2001:db8:7fff::", true},
    {"2001:db8::/33", "2001:db8:8000::", false},
};

START_TEST(a_prefix_covers_its_own_family_by_its_bits)
{
    struct address_prefix prefix = prefix_at(COVERS[_i].prefix);
    struct address address = address_at(COVERS[_i].address);

    ck_assert_msg(address_prefix_covers(&prefix, &address) == COVERS[_i].covers, "%s in %s",
                  COVERS[_i].address, COVERS[_i].prefix);
}
END_TEST

/* xorshift64 */
static uint64_t random_u64(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Of a few networks, so that prefixes overlap and addresses lie in them and beside. */
static struct address random_address(uint64_t *state)
{
    const uint64_t drawn = random_u64(state);
    struct address address = {.family = (uint8_t)(drawn % 16 == 0  ? ADDRESS_NONE
                                                  : drawn % 2 == 0 ? ADDRESS_IPV4
                                                                   : ADDRESS_IPV6)};
    const size_t n_bytes = address.family == ADDRESS_NONE   ? 0
                           : address.family == ADDRESS_IPV4 ? 4
                                                            : 16;
    for (size_t i = 0; i < n_bytes; i++) {
        static const uint8_t BYTES[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
        address.bytes[i] = BYTES[random_u64(state) % ARRAY_LEN(BYTES)];
    }
    return address;
}

static uint8_t bits_of(const struct address *address)
{
    return address->family == ADDRESS_NONE ? 0 : address->family == ADDRESS_IPV4 ? 32 : 128;
}

static bool is_covered(const struct address *address, const struct address_prefix *prefixes,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (address_prefix_covers(&prefixes[i], address)) {
            return true;
        }
    }
    return false;
}

START_TEST(a_list_that_is_searched_by_halves_covers_what_its_prefixes_do)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (1 + (uint64_t)_i);
    size_t n_covered = 0;
    size_t n_dropped = 0;
    enum { N = 60, N_ASKED = 200 };
    struct address_prefix given[N], indexed[N];
    for (size_t n = 0; n <= N; n++) {
        for (size_t i = 0; i < n; i++) {
            const struct address base = random_address(&state);
            const unsigned most = bits_of(&base);
            const unsigned least = most / 4;
            const uint64_t beyond = random_u64(&state) % (most - least + 1);
            const bool is_all = random_u64(&state) % 400 == 0; /* of its family */
            const uint8_t bits = (uint8_t)(is_all ? 0 : least + beyond);
            given[i] = (struct address_prefix){.base = address_mask(base, bits), .bits = bits};
        }
        memcpy(indexed, given, sizeof(given));
        const size_t n_indexed = address_prefixes_index(indexed, n);
        n_dropped += n - n_indexed;
        for (size_t i = 0; i < N_ASKED; i++) {
            struct address address = random_address(&state);
            if (i < n) {
                address = given[i].base;
            }
            const bool covers = is_covered(&address, given, n);
            n_covered += covers;
            ck_assert_msg(address_is_in(&address, indexed, n_indexed) == covers, "%s of %zu",
                          written(&address), n);
        }
    }
    ck_assert_uint_gt(n_dropped, 10);
    ck_assert_uint_gt(n_covered, 1000);
    ck_assert_uint_lt(n_covered, (size_t)N * N_ASKED);
}
END_TEST

START_TEST(the_ends_of_a_prefix_are_in_a_long_list_and_its_neighbours_are_not)
{
    struct address_prefix prefixes[200];
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) { /* each second /24, the last one first */
        const uint8_t third = (uint8_t)(254 - i);
        prefixes[i] = (struct address_prefix){.base = {ADDRESS_IPV4, {10, 0, third}},
                                              .bits = (uint8_t)(24 + i % 2)};
    }
    ck_assert_uint_eq(address_prefixes_index(prefixes, ARRAY_LEN(prefixes)), ARRAY_LEN(prefixes));
    for (unsigned third = 0; third < 256; third++) {
        const struct address first = {ADDRESS_IPV4, {10, 0, (uint8_t)third, 0}};
        const struct address last = {ADDRESS_IPV4, {10, 0, (uint8_t)third, 255}};
        const struct address half = {ADDRESS_IPV4, {10, 0, (uint8_t)third, 127}};
        const struct address other = {ADDRESS_IPV6, {10, 0, (uint8_t)third}};
        const bool is_listed = third >= 55 && third <= 254;
        ck_assert(address_is_in(&first, prefixes, ARRAY_LEN(prefixes)) == is_listed);
        ck_assert(address_is_in(&half, prefixes, ARRAY_LEN(prefixes)) == is_listed);
        ck_assert(address_is_in(&last, prefixes, ARRAY_LEN(prefixes)) ==
                  (is_listed && third % 2 == 0));
        ck_assert(!address_is_in(&other, prefixes, ARRAY_LEN(prefixes)));
    }
}
END_TEST

START_TEST(all_of_a_family_leaves_nothing_else_of_it)
{
    struct address_prefix prefixes[] = {
        prefix_at("192.0.2.0/24"),   prefix_at("10.0.0.0/8"),
        prefix_at("2001:db8::/32"),  prefix_at("::/0"),
        prefix_at("10.1.0.0/16"),    prefix_at("198.51.100.7"),
        prefix_at("203.0.113.0/24"), prefix_at("10.1.2.3"),
        prefix_at("0.0.0.0/0"),      {.base = {.family = ADDRESS_NONE}},
    };
    const struct address v4 = {ADDRESS_IPV4, {255, 255, 255, 255}};
    const struct address v6 = {.family = ADDRESS_IPV6};
    const struct address none = {.family = ADDRESS_NONE};
    ck_assert_uint_eq(address_prefixes_index(prefixes, ARRAY_LEN(prefixes)), 3);
    ck_assert(address_is_in(&v4, prefixes, 3) && address_is_in(&v6, prefixes, 3) &&
              address_is_in(&none, prefixes, 3));
}
END_TEST

START_TEST(a_list_of_prefixes_covers_what_one_of_them_does)
{
    struct address_prefix prefixes[] = {prefix_at("10.0.0.0/8"), prefix_at("2001:db8::/32")};
    struct address inside = address_at("2001:db8::1");
    struct address outside = address_at("192.0.2.1");

    ck_assert(address_is_in(&inside, prefixes, 2));
    ck_assert(!address_is_in(&inside, prefixes, 1));
    ck_assert(!address_is_in(&outside, prefixes, 2));
    ck_assert(!address_is_in(&outside, NULL, 0));
}
END_TEST

/* --- masks, sockets, text --- */

START_TEST(all_addresses_of_one_64_become_one)
{
    struct address a = address_mask(address_at("2001:db8:1:2::1"), 64);
    struct address b = address_mask(address_at("2001:db8:1:2:ffff:ffff:ffff:ffff"), 64);
    struct address other = address_mask(address_at("2001:db8:1:3::1"), 64);

    ck_assert(address_equals(&a, &b));
    ck_assert(!address_equals(&a, &other));
    ck_assert_str_eq(written(&a), "2001:db8:1:2::");
}
END_TEST

START_TEST(the_next_client_is_the_next_address_or_the_next_64)
{
    static const struct {
        const char *from;
        uint32_t n;
        const char *sum; /* NULL: there is none */
    } ROWS[] = {
        {"192.0.2.1", 0, "192.0.2.1"},         {"192.0.2.255", 1, "192.0.3.0"},
        {"10.0.0.0", 1 << 24, "11.0.0.0"},     {"0.0.0.0", UINT32_MAX, "255.255.255.255"},
        {"0.0.0.1", UINT32_MAX, NULL},         {"255.255.255.255", 1, NULL},
        {"2001:db8::7", 1, "2001:db8:0:1::7"}, {"2001:db8:0:ffff::7", 1, "2001:db8:1::7"},
        {"ffff:ffff:ffff:ffff::1", 1, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct address from = address_at(ROWS[i].from);
        struct address sum = from;
        ck_assert_int_eq(address_add(&from, ROWS[i].n, &sum), ROWS[i].sum != NULL);
        const struct address want = address_at(ROWS[i].sum != NULL ? ROWS[i].sum : ROWS[i].from);
        ck_assert(address_equals(&sum, &want));
    }
    struct address none = {.family = ADDRESS_NONE};
    ck_assert(!address_add(&none, 1, &none));
}
END_TEST

START_TEST(a_mask_of_ipv6_length_never_joins_ipv4_clients)
{
    struct address a = address_mask(address_at("::ffff:192.0.2.1"), 64);
    struct address b = address_mask(address_at("::ffff:192.0.2.2"), 64);

    ck_assert(!address_equals(&a, &b));
    ck_assert_str_eq(written(&a), "192.0.2.1");
}
END_TEST

START_TEST(a_client_is_an_ipv4_address_or_a_48_of_ipv6)
{
    static const struct {
        const char *one, *other;
        bool is_same;
    } PAIRS[] = {
        {"192.0.2.1", "::ffff:192.0.2.1", true},
        {"192.0.2.1", "192.0.2.2", false},
        {"2001:db8:1::1", "2001:db8:1:ffff:ffff::", true},
        {"2001:db8:1::1", "2001:db8:2::1", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(PAIRS); i++) {
        const struct address one = address_at(PAIRS[i].one);
        const struct address other = address_at(PAIRS[i].other);
        const struct address of_one = address_of_client(&one);
        const struct address of_other = address_of_client(&other);
        ck_assert_int_eq(address_equals(&of_one, &of_other), PAIRS[i].is_same);
    }
    const struct address none = {.family = ADDRESS_NONE};
    const struct address of_none = address_of_client(&none);
    ck_assert(address_equals(&of_none, &none));
}
END_TEST

START_TEST(a_mask_of_no_bits_clears_all)
{
    struct address four = address_mask(address_at("192.0.2.1"), 0);
    struct address six = address_mask(address_at("2001:db8::1"), 0);
    struct address none = address_mask((struct address){.family = ADDRESS_NONE}, 8);

    ck_assert_str_eq(written(&four), "0.0.0.0");
    ck_assert_str_eq(written(&six), "::");
    ck_assert_str_eq(written(&none), "unix");
}
END_TEST

START_TEST(a_socket_address_becomes_canonical)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = 80};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = 80, .sin6_scope_id = 3};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct address address;

    inet_pton(AF_INET, "192.0.2.1", &four.sin_addr);
    address = address_of_sockaddr((const struct sockaddr *)&four);
    ck_assert_str_eq(written(&address), "192.0.2.1");
    inet_pton(AF_INET6, "::ffff:192.0.2.1", &six.sin6_addr);
    address = address_of_sockaddr((const struct sockaddr *)&six);
    ck_assert_str_eq(written(&address), "192.0.2.1");
    inet_pton(AF_INET6, "fe80::1", &six.sin6_addr);
    address = address_of_sockaddr((const struct sockaddr *)&six);
    ck_assert_str_eq(written(&address), "fe80::1");
    address = address_of_sockaddr((const struct sockaddr *)&local);
    ck_assert_str_eq(written(&address), "unix");
}
END_TEST

/* RFC 5952 sections 4.1 to 4.3. */
static const char *const WRITTEN[][2] = {
    {"2001:0db8::0001", "2001:db8::1"},
    {"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},
    {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
    {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
    {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
    {"2001:DB8:ABCD::EF00", "2001:db8:abcd::ef00"},
    {"1:2:3:4:5:6:0:0", "1:2:3:4:5:6::"},
    {"0:0:1:2:3:4:5:6", "::1:2:3:4:5:6"},
    {"0:1:2:3:4:5:6:0", "0:1:2:3:4:5:6:0"},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
};

START_TEST(ipv6_is_written_as_rfc_5952_recommends)
{
    struct address address = address_at(WRITTEN[_i][0]);

    ck_assert_str_eq(written(&address), WRITTEN[_i][1]);
}
END_TEST

START_TEST(every_octet_of_ipv4_is_plain_decimal_at_every_place)
{
    for (unsigned octet = 0; octet <= UINT8_MAX; octet++) {
        const uint8_t bytes[4] = {(uint8_t)octet, (uint8_t)(octet / 2), (uint8_t)(octet / 20),
                                  (uint8_t)(UINT8_MAX - octet)};
        const struct address address = address_of_bytes(ADDRESS_IPV4, bytes);
        char expected[16];
        char written[16];
        const int n = snprintf(expected, sizeof(expected), "%u.%u.%u.%u", bytes[0], bytes[1],
                               bytes[2], bytes[3]);
        struct text text = text_of(written, (size_t)n);
        address_write(&address, &text);
        ck_assert(!text.truncated);
        ck_assert_uint_eq(text.len, (size_t)n);
        ck_assert_mem_eq(written, expected, text.len);
    }
}
END_TEST

START_TEST(text_that_is_too_short_gets_no_part_of_an_address)
{
    char small[8];
    struct text text = text_of(small, sizeof(small));
    struct address address = address_at("192.0.2.1");

    address_write(&address, &text);
    ck_assert(text.truncated);
    ck_assert_uint_eq(text.len, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/address");
    TCase *parse = tcase_create("parse");
    TCase *prefix = tcase_create("prefix");
    TCase *rest = tcase_create("mask, sockaddr, write");

    tcase_add_loop_test(parse, every_notation_of_an_address_is_one_value, 0, ARRAY_LEN(NOTATIONS));
    tcase_add_loop_test(parse, anything_else_is_no_address_and_leaves_the_result_alone, 0,
                        ARRAY_LEN(NOT_ADDRESSES));
    tcase_add_test(parse, a_nul_does_not_end_an_address);
    tcase_add_loop_test(prefix, a_prefix_is_its_base_cleared_behind_its_bits, 0,
                        ARRAY_LEN(PREFIXES));
    tcase_add_loop_test(prefix, anything_else_is_no_prefix, 0, ARRAY_LEN(NOT_PREFIXES));
    tcase_add_loop_test(prefix, a_prefix_covers_its_own_family_by_its_bits, 0, ARRAY_LEN(COVERS));
    tcase_add_loop_test(prefix, a_list_that_is_searched_by_halves_covers_what_its_prefixes_do, 0,
                        5);
    tcase_add_test(prefix, the_ends_of_a_prefix_are_in_a_long_list_and_its_neighbours_are_not);
    tcase_add_test(prefix, all_of_a_family_leaves_nothing_else_of_it);
    tcase_add_test(prefix, a_list_of_prefixes_covers_what_one_of_them_does);
    tcase_add_test(rest, all_addresses_of_one_64_become_one);
    tcase_add_test(rest, a_mask_of_ipv6_length_never_joins_ipv4_clients);
    tcase_add_test(rest, the_next_client_is_the_next_address_or_the_next_64);
    tcase_add_test(rest, a_client_is_an_ipv4_address_or_a_48_of_ipv6);
    tcase_add_test(rest, a_mask_of_no_bits_clears_all);
    tcase_add_test(rest, a_socket_address_becomes_canonical);
    tcase_add_loop_test(rest, ipv6_is_written_as_rfc_5952_recommends, 0, ARRAY_LEN(WRITTEN));
    tcase_add_test(rest, every_octet_of_ipv4_is_plain_decimal_at_every_place);
    tcase_add_test(rest, text_that_is_too_short_gets_no_part_of_an_address);
    suite_add_tcase(suite, parse);
    suite_add_tcase(suite, prefix);
    suite_add_tcase(suite, rest);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The databases of tests/data/geo; test_geo.py says what they have and compares. */

#include "geo/database.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"

#define DATABASE(name) TEST_DATA_DIR "/geo/" name ".mmdb"

static char problem_bytes[256];
static struct text problem;

static void setup(void)
{
    problem = text_of(problem_bytes, sizeof(problem_bytes));
}

static struct geo_database *open_database(const char *path)
{
    struct geo_database *database = NULL;
    ck_assert_msg(geo_database_open(path, &database, &problem) == STATUS_OK, "%.*s",
                  SPAN_ARGS(text_span(&problem)));
    return database;
}

static struct geo_facts find(const struct geo_database *database, const char *address,
                             unsigned wanted)
{
    struct address parsed = {.family = ADDRESS_NONE};
    struct geo_facts facts = {.asn = 0};
    ck_assert(address[0] == '\0' || address_parse(span_of_text(address), &parsed));
    geo_database_find(database, &parsed, wanted, &facts);
    return facts;
}

static const struct {
    const char *path;
    const char *address;
    const char *country;
    uint32_t asn;
} ADDRESSES[] = {
    {DATABASE("country"), "192.0.2.1", "DE", 0},
    {DATABASE("country"), "192.0.2.127", "DE", 0},
    {DATABASE("country"), "192.0.2.128", "FR", 0},
    {DATABASE("country"), "::ffff:192.0.2.255", "FR", 0},
    {DATABASE("country"), "192.0.3.0", "", 0},
    {DATABASE("country"), "2001:db8::1", "JP", 0},
    {DATABASE("country"), "2001:db9::1", "", 0},
    {DATABASE("country"), "198.51.100.1", "", 0}, /* a registered country is no country */
    {DATABASE("country"), "203.0.113.1", "", 0},  /* no two letters */
    {DATABASE("country"), "", "", 0},             /* a unix socket */
    {DATABASE("asn"), "192.0.2.1", "", 64496},
    {DATABASE("asn"), "198.51.100.1", "", 4200000000},
    {DATABASE("asn"), "203.0.113.1", "", 0},
    {DATABASE("asn"), "2001:db8::1", "", 0}, /* IPv4 alone */
    {DATABASE("flat"), "192.0.2.1", "AT", 64497},
    {DATABASE("flat"), "2001:db8:8000::1", "CH", 65000},
    {DATABASE("flat"), "2001:db8:7fff::1", "", 0},
};

START_TEST(an_address_has_its_facts)
{
    struct geo_database *database = open_database(ADDRESSES[_i].path);
    const struct geo_facts facts = find(database, ADDRESSES[_i].address, GEO_COUNTRY | GEO_ASN);
    ck_assert(span_equals(geo_country(&facts), span_of_text(ADDRESSES[_i].country)));
    ck_assert_uint_eq(facts.asn, ADDRESSES[_i].asn);
    const struct geo_facts country = find(database, ADDRESSES[_i].address, GEO_COUNTRY);
    ck_assert_uint_eq(country.asn, 0);
    const struct geo_facts asn = find(database, ADDRESSES[_i].address, GEO_ASN);
    ck_assert(!asn.has_country);
    geo_database_release(database);
}
END_TEST

START_TEST(the_first_database_that_knows_counts)
{
    struct geo_database *country = open_database(DATABASE("country"));
    struct geo_database *flat = open_database(DATABASE("flat"));
    struct address address;
    struct geo_facts facts = {.asn = 0};
    ck_assert(address_parse(SPAN("192.0.2.1"), &address));
    geo_database_find(country, &address, GEO_COUNTRY | GEO_ASN, &facts);
    geo_database_find(flat, &address, GEO_COUNTRY | GEO_ASN, &facts);
    ck_assert(span_equals(geo_country(&facts), SPAN("DE")));
    ck_assert_uint_eq(facts.asn, 64497);
    geo_database_release(country);
    geo_database_release(flat);
}
END_TEST

START_TEST(a_database_says_what_it_has)
{
    static const struct {
        const char *path;
        unsigned facts;
    } ROWS[] = {{DATABASE("country"), GEO_COUNTRY},
                {DATABASE("asn"), GEO_ASN},
                {DATABASE("flat"), GEO_COUNTRY | GEO_ASN}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct geo_database *database = open_database(ROWS[i].path);
        ck_assert_uint_eq(geo_database_facts(database), ROWS[i].facts);
        geo_database_release(database);
    }
}
END_TEST

/* A copy of the database country of @len bytes, in a file of its own. */
static char *make_copy(size_t len)
{
    static char path[] = "/tmp/geo-XXXXXX";
    static char bytes[4096];
    FILE *from = fopen(DATABASE("country"), "rb");
    ck_assert_ptr_nonnull(from);
    const size_t n = fread(bytes, 1, sizeof(bytes), from);
    fclose(from);
    memcpy(path, "/tmp/geo-XXXXXX", sizeof(path));
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, len < n ? len : n), (ssize_t)(len < n ? len : n));
    close(fd);
    return path;
}

/* Of a mapped file it would be the end of the process. */
START_TEST(a_file_that_is_truncated_later_changes_nothing)
{
    char *path = make_copy(SIZE_MAX);
    struct geo_database *database = open_database(path);
    ck_assert_int_eq(truncate(path, 0), 0);
    const struct geo_facts facts = find(database, "192.0.2.1", GEO_COUNTRY);
    ck_assert(span_equals(geo_country(&facts), SPAN("DE")));
    ck_assert_ptr_eq(geo_database_acquire(database), database);
    geo_database_release(database);
    ck_assert(find(database, "192.0.2.128", GEO_COUNTRY).has_country);
    geo_database_release(database);
    geo_database_release(NULL);
    unlink(path);
}
END_TEST

/* The metadata are at the end. libmaxminddb leaks memory where they are cut themselves. */
START_TEST(a_file_that_is_cut_is_refused)
{
    for (size_t len = 0; len < 1280; len += 7) {
        char *path = make_copy(len);
        struct geo_database *database = NULL;
        problem.len = 0;
        ck_assert_int_eq(geo_database_open(path, &database, &problem), STATUS_INVALID);
        ck_assert(span_starts_with(text_span(&problem), SPAN("is no MaxMind DB: ")));
        unlink(path);
    }
}
END_TEST

/* Wrong bytes in the tree and in records give wrong facts at most. */
START_TEST(a_file_with_wrong_bytes_reads_no_wrong_memory)
{
    for (size_t at = 0; at < 1280; at++) {
        char *path = make_copy(SIZE_MAX);
        struct geo_database *database = NULL;
        const int fd = open(path, O_WRONLY);
        ck_assert_int_eq(pwrite(fd, "\xff\xff", 2, (off_t)at), 2);
        close(fd);
        if (geo_database_open(path, &database, &problem) == STATUS_OK) {
            (void)find(database, "192.0.2.1", GEO_COUNTRY | GEO_ASN);
            (void)find(database, "192.0.2.200", GEO_COUNTRY | GEO_ASN);
            (void)find(database, "2001:db8::1", GEO_COUNTRY | GEO_ASN);
            geo_database_release(database);
        }
        unlink(path);
    }
}
END_TEST

START_TEST(what_is_no_database_is_refused_with_a_reason)
{
    static const struct {
        const char *path;
        enum status status;
        const char *problem;
    } ROWS[] = {
        {"/nowhere/there.mmdb", STATUS_IO, "cannot be opened: No such file or directory"},
        {"/tmp", STATUS_INVALID, "is no regular file"},
        {"/dev/null", STATUS_INVALID, "is no regular file"},
        {TEST_DATA_DIR "/alerts_test.yml", STATUS_INVALID, "is no MaxMind DB: "},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct geo_database *database = NULL;
        problem.len = 0;
        ck_assert_int_eq(geo_database_open(ROWS[i].path, &database, &problem), ROWS[i].status);
        ck_assert_msg(span_starts_with(text_span(&problem), span_of_text(ROWS[i].problem)), "%.*s",
                      SPAN_ARGS(text_span(&problem)));
    }
}
END_TEST

START_TEST(facts_are_parsed)
{
    static const char *const NO_COUNTRIES[] = {"", "D", "DEU", "D1", "D ", "49", "\xc3\x84"};
    static const char *const NO_ASNS[] = {"", "0", "AS", "AS0", "4294967296", "-1", "AS 1", "1.1"};
    char country[GEO_COUNTRY_BYTES];
    uint32_t asn = 0;
    ck_assert(geo_country_parse(SPAN("dE"), country));
    ck_assert_mem_eq(country, "DE", 2);
    ck_assert(geo_asn_parse(SPAN("AS4294967295"), &asn));
    ck_assert_uint_eq(asn, UINT32_MAX);
    ck_assert(geo_asn_parse(SPAN("as1"), &asn));
    ck_assert(geo_asn_parse(SPAN("64496"), &asn));
    ck_assert_uint_eq(asn, 64496);
    for (size_t i = 0; i < ARRAY_LEN(NO_COUNTRIES); i++) {
        ck_assert(!geo_country_parse(span_of_text(NO_COUNTRIES[i]), country));
    }
    for (size_t i = 0; i < ARRAY_LEN(NO_ASNS); i++) {
        ck_assert(!geo_asn_parse(span_of_text(NO_ASNS[i]), &asn));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("geo/database");
    TCase *tcase = tcase_create("databases");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, an_address_has_its_facts, 0, (int)ARRAY_LEN(ADDRESSES));
    tcase_add_test(tcase, the_first_database_that_knows_counts);
    tcase_add_test(tcase, a_database_says_what_it_has);
    tcase_add_test(tcase, a_file_that_is_truncated_later_changes_nothing);
    tcase_add_test(tcase, a_file_that_is_cut_is_refused);
    tcase_add_test(tcase, a_file_with_wrong_bytes_reads_no_wrong_memory);
    tcase_add_test(tcase, what_is_no_database_is_refused_with_a_reason);
    tcase_add_test(tcase, facts_are_parsed);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

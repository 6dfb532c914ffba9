/* The cache of what is known of clients: a row has what was put last for its address, and no other
 * address. */

#include "geo/cache.h"

#include <check.h>
#include <stdlib.h>

static struct address client_of(uint32_t number)
{
    struct address address = {.family = ADDRESS_IPV4};
    memcpy(address.bytes, &number, sizeof(number));
    return address;
}

START_TEST(what_was_put_is_found_until_another_address_takes_its_row)
{
    enum { CLIENTS = 10 * GEO_CACHE_ROWS };
    static struct geo_cache cache;
    size_t n_kept = 0;
    struct geo_facts facts;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const struct address client = client_of(i);
        ck_assert(!geo_cache_find(&cache, &client, &facts));
        facts = (struct geo_facts){.asn = i + 1, .has_country = true, .country = {'D', 'E'}};
        geo_cache_put(&cache, &client, &facts);
        facts = (struct geo_facts){.asn = 0};
        ck_assert(geo_cache_find(&cache, &client, &facts));
        ck_assert_uint_eq(facts.asn, i + 1);
        ck_assert(facts.has_country && facts.country[1] == 'E');
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const struct address client = client_of(i);
        if (geo_cache_find(&cache, &client, &facts)) {
            ck_assert_uint_eq(facts.asn, i + 1);
            n_kept++;
        }
    }
    ck_assert_uint_gt(n_kept, GEO_CACHE_ROWS / 2); /* addresses in a row spread */
    ck_assert_uint_le(n_kept, GEO_CACHE_ROWS);
}
END_TEST

START_TEST(addresses_of_two_families_with_the_same_bytes_differ)
{
    static struct geo_cache cache;
    struct address client = client_of(1);
    struct geo_facts facts = {.asn = 64496};
    geo_cache_put(&cache, &client, &facts);
    client.family = ADDRESS_IPV6;
    ck_assert(!geo_cache_find(&cache, &client, &facts));
}
END_TEST

START_TEST(nothing_is_known_of_no_address)
{
    static struct geo_cache cache;
    const struct address none = {.family = ADDRESS_NONE};
    struct geo_facts facts = {.asn = 1};
    ck_assert(geo_cache_find(&cache, &none, &facts));
    ck_assert_uint_eq(facts.asn, 0);
    ck_assert(!facts.has_country);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("geo/cache");
    TCase *tcase = tcase_create("cache");
    tcase_add_test(tcase, what_was_put_is_found_until_another_address_takes_its_row);
    tcase_add_test(tcase, addresses_of_two_families_with_the_same_bytes_differ);
    tcase_add_test(tcase, nothing_is_known_of_no_address);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

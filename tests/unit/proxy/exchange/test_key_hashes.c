#include "proxy/exchange/exchange_config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "policy/key.h"

static struct key_hashes hashes;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    key_hashes_init(&hashes);
}

static void assert_found(unsigned number)
{
    char name[16];
    char digits[KEY_HASH_DIGITS];
    uint8_t hash[HASH_IDENTITY_BYTES];
    struct text identity = text_of(name, sizeof(name));
    struct text hex = text_of(digits, sizeof(digits));
    text_add_u64(&identity, number);
    key_hash(text_span(&identity), SPAN("secret"), hash);
    text_add_hex(&hex, hash, sizeof(hash));

    const struct charge charge = {.key = text_span(&identity)};
    const struct span found = key_hashes_find(&hashes, &charge, SPAN("secret"));
    ck_assert_uint_eq(found.len, hex.len);
    ck_assert_mem_eq(found.data, hex.data, hex.len);
}

START_TEST(a_key_has_its_hash_however_often_it_is_looked_for)
{
    for (unsigned i = 0; i < 3; i++) {
        assert_found(7);
    }
}
END_TEST

START_TEST(more_keys_than_are_kept_have_each_its_own_hash)
{
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < 4 * KEY_HASHES; i++) {
            assert_found(i);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/key_hashes");
    TCase *finding = tcase_create("finding");
    tcase_add_checked_fixture(finding, set_up, NULL);
    tcase_add_test(finding, a_key_has_its_hash_however_often_it_is_looked_for);
    tcase_add_test(finding, more_keys_than_are_kept_have_each_its_own_hash);
    suite_add_tcase(suite, finding);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

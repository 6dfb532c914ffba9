/* Slots, by the cluster specification. */

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "store/redis_options.h"

START_TEST(the_checksum_is_the_one_of_the_specification)
{
    ck_assert_uint_eq(redis_slots_crc16(SPAN("123456789")), 0x31c3);
    ck_assert_uint_eq(redis_slots_crc16(SPAN("")), 0);
    ck_assert_uint_eq(redis_slots_crc16(SPAN("\xff")), 0x1ef0);
}
END_TEST

/* As CLUSTER KEYSLOT of Redis 7.0.15 answers. */
static const struct {
    const char *key;
    uint16_t slot;
} KEYS[] = {
    {"", 0},
    {"foo", 12182},
    {"123456789", 12739},
    {"{foo}", 12182},
    {"user:{foo}:1", 12182},
    {"{foo}{bar}", 12182},
    {"foo{bar", 15278},
    {"foo}bar{", 11073},
    {"{}foo", 9500},
    {"foo{}{bar}", 8363},
    {"foo{{bar}}zap", 4015},
    {"foo{bar}{zap}", 5061},
};

START_TEST(a_key_lies_in_the_slot_of_its_tag_or_of_all_of_it)
{
    ck_assert_msg(redis_slots_of(span_of_text(KEYS[_i].key)) == KEYS[_i].slot, "%s: %u",
                  KEYS[_i].key, redis_slots_of(span_of_text(KEYS[_i].key)));
}
END_TEST

START_TEST(a_charge_lies_in_the_slot_of_its_key_in_redis)
{
    static char longest[KEY_TEXT_BYTES_MAX];
    const struct limit limit = {.name = SPAN("per-client"), .digest = "01234567"};
    memset(longest, 'x', sizeof(longest));
    const struct span keys[] = {SPAN("{client.ip:9=192.0.2.1}"), SPAN("{foo},method:3=GET"),
                                SPAN("{}"), SPAN("no tag"), span_of(longest, sizeof(longest))};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        char buffer[2 * KEY_TEXT_BYTES_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        const struct charge charge = {.limit = &limit, .key = keys[i]};
        redis_key_write(&text, SPAN("sluice"), &charge);
        ck_assert(!text.truncated);
        ck_assert_uint_eq(redis_slots_of_charge(SPAN("sluice"), &limit, keys[i]),
                          redis_slots_of(text_span(&text)));
    }
    ck_assert_uint_eq(redis_slots_of_charge(SPAN("sluice"), &limit, SPAN("{foo},a")), 12182);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/redis_key");
    TCase *tcase = tcase_create("slots");
    tcase_add_test(tcase, the_checksum_is_the_one_of_the_specification);
    tcase_add_loop_test(tcase, a_key_lies_in_the_slot_of_its_tag_or_of_all_of_it, 0,
                        (int)ARRAY_LEN(KEYS));
    tcase_add_test(tcase, a_charge_lies_in_the_slot_of_its_key_in_redis);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

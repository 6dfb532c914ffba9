/* One thread notes, another reads: what it reads is whole. */

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/heavy_hitters.h"
#include "base/text.h"

enum { N_DENIALS = 100 * 1000, N_KEYS = 1000, N_READINGS = 100 };

static struct heavy_hitters *sketch;

/* The text tells the number that the hash is, so that one that is half of another shows. */
static struct span name_of(uint64_t number, char buffer[24])
{
    struct text text = text_of(buffer, 24);
    text_add_literal(&text, "k");
    text_add_u64(&text, number * number * number);
    return text_span(&text);
}

static void *flood(void *context)
{
    (void)context;
    for (uint64_t i = 0; i < N_DENIALS; i++) {
        char buffer[24];
        const uint64_t number = i % N_KEYS;
        heavy_hitters_deny(sketch, (struct hash128){.low = number * 7919, .high = number},
                           name_of(number, buffer), i);
    }
    return NULL;
}

static void read_all(void)
{
    const struct heavy_hitters *sketches[] = {sketch};
    struct heavy_line *lines;
    size_t n_lines;
    ck_assert_int_eq(heavy_hitters_read(sketches, 1, 0, &lines, &n_lines), STATUS_OK);
    for (size_t i = 0; i < n_lines; i++) {
        char buffer[24];
        ck_assert_uint_eq(lines[i].hash.low, lines[i].hash.high * 7919);
        ck_assert(span_equals(span_of(lines[i].text, lines[i].text_len),
                              name_of(lines[i].hash.high, buffer)));
        ck_assert_uint_ge(lines[i].denied_min, 1);
    }
    free(lines);
}

START_TEST(who_reads_while_keys_come_and_go_sees_whole_ones)
{
    pthread_t flooding;
    sketch = calloc(1, sizeof(*sketch));
    ck_assert_ptr_nonnull(sketch);
    ck_assert_int_eq(pthread_create(&flooding, NULL, flood, NULL), 0);
    for (unsigned i = 0; i < N_READINGS; i++) {
        read_all();
    }
    pthread_join(flooding, NULL);
    read_all();
    free(sketch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/heavy_hitters_threads");
    TCase *tests = tcase_create("heavy_hitters");
    tcase_add_test(tests, who_reads_while_keys_come_and_go_sees_whole_ones);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

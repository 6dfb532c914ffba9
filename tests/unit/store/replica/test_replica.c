/* A replica: what is found by field or by tag, until when, in which reading, and by readers while
 * others change it. */

#include "store/replica.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"

enum { NOW_US = 1000 * 1000, END_US = 2000 * 1000, N_MAX = 4 };

static struct replica *replica;
static struct replica_reader reader;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    ck_assert_int_eq(replica_new("test", "records", N_MAX, &replica), STATUS_OK);
    replica_reader_init(&reader, replica);
}

static void teardown(void)
{
    replica_reader_close(&reader);
    replica_free(replica);
}

static enum status put(const char *field, const char *value, const char *tag, uint64_t number)
{
    const struct replica_row row = {
        .field = span_of_text(field),
        .value = span_of_text(value),
        .tag = tag != NULL ? replica_tag(replica, span_of_text(tag)) : (struct hash128){0},
        .number = number,
        .ends_us = END_US,
    };
    return replica_put(replica, &row, NOW_US);
}

static void must_put(const char *field, const char *value, const char *tag, uint64_t number)
{
    ck_assert_int_eq(put(field, value, tag, number), STATUS_OK);
}

/* The number of what is found; 0: nothing. */
static uint64_t by_tag(const char *tag)
{
    const struct replica_entry *entry =
        replica_find(&reader, replica_tag(replica, span_of_text(tag)), NOW_US);
    const uint64_t number = entry != NULL ? entry->number : 0;
    replica_release(&reader);
    return number;
}

static uint64_t by_field(const char *field)
{
    const struct replica_entry *entry = replica_find_field(&reader, span_of_text(field), NOW_US);
    const uint64_t number = entry != NULL ? entry->number : 0;
    replica_release(&reader);
    return number;
}

static void end_reading(uint64_t now_us, struct replica_lost **lost)
{
    while (replica_end_reading(replica, now_us, lost)) {
        /* shard by shard */
    }
}

static size_t n_records(void)
{
    return replica_count(replica).n;
}

START_TEST(a_record_is_found_by_its_field_and_has_its_texts)
{
    ck_assert(replica_is_empty(replica));
    must_put("f", "value", NULL, 7);
    ck_assert(!replica_is_empty(replica));
    const struct replica_entry *entry = replica_find_field(&reader, SPAN("f"), NOW_US);
    ck_assert_ptr_nonnull(entry);
    ck_assert(span_equals(replica_entry_field(entry), SPAN("f")));
    ck_assert(span_equals(replica_entry_value(entry), SPAN("value")));
    ck_assert_uint_eq(entry->number, 7);
    replica_release(&reader);
    ck_assert_uint_eq(by_field("g"), 0);
    ck_assert(replica_remove(replica, SPAN("f"), NULL));
    ck_assert(!replica_remove(replica, SPAN("f"), NULL));
    ck_assert(replica_is_empty(replica));
}
END_TEST

START_TEST(a_record_with_a_tag_is_found_by_both_and_moves_with_its_tag)
{
    static const char *const TAGS[] = {"a", "b", NULL, "c", NULL, NULL, "c", "c"};
    const char *before = "none";
    for (uint64_t i = 0; i < ARRAY_LEN(TAGS); i++) {
        char value[8];
        snprintf(value, sizeof(value), "%u", (unsigned)i);
        must_put("f", value, TAGS[i], i + 1);
        ck_assert_uint_eq(n_records(), 1);
        ck_assert_uint_eq(by_field("f"), i + 1);
        if (TAGS[i] != NULL) {
            ck_assert_uint_eq(by_tag(TAGS[i]), i + 1);
            ck_assert_uint_eq(by_tag("f"), 0); /* an alias is no record */
        }
        if (before != NULL && TAGS[i] != before) {
            ck_assert_uint_eq(by_tag(before), 0);
        }
        before = TAGS[i];
    }
    ck_assert(replica_remove(replica, SPAN("f"), NULL));
    ck_assert_uint_eq(by_tag("c") + by_field("f"), 0);
}
END_TEST

START_TEST(a_record_is_removed_by_its_number_only_where_it_has_that)
{
    const uint64_t other = 2;
    const uint64_t own = 1;
    must_put("f", "", "tag", own);
    ck_assert(!replica_remove(replica, SPAN("f"), &other));
    ck_assert_uint_eq(by_tag("tag"), own);
    ck_assert(replica_remove(replica, SPAN("f"), &own));
    ck_assert_uint_eq(by_tag("tag"), 0);
}
END_TEST

START_TEST(a_record_without_room_is_refused_and_counted_in_each_reading)
{
    static const char *const FIELDS[] = {"1", "2", "3", "4"};
    for (unsigned reading = 0; reading < 2; reading++) {
        replica_begin_reading(replica);
        for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) {
            must_put(FIELDS[i], "", NULL, 1);
        }
        ck_assert_int_eq(put("5", "", NULL, 1), STATUS_FULL);
        ck_assert_uint_eq(replica_count(replica).n_unobeyed, reading);
        end_reading(NOW_US, NULL);
        ck_assert_uint_eq(replica_count(replica).n_unobeyed, 1);
    }
    ck_assert_int_eq(put("5", "", NULL, 1), STATUS_FULL); /* between two readings */
    ck_assert_uint_eq(replica_count(replica).n_unobeyed, 2);
    must_put("1", "other", NULL, 2);
    replica_set_max(replica, N_MAX + 1);
    must_put("5", "", NULL, 1);
    replica_begin_reading(replica);
    end_reading(NOW_US, NULL);
    ck_assert_uint_eq(replica_count(replica).n_unobeyed, 0);
}
END_TEST

START_TEST(what_a_reading_does_not_contain_is_gone_or_lost)
{
    struct replica_lost *lost = NULL;
    must_put("kept", "1", "tag", 1);
    must_put("gone", "2", "other", 2);
    replica_begin_reading(replica);
    must_put("kept", "1", "tag", 1);
    must_put("new", "3", NULL, 3);
    end_reading(NOW_US, &lost);
    ck_assert_ptr_nonnull(lost);
    ck_assert_ptr_null(lost->next);
    ck_assert(span_equals(span_of(lost->texts, lost->field_len), SPAN("gone")));
    ck_assert(span_equals(span_of(lost->texts + lost->field_len, lost->value_len), SPAN("2")));
    free(lost);
    ck_assert_uint_eq(by_tag("other"), 2); /* it holds until it is set again */
    replica_begin_reading(replica);
    must_put("kept", "1", "tag", 1);
    end_reading(NOW_US, NULL);
    ck_assert_uint_eq(by_tag("tag"), 1);
    ck_assert_uint_eq(by_tag("other") + by_field("gone") + by_field("new"), 0);
    ck_assert_uint_eq(n_records(), 1);
    lost = NULL;
    replica_begin_reading(replica);
    end_reading(END_US, &lost); /* one that has ended is not lost */
    ck_assert_ptr_null(lost);
    ck_assert(replica_is_empty(replica));
}
END_TEST

/* --- rows that wait --- */

static enum status put_later(const char *field, const char *value, const char *tag, uint64_t number)
{
    const struct replica_row row = {
        .field = span_of_text(field),
        .value = span_of_text(value),
        .tag = tag != NULL ? replica_tag(replica, span_of_text(tag)) : (struct hash128){0},
        .number = number,
        .ends_us = END_US,
    };
    return replica_put_later(replica, &row, NOW_US);
}

static void must_put_later(const char *field, const char *value, const char *tag, uint64_t number)
{
    ck_assert_int_eq(put_later(field, value, tag, number), STATUS_OK);
}

static void put_batch(void)
{
    while (replica_put_batch(replica)) {
        /* shard by shard */
    }
}

START_TEST(rows_that_wait_are_put_together_the_latest_of_a_field)
{
    must_put("changed", "1", "a", 1);
    must_put("same", "1", NULL, 2);
    replica_begin_reading(replica);
    must_put_later("changed", "2", "a", 3);
    must_put_later("same", "2", NULL, 4);
    must_put_later("same", "1", NULL, 2); /* as it is in the table */
    must_put_later("new", "1", "b", 5);
    must_put_later("new", "2", "b", 6);
    ck_assert_uint_eq(by_tag("a"), 1);
    ck_assert_uint_eq(by_tag("b") + by_field("new"), 0);
    put_batch();
    ck_assert_uint_eq(n_records(), 3);
    ck_assert_uint_eq(by_tag("a"), 3);
    ck_assert_uint_eq(by_field("changed"), 3);
    ck_assert_uint_eq(by_field("same"), 2);
    ck_assert_uint_eq(by_tag("b"), 6);
    ck_assert_uint_eq(by_field("new"), 6);
    end_reading(NOW_US, NULL);
    ck_assert_uint_eq(n_records(), 3); /* all belong to the reading */
    replica_expire(replica, END_US);
    ck_assert_uint_eq(n_records(), 0);
}
END_TEST

START_TEST(a_record_that_moves_does_not_wait)
{
    must_put("f", "1", "a", 1);
    replica_begin_reading(replica);
    must_put_later("f", "2", "b", 2);
    ck_assert_uint_eq(by_tag("b"), 2);
    ck_assert_uint_eq(by_field("f"), 2);
    ck_assert_uint_eq(by_tag("a"), 0);
    must_put_later("f", "3", NULL, 3);
    ck_assert_uint_eq(by_field("f"), 3);
    ck_assert_uint_eq(by_tag("b"), 0);
}
END_TEST

START_TEST(rows_that_wait_count_for_the_maximum)
{
    static const char *const FIELDS[] = {"1", "2", "3", "4"};
    must_put("1", "", NULL, 1);
    replica_begin_reading(replica);
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) {
        must_put_later(FIELDS[i], "other", NULL, 1);
    }
    ck_assert_int_eq(put_later("5", "", NULL, 1), STATUS_FULL);
    ck_assert(replica_remove(replica, SPAN("4"), NULL));
    must_put_later("5", "", NULL, 5);
    put_batch();
    end_reading(NOW_US, NULL);
    ck_assert_uint_eq(n_records(), N_MAX);
    ck_assert_uint_eq(by_field("5"), 5);
    ck_assert_uint_eq(replica_count(replica).n_unobeyed, 1);
}
END_TEST

/* However many shards have been put when another thread changes or removes a record, its change
 * counts, and nothing of the row that waited is left. */
START_TEST(a_change_meanwhile_takes_the_place_of_a_row_that_waits)
{
    const uint64_t read = 2;
    for (unsigned n_put = 0; n_put < 4; n_put++) {
        for (unsigned kind = 0; kind < 8; kind++) {
            const char *before = kind % 2 == 0 ? NULL : "tag";
            const bool is_removed = kind / 2 % 2 == 0;
            if (kind >= 4) {
                must_put("f", "before", before, 1);
            }
            replica_begin_reading(replica);
            must_put_later("f", "read", before, read);
            for (unsigned i = 0; i < n_put; i++) {
                (void)replica_put_batch(replica);
            }
            if (is_removed) {
                ck_assert(replica_remove(replica, SPAN("f"), &read));
            } else {
                must_put("f", "now", "tag", 3);
            }
            put_batch();
            end_reading(NOW_US, NULL);
            ck_assert_uint_eq(by_field("f"), is_removed ? 0 : 3);
            ck_assert_uint_eq(by_tag("tag"), is_removed ? 0 : 3);
            ck_assert_uint_eq(n_records(), is_removed ? 0 : 1);
            ck_assert(is_removed || replica_remove(replica, SPAN("f"), NULL));
            ck_assert(replica_is_empty(replica));
        }
    }
}
END_TEST

START_TEST(a_batch_is_due_when_it_is_small_large_or_old)
{
    char field[16];
    size_t n = 0;
    replica_set_max(replica, 100 * 1000);
    replica_begin_reading(replica);
    ck_assert(!replica_is_batch_due(replica, UINT64_MAX));
    must_put_later("f", "", NULL, 1);
    ck_assert(replica_is_batch_due(replica, NOW_US));
    for (n = 0; n < 100; n++) {
        snprintf(field, sizeof(field), "%zu", n);
        must_put_later(field, "", NULL, 1);
    }
    ck_assert(!replica_is_batch_due(replica, NOW_US + 100 * 1000));
    ck_assert(replica_is_batch_due(replica, NOW_US + 300 * 1000));
    while (!replica_is_batch_due(replica, NOW_US)) {
        ck_assert_uint_lt(n, 2000);
        snprintf(field, sizeof(field), "%zu", n++);
        must_put_later(field, "", NULL, 1);
    }
    put_batch();
    ck_assert(!replica_is_batch_due(replica, UINT64_MAX));
    ck_assert_uint_eq(n_records(), n + 1);
    end_reading(NOW_US, NULL);
    ck_assert_uint_eq(n_records(), n + 1);
}
END_TEST

START_TEST(all_records_are_replaced_at_once)
{
    struct replica_row rows[] = {
        {.field = SPAN("kept"), .value = SPAN("1"), .number = 1, .ends_us = UINT64_MAX},
        {.field = SPAN("new"), .value = SPAN("2"), .number = 2, .ends_us = END_US},
    };
    must_put("kept", "0", "tag", 7);
    must_put("gone", "0", NULL, 8);
    ck_assert_int_eq(replica_replace(replica, rows, ARRAY_LEN(rows)), STATUS_OK);
    ck_assert_uint_eq(n_records(), ARRAY_LEN(rows));
    ck_assert_uint_eq(by_field("kept"), 1);
    ck_assert_uint_eq(by_field("new"), 2);
    ck_assert_uint_eq(by_field("gone") + by_tag("tag"), 0);
    replica_expire(replica, END_US);
    ck_assert_uint_eq(n_records(), 1);
    must_put("more", "3", "tag", 3);
    ck_assert_uint_eq(by_tag("tag"), 3);
    ck_assert_int_eq(replica_replace(replica, NULL, 0), STATUS_OK);
    ck_assert(replica_is_empty(replica));
}
END_TEST

START_TEST(what_cannot_replace_all_records_changes_none)
{
    static char longest[REPLICA_TEXT_BYTES_MAX];
    struct replica_row rows[N_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rows[i] = (struct replica_row){.field = span_of(&"12345"[i], 1), .ends_us = END_US};
    }
    must_put("f", "", NULL, 7);
    ck_assert_int_eq(replica_replace(replica, rows, ARRAY_LEN(rows)), STATUS_FULL);
    ck_assert_uint_eq(by_field("f"), 7);
    rows[N_MAX - 1].value = span_of(longest, sizeof(longest));
    ck_assert_int_eq(replica_replace(replica, rows, N_MAX), STATUS_TOO_LARGE);
    ck_assert_uint_eq(by_field("f"), 7);
    rows[N_MAX - 1].value.len--;
    ck_assert_int_eq(replica_replace(replica, rows, N_MAX), STATUS_OK);
    ck_assert_uint_eq(n_records(), N_MAX);
}
END_TEST

START_TEST(texts_that_are_too_long_are_refused)
{
    static char longest[REPLICA_TEXT_BYTES_MAX + 1];
    const struct replica_row row = {
        .field = SPAN("f"),
        .value = span_of(longest, REPLICA_TEXT_BYTES_MAX - 1),
        .ends_us = END_US,
    };
    struct replica_row longer = row;
    longer.value.len++;
    ck_assert_int_eq(replica_put(replica, &longer, NOW_US), STATUS_TOO_LARGE);
    ck_assert_int_eq(replica_put(replica, &row, NOW_US), STATUS_OK);
}
END_TEST

/* --- threads --- */

enum { N_READERS = 2, N_CHANGES = 2000 };

static atomic_bool is_over;

/* Each record has the number of its value, whenever it is read. */
static void *read_all_the_time(void *unused)
{
    struct replica_reader own;
    (void)unused;
    replica_reader_init(&own, replica);
    do {
        const struct replica_entry *entry = replica_find_field(&own, SPAN("f"), NOW_US);
        uint64_t number;
        if (entry != NULL) {
            ck_assert(span_to_u64(replica_entry_value(entry), N_CHANGES, &number));
            ck_assert_uint_eq(number, entry->number);
        }
        replica_release(&own);
    } while (!atomic_load(&is_over));
    replica_reader_close(&own);
    return NULL;
}

START_TEST(readers_see_whole_records_while_they_change)
{
    pthread_t readers[N_READERS];
    atomic_store(&is_over, false);
    for (size_t i = 0; i < N_READERS; i++) {
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_all_the_time, NULL), 0);
    }
    for (unsigned i = 0; i < N_CHANGES; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%u", i);
        must_put("f", value, i % 3 == 0 ? "tag" : NULL, i);
        if (i % 5 == 0) {
            ck_assert(replica_remove(replica, SPAN("f"), NULL));
        }
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < N_READERS; i++) {
        pthread_join(readers[i], NULL);
    }
}
END_TEST

START_TEST(a_shard_is_kept_while_a_reader_uses_it)
{
    must_put("f", "before", NULL, 1);
    const struct replica_entry *entry = replica_find_field(&reader, SPAN("f"), NOW_US);
    must_put("f", "after", NULL, 2);
    ck_assert(replica_remove(replica, SPAN("f"), NULL));
    ck_assert(span_equals(replica_entry_value(entry), SPAN("before")));
    replica_release(&reader);
    replica_expire(replica, NOW_US);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/replica");
    TCase *tcase = tcase_create("replica");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_record_is_found_by_its_field_and_has_its_texts);
    tcase_add_test(tcase, a_record_with_a_tag_is_found_by_both_and_moves_with_its_tag);
    tcase_add_test(tcase, a_record_is_removed_by_its_number_only_where_it_has_that);
    tcase_add_test(tcase, a_record_without_room_is_refused_and_counted_in_each_reading);
    tcase_add_test(tcase, what_a_reading_does_not_contain_is_gone_or_lost);
    tcase_add_test(tcase, rows_that_wait_are_put_together_the_latest_of_a_field);
    tcase_add_test(tcase, a_record_that_moves_does_not_wait);
    tcase_add_test(tcase, rows_that_wait_count_for_the_maximum);
    tcase_add_test(tcase, a_change_meanwhile_takes_the_place_of_a_row_that_waits);
    tcase_add_test(tcase, a_batch_is_due_when_it_is_small_large_or_old);
    tcase_add_test(tcase, all_records_are_replaced_at_once);
    tcase_add_test(tcase, what_cannot_replace_all_records_changes_none);
    tcase_add_test(tcase, texts_that_are_too_long_are_refused);
    tcase_add_test(tcase, readers_see_whole_records_while_they_change);
    tcase_add_test(tcase, a_shard_is_kept_while_a_reader_uses_it);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

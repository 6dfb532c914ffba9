#include "admin/metrics_page.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static struct metrics_page page;

static void setup(void)
{
    metrics_page_open(&page);
}

static void teardown(void)
{
    free(page.data);
}

static void begin_anew(void)
{
    free(page.data);
    metrics_page_open(&page);
}

static void assert_page(const char *wanted)
{
    metrics_page_close(&page);
    ck_assert(!page.no_memory);
    ck_assert_uint_eq(page.len, strlen(wanted));
    ck_assert_mem_eq(page.data, wanted, page.len);
}

START_TEST(a_family_has_its_help_its_type_and_its_samples)
{
    const struct page_label labels[] = {
        {"route", SPAN("api")},
        {"status", SPAN("2xx")},
    };
    const struct page_sample most = {
        .name = "x_total", .labels = labels, .n_labels = 2, .value = UINT64_MAX};
    const struct page_sample none = {.name = "x_total", .suffix = "_y"};
    metrics_page_begin(&page, "x_total", METRIC_COUNTER, "What it is.");
    metrics_page_add(&page, &most);
    metrics_page_add(&page, &none);
    assert_page("# HELP x_total What it is.\n# TYPE x_total counter\n"
                "x_total{route=\"api\",status=\"2xx\"} 18446744073709551615\nx_total_y 0\n");
}
END_TEST

START_TEST(times_are_seconds_with_no_more_digits_than_tell_them)
{
    static const struct {
        uint64_t us;
        const char *text;
    } TIMES[] = {
        {0, "t 0\n"},
        {1, "t 0.000001\n"},
        {1000, "t 0.001\n"},
        {1500000, "t 1.5\n"},
        {60 * 1000000, "t 60\n"},
        {1000001, "t 1.000001\n"},
        {999999, "t 0.999999\n"},
        {100000, "t 0.1\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(TIMES); i++) {
        const struct page_sample sample = {.name = "t", .value = TIMES[i].us, .is_us = true};
        metrics_page_add(&page, &sample);
        assert_page(TIMES[i].text);
        begin_anew();
    }
    metrics_page_close(&page);
}
END_TEST

START_TEST(values_of_labels_are_escaped_whatever_they_are)
{
    static const struct {
        struct span value;
        const char *text;
    } VALUES[] = {
        {{"", 0}, "l{v=\"\"} 1\n"},
        {{"a\"b", 3}, "l{v=\"a\\\"b\"} 1\n"},
        {{"a\\b", 3}, "l{v=\"a\\\\b\"} 1\n"},
        {{"a\nb} 2\nx", 8}, "l{v=\"a\\\\x0ab} 2\\\\x0ax\"} 1\n"},
        {{"\0", 1}, "l{v=\"\\\\x00\"} 1\n"},
        {{"\xff\xc3", 2}, "l{v=\"\\\\xff\\\\xc3\"} 1\n"},
        {{"gr\xc3\xbc\xc3\x9f", 6}, "l{v=\"gr\xc3\xbc\xc3\x9f\"} 1\n"},
        {{"\xe2\x80\xa8", 3}, "l{v=\"\\\\xe2\\\\x80\\\\xa8\"} 1\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        const struct page_label label = {"v", VALUES[i].value};
        const struct page_sample sample = {
            .name = "l", .labels = &label, .n_labels = 1, .value = 1};
        metrics_page_add(&page, &sample);
        assert_page(VALUES[i].text);
        begin_anew();
    }
    metrics_page_close(&page);
}
END_TEST

START_TEST(a_value_of_any_length_has_its_place_and_no_more)
{
    enum { N = 3 * PAGE_LABEL_BYTES_MAX };
    static char value[N];
    memset(value, '\\', sizeof(value));
    const struct page_label label = {"v", span_of(value, sizeof(value))};
    const struct page_label labels[PAGE_LABELS_MAX] = {label, label, label, label};
    const struct page_sample sample = {
        .name = "l", .labels = labels, .n_labels = PAGE_LABELS_MAX, .value = 1};
    for (size_t i = 0; i < 100; i++) {
        metrics_page_add(&page, &sample);
    }
    metrics_page_close(&page);
    ck_assert(!page.no_memory);
    ck_assert_uint_le(page.len, 100 * PAGE_LABELS_MAX * (2 * PAGE_LABEL_BYTES_MAX + 16));
    ck_assert_uint_ge(page.len, 100 * PAGE_LABELS_MAX * 2 * PAGE_LABEL_BYTES_MAX);
}
END_TEST

START_TEST(a_page_of_many_lines_is_whole)
{
    enum { N = 20000 };
    for (size_t i = 0; i < N; i++) {
        const struct page_sample sample = {.name = "sample", .value = i % 10};
        metrics_page_add(&page, &sample);
    }
    metrics_page_close(&page);
    ck_assert(!page.no_memory);
    ck_assert_uint_eq(page.len, N * strlen("sample 0\n"));
    for (size_t i = 0; i < N; i++) {
        ck_assert_mem_eq(page.data + i * strlen("sample 0\n"), "sample ", strlen("sample "));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin/metrics_page");
    TCase *tests = tcase_create("metrics_page");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_family_has_its_help_its_type_and_its_samples);
    tcase_add_test(tests, times_are_seconds_with_no_more_digits_than_tell_them);
    tcase_add_test(tests, values_of_labels_are_escaped_whatever_they_are);
    tcase_add_test(tests, a_value_of_any_length_has_its_place_and_no_more);
    tcase_add_test(tests, a_page_of_many_lines_is_whole);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

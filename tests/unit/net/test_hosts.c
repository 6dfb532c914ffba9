#include "net/hosts.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

static struct resolver_address addresses[RESOLVER_ADDRESSES_MAX];

static const char *text_of_address(size_t i)
{
    static char buffer[INET6_ADDRSTRLEN];
    const struct sockaddr *any = &addresses[i].sockaddr.any;
    const void *bytes = any->sa_family == AF_INET
                            ? (const void *)&addresses[i].sockaddr.ipv4.sin_addr
                            : (const void *)&addresses[i].sockaddr.ipv6.sin6_addr;
    return inet_ntop(any->sa_family, bytes, buffer, sizeof(buffer));
}

/* --- find --- */

static const struct {
    const char *text;
    const char *host;
    const char *first; /* NULL: none is found */
    size_t n;
} FILES[] = {
    {"192.0.2.1 api", "api", "192.0.2.1", 1},
    {"192.0.2.1\tapi\n", "api", "192.0.2.1", 1},
    {"192.0.2.1 api\r\n", "api", "192.0.2.1", 1},
    {" \t192.0.2.1 \t a b api # and more", "api", "192.0.2.1", 1},
    {"192.0.2.1 API.Test", "api.test", "192.0.2.1", 1},
    {"192.0.2.1 api.test", "API.TEST.", "192.0.2.1", 1},
    {"192.0.2.1 api.test.", "api.test", "192.0.2.1", 1},
    {"2001:db8::1 api", "api", "2001:db8::1", 1},
    {"192.0.2.1 api\n2001:db8::1 api\n192.0.2.2 other\n192.0.2.3 x api\n", "api", "192.0.2.1", 3},
    {"192.0.2.1 api api\n", "api", "192.0.2.1", 1},
    {"", "api", NULL, 0},
    {"\n\n\n", "api", NULL, 0},
    {"192.0.2.1 other", "api", NULL, 0},
    {"192.0.2.1 apis xapi", "api", NULL, 0},
    {"#192.0.2.1 api", "api", NULL, 0},
    {"192.0.2.1 #api", "api", NULL, 0},
    {"api 192.0.2.1", "192.0.2.1", NULL, 0},
    {"192.0.2.1", "192.0.2.1", NULL, 0},
    {"192.0.2 api\n192.0.2.256 api\n", "api", NULL, 0},
    {"nonsense api\n192.0.2.7 api", "api", "192.0.2.7", 1},
    {"", "localhost", "127.0.0.1", 2},
    {"", "app.LocalHost.", "127.0.0.1", 2},
    {"192.0.2.1 localhost", "localhost", "192.0.2.1", 1},
    {"", "mylocalhost", NULL, 0},
    {"", ".", NULL, 0},
};

START_TEST(a_name_is_found_as_its_line_says)
{
    const size_t n =
        hosts_find(span_of_text(FILES[_i].text), span_of_text(FILES[_i].host), 80, addresses);
    ck_assert_uint_eq(n, FILES[_i].n);
    if (n > 0) {
        ck_assert_str_eq(text_of_address(0), FILES[_i].first);
        ck_assert_uint_eq(ntohs(addresses[0].sockaddr.ipv4.sin_port), 80);
    }
}
END_TEST

START_TEST(no_more_addresses_are_found_than_there_is_room_for)
{
    char text[RESOLVER_ADDRESSES_MAX * 32] = "";
    for (unsigned i = 0; i < RESOLVER_ADDRESSES_MAX + 1; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "192.0.2.%u api\n", i);
    }
    ck_assert_uint_eq(hosts_find(span_of_text(text), SPAN("api"), 80, addresses),
                      RESOLVER_ADDRESSES_MAX);
}
END_TEST

/* --- refresh --- */

static char path[32];
static struct hosts hosts;
static uint64_t now_us;

static void set_up(void)
{
    snprintf(path, sizeof(path), "/tmp/sluice-hosts-XXXXXX");
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    hosts = (struct hosts){.path = path};
}

static void tear_down(void)
{
    hosts_close(&hosts);
    unlink(path);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void assert_text(const char *text)
{
    now_us += HOSTS_CHECK_US;
    hosts_refresh(&hosts, now_us);
    ck_assert_uint_eq(hosts.len, strlen(text));
    ck_assert(hosts.len == 0 || memcmp(hosts.text, text, hosts.len) == 0);
}

START_TEST(the_file_is_read_again_when_it_has_changed)
{
    assert_text("");
    write_file("one\n");
    assert_text("one\n");
    const char *before = hosts.text;
    assert_text("one\n");
    ck_assert_ptr_eq(hosts.text, before);
    write_file("and two\n");
    assert_text("and two\n");
}
END_TEST

START_TEST(a_file_that_has_gone_is_an_empty_one)
{
    write_file("one\n");
    assert_text("one\n");
    unlink(path);
    assert_text("");
    write_file("back\n");
    assert_text("back\n");
}
END_TEST

START_TEST(an_unchanged_file_is_not_opened_again)
{
    char events[1024];
    const int opened = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    write_file("one\n");
    ck_assert_int_ge(inotify_add_watch(opened, path, IN_OPEN), 0);
    assert_text("one\n");
    ck_assert_int_gt(read(opened, events, sizeof(events)), 0);
    assert_text("one\n");
    ck_assert_int_eq(read(opened, events, sizeof(events)), -1);
    close(opened);
}
END_TEST

START_TEST(the_file_is_looked_for_once_a_second_at_most)
{
    assert_text("");
    write_file("one\n");
    hosts_refresh(&hosts, now_us + HOSTS_CHECK_US - 1);
    ck_assert_uint_eq(hosts.len, 0);
    assert_text("one\n");
}
END_TEST

START_TEST(a_folder_is_no_hosts_file)
{
    hosts.path = "/tmp";
    assert_text("");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/hosts");
    TCase *find = tcase_create("find");
    TCase *refresh = tcase_create("refresh");

    tcase_add_loop_test(find, a_name_is_found_as_its_line_says, 0, ARRAY_LEN(FILES));
    tcase_add_test(find, no_more_addresses_are_found_than_there_is_room_for);
    suite_add_tcase(suite, find);
    tcase_add_checked_fixture(refresh, set_up, tear_down);
    tcase_add_test(refresh, the_file_is_read_again_when_it_has_changed);
    tcase_add_test(refresh, a_file_that_has_gone_is_an_empty_one);
    tcase_add_test(refresh, an_unchanged_file_is_not_opened_again);
    tcase_add_test(refresh, the_file_is_looked_for_once_a_second_at_most);
    tcase_add_test(refresh, a_folder_is_no_hosts_file);
    suite_add_tcase(suite, refresh);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

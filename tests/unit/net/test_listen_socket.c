#include "net/listen_socket.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char folder[32];
static char path[64];
static struct unix_listener listener;

static void set_up(void)
{
    snprintf(folder, sizeof(folder), "/tmp/sluice-unix-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/s.sock", folder);
    listener = (struct unix_listener){.fd = -1};
}

static void tear_down(void)
{
    unix_listener_close(&listener);
    unlink(path);
    rmdir(folder);
}

static void open_ours(void)
{
    ck_assert_int_eq(unix_listener_open(&listener, span_of_text(path), 0600), STATUS_OK);
}

/* A client's connection; -1: errno says why not. */
static int connect_to(void)
{
    const struct sockaddr_un address = unix_socket_address(span_of_text(path));
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool exists(void)
{
    return access(path, F_OK) == 0;
}

START_TEST(clients_connect_and_every_share_accepts)
{
    int share;
    open_ours();
    ck_assert_int_eq(unix_listener_share(&listener, &share), STATUS_OK);
    const int client = connect_to();
    ck_assert_int_ge(client, 0);
    const int accepted = accept(share, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    close(accepted);
    close(client);
    close(share);
}
END_TEST

START_TEST(the_file_has_the_mode_that_was_asked_for_whatever_the_umask)
{
    static const mode_t MODES[] = {0600, 0660, 0666, 0777};
    for (size_t i = 0; i < ARRAY_LEN(MODES); i++) {
        struct stat file;
        const mode_t mask = umask(0077);
        ck_assert_int_eq(unix_listener_open(&listener, span_of_text(path), MODES[i]), STATUS_OK);
        umask(mask);
        ck_assert_int_eq(stat(path, &file), 0);
        ck_assert_uint_eq(file.st_mode & 0777, MODES[i]);
        unix_listener_close(&listener);
    }
}
END_TEST

START_TEST(closing_removes_the_file_once)
{
    open_ours();
    ck_assert(exists());
    unix_listener_close(&listener);
    ck_assert(!exists());
    unix_listener_close(&listener);
}
END_TEST

START_TEST(who_shares_the_socket_still_accepts_what_is_queued)
{
    int share;
    open_ours();
    ck_assert_int_eq(unix_listener_share(&listener, &share), STATUS_OK);
    const int client = connect_to();
    unix_listener_close(&listener);
    const int accepted = accept(share, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    close(accepted);
    close(client);
    close(share);
}
END_TEST

START_TEST(a_file_that_somebody_listens_on_is_left_alone)
{
    struct unix_listener other;
    open_ours();
    ck_assert_int_eq(unix_listener_open(&other, span_of_text(path), 0600), STATUS_IN_USE);
    ck_assert_int_eq(other.fd, -1);
    ck_assert(exists());
    const int client = connect_to();
    ck_assert_int_ge(client, 0);
    close(client);
}
END_TEST

START_TEST(a_file_of_a_socket_that_nobody_listens_on_is_replaced)
{
    open_ours();
    close(listener.fd); /* as a process that died leaves it */
    ck_assert(exists());
    open_ours();
    const int client = connect_to();
    ck_assert_int_ge(client, 0);
    close(client);
}
END_TEST

START_TEST(a_file_that_is_no_socket_is_left_alone)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_int_eq(unix_listener_open(&listener, span_of_text(path), 0600), STATUS_IO);
    ck_assert_int_eq(errno, ENOTSOCK);
    ck_assert(exists());
}
END_TEST

START_TEST(what_another_has_put_in_its_place_is_left_alone)
{
    struct unix_listener other;
    open_ours();
    unlink(path);
    ck_assert_int_eq(unix_listener_open(&other, span_of_text(path), 0600), STATUS_OK);
    unix_listener_close(&listener);
    ck_assert(exists());
    unix_listener_close(&other);
    ck_assert(!exists());
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_told)
{
    ck_assert_int_eq(unix_listener_open(&listener, SPAN("/nowhere/s.sock"), 0600), STATUS_IO);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* --- another user who can write the folder --- */

static const char *swapped_for; /* by the next bind(), for what it has made; NULL: nothing is */

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
    int (*real)(int, const struct sockaddr *, socklen_t);
    void *symbol = dlsym(RTLD_NEXT, "bind");
    memcpy(&real, &symbol, sizeof(real));
    const int result = real(fd, address.__sockaddr__, bytes);
    if (swapped_for != NULL && result == 0) {
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(symlink(swapped_for, path), 0);
        swapped_for = NULL;
    }
    return result;
}

START_TEST(a_link_that_takes_its_place_is_not_followed)
{
    char victim[80];
    struct stat file;
    snprintf(victim, sizeof(victim), "%s/victim", folder);
    const int fd = open(victim, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    swapped_for = victim;
    ck_assert_int_eq(unix_listener_open(&listener, span_of_text(path), 0666), STATUS_IO);
    ck_assert_int_eq(errno, ENOTSOCK);
    ck_assert_int_eq(fstat(fd, &file), 0);
    ck_assert_uint_eq(file.st_mode & 0777, 0600);
    ck_assert_int_eq(lstat(path, &file), 0); /* not ours to remove */
    close(fd);
    unlink(victim);
}
END_TEST

START_TEST(the_longest_path_fits)
{
    char longest[sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1];
    memset(longest, 'a', sizeof(longest));
    const struct sockaddr_un address = unix_socket_address(span_of(longest, sizeof(longest)));
    ck_assert_uint_eq(strlen(address.sun_path), sizeof(longest));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net/listen_socket");
    TCase *all = tcase_create("unix_socket");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, clients_connect_and_every_share_accepts);
    tcase_add_test(all, the_file_has_the_mode_that_was_asked_for_whatever_the_umask);
    tcase_add_test(all, closing_removes_the_file_once);
    tcase_add_test(all, who_shares_the_socket_still_accepts_what_is_queued);
    tcase_add_test(all, a_file_that_somebody_listens_on_is_left_alone);
    tcase_add_test(all, a_file_of_a_socket_that_nobody_listens_on_is_replaced);
    tcase_add_test(all, a_file_that_is_no_socket_is_left_alone);
    tcase_add_test(all, what_another_has_put_in_its_place_is_left_alone);
    tcase_add_test(all, a_folder_that_is_not_there_is_told);
    tcase_add_test(all, a_link_that_takes_its_place_is_not_followed);
    tcase_add_test(all, the_longest_path_fits);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

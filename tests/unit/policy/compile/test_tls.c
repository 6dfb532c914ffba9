#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "policy/loader.h"
#include "tls/certificate.h"
#include "tls/client_hello.h"

#define DAY_S INT64_C(86400)

static char folder[64];
static struct loader_files files;
static struct diags diags;

static const char *path_of(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, struct span bytes)
{
    char path[128];
    FILE *file = fopen(path_of(name, path), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
    (void)fclose(file);
}

/* NAME.pem and NAME.key, valid for @days from @begin_s. */
static void write_pair_of(const char *name, const struct span *names, size_t n, int64_t begin_s,
                          unsigned days)
{
    char file[32];
    struct self_signed made;
    size_t bad;
    ck_assert_int_eq(self_signed_make(names, n, days, begin_s, &made, &bad), STATUS_OK);
    (void)snprintf(file, sizeof(file), "%s.pem", name);
    write_file(file, made.cert);
    (void)snprintf(file, sizeof(file), "%s.key", name);
    write_file(file, made.key);
    self_signed_free(&made);
}

static int64_t now_s(void)
{
    return (int64_t)(clock_wall_us() / 1000000);
}

static void write_pair(const char *name, const char *host)
{
    const struct span names[] = {span_of_text(host)};
    write_pair_of(name, names, 1, now_s(), 90);
}

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    (void)umask(077); /* keys that others may read are warned of */
    (void)snprintf(folder, sizeof(folder), "/tmp/test_tls.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    files = (struct loader_files){.n_includes = 0};
    diags = (struct diags){.file = NULL};
    write_pair("a", "a.test");
    write_pair("b", "b.test");
}

static void tear_down(void)
{
    static const char *const NAMES[] = {"a.pem", "a.key",       "b.pem",
                                        "b.key", "policy.yaml", "secrets"};
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        (void)remove(path_of(NAMES[i], path));
    }
    (void)rmdir(folder);
    loader_files_free(&files);
    diags_close(&diags);
}

/* The policy with @tls, read to take the place of @in_force; NULL: it has errors. */
static struct policy *serve(const char *tls, const struct policy *in_force)
{
    char yaml[1024];
    char path[128];
    struct policy *policy = NULL;
    const int len = snprintf(yaml, sizeof(yaml),
                             "listen: {address: 127.0.0.1:0, tls: %s}\n"
                             "routes: [{respond: {status: 204}}]\n",
                             tls);
    write_file("policy.yaml", span_of(yaml, (size_t)len));
    diags_close(&diags);
    diags_init(&diags, "policy.yaml");
    const enum status status =
        loader_load_file_to_serve(path_of("policy.yaml", path), in_force, &files, &policy, &diags);
    ck_assert(status == STATUS_OK || (status == STATUS_INVALID && policy == NULL));
    return policy;
}

static struct policy *serve_well(const char *tls, const struct policy *in_force)
{
    struct policy *policy = serve(tls, in_force);
    if (policy == NULL) {
        diags_print(&diags, stderr);
    }
    ck_assert_ptr_nonnull(policy);
    return policy;
}

static const struct tls_server_config *config_of(const struct policy *policy)
{
    return policy->listeners[0].tls_config;
}

#define SHORT "{cert: a.pem, key: a.key}"

START_TEST(a_short_form_is_one_entry_with_the_names_of_its_certificate)
{
    struct policy *policy = serve_well(SHORT, NULL);
    const struct tls_section *section = policy->listeners[0].tls;
    const struct tls_server_config *config = config_of(policy);
    ck_assert_uint_eq(section->n_entries, 1);
    ck_assert_str_eq(section->entries[0].certs[0].data, "a.pem");
    ck_assert_int_eq(section->min_version, TLS_VERSION_1_2);
    ck_assert_uint_eq(config->n_entries, 1);
    ck_assert_uint_eq(config->entries[0].n_certificates, 1);
    ck_assert_uint_eq(config->entries[0].n_names, 1);
    ck_assert(span_equals(config->entries[0].names[0], SPAN("a.test")));
    ck_assert_uint_eq(server_names_find(config->names, SPAN("A.test")), 0);
    ck_assert_int_eq(config->tickets, TLS_TICKETS_PROCESS);
    ck_assert_ptr_nonnull(config->chain);
    ck_assert_uint_eq(config->alpn, ALPN_HTTP_1_1 | ALPN_H2);
    ck_assert(!config->refuses_unknown_names);
    policy_free(policy);
}
END_TEST

START_TEST(names_that_are_said_take_the_place_of_those_of_the_certificate_and_are_sorted)
{
    struct policy *policy =
        serve_well("{certificates: [{cert: a.pem, key: a.key}, {cert: b.pem, key: b.key, names: "
                   "[Z.test, b.test, \"*.B.test\"]}], unknown_name: refuse, min_version: 1.3}",
                   NULL);
    const struct tls_server_config *config = config_of(policy);
    const struct tls_entry_config *entry = &config->entries[1];
    ck_assert_uint_eq(entry->n_names, 3);
    ck_assert(span_equals(entry->names[0], SPAN("*.b.test")));
    ck_assert(span_equals(entry->names[1], SPAN("b.test")));
    ck_assert(span_equals(entry->names[2], SPAN("z.test")));
    ck_assert_uint_eq(server_names_find(config->names, SPAN("x.b.test")), 1);
    ck_assert(config->refuses_unknown_names);
    ck_assert_int_eq(config->min_version, TLS_VERSION_1_3);
    policy_free(policy);
}
END_TEST

START_TEST(only_what_serves_and_checks_reads_the_files)
{
    char path[128];
    struct policy *policy;
    policy_free(serve_well(SHORT, NULL));
    (void)remove(path_of("a.key", path));
    ck_assert_int_eq(loader_load_file(path_of("policy.yaml", path), &policy, &diags), STATUS_OK);
    ck_assert_ptr_nonnull(policy->listeners[0].tls);
    ck_assert_ptr_null(policy->listeners[0].tls_config);
    policy_free(policy);
    ck_assert_ptr_null(serve(SHORT, NULL));
    ck_assert_str_eq(diags.items[0].text, "a.key: cannot be opened: No such file or directory");
}
END_TEST

/* A restart at night must not end an API because of one certificate. */
START_TEST(an_expired_certificate_serves_from_the_start_but_replaces_no_other)
{
    const struct span names[] = {SPAN("a.test")};
    struct policy *valid = serve_well(SHORT, NULL);
    ck_assert_uint_eq(diags.n_items, 0);
    write_pair_of("a", names, 1, now_s() - 20 * DAY_S, 10);
    ck_assert_ptr_null(serve(SHORT, valid));
    ck_assert_uint_eq(diags.n_errors, 1);
    ck_assert_ptr_nonnull(strstr(diags.items[0].text, "a.pem: the certificate has expired on "));

    struct policy *expired = serve_well(SHORT, NULL);
    ck_assert_uint_eq(diags.n_items, 1);
    ck_assert_str_eq(diags.items[0].name, "certificate-time");
    struct policy *again = serve_well(SHORT, expired);
    ck_assert_uint_eq(diags.n_items, 1);
    policy_free(again);
    policy_free(expired);
    policy_free(valid);
}
END_TEST

START_TEST(a_certificate_that_ends_soon_is_warned_of)
{
    const struct span names[] = {SPAN("a.test")};
    write_pair_of("a", names, 1, now_s(), 13);
    policy_free(serve_well(SHORT, NULL));
    ck_assert_uint_eq(diags.n_items, 1);
    ck_assert_str_eq(diags.items[0].name, "certificate-time");
    write_pair_of("a", names, 1, now_s(), 15);
    policy_free(serve_well(SHORT, NULL));
    ck_assert_uint_eq(diags.n_items, 0);
}
END_TEST

START_TEST(the_process_keeps_its_secrets_of_tickets)
{
    struct policy *one = serve_well(SHORT, NULL);
    write_pair("a", "a.test");
    struct policy *other = serve_well(SHORT, one);
    ck_assert_mem_eq(&config_of(one)->secrets, &config_of(other)->secrets,
                     sizeof(struct ticket_secrets));
    policy_free(one);
    policy_free(other);
}
END_TEST

START_TEST(shared_secrets_are_those_of_the_file)
{
    char text[3 * 65];
    memset(text, 'a', 64);
    text[64] = '\n';
    memset(text + 65, 'b', 64);
    write_file("secrets", span_of(text, 129));
    struct policy *policy = serve_well(
        "{cert: a.pem, key: a.key, tickets: shared}}\ntls_tickets: {secret_file: secrets", NULL);
    ck_assert_uint_eq(config_of(policy)->secrets.n, 2);
    ck_assert_uint_eq(config_of(policy)->secrets.secrets[0][0], 0xaa);
    ck_assert_uint_eq(config_of(policy)->secrets.secrets[1][31], 0xbb);
    ck_assert_uint_eq(files.n_certificates, 3);
    policy_free(policy);
}
END_TEST

START_TEST(entries_with_the_same_rules_for_clients_have_the_same_digest)
{
    struct policy *policy = serve_well(
        "{certificates: [{cert: a.pem, key: a.key}, {cert: b.pem, key: b.key, names: b.test}, "
        "{cert: b.pem, key: b.key, names: c.test, client: require, client_ca: a.pem}, "
        "{cert: b.pem, key: b.key, names: d.test, client: optional, client_ca: a.pem}, "
        "{cert: b.pem, key: b.key, names: e.test, client: require, client_ca: b.pem}, "
        "{cert: b.pem, key: b.key, names: f.test, client: require, client_ca: a.pem}]}",
        NULL);
    const struct tls_entry_config *entries = config_of(policy)->entries;
    ck_assert_mem_eq(entries[0].client_digest, entries[1].client_digest, TLS_DIGEST_BYTES);
    ck_assert_mem_eq(entries[2].client_digest, entries[5].client_digest, TLS_DIGEST_BYTES);
    for (size_t i = 1; i < 5; i++) {
        for (size_t j = i + 1; j < 5; j++) {
            ck_assert_mem_ne(entries[i].client_digest, entries[j].client_digest, TLS_DIGEST_BYTES);
        }
    }
    ck_assert_uint_eq(entries[2].n_client_cas, 1);
    policy_free(policy);
}
END_TEST

/* So that the next change of a file is another try. */
START_TEST(files_are_known_also_after_an_error_and_tell_of_changes)
{
    ck_assert_ptr_null(serve("{cert: a.pem, key: b.key}", NULL));
    ck_assert_str_eq(
        diags.items[0].text,
        "b.key: this key is not the certificate's in a.pem: both must be of one issue");
    ck_assert_uint_eq(files.n_certificates, 2);
    ck_assert_uint_eq(loader_files_look(&files).certificates, files.read.certificates);
    char path[128];
    (void)remove(path_of("b.key", path));
    const uint64_t gone = loader_files_look(&files).certificates;
    ck_assert_uint_ne(gone, files.read.certificates);
    write_pair("b", "b.test");
    ck_assert_uint_ne(loader_files_look(&files).certificates, gone);
    ck_assert_uint_ne(loader_files_look(&files).certificates, files.read.certificates);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/compile_tls");
    TCase *tcase = tcase_create("tls");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_short_form_is_one_entry_with_the_names_of_its_certificate);
    tcase_add_test(tcase,
                   names_that_are_said_take_the_place_of_those_of_the_certificate_and_are_sorted);
    tcase_add_test(tcase, only_what_serves_and_checks_reads_the_files);
    tcase_add_test(tcase, an_expired_certificate_serves_from_the_start_but_replaces_no_other);
    tcase_add_test(tcase, a_certificate_that_ends_soon_is_warned_of);
    tcase_add_test(tcase, the_process_keeps_its_secrets_of_tickets);
    tcase_add_test(tcase, shared_secrets_are_those_of_the_file);
    tcase_add_test(tcase, entries_with_the_same_rules_for_clients_have_the_same_digest);
    tcase_add_test(tcase, files_are_known_also_after_an_error_and_tell_of_changes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

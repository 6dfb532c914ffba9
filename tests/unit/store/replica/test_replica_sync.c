/* Bans in a real Redis: set by one process, known to another, whatever
 * becomes of Redis meanwhile. */

#include "store/replica_sync.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/text.h"
#include "store/ban_change.h"
#include "store/redis_process.h"
#include "support/iterations.h"
#include "support/redis_client.h"
#include "support/redis_server.h"

#define HASH "000102030405060708090a0b0c0d0e0f"

static const struct span SECRET = {"secret", 6};

/* A process without workers: what it knows, and who keeps it so. */
struct proxy {
    struct redis_process process;
    struct bans *bans;
    struct bans_view view;
    struct replica_sync *sync;
};

static struct redis_server server;
static struct loop *loop;
static struct proxy proxies[2];

static struct redis_store_options options_of(struct proxy *proxy)
{
    return (struct redis_store_options){
        .unix_path = span_of_text(server.socket_path),
        .prefix = SPAN("test"),
        .deadline_us = 2 * 1000 * 1000,
        .process = &proxy->process,
    };
}

static struct replica_sync_options sync_options_of(struct proxy *proxy)
{
    return (struct replica_sync_options){
        .redis = options_of(proxy),
        .table = &BANS_TABLE,
        .replica = bans_replica(proxy->bans),
        .context = proxy->bans,
    };
}

static void open_proxy(struct proxy *proxy)
{
    ck_assert_int_eq(redis_process_init(&proxy->process), STATUS_OK);
    ck_assert_int_eq(bans_new(1000, &proxy->bans), STATUS_OK);
    bans_view_init(&proxy->view, proxy->bans);
    const struct replica_sync_options options = sync_options_of(proxy);
    ck_assert_int_eq(replica_sync_new(loop, &options, &proxy->sync), STATUS_OK);
}

static void close_proxy(struct proxy *proxy)
{
    replica_sync_free(proxy->sync);
    bans_view_close(&proxy->view);
    bans_free(proxy->bans);
    redis_process_close(&proxy->process);
}

static void setup(void)
{
    server = (struct redis_server){0};
    redis_server_start(&server);
    loop = iterations_new_loop();
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        open_proxy(&proxies[i]);
    }
}

static void teardown(void)
{
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        close_proxy(&proxies[i]);
    }
    loop_free(loop);
    redis_server_stop(&server);
}

static bool finds(struct proxy *proxy, const char *identity, enum ban_kind wanted)
{
    struct ban_found found;
    return bans_view_if_any(&proxy->view) != NULL &&
           bans_view_find(&proxy->view, SPAN("a"), span_of_text(identity), SECRET,
                          clock_monotonic_us(), &found) &&
           found.kind == wanted;
}

static void await_found(struct proxy *proxy, const char *identity, enum ban_kind wanted, bool found)
{
    const uint64_t until_us = clock_monotonic_us() + 20 * 1000 * 1000;
    while (finds(proxy, identity, wanted) != found) {
        ck_assert_msg(clock_monotonic_us() < until_us, "%s: %d", identity, found);
        iterations_once(loop);
    }
}

/* A store of the loop that asks, as an operator's side has it. */
static struct store *new_store(void)
{
    struct redis_store_options options = options_of(&proxies[0]);
    struct store *store;
    ck_assert_int_eq(redis_store_new(loop, &options, &store), STATUS_OK);
    return store;
}

static struct store *open_store(void)
{
    struct store *store = new_store();
    while (!redis_store_is_up(store)) {
        iterations_once(loop);
    }
    return store;
}

static void note_done(struct table_change *change)
{
    *(bool *)change->context = true;
}

static enum status change(struct store *store, struct ban_change *wanted, const char *identity)
{
    bool is_done = false;
    wanted->bans = proxies[0].bans;
    wanted->change.store = store;
    wanted->change.prefix = SPAN("test");
    wanted->ban.limit = SPAN("a");
    wanted->ban.identity = span_of_text(identity);
    wanted->ban.by = SPAN("alice");
    wanted->ban.reason = SPAN("asks too often");
    wanted->change.on_done = note_done;
    wanted->change.context = &is_done;
    hash_identity(SECRET, wanted->ban.identity, wanted->ban.hash);
    if (ban_change_start(wanted) == STORE_PENDING) {
        iterations_until(loop, &is_done);
    }
    return wanted->change.status;
}

START_TEST(what_one_sets_all_know_and_what_it_lifts_nobody_does)
{
    struct store *store = open_store();
    struct ban_change ban = {.change.for_ms = 60000};
    ck_assert_int_eq(change(store, &ban, "{x}"), STATUS_OK);
    ck_assert(finds(&proxies[0], "{x}", BAN_REFUSES));
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    struct ban_change exempt = {.change.for_ms = 60000, .ban.kind = BAN_EXEMPTS};
    ck_assert_int_eq(change(store, &exempt, "{x}"), STATUS_OK);
    await_found(&proxies[1], "{x}", BAN_EXEMPTS, true);
    struct ban_change unban = {.change.is_removal = true};
    ck_assert_int_eq(change(store, &unban, "{x}"), STATUS_NOT_FOUND);
    struct ban_change unexempt = {.change.is_removal = true, .ban.kind = BAN_EXEMPTS};
    ck_assert_int_eq(change(store, &unexempt, "{x}"), STATUS_OK);
    await_found(&proxies[1], "{x}", BAN_EXEMPTS, false);
    await_found(&proxies[0], "{x}", BAN_EXEMPTS, false);
    store_free(store);
}
END_TEST

START_TEST(a_change_waits_for_the_first_connection_and_fails_without_one)
{
    struct store *store = new_store();
    struct ban_change ban = {.change.for_ms = 60000};
    ck_assert_int_eq(change(store, &ban, "{x}"), STATUS_OK);
    store_free(store);
    redis_server_kill(&server);
    store = new_store();
    struct ban_change late = {.change.for_ms = 60000};
    ck_assert_int_eq(change(store, &late, "{y}"), STATUS_UNREACHABLE);
    ck_assert_str_eq(late.change.fault, "refused");
    ck_assert(!late.change.may_be_made);
    store_free(store);
    redis_server_restart(&server);
}
END_TEST

START_TEST(what_is_over_is_refused_and_what_ends_is_gone_everywhere)
{
    struct store *store = open_store();
    struct ban_change over = {.ban.until_ms = 1};
    ck_assert_int_eq(change(store, &over, "{x}"), STATUS_INVALID);
    struct ban_change brief = {.change.for_ms = 400};
    ck_assert_int_eq(change(store, &brief, "{x}"), STATUS_OK);
    ck_assert_uint_gt(brief.ban.until_ms, 0);
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    await_found(&proxies[1], "{x}", BAN_REFUSES, false);
    await_found(&proxies[0], "{x}", BAN_REFUSES, false);
    store_free(store);
}
END_TEST

START_TEST(there_are_no_more_than_the_maximum_and_those_that_ended_make_room)
{
    struct store *store = open_store();
    struct ban_change brief = {.change.for_ms = 30};
    struct ban_change second = {.change.for_ms = 60000};
    bans_set_max(proxies[0].bans, 1);
    ck_assert_int_eq(change(store, &brief, "{x}"), STATUS_OK);
    iterations_for(loop, 40 * 1000);
    ck_assert_int_eq(change(store, &second, "{y}"), STATUS_OK);
    struct ban_change third = {.change.for_ms = 60000};
    ck_assert_int_eq(change(store, &third, "{z}"), STATUS_FULL);
    ck_assert_int_eq(change(store, &second, "{y}"), STATUS_OK);
    store_free(store);
}
END_TEST

static void make_all_read(void)
{
    redis_server_command(&server, "CLIENT KILL TYPE normal SKIPME yes");
    iterations_for(loop, 400 * 1000);
}

START_TEST(what_was_known_holds_while_redis_is_away_and_is_set_again_if_it_is_lost)
{
    struct store *store = open_store();
    struct ban_change ban = {.change.for_ms = 60000};
    ck_assert_int_eq(change(store, &ban, "{x}"), STATUS_OK);
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    make_all_read(); /* proxy 0 reads the ban, too, and of which hash it is */
    redis_server_kill(&server);
    while (redis_store_is_up(store)) {
        iterations_once(loop);
    }
    struct ban_change lost = {.change.for_ms = 60000};
    ck_assert_int_ne(change(store, &lost, "{y}"), STATUS_OK);
    ck_assert(finds(&proxies[1], "{x}", BAN_REFUSES));
    redis_server_restart(&server);
    redis_server_command(&server, "HSET test:bans a:" HASH " garbage");
    redis_server_command(&server, "PEXPIRE test:bans 60000");
    /* Redis has lost it: one who knows nothing learns it from there again. */
    close_proxy(&proxies[1]);
    open_proxy(&proxies[1]);
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    ck_assert(finds(&proxies[0], "{x}", BAN_REFUSES));
    while (!redis_store_is_up(store)) {
        iterations_once(loop);
    }
    struct ban_change again = {.change.for_ms = 60000};
    ck_assert_int_eq(change(store, &again, "{y}"), STATUS_OK);
    await_found(&proxies[1], "{y}", BAN_REFUSES, true);
    store_free(store);
}
END_TEST

START_TEST(what_is_lifted_does_not_come_back_the_last_one_either_and_after_a_loss)
{
    struct store *store = open_store();
    struct ban_change ban = {.change.for_ms = 60000};
    struct ban_change other = {.change.for_ms = 60000};
    struct ban_change unban = {.change.is_removal = true};
    ck_assert_int_eq(change(store, &ban, "{x}"), STATUS_OK);
    ck_assert_int_eq(change(store, &other, "{y}"), STATUS_OK);
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    await_found(&proxies[1], "{y}", BAN_REFUSES, true);
    ck_assert_int_eq(change(store, &unban, "{x}"), STATUS_OK);
    await_found(&proxies[1], "{x}", BAN_REFUSES, false);
    redis_server_command(&server, "DEL test:bans");
    make_all_read();
    close_proxy(&proxies[1]);
    open_proxy(&proxies[1]);
    await_found(&proxies[1], "{y}", BAN_REFUSES, true);
    ck_assert(!finds(&proxies[1], "{x}", BAN_REFUSES));
    ck_assert_int_eq(change(store, &unban, "{y}"), STATUS_OK);
    await_found(&proxies[1], "{y}", BAN_REFUSES, false);
    make_all_read();
    ck_assert_uint_eq(bans_count(proxies[0].bans).n + bans_count(proxies[1].bans).n, 0);
    store_free(store);
}
END_TEST

START_TEST(many_changes_at_once_are_all_known)
{
    enum { MANY = 500 };
    static struct ban_change changes[MANY];
    static char identities[MANY][16];
    struct store *store = open_store();
    for (size_t i = 0; i < MANY; i++) {
        snprintf(identities[i], sizeof(identities[i]), "{%zu}", i);
        changes[i] = (struct ban_change){.change.for_ms = 60000};
        ck_assert_int_eq(change(store, &changes[i], identities[i]), STATUS_OK);
    }
    for (size_t i = 0; i < MANY; i++) {
        await_found(&proxies[1], identities[i], BAN_REFUSES, true);
    }
    ck_assert_uint_eq(bans_count(proxies[1].bans).n, MANY);
    store_free(store);
}
END_TEST

START_TEST(a_silent_redis_is_left_and_what_changed_meanwhile_is_read)
{
    struct store *store = open_store();
    struct ban_change ban = {.change.for_ms = 60000};
    ck_assert_int_eq(change(store, &ban, "{x}"), STATUS_OK);
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    redis_server_pause(&server);
    struct ban_change late = {.change.for_ms = 60000};
    ck_assert_int_ne(change(store, &late, "{y}"), STATUS_OK);
    ck_assert(late.change.may_be_made);
    redis_server_resume(&server);
    await_found(&proxies[1], "{y}", BAN_REFUSES, true);
    store_free(store);
}
END_TEST

/* --- a user who may not subscribe: as without a subscription as over TLS --- */

/* How often Redis was sent @command. */
static unsigned long n_sent(redisContext *admin, const char *command)
{
    char name[64];
    unsigned long n = 0;
    snprintf(name, sizeof(name), "cmdstat_%s:calls=", command);
    redisReply *reply = redisCommand(admin, "INFO commandstats");
    ck_assert_ptr_nonnull(reply);
    const char *at = strstr(reply->str, name);
    if (at != NULL) {
        n = strtoul(at + strlen(name), NULL, 10);
    }
    freeReplyObject(reply);
    return n;
}

static void deafen(struct proxy *proxy)
{
    redis_server_command(&server, "ACL SETUSER deaf on >pw ~* +@all -subscribe");
    close_proxy(proxy);
    ck_assert_int_eq(redis_process_init(&proxy->process), STATUS_OK);
    ck_assert_int_eq(bans_new(1000, &proxy->bans), STATUS_OK);
    bans_view_init(&proxy->view, proxy->bans);
    struct replica_sync_options options = sync_options_of(proxy);
    options.redis.user = SPAN("deaf");
    options.redis.password = SPAN("pw");
    ck_assert_int_eq(replica_sync_new(loop, &options, &proxy->sync), STATUS_OK);
}

static void await_sent(redisContext *admin, const char *command, unsigned long n)
{
    const uint64_t until_us = clock_monotonic_us() + 20 * 1000 * 1000;
    while (n_sent(admin, command) < n) {
        ck_assert_msg(clock_monotonic_us() < until_us, "%s", command);
        iterations_for(loop, 50 * 1000);
    }
}

START_TEST(without_a_subscription_all_is_read_when_the_version_is_another)
{
    struct store *store = open_store();
    struct ban_change ban = {.change.for_ms = 60000};
    struct ban_change unban = {.change.is_removal = true};
    redisContext *admin = redis_server_connect(&server);
    ck_assert_int_eq(change(store, &ban, "{x}"), STATUS_OK);
    deafen(&proxies[1]);
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    const unsigned long n_scans = n_sent(admin, "hscan");
    const unsigned long n_sent_before = n_sent(admin, "hget");
    await_sent(admin, "hget", n_sent_before + 8);
    ck_assert_uint_le(n_sent(admin, "hscan") - n_scans, 2); /* each reads all in ten seconds */
    ck_assert_int_eq(change(store, &unban, "{x}"), STATUS_OK);
    await_found(&proxies[1], "{x}", BAN_REFUSES, false);
    ck_assert_int_eq(change(store, &ban, "{y}"), STATUS_OK);
    await_found(&proxies[1], "{y}", BAN_REFUSES, true);
    redis_server_command(&server, "DEL test:bans"); /* and all is restored */
    await_sent(admin, "hscan", n_sent(admin, "hscan") + 2);
    ck_assert(finds(&proxies[1], "{y}", BAN_REFUSES));
    redisFree(admin);
    store_free(store);
}
END_TEST

/* --- other programs --- */

#define RAW "ban 9000000000000 1 - {x} raw"

START_TEST(what_another_program_writes_is_known_by_its_message_or_its_version)
{
    char command[256];
    uint8_t hash[HASH_IDENTITY_BYTES];
    char digits[2 * HASH_IDENTITY_BYTES + 1] = "";
    struct text text = text_of(digits, sizeof(digits) - 1);
    hash_identity(SECRET, SPAN("{x}"), hash);
    text_add_hex(&text, hash, sizeof(hash));
    iterations_for(loop, 300 * 1000); /* both have read the table, which is empty */
    redisContext *admin = redis_server_connect(&server);
    const unsigned long n_scans = n_sent(admin, "hscan");
    redis_server_command(&server, "HINCRBY test:bans version 1"); /* no message: it is polled */
    await_sent(admin, "hscan", n_scans + 2);
    iterations_for(loop, 300 * 1000);
    const unsigned long n_read = n_sent(admin, "hscan");
    const uint64_t start_us = clock_monotonic_us();
    freeReplyObject(redisCommand(admin, "HSET test:bans a:%s %s version 2", digits, RAW));
    freeReplyObject(redisCommand(admin, "PUBLISH test:changes other")); /* of no table */
    snprintf(command, sizeof(command), "ban 2 a:%s", digits);
    freeReplyObject(redisCommand(admin, "PUBLISH test:changes %s", command));
    await_found(&proxies[0], "{x}", BAN_REFUSES, true);
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    ck_assert_uint_lt(clock_monotonic_us() - start_us, 900 * 1000);
    ck_assert_uint_eq(n_sent(admin, "hscan"), n_read); /* the field alone was read */
    redis_server_command(&server, "PEXPIRE test:bans 60000");
    redisFree(admin);
}
END_TEST

START_TEST(a_poll_is_one_small_command_a_second)
{
    redisContext *admin = redis_server_connect(&server);
    iterations_for(loop, 500 * 1000);
    redis_server_command(&server, "CONFIG RESETSTAT");
    iterations_for(loop, 3 * 1000 * 1000);
    ck_assert_uint_ge(n_sent(admin, "hget"), 4); /* two processes */
    ck_assert_uint_le(n_sent(admin, "hget"), 8);
    ck_assert_uint_eq(n_sent(admin, "eval"), 0);
    redisFree(admin);
}
END_TEST

/* --- what cannot be read --- */

START_TEST(what_cannot_be_read_is_asked_for_once_a_second_whatever_messages_come)
{
    enum { SECONDS = 3 };
    struct store *store = open_store();
    struct ban_change ban = {.change.for_ms = 60000};
    redisContext *admin = redis_server_connect(&server);
    freeReplyObject(redisCommand(admin, "SET test:bans text PX 60000"));
    freeReplyObject(redisCommand(admin, "PUBLISH test:changes %s", "ban 0"));
    iterations_for(loop, 300 * 1000);
    const unsigned long n_scans = n_sent(admin, "eval");
    for (int i = 0; i < SECONDS * 20; i++) {
        freeReplyObject(redisCommand(admin, "PUBLISH test:changes %s", "ban 0"));
        iterations_for(loop, 50 * 1000);
    }
    const unsigned long n = n_sent(admin, "eval") - n_scans;
    ck_assert_uint_ge(n, ARRAY_LEN(proxies) * (SECONDS - 2)); /* on a machine that is busy */
    ck_assert_uint_le(n, ARRAY_LEN(proxies) * (SECONDS + 2));
    freeReplyObject(redisCommand(admin, "DEL test:bans"));
    ck_assert_int_eq(change(store, &ban, "{x}"), STATUS_OK);
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    iterations_for(loop, 300 * 1000);
    const uint64_t start_us = clock_monotonic_us();
    struct ban_change next = {.change.for_ms = 60000};
    ck_assert_int_eq(change(store, &next, "{y}"), STATUS_OK);
    await_found(&proxies[1], "{y}", BAN_REFUSES, true);
    ck_assert_uint_lt(clock_monotonic_us() - start_us, 900 * 1000); /* by its message again */
    redisFree(admin);
    store_free(store);
}
END_TEST

/* --- large tables --- */

START_TEST(a_change_is_read_while_many_records_are)
{
    enum { MANY = 20 * 1000 };
    static const char FILL[] = "for i = 1, 20000 do redis.call('HSET', KEYS[1], string.format("
                               "'a:%032x', i), 'ban 9000000000000 1 - - raw') end";
    uint8_t hash[HASH_IDENTITY_BYTES];
    char digits[2 * HASH_IDENTITY_BYTES + 1] = "";
    struct text text = text_of(digits, sizeof(digits) - 1);
    hash_identity(SECRET, SPAN("{x}"), hash);
    text_add_hex(&text, hash, sizeof(hash));
    bans_set_max(proxies[1].bans, MANY + 1);
    iterations_for(loop, 300 * 1000); /* both have read the table, which is empty */
    redisContext *admin = redis_server_connect(&server);
    freeReplyObject(redisCommand(admin, "EVAL %s 1 test:bans", FILL));
    freeReplyObject(redisCommand(admin, "HSET test:bans version 7"));
    freeReplyObject(redisCommand(admin, "PUBLISH test:changes %s", "ban 0"));
    while (bans_count(proxies[1].bans).n == 0) {
        iterations_once(loop);
    }
    freeReplyObject(redisCommand(admin, "HSET test:bans a:%s %s version 8", digits, RAW));
    freeReplyObject(redisCommand(admin, "PUBLISH test:changes %s%s", "ban 8 a:", digits));
    await_found(&proxies[1], "{x}", BAN_REFUSES, true);
    ck_assert_uint_lt(bans_count(proxies[1].bans).n, MANY);
    const uint64_t until_us = clock_monotonic_us() + 20 * 1000 * 1000;
    while (bans_count(proxies[1].bans).n < MANY + 1) {
        ck_assert(clock_monotonic_us() < until_us);
        iterations_once(loop);
    }
    redis_server_command(&server, "PEXPIRE test:bans 60000");
    redisFree(admin);
}
END_TEST

/* --- resets --- */

static void note_reset(struct store_operation *operation)
{
    *(bool *)operation->context = true;
}

START_TEST(a_key_that_is_reset_is_as_never_seen_and_all_processes_forget)
{
    const struct redis_store_options options = options_of(&proxies[0]);
    struct redis_client client;
    struct redis_question question;
    redis_client_open(&client, &options);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    const uint64_t remaining = question.charge.verdict.remaining;
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    ck_assert_uint_eq(question.charge.verdict.remaining, remaining - 1);
    const uint64_t n_forgets = atomic_load(&proxies[1].process.n_forgets);
    bool is_done = false;
    struct store_operation reset = {
        .kind = OPERATION_RESET,
        .limit = question.charge.limit,
        .key = question.charge.key,
        .on_done = note_reset,
        .context = &is_done,
    };
    ck_assert_int_eq(store_run(client.store, &reset), STORE_PENDING);
    redis_client_await(&client, &is_done);
    ck_assert_int_eq(reset.status, STATUS_OK);
    ck_assert_int_eq(redis_client_decide(&client, &question), STATUS_OK);
    ck_assert_uint_eq(question.charge.verdict.remaining, remaining);
    const uint64_t until_us = clock_monotonic_us() + 20 * 1000 * 1000;
    while (atomic_load(&proxies[1].process.n_forgets) == n_forgets) {
        ck_assert(clock_monotonic_us() < until_us);
        iterations_once(loop);
    }
    redis_client_close(&client);
}
END_TEST

int main(void)
{
    if (!redis_server_is_installed()) {
        return REDIS_SERVER_SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN);
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("store/replica_sync");
    TCase *tcase = tcase_create("sync");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, what_one_sets_all_know_and_what_it_lifts_nobody_does);
    tcase_add_test(tcase, a_change_waits_for_the_first_connection_and_fails_without_one);
    tcase_add_test(tcase, what_is_over_is_refused_and_what_ends_is_gone_everywhere);
    tcase_add_test(tcase, there_are_no_more_than_the_maximum_and_those_that_ended_make_room);
    tcase_add_test(tcase, what_was_known_holds_while_redis_is_away_and_is_set_again_if_it_is_lost);
    tcase_add_test(tcase, what_is_lifted_does_not_come_back_the_last_one_either_and_after_a_loss);
    tcase_add_test(tcase, many_changes_at_once_are_all_known);
    tcase_add_test(tcase, a_silent_redis_is_left_and_what_changed_meanwhile_is_read);
    tcase_add_test(tcase, what_another_program_writes_is_known_by_its_message_or_its_version);
    tcase_add_test(tcase, a_poll_is_one_small_command_a_second);
    tcase_add_test(tcase, what_cannot_be_read_is_asked_for_once_a_second_whatever_messages_come);
    tcase_add_test(tcase, a_change_is_read_while_many_records_are);
    tcase_add_test(tcase, a_key_that_is_reset_is_as_never_seen_and_all_processes_forget);
    suite_add_tcase(suite, tcase);
    TCase *deaf = tcase_create("deaf");
    tcase_set_timeout(deaf, 60);
    tcase_add_checked_fixture(deaf, setup, teardown);
    tcase_add_test(deaf, without_a_subscription_all_is_read_when_the_version_is_another);
    suite_add_tcase(suite, deaf);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

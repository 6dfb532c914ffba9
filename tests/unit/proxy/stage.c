#include "stage.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "policy/loader.h"
#include "support/iterations.h"

enum { POLICY_BYTES = 8192, ITERATIONS_OF_SILENCE = 20 };

/* --- the store --- */

static uint64_t ticks(const struct limit *limit, unsigned seconds)
{
    return (uint64_t)seconds * 1000000 / limit->tick_us;
}

static void judge(struct decision *decision, enum fake_mood mood)
{
    const bool allowed = mood == FAKE_ALLOWS;
    decision->status = mood == FAKE_FAILS ? STATUS_TIMEOUT : STATUS_OK;
    decision->allowed = allowed;
    decision->source = DECISION_MEMORY;
    decision->failure = STATUS_OK;
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        charge->charged = allowed && decision->status == STATUS_OK;
        charge->verdict = (struct verdict){
            .allowed = allowed,
            .limit = 10,
            .remaining = allowed ? 7 : 0,
            .retry_after = allowed ? 0 : ticks(charge->limit, 12),
            .next_after = ticks(charge->limit, 12),
            .reset_after = ticks(charge->limit, 60),
        };
    }
}

static enum store_outcome fake_decide(struct store *base, struct decision *decision)
{
    struct fake_store *store = (struct fake_store *)base;
    store->n_decisions++;
    if (store->mood == FAKE_PROMISES) {
        ck_assert_ptr_null(store->pending);
        store->pending = decision;
        return STORE_PENDING;
    }
    judge(decision, store->mood);
    return STORE_ANSWERED;
}

static void fake_cancel(struct store *base, struct decision *decision)
{
    struct fake_store *store = (struct fake_store *)base;
    ck_assert_ptr_eq(store->pending, decision);
    store->pending = NULL;
    store->n_cancelled++;
}

static void fake_settle(struct store *base, const struct settlement *settlements, size_t n)
{
    struct fake_store *store = (struct fake_store *)base;
    for (size_t i = 0; i < n; i++) {
        store->n_settled[settlements[i].kind]++;
    }
}

static void fake_free(struct store *base)
{
    const struct fake_store *store = (const struct fake_store *)base;
    ck_assert_ptr_null(store->pending);
}

static const struct store_ops FAKE_STORE = {
    .name = "fake",
    .decide = fake_decide,
    .cancel = fake_cancel,
    .settle = fake_settle,
    .free = fake_free,
};

void fake_store_answer(struct fake_store *store, enum fake_mood mood)
{
    struct decision *decision = store->pending;
    ck_assert_ptr_nonnull(decision);
    store->pending = NULL;
    judge(decision, mood);
    store_answer(decision);
}

/* --- the stage --- */

static enum status lend_store(void *context, struct loop *loop, struct store_meters *meters,
                              struct store **store, bool *is_shared)
{
    struct stage *stage = context;
    (void)loop;
    (void)meters;
    stage->store = (struct fake_store){.store = {.ops = &FAKE_STORE}};
    *store = &stage->store.store;
    *is_shared = false;
    return STATUS_OK;
}

static void release(void *context)
{
    struct stage *stage = context;
    stage->is_released = true;
}

static int listen_on_loopback(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* @yaml with the server's port in it. */
static struct span fill_in(const char *yaml, uint16_t port, char *buffer, size_t capacity)
{
    struct text text = text_of(buffer, capacity);
    const char *next;
    while ((next = strstr(yaml, "PORT")) != NULL) {
        text_add(&text, span_of(yaml, (size_t)(next - yaml)));
        text_add_u64(&text, port);
        yaml = next + strlen("PORT");
    }
    text_add(&text, span_of_text(yaml));
    ck_assert(!text.truncated);
    return text_span(&text);
}

static void load_policy(struct stage *stage, const char *yaml)
{
    char buffer[POLICY_BYTES];
    struct diags diags;
    diags_init(&diags, "stage.yaml");
    const enum status status = loader_load_text(fill_in(yaml, stage->port, buffer, sizeof(buffer)),
                                                NULL, &stage->policy, &diags);
    if (status != STATUS_OK) {
        diags_print(&diags, stderr);
    }
    ck_assert_int_eq(status, STATUS_OK);
    diags_close(&diags);
}

void stage_open(struct stage *stage, const char *yaml)
{
    uint16_t port;
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    *stage = (struct stage){.listening = -1};
    stage->listening = listen_on_loopback(&stage->port);
    load_policy(stage, yaml);
    ck_assert_int_eq(meters_new(clock_wall_us(), &stage->meters), STATUS_OK);
    ck_assert_int_eq(meters_enter(stage->meters, stage->policy), STATUS_OK);
    stage->options = (struct server_options){
        .first =
            {
                .policy = stage->policy,
                .make_store = lend_store,
                .release = release,
                .context = stage,
            },
        .meters = stage->meters,
    };
    stage->shared.options = &stage->options;
    body_budget_init(&stage->shared.body_budget);
    connection_limits_init(&stage->shared.connection_limits);
    upstream_descriptors_init(&stage->shared.connection_limits.upstream_descriptors, INT_MAX,
                              INT_MAX);
    stage->shared.change_fd = -1;
    ck_assert_int_eq(config_generation_new(&stage->options.first, NULL, &stage->generation),
                     STATUS_OK);
    via_init(&stage->shared.via, (const uint8_t[VIA_ID_BYTES]){1, 2, 3, 4, 5, 6});
    ck_assert_uint_eq(stage->policy->n_listeners, 1);
    struct worker_offer offer = {
        .generation = stage->generation,
        .listeners = {{.fd = listen_on_loopback(&port)}},
        .n_listeners = 1,
    };
    ck_assert_int_eq(worker_init(&stage->worker, &stage->shared, 1, &offer), STATUS_OK);
}

void stage_stop_listening(struct stage *stage)
{
    close(stage->listening);
    stage->listening = -1;
}

void stage_close(struct stage *stage)
{
    worker_close(&stage->worker);
    connection_limits_close(&stage->shared.connection_limits);
    config_generation_release(stage->generation);
    ck_assert(stage->is_released);
    meters_free(stage->meters);
    policy_free(stage->policy);
    if (stage->listening >= 0) {
        close(stage->listening);
    }
}

/* --- the server --- */

static uint64_t patience_ends_us(void)
{
    return clock_monotonic_us() + 10 * 1000 * 1000;
}

int server_accept(struct stage *stage)
{
    const uint64_t end_us = patience_ends_us();
    int fd;
    while ((fd = accept4(stage->listening, NULL, NULL, SOCK_NONBLOCK)) < 0) {
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_msg(clock_monotonic_us() < end_us, "nobody connects");
        iterations_once(stage->worker.env.loop);
    }
    return fd;
}

void server_assert_left_alone(struct stage *stage)
{
    for (unsigned i = 0; i < ITERATIONS_OF_SILENCE; i++) {
        iterations_once(stage->worker.env.loop);
    }
    ck_assert_int_lt(accept4(stage->listening, NULL, NULL, SOCK_NONBLOCK), 0);
}

/* Read once there is something; the result of read(). */
static ssize_t read_patiently(struct stage *stage, int fd, char *buffer, size_t capacity)
{
    const uint64_t end_us = patience_ends_us();
    ssize_t n;
    while ((n = read(fd, buffer, capacity)) < 0 && errno == EAGAIN) {
        ck_assert_msg(clock_monotonic_us() < end_us, "nothing comes");
        iterations_once(stage->worker.env.loop);
    }
    return n;
}

const char *server_read_until(struct stage *stage, int fd, const char *end)
{
    static char received[FAKE_BYTES_MAX];
    size_t len = 0;
    received[0] = '\0';
    while (strstr(received, end) == NULL) {
        ck_assert_uint_lt(len, sizeof(received) - 1);
        const ssize_t n = read_patiently(stage, fd, received + len, sizeof(received) - 1 - len);
        ck_assert_msg(n > 0, "the connection ended after '%s'", received);
        len += (size_t)n;
        received[len] = '\0';
    }
    return received;
}

void server_read_bytes(struct stage *stage, int fd, size_t n)
{
    char buffer[64 * 1024];
    while (n > 0) {
        const ssize_t got =
            read_patiently(stage, fd, buffer, n < sizeof(buffer) ? n : sizeof(buffer));
        ck_assert_int_gt(got, 0);
        n -= (size_t)got;
    }
}

void server_assert_closed(struct stage *stage, int fd)
{
    char byte;
    ck_assert_int_le(read_patiently(stage, fd, &byte, 1), 0);
}

void server_assert_reset(struct stage *stage, int fd)
{
    const uint64_t end_us = patience_ends_us();
    struct pollfd pollfd = {.fd = fd};
    do {
        ck_assert_msg(clock_monotonic_us() < end_us, "no reset comes");
        iterations_once(stage->worker.env.loop);
        ck_assert_int_ge(poll(&pollfd, 1, 0), 0);
    } while ((pollfd.revents & POLLHUP) == 0);
}

void server_send(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* --- the client --- */

static void add_answer(struct fake_client *client, struct span span)
{
    ck_assert_uint_lt(client->answer_len + span.len, sizeof(client->answer));
    memcpy(client->answer + client->answer_len, span.data, span.len);
    client->answer_len += span.len;
}

static void add_fields(struct fake_client *client, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!fields[i].hop_by_hop) {
            add_answer(client, fields[i].name);
            add_answer(client, SPAN(": "));
            add_answer(client, fields[i].id == FIELD_DATE ? SPAN("DATE") : fields[i].value);
            add_answer(client, SPAN("\r\n"));
        }
    }
}

static void add_head(struct fake_client *client, const struct response *response)
{
    char buffer[8];
    struct text status = text_of(buffer, sizeof(buffer));
    text_add_u64(&status, response->status);
    add_answer(client, text_span(&status));
    add_answer(client, SPAN(" "));
    add_answer(client, message_reason(response->status));
    add_answer(client, SPAN("\r\n"));
    add_fields(client, response->fields, response->n_fields);
    add_fields(client, response->own_fields, response->n_own_fields);
    add_answer(client, SPAN("\r\n"));
}

static enum stream_result fake_send(struct client *base, const struct response *response,
                                    struct span piece, bool last)
{
    struct fake_client *client = (struct fake_client *)base;
    ck_assert(!client->is_ended);
    client->n_sends++;
    if (response != NULL) {
        add_head(client, response);
    }
    if (piece.len > 0) {
        add_answer(client, piece);
    }
    client->is_ended = last;
    return client->send_result;
}

static enum stream_result fake_send_interim(struct client *base, const struct response *response)
{
    struct fake_client *client = (struct fake_client *)base;
    client->n_sends++;
    add_head(client, response);
    return client->send_result;
}

static bool fake_has_whole_body(struct client *base)
{
    const struct fake_client *client = (struct fake_client *)base;
    return !client->body_comes_late;
}

static void fake_pump(struct client *base)
{
    struct fake_client *client = (struct fake_client *)base;
    const struct span piece = span_of_text(client->body);
    const bool last = client->body_is_ended;
    client->n_pumps++;
    client->wants_body = true;
    if (piece.len == 0 && !last) {
        client->wants_body = exchange_on_body_blocked(client->exchange);
        return;
    }
    client->body = "";
    client->wants_body = false;
    const bool wants_more = exchange_on_body(client->exchange, piece, last);
    if (wants_more && client->exchange != NULL) {
        client->wants_body = true;
    }
}

static void fake_on_done(struct client *base, uint64_t now_us)
{
    (void)now_us;
    struct fake_client *client = (struct fake_client *)base;
    ck_assert(!client->is_over);
    client->last_state = client->exchange->state;
    client->is_over = true;
    pool_give(&client->stage->worker.env.config->pools->exchanges, client->exchange);
    client->exchange = NULL;
    client->wants_body = false;
}

static void fake_hold(struct client *client, bool is_held)
{
    (void)client;
    (void)is_held;
}

static void fake_await_body(struct client *client, bool is_awaited)
{
    (void)client;
    (void)is_awaited;
}

static size_t fake_await_room(struct client *base)
{
    struct fake_client *client = (struct fake_client *)base;
    client->n_asked++;
    return client->room;
}

static uint64_t fake_unread_bytes(struct client *base)
{
    const struct fake_client *client = (struct fake_client *)base;
    return client->unread_bytes;
}

static const struct client_ops FAKE_CLIENT = {
    .send = fake_send,
    .send_interim = fake_send_interim,
    .has_whole_body = fake_has_whole_body,
    .pump = fake_pump,
    .hold = fake_hold,
    .await_body = fake_await_body,
    .await_room = fake_await_room,
    .unread_bytes = fake_unread_bytes,
    .on_done = fake_on_done,
};

void fake_client_open(struct fake_client *client, struct stage *stage, const char *peer)
{
    struct exchange_config *config = stage->worker.env.config;
    struct address address;
    void *memory = pool_take(&config->pools->exchanges);
    ck_assert_ptr_nonnull(memory);
    ck_assert(address_parse(span_of_text(peer), &address));
    memset(client, 0, sizeof(*client));
    client->client.ops = &FAKE_CLIENT;
    client->stage = stage;
    client->body = "";
    client->send_result = STREAM_DONE;
    client->room = IO_BLOCK_BYTES;
    client->exchange =
        exchange_init(memory, config, &client->client, &address, clock_monotonic_us());
}

void fake_client_send_head(struct fake_client *client, const char *head)
{
    struct exchange *exchange = client->exchange;
    size_t consumed;
    ck_assert_uint_lt(strlen(head), sizeof(client->request));
    memcpy(client->request, head, strlen(head) + 1);
    client->parser = (struct head_parser){
        .fields = exchange->fields,
        .n_fields_max = exchange->config->policy->max.headers,
        .head_bytes_max = sizeof(client->request),
    };
    ck_assert_int_eq(head_parse_request(&client->parser, span_of_text(client->request),
                                        &exchange->request, &consumed),
                     PARSE_DONE);
    exchange_on_head(exchange, clock_monotonic_us());
}

void fake_client_send_body(struct fake_client *client, const char *body, bool is_ended)
{
    client->body = body;
    client->body_is_ended = is_ended;
    if (client->wants_body) {
        fake_pump(&client->client);
    }
}

const char *fake_client_answer(const struct fake_client *client)
{
    static char text[FAKE_BYTES_MAX + 1];
    memcpy(text, client->answer, client->answer_len);
    text[client->answer_len] = '\0';
    return text;
}

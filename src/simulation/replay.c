/* Logs through policies.
 *
 * logs ─► merged by time, in a thread ahead ─► a line ─► a head ─► each policy's simulation ─► the
 * statistics
 *
 * Failures: a log that cannot be read, or in no known format (nothing is run); a line that cannot
 * be read (counted, the first are kept to be shown). */

#include "simulation/replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/status.h"
#include "http/grpc.h"
#include "simulation/log_feed.h"
#include "simulation/log_fields.h"
#include "simulation/log_order.h"
#include "simulation/log_source.h"
#include "simulation/replay_options.h"
#include "simulation/statistics.h"

/* --- the lines of several logs, merged by time --- */

struct log_merge {
    struct log_source *sources; /* the open ones */
    size_t n_sources;
    struct log_blocks blocks;
    struct log_order order;
    void (*on_progress)(void *context, const struct replay_progress *progress); /* may be NULL */
    void *context;
    struct replay_progress progress;

    uint64_t n_unread; /* lines that could not be read */
    struct statistics_sample samples[STATISTICS_SAMPLES];
    uint64_t n_moved;   /* lines out of order that were moved to their position */
    enum status status; /* STATUS_IO: reading of a log failed with the errno in error */
    int error;
};

enum {
    PROGRESS_EVERY = 16384, /* lines */
    BLOCKS_MAX = 64,        /* that lines wait in: then they wait no longer */
};

static void keep_sample(struct log_merge *merge, const struct log_source *source, const char *bytes,
                        size_t len)
{
    if (merge->n_unread++ >= STATISTICS_SAMPLES) {
        return;
    }
    struct statistics_sample *sample = &merge->samples[merge->n_unread - 1];
    sample->path = source->path;
    sample->line = source->reader.n_lines;
    sample->len = len;
    memcpy(sample->text, bytes, len);
}

static void log_merge_report(struct log_merge *merge)
{
    merge->progress.n_bytes = 0;
    for (size_t i = 0; i < merge->n_sources; i++) {
        merge->progress.n_bytes += merge->sources[i].reader.n_bytes;
    }
    if (merge->on_progress != NULL) {
        merge->on_progress(merge->context, &merge->progress);
    }
}

/* Add the line of @source that @next describes. Its start is copied first: parsing changes it. */
static void add_line(struct log_merge *merge, struct log_source *source, enum log_next next,
                     char *bytes, size_t len)
{
    char start[STATISTICS_SAMPLE_BYTES];
    const size_t n_kept = len < sizeof(start) ? len : sizeof(start);
    struct log_line *line = log_order_next(&merge->order);
    memcpy(start, bytes, n_kept);
    if (next == LOG_NEXT_TOO_LONG || !log_source_read(source, bytes, len, line)) {
        keep_sample(merge, source, start, n_kept);
        return;
    }
    const bool is_behind = line->time_us < source->latest_us;
    source->latest_us = is_behind ? source->latest_us : line->time_us;
    source->reached_us = line->time_us < source->last_us ? line->time_us : source->last_us;
    source->last_us = line->time_us;
    const bool is_in_place = log_order_add(&merge->order, source->reader.block, &merge->blocks);
    merge->n_moved += is_behind && is_in_place;
}

static void read_line(struct log_merge *merge, struct log_source *source)
{
    char *bytes = NULL;
    size_t len = 0;
    const enum log_next next = log_reader_next(&source->reader, &bytes, &len);
    source->has_ended = next == LOG_NEXT_END || next == LOG_NEXT_FAILED;
    if (next == LOG_NEXT_FAILED) {
        merge->status = STATUS_IO;
        merge->error = errno;
    }
    if (source->has_ended || len == 0) {
        return;
    }
    if (++merge->progress.n_lines % PROGRESS_EVERY == 0) {
        log_merge_report(merge);
    }
    add_line(merge, source, next, bytes, len);
}

/* The log that is the furthest behind; NULL: all have ended. */
static struct log_source *next_source(struct log_merge *merge)
{
    struct log_source *found = NULL;
    for (size_t i = 0; i < merge->n_sources; i++) {
        struct log_source *source = &merge->sources[i];
        if (!source->has_ended && (found == NULL || source->reached_us < found->reached_us)) {
            found = source;
        }
    }
    return found;
}

/* The earliest line that waits moves to @batch, and its block with it. */
static void take_earliest(struct log_merge *merge, struct log_batch *batch)
{
    struct log_entry *entry = log_order_take(&merge->order);
    entry->block->n_users++;
    batch->entries[batch->n++] = *entry;
    log_order_release(&merge->order, entry);
}

/* Lines wait no longer: there are too many, or in too many blocks. */
static bool is_crowded(const struct log_merge *merge)
{
    return log_order_is_full(&merge->order) ||
           (merge->order.n > 0 &&
            merge->blocks.n_used > merge->n_sources + LOG_FEED_BATCHES + BLOCKS_MAX);
}

static bool log_merge_fill(void *context, struct log_batch *batch)
{
    struct log_merge *merge = context;
    log_batch_clear(batch);
    while (batch->n < LOG_BATCH_LINES && merge->status == STATUS_OK) {
        struct log_source *source = next_source(merge);
        if (source == NULL && merge->order.n == 0) {
            return false;
        }
        if (source == NULL || is_crowded(merge)) {
            take_earliest(merge, batch);
        } else {
            read_line(merge, source);
        }
    }
    return merge->status == STATUS_OK;
}

struct replay {
    struct replay_options options;
    struct log_fields fields;
    struct log_merge merge;
    struct arena arena; /* of the notes */
    struct unsupported unsupported[STATISTICS_SIDES_MAX];
    struct tenants *tenants[STATISTICS_SIDES_MAX]; /* borrowed; NULL: they are not known */
    const char *tenants_faults[STATISTICS_SIDES_MAX];
    struct simulation *simulations[STATISTICS_SIDES_MAX];
    size_t n_simulations;
    struct statistics statistics;
    struct field headers[LOG_HEADERS_MAX + 2]; /* of the request, with Host and Content-Type */
};

/* --- opening --- */

static enum status add_fields(struct replay *replay, struct text *problem)
{
    for (size_t i = 0; i < replay->options.n_fields; i++) {
        const struct replay_field *field = &replay->options.fields[i];
        const char *fault = log_fields_add(&replay->fields, field->what, field->name);
        if (fault != NULL) {
            text_add_format(problem, "--field %.*s=%.*s: %s", SPAN_ARGS(field->what),
                            SPAN_ARGS(field->name), fault);
            return STATUS_INVALID;
        }
    }
    return STATUS_OK;
}

static enum status open_sources(struct replay *replay, struct text *problem)
{
    const struct replay_options *options = &replay->options;
    bool is_size_known = true;
    for (size_t i = 0; i < options->n_paths; i++) {
        struct log_source *source = &replay->merge.sources[i];
        const enum status status = log_source_open(source, options->paths[i], options->format,
                                                   &replay->fields, &replay->merge.blocks, problem);
        if (status != STATUS_OK) {
            return status;
        }
        replay->merge.n_sources++;
        is_size_known = is_size_known && (source->size > 0 || source->is_empty);
        replay->merge.progress.n_bytes_in_all += source->size;
    }
    replay->merge.progress.n_bytes_in_all =
        is_size_known ? replay->merge.progress.n_bytes_in_all : 0;
    if (replay_start_us(replay) == UINT64_MAX) {
        text_add_literal(problem, "the logs are empty");
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

enum status replay_open(const struct replay_options *options, struct replay **replay,
                        struct text *problem)
{
    struct replay *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        text_add_literal(problem, "out of memory");
        return STATUS_NO_MEMORY;
    }
    made->options = *options;
    made->merge.on_progress = options->on_progress;
    made->merge.context = options->context;
    arena_init(&made->arena, NULL, 0);
    log_fields_init(&made->fields);
    made->merge.sources = calloc(options->n_paths, sizeof(made->merge.sources[0]));
    enum status status = log_order_init(&made->merge.order);
    if (status != STATUS_OK || made->merge.sources == NULL) {
        text_add_literal(problem, "out of memory");
        status = STATUS_NO_MEMORY;
    } else {
        status = add_fields(made, problem);
    }
    if (status == STATUS_OK) {
        status = open_sources(made, problem);
    }
    if (status != STATUS_OK) {
        replay_free(made);
        return status;
    }
    *replay = made;
    return STATUS_OK;
}

void replay_free(struct replay *replay)
{
    if (replay == NULL) {
        return;
    }
    for (size_t i = 0; i < replay->n_simulations; i++) {
        simulation_free(replay->simulations[i]);
    }
    statistics_close(&replay->statistics);
    log_order_close(&replay->merge.order);
    for (size_t i = 0; i < replay->merge.n_sources; i++) {
        log_source_close(&replay->merge.sources[i]);
    }
    log_blocks_close(&replay->merge.blocks);
    free(replay->merge.sources);
    arena_reset(&replay->arena);
    free(replay);
}

uint64_t replay_start_us(const struct replay *replay)
{
    uint64_t earliest_us = UINT64_MAX;
    for (size_t i = 0; i < replay->merge.n_sources; i++) {
        const uint64_t us = replay->merge.sources[i].earliest_us;
        earliest_us = us < earliest_us ? us : earliest_us;
    }
    return earliest_us;
}

/* --- one request --- */

/* The fields that the line tells; those it does not are left out. Of a gRPC call one is known. */
static void fill_head(struct replay *replay, const struct log_line *line, struct head *head)
{
    size_t n = 0;
    for (size_t i = 0; i < replay->fields.n_headers; i++) {
        if (line->headers[i].data != NULL) {
            replay->headers[n] = replay->fields.headers[i];
            replay->headers[n].value = line->headers[i];
            head->known |= UINT64_C(1) << replay->headers[n].id;
            n++;
        }
    }
    head->host = line->host.data != NULL ? line->host : replay->options.host;
    if (head->target.form == TARGET_ABSOLUTE) {
        head->host = head->target.authority;
    }
    if (head->host.len > 0) {
        replay->headers[n++] =
            (struct field){.id = FIELD_HOST, .name = field_name(FIELD_HOST), .value = head->host};
        head->known |= UINT64_C(1) << FIELD_HOST;
    }
    head->fields = replay->headers;
    head->n_fields = n;
    if (line->is_grpc && !grpc_is_call(head)) {
        replay->headers[head->n_fields++] = (struct field){
            .name = SPAN("Content-Type"), .value = SPAN("application/grpc"), .id = FIELD_OTHER};
    }
    head->method = line->method;
    head->method_id = method_identify(line->method);
}

static bool is_request(const struct log_line *line, struct head *head)
{
    return field_is_token(line->method) && line->method.len <= METHOD_BYTES_MAX &&
           line->target.len <= TARGET_BYTES_MAX &&
           target_parse(line->target, line->method, &head->target) == NULL &&
           head->target.form != TARGET_AUTHORITY;
}

/* A log does not say who ended a request: the status is taken for it. No status, and nginx's 499,
 * are written where the client left, nginx's 444 where the proxy closed without an answer, and a
 * gateway's own 502 and 504 where the server failed. */
static enum answer_end end_of(const struct log_line *line)
{
    switch (line->status) {
    case 0:
    case 499:
        return ANSWER_CLIENT_LEFT;
    case 444:
        return ANSWER_EVICTED;
    case 502:
    case 504:
        return ANSWER_SERVER_FAILED;
    default:
        return ANSWER_WHOLE;
    }
}

static struct client_certificate certificate_of(const struct log_line *line)
{
    struct client_certificate certificate = {.field = SPAN("")};
    memcpy(certificate.facts, line->certificate, sizeof(certificate.facts));
    return certificate;
}

static bool has_certificate(const struct client_certificate *certificate)
{
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        if (certificate->facts[i].len > 0) {
            return true;
        }
    }
    return false;
}

static enum status judge(struct replay *replay, const struct log_line *line)
{
    struct head head = {.minor = 1};
    struct simulation_answer answers[STATISTICS_SIDES_MAX];
    if (!is_request(line, &head)) {
        replay->statistics.n_no_request++;
        return STATUS_OK;
    }
    fill_head(replay, line, &head);
    const struct simulation_future future = {
        .takes_us = line->has_takes ? line->takes_us : 0,
        .status = line->status / 100 == 2 ? grpc_answer_status(line->status, line->grpc_status)
                                          : line->status,
        .end = end_of(line),
        .cost = line->cost,
    };
    const struct client_certificate certificate = certificate_of(line);
    const struct tls_client tls = {
        .certificate = has_certificate(&certificate) ? &certificate : NULL,
    };
    const struct simulation_client client = {.peer = line->peer,
                                             .tls = line->is_https ? &tls : NULL};
    for (size_t i = 0; i < replay->n_simulations; i++) {
        const enum status status = simulation_ask(replay->simulations[i], line->time_us, &client,
                                                  &head, &future, &answers[i]);
        if (status == STATUS_INVALID) {
            replay->statistics.n_beyond++;
            return STATUS_OK;
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    statistics_add(&replay->statistics, line->time_us, answers);
    replay->statistics.n_logged_denied += line->status == 429;
    return STATUS_OK;
}

/* --- all of them --- */

static enum status judge_batch(struct replay *replay, const struct log_batch *batch)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < batch->n && status == STATUS_OK; i++) {
        status = judge(replay, &batch->entries[i].line);
    }
    return status;
}

/* Lines are read by a thread of their own, while those before them are judged here. */
static enum status run(struct replay *replay)
{
    struct log_feed feed;
    const struct log_batch *batch;
    enum status status = log_feed_start(&feed, log_merge_fill, &replay->merge);
    while (status == STATUS_OK && (batch = log_feed_next(&feed)) != NULL) {
        status = judge_batch(replay, batch);
        log_feed_give_back(&feed);
    }
    log_feed_stop(&feed);
    return status != STATUS_OK ? status : replay->merge.status;
}

/* What the logs tell, all together. A header that was named may stand first after the lines that
 * were looked at: not every request has it. */
static struct gaps_reported find_reported(const struct replay *replay)
{
    struct gaps_reported reported = {
        .fields = &replay->fields,
        .parts = replay->fields.said,
        .is_hashed = replay->options.is_hashed,
    };
    for (size_t i = 0; i < replay->merge.n_sources; i++) {
        reported.parts |= replay->merge.sources[i].parts;
        reported.has_query = reported.has_query || replay->merge.sources[i].has_query;
    }
    reported.has_host = replay->options.host.len > 0 || (reported.parts >> LOG_HOST & 1) != 0;
    return reported;
}

static enum status prepare(struct replay *replay, const struct policy *const *policies,
                           size_t n_policies, size_t memory_bytes)
{
    struct gaps_reported reported = find_reported(replay);
    enum status status = statistics_init(&replay->statistics, policies, n_policies);
    for (size_t i = 0; i < n_policies && status == STATUS_OK; i++) {
        reported.has_tenants = replay->tenants[i] != NULL;
        reported.tenants_fault = replay->tenants_faults[i];
        status = unsupported_find(&replay->unsupported[i], policies[i], &reported, &replay->arena);
        const struct simulation_options options = {
            .policy = policies[i],
            .memory_bytes = memory_bytes,
            .is_peer_trusted = true,
            .left_out = replay->unsupported[i].left_out,
            .tenants = replay->tenants[i],
        };
        if (status == STATUS_OK) {
            status = simulation_new(&options, &replay->simulations[i]);
        }
        replay->n_simulations += status == STATUS_OK;
    }
    return status;
}

void replay_set_tenants(struct replay *replay, size_t i, struct tenants *tenants, const char *fault)
{
    replay->tenants[i] = tenants;
    replay->tenants_faults[i] = fault;
}

static void count_bans(const struct simulation *simulation, struct statistics_side *side)
{
    for (size_t i = 0; i < side->policy->n_rules; i++) {
        struct statistics_bans *bans = &side->bans[i];
        const uint64_t *n_due = simulation_bans(simulation, bans->rule->limits[0].index);
        if (n_due != NULL) {
            memcpy(bans->n_due, n_due, sizeof(bans->n_due));
        }
    }
}

static void conclude(struct replay *replay)
{
    struct statistics *statistics = &replay->statistics;
    const struct log_merge *merge = &replay->merge;
    log_merge_report(&replay->merge);
    statistics->n_lines = merge->progress.n_lines;
    statistics->n_bytes = merge->progress.n_bytes;
    statistics->n_unread = merge->n_unread;
    memcpy(statistics->samples, merge->samples, sizeof(statistics->samples));
    statistics->n_moved = merge->n_moved;
    statistics->n_late = merge->order.n_late;
    statistics->late_us = replay->merge.order.late_us;
    for (size_t i = 0; i < replay->n_simulations; i++) {
        simulation_count(replay->simulations[i], &statistics->sides[i].memory);
        statistics->sides[i].n_early_ends = simulation_early_ends(replay->simulations[i]);
        count_bans(replay->simulations[i], &statistics->sides[i]);
    }
}

enum status replay_run(struct replay *replay, const struct policy *const *policies,
                       size_t n_policies, size_t memory_bytes, struct text *problem)
{
    enum status status = prepare(replay, policies, n_policies, memory_bytes);
    if (status == STATUS_OK) {
        status = run(replay);
    }
    if (status == STATUS_IO) {
        text_add_format(problem, "a log cannot be read on: %s", strerror(replay->merge.error));
    } else if (status != STATUS_OK) {
        text_add(problem, span_of_text(status_text(status)));
    }
    conclude(replay);
    return status;
}

const struct statistics *replay_statistics(const struct replay *replay)
{
    return &replay->statistics;
}

size_t replay_notes(const struct replay *replay, size_t i, const struct span **notes)
{
    *notes = replay->unsupported[i].notes;
    return replay->unsupported[i].n_notes;
}

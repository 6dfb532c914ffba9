/* Logs through policies.
 *
 * sources ─► the one whose time is least ─► a line ─► in its place ─► the earliest ─► a head ─► each policy's trial
 *                                                                                             └─► the tally
 *
 * Failures: a log that cannot be read, or in no known format (nothing is run); a line that cannot be
 * read (counted, the first are kept to be shown). */

#include "trial/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trial/gaps.h"
#include "trial/log_order.h"
#include "trial/log_source.h"

enum {
    PROGRESS_EVERY = 16384, /* lines */
    BLOCKS_MAX = 64,        /* that lines wait in: then they wait no longer */
};

struct replay {
    struct replay_options options;
    struct log_fields fields;
    struct log_blocks blocks;
    struct log_source *sources;
    size_t n_sources;
    struct log_order order;
    struct arena arena; /* of the notes */
    struct gaps gaps[TALLY_SIDES_MAX];
    struct trial *trials[TALLY_SIDES_MAX];
    size_t n_trials;
    struct tally tally;
    struct replay_progress progress;
    struct field headers[LOG_HEADERS_MAX];
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
        struct log_source *source = &replay->sources[i];
        const enum status status = log_source_open(source, options->paths[i], options->format,
                                                   &replay->fields, &replay->blocks, problem);
        if (status != STATUS_OK) {
            return status;
        }
        replay->n_sources++;
        is_size_known = is_size_known && (source->size > 0 || source->is_empty);
        replay->progress.n_bytes_in_all += source->size;
    }
    replay->progress.n_bytes_in_all = is_size_known ? replay->progress.n_bytes_in_all : 0;
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
    arena_init(&made->arena, NULL, 0);
    log_fields_init(&made->fields);
    made->sources = calloc(options->n_paths, sizeof(made->sources[0]));
    enum status status = log_order_init(&made->order);
    if (status != STATUS_OK || made->sources == NULL) {
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
    for (size_t i = 0; i < replay->n_trials; i++) {
        trial_free(replay->trials[i]);
    }
    tally_close(&replay->tally);
    log_order_close(&replay->order);
    for (size_t i = 0; i < replay->n_sources; i++) {
        log_source_close(&replay->sources[i]);
    }
    log_blocks_close(&replay->blocks);
    free(replay->sources);
    arena_reset(&replay->arena);
    free(replay);
}

uint64_t replay_start_us(const struct replay *replay)
{
    uint64_t earliest_us = UINT64_MAX;
    for (size_t i = 0; i < replay->n_sources; i++) {
        const uint64_t us = replay->sources[i].earliest_us;
        earliest_us = us < earliest_us ? us : earliest_us;
    }
    return earliest_us;
}

/* --- one request --- */

/* The fields that the line tells; those it does not are left out. */
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
    head->method = line->method;
    head->fields = replay->headers;
    head->n_fields = n;
    head->host = line->host.data != NULL ? line->host : replay->options.host;
    if (head->target.form == TARGET_ABSOLUTE) {
        head->host = head->target.authority;
    }
}

static bool is_request(const struct log_line *line, struct head *head)
{
    return field_is_token(line->method) && line->method.len <= METHOD_BYTES_MAX &&
           line->target.len <= TARGET_BYTES_MAX &&
           target_parse(line->target, line->method, &head->target) == NULL &&
           head->target.form != TARGET_AUTHORITY;
}

static enum status judge(struct replay *replay, const struct log_line *line)
{
    struct head head = {.minor = 1};
    struct trial_answer answers[TALLY_SIDES_MAX];
    if (!is_request(line, &head)) {
        replay->tally.n_no_request++;
        return STATUS_OK;
    }
    fill_head(replay, line, &head);
    const struct trial_future future = {
        .takes_us = line->has_takes ? line->takes_us : 0,
        .status = line->status,
        .is_aborted = line->status == 0 || line->status == 499,
        .cost = line->cost,
    };
    for (size_t i = 0; i < replay->n_trials; i++) {
        const enum status status =
            trial_ask(replay->trials[i], line->time_us, &line->peer, &head, &future, &answers[i]);
        if (status == STATUS_INVALID) {
            replay->tally.n_beyond++;
            return STATUS_OK;
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    tally_add(&replay->tally, line->time_us, answers);
    replay->tally.n_logged_denied += line->status == 429;
    return STATUS_OK;
}

static enum status judge_earliest(struct replay *replay)
{
    struct log_entry *entry = log_order_take(&replay->order);
    const enum status status = judge(replay, &entry->line);
    log_order_release(&replay->order, entry);
    return status;
}

/* --- all of them --- */

static void keep_sample(struct replay *replay, const struct log_source *source, const char *bytes,
                        size_t len)
{
    struct tally *tally = &replay->tally;
    if (tally->n_unread++ >= TALLY_SAMPLES) {
        return;
    }
    struct tally_sample *sample = &tally->samples[tally->n_unread - 1];
    sample->path = source->path;
    sample->line = source->reader.n_lines;
    sample->len = len < sizeof(sample->text) ? len : sizeof(sample->text);
    memcpy(sample->text, bytes, sample->len);
}

static void tell_progress(struct replay *replay)
{
    struct replay_progress *progress = &replay->progress;
    progress->n_lines = replay->tally.n_lines;
    progress->n_bytes = 0;
    for (size_t i = 0; i < replay->n_sources; i++) {
        progress->n_bytes += replay->sources[i].reader.n_bytes;
    }
    if (replay->options.on_progress != NULL) {
        replay->options.on_progress(replay->options.context, progress);
    }
}

/* Read the next line of @source. */
static enum status read_line(struct replay *replay, struct log_source *source)
{
    char *bytes = NULL;
    size_t len = 0;
    const enum log_next next = log_reader_next(&source->reader, &bytes, &len);
    if (next == LOG_NEXT_FAILED) {
        return STATUS_IO;
    }
    source->has_ended = next == LOG_NEXT_END;
    if (source->has_ended || len == 0) {
        return STATUS_OK;
    }
    if (++replay->tally.n_lines % PROGRESS_EVERY == 0) {
        tell_progress(replay);
    }
    struct log_line *line = log_order_next(&replay->order);
    char start[TALLY_SAMPLE_BYTES]; /* reading it changes it */
    const size_t n_kept = len < sizeof(start) ? len : sizeof(start);
    memcpy(start, bytes, n_kept);
    if (next == LOG_NEXT_TOO_LONG || !log_source_read(source, bytes, len, line)) {
        keep_sample(replay, source, start, n_kept);
        return STATUS_OK;
    }
    const bool is_behind = line->time_us < source->reached_us;
    source->reached_us = is_behind ? source->reached_us : line->time_us;
    const bool is_in_place = log_order_add(&replay->order, source->reader.block, &replay->blocks);
    replay->tally.n_moved += is_behind && is_in_place;
    return STATUS_OK;
}

/* The log that is the furthest behind; NULL: all have ended. */
static struct log_source *next_source(struct replay *replay)
{
    struct log_source *found = NULL;
    for (size_t i = 0; i < replay->n_sources; i++) {
        struct log_source *source = &replay->sources[i];
        if (!source->has_ended && (found == NULL || source->reached_us < found->reached_us)) {
            found = source;
        }
    }
    return found;
}

static enum status run(struct replay *replay)
{
    struct log_source *source;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && (source = next_source(replay)) != NULL) {
        if (log_order_is_full(&replay->order)) {
            status = judge_earliest(replay);
        }
        while (status == STATUS_OK && replay->order.n > 0 &&
               replay->blocks.n_used > replay->n_sources + BLOCKS_MAX) {
            status = judge_earliest(replay);
        }
        if (status == STATUS_OK) {
            status = read_line(replay, source);
        }
    }
    while (status == STATUS_OK && replay->order.n > 0) {
        status = judge_earliest(replay);
    }
    return status;
}

/* What the logs tell, all together. */
static struct gaps_told find_told(const struct replay *replay)
{
    struct gaps_told told = {.fields = &replay->fields};
    for (size_t i = 0; i < replay->n_sources; i++) {
        told.parts |= replay->sources[i].parts;
        told.has_query = told.has_query || replay->sources[i].has_query;
    }
    told.has_host = replay->options.host.len > 0 || (told.parts >> LOG_HOST & 1) != 0;
    return told;
}

static enum status prepare(struct replay *replay, const struct policy *const *policies,
                           size_t n_policies, size_t memory_bytes)
{
    const struct gaps_told told = find_told(replay);
    enum status status = tally_init(&replay->tally, policies, n_policies);
    for (size_t i = 0; i < n_policies && status == STATUS_OK; i++) {
        status = gaps_find(&replay->gaps[i], policies[i], &told, &replay->arena);
        const struct trial_options options = {
            .policy = policies[i],
            .memory_bytes = memory_bytes,
            .is_peer_trusted = true,
            .left_out = replay->gaps[i].left_out,
        };
        if (status == STATUS_OK) {
            status = trial_new(&options, &replay->trials[i]);
        }
        replay->n_trials += status == STATUS_OK;
    }
    return status;
}

static void conclude(struct replay *replay)
{
    struct tally *tally = &replay->tally;
    tell_progress(replay);
    tally->n_bytes = replay->progress.n_bytes;
    tally->n_late = replay->order.n_late;
    tally->late_us = replay->order.late_us;
    for (size_t i = 0; i < replay->n_trials; i++) {
        trial_count(replay->trials[i], &tally->sides[i].memory);
        tally->sides[i].n_early_ends = trial_early_ends(replay->trials[i]);
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
        text_add_format(problem, "a log cannot be read on: %s", strerror(errno));
    } else if (status != STATUS_OK) {
        text_add(problem, span_of_text(status_text(status)));
    }
    conclude(replay);
    return status;
}

const struct tally *replay_tally(const struct replay *replay)
{
    return &replay->tally;
}

size_t replay_notes(const struct replay *replay, size_t i, const struct span **notes)
{
    *notes = replay->gaps[i].notes;
    return replay->gaps[i].n_notes;
}

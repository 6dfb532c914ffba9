/* POST /v1/replay: what the policy in force would have said to the requests of an access log, and
 * what one with other numbers would have.
 *
 * A child process runs `sluice replay --json`. The log is the body of the request, of which never
 * more is read than the child takes; so it takes no memory of this process, and the loop stays free
 * for other requests. With source=recording it is a copy of the recording of this process. */

#include <stdlib.h>
#include <string.h>

#include "admin/child.h"
#include "admin/internal.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "http/values.h"
#include "proxy/recording.h"

enum {
    OUTPUT_BYTES_MAX = 8 * 1024 * 1024,
    CPU_S_MAX = 240,
    PARAMETER_BYTES_MAX = 1024,
    PIECE_BYTES_MAX = 64 * 1024,
    KNOWN_HEADERS = 4, /* that the command has a place for, with or without a field */
    HEADERS_MAX = 4,   /* others */
};

static const uint64_t MEMORY_BYTES_MAX = UINT64_C(2) * 1024 * 1024 * 1024;
static const uint64_t TIME_US_MAX = UINT64_C(300) * 1000 * 1000;

/* The replay that is under way, in the admin. */
struct admin_replay {
    struct admin_request *request;
    struct child *child;
    char *recording; /* owned; NULL: the log is the body */
    size_t recording_bytes;
    size_t written_bytes; /* of the recording */
};

/* What is asked. */
struct wish {
    bool is_recording;              /* the log is the recording */
    struct child_arguments changes; /* of the policy in force: --set */
    struct child_arguments options; /* what the log is */
    const char *problem;            /* static; NULL: none */
};

static void wish_close(struct wish *wish)
{
    child_arguments_free(&wish->changes);
    child_arguments_free(&wish->options);
}

/* --- the query --- */

static void take_parameter(struct wish *wish, struct span name, struct span value)
{
    if (span_equals(name, SPAN("set"))) {
        child_arguments_add(&wish->changes, "--set=", value);
    } else if (span_equals(name, SPAN("format"))) {
        child_arguments_add(&wish->options, "--format=", value);
    } else if (span_equals(name, SPAN("host"))) {
        child_arguments_add(&wish->options, "--host=", value);
    } else if (span_equals(name, SPAN("field"))) {
        child_arguments_add(&wish->options, "--field=", value);
    } else if (span_equals(name, SPAN("source")) && span_equals(value, SPAN("recording"))) {
        wish->is_recording = true;
    } else {
        wish->problem = "the parameters are set, format, field, host and source=recording";
    }
}

static void read_wish(struct wish *wish, const struct admin_request *request)
{
    struct span rest = request->query;
    struct span pair;
    memset(wish, 0, sizeof(*wish));
    while (wish->problem == NULL && span_split(&rest, '&', &pair)) {
        char buffer[PARAMETER_BYTES_MAX];
        struct span readings[VALUE_READINGS_MAX];
        size_t n;
        const size_t equals = span_find(pair, '=');
        const size_t start = equals < pair.len ? equals + 1 : equals;
        if (pair.len == 0) {
            continue;
        }
        if (!query_decode(span_from(pair, start), buffer, sizeof(buffer), readings, &n)) {
            wish->problem = "a parameter is too long";
            return;
        }
        take_parameter(wish, span_of(pair.data, equals), readings[0]);
    }
    if (wish->problem == NULL && wish->is_recording && wish->options.n > 0) {
        wish->problem =
            "format, field and host say what a log in the body is: a recording is of one "
            "format, and has its hosts";
    }
    wish->problem = wish->problem != NULL ? wish->problem : wish->options.problem;
    wish->problem = wish->problem != NULL ? wish->problem : wish->changes.problem;
}

/* --- the child --- */

static void end(struct admin_request *request)
{
    struct admin_replay *replay = request->admin->replay;
    request->admin->replay = NULL;
    request->on_gone = NULL;
    free(replay->recording);
    free(replay);
}

static void on_end(void *context, struct child_outcome *outcome)
{
    struct admin_replay *replay = context;
    struct admin_request *request = replay->request;
    end(request);
    child_answer(request, outcome);
}

static void on_gone(struct admin_request *request)
{
    child_abandon(request->admin->replay->child);
    end(request);
}

/* Write the recording as far as the child takes it. */
static void write_recording(struct admin_replay *replay)
{
    while (replay->written_bytes < replay->recording_bytes) {
        const size_t left = replay->recording_bytes - replay->written_bytes;
        const struct span piece = span_of(replay->recording + replay->written_bytes,
                                          left < PIECE_BYTES_MAX ? left : PIECE_BYTES_MAX);
        replay->written_bytes += piece.len;
        if (!child_write(replay->child, piece)) {
            return;
        }
    }
    child_end_input(replay->child);
}

static void on_room(void *context)
{
    struct admin_replay *replay = context;
    if (replay->recording != NULL) {
        write_recording(replay);
    } else {
        replay->request->on_resume(replay->request);
    }
}

/* Beside a recording a body has no meaning, and is dropped. */
static bool on_piece(struct admin_request *request, struct span piece)
{
    struct admin_replay *replay = request->admin->replay;
    return replay->recording != NULL || child_write(replay->child, piece);
}

static void on_body_end(struct admin_request *request)
{
    struct admin_replay *replay = request->admin->replay;
    if (replay->recording != NULL) {
        write_recording(replay);
    } else {
        child_end_input(replay->child);
    }
}

/* Names of headers that limits count by, each once. */
struct header_names {
    struct span items[KNOWN_HEADERS + HEADERS_MAX];
    size_t n;
    size_t n_others; /* of them, those that are not known */
};

static bool is_known(struct span name)
{
    const struct span known[KNOWN_HEADERS] = {SPAN("Cookie"), SPAN("User-Agent"), SPAN("Referer"),
                                              SPAN("X-Forwarded-For")};
    for (size_t i = 0; i < KNOWN_HEADERS; i++) {
        if (span_equals_ignore_case(known[i], name)) {
            return true;
        }
    }
    return false;
}

static void add_name(struct header_names *names, const struct key_term *term)
{
    if (term->source != KEY_HEADER) {
        return;
    }
    for (size_t i = 0; i < names->n; i++) {
        if (span_equals_ignore_case(names->items[i], term->name)) {
            return;
        }
    }
    const bool is_other = !is_known(term->name);
    if (!is_other || names->n_others < HEADERS_MAX) {
        names->items[names->n++] = term->name;
        names->n_others += is_other;
    }
}

static void find_names(const struct policy *policy, struct header_names *names)
{
    names->n = 0;
    names->n_others = 0;
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct key *key = &policy->rules[i].key;
        for (size_t j = 0; j < key->n_parts; j++) {
            for (size_t k = 0; k < key->parts[j].n_terms; k++) {
                add_name(names, &key->parts[j].terms[k]);
            }
        }
    }
}

/* Tell the command what the fields of a recording mean: see exchange_record.c. */
static void add_fields(struct child_arguments *arguments, const struct policy *policy)
{
    struct header_names names;
    find_names(policy, &names);
    child_arguments_add(arguments, "--hashed", SPAN(""));
    child_arguments_add(arguments, "--format=json", SPAN(""));
    child_arguments_add(arguments, "--field=header.Cookie=cookies", SPAN(""));
    for (size_t i = 0; i < names.n; i++) {
        char buffer[2 * (NAME_BYTES_MAX + sizeof("header."))];
        struct text field = text_of(buffer, sizeof(buffer));
        text_add_format(&field, "header.%.*s=header.", SPAN_ARGS(names.items[i]));
        for (size_t j = 0; j < names.items[i].len; j++) {
            text_add_char(&field, ascii_lower(names.items[i].data[j]));
        }
        child_arguments_add(arguments, "--field=", text_span(&field));
    }
}

static void add_arguments(struct child_arguments *arguments, const struct wish *wish,
                          const struct policy *policy)
{
    child_arguments_add(arguments, "sluice", SPAN(""));
    child_arguments_add(arguments, "replay", SPAN(""));
    child_arguments_add(arguments, "--json", SPAN(""));
    child_arguments_add(arguments, "--memory=256MiB", SPAN(""));
    child_arguments_add(arguments, "--name=in force", SPAN(""));
    for (size_t i = 0; i < wish->changes.n; i++) {
        child_arguments_add(arguments, "", span_of_text(wish->changes.items[i]));
    }
    for (size_t i = 0; i < wish->options.n; i++) {
        child_arguments_add(arguments, "", span_of_text(wish->options.items[i]));
    }
    if (wish->is_recording) {
        add_fields(arguments, policy);
    }
    child_arguments_add(arguments, "--", SPAN(""));
    child_arguments_add(arguments, child_file_path(0), SPAN(""));
    child_arguments_add(arguments, "-", SPAN(""));
}

static enum status start_with_file(struct admin_request *request, const struct wish *wish,
                                   const int *file)
{
    struct child_arguments arguments = {.n = 0};
    add_arguments(&arguments, wish, request->policy);
    const struct child_order order = {
        .arguments = arguments.items,
        .files = file,
        .n_files = 1,
        .has_input = true,
        .output_bytes_max = OUTPUT_BYTES_MAX,
        .memory_bytes = MEMORY_BYTES_MAX,
        .cpu_s = CPU_S_MAX,
        .time_us = TIME_US_MAX,
        .on_room = on_room,
        .on_end = on_end,
        .context = request->admin->replay,
    };
    const enum status status =
        arguments.no_memory || wish->options.no_memory || wish->changes.no_memory
            ? STATUS_NO_MEMORY
            : child_start(&request->admin->children, &order, &request->admin->replay->child);
    child_arguments_free(&arguments);
    return status;
}

static enum status start(struct admin_request *request, const struct wish *wish)
{
    const int file = child_file_of_json(child_policy(request));
    if (file < 0) {
        return STATUS_NO_MEMORY;
    }
    const enum status status = start_with_file(request, wish, &file);
    child_file_close(file);
    return status;
}

/* The state of a new replay. False: there is no memory. */
static bool make_replay(struct admin_request *request, const struct wish *wish)
{
    struct admin_replay *made = calloc(1, sizeof(*made));
    request->admin->replay = made;
    if (made == NULL) {
        return false;
    }
    made->request = request;
    if (wish->is_recording) {
        made->recording = recording_copy(&made->recording_bytes);
    }
    return !wish->is_recording || made->recording != NULL;
}

static bool has_recording(void)
{
    struct recording_report report;
    recording_read(clock_monotonic_us(), &report);
    return report.n_lines > 0;
}

static void begin(struct admin_request *request, const struct wish *wish)
{
    if (!make_replay(request, wish) || start(request, wish) != STATUS_OK) {
        if (request->admin->replay != NULL) {
            end(request);
        }
        child_answer_not_started(request);
        return;
    }
    answer_note(request, "changes=%zu", wish->changes.n);
    request->on_piece = on_piece;
    request->on_body_end = on_body_end;
    request->on_gone = on_gone;
}

void replay_handle(struct admin_request *request)
{
    struct wish wish;
    if (request->admin->replay != NULL) {
        answer_problem(request, 409, "a log is being replayed; one at a time");
        return;
    }
    read_wish(&wish, request);
    if (wish.problem != NULL) {
        answer_problem(request, 400, "%s", wish.problem);
    } else if (wish.is_recording && !has_recording()) {
        answer_problem(request, 409, "no request is recorded; POST /v1/recording records some");
    } else {
        begin(request, &wish);
    }
    wish_close(&wish);
}

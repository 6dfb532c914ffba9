#include "admin/child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/internal.h"
#include "admin/resources.h"
#include "policy/loader.h"

enum {
    WORDS_BYTES_MAX = 480,                     /* of a line that is shown */
    SHOWN_BYTES_MAX = 4 * WORDS_BYTES_MAX + 1, /* escaped, with a NUL */
    EXIT_OF_SUCCESS = 0,
    EXIT_OF_REFUSAL = 3, /* sluice explain: the request would be refused */
};

json_t *child_policy(const struct admin_request *request)
{
    return description_to_load(request->policy, request->admin->options.policy_path);
}

int child_file_of_json(json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    const int fd = text != NULL ? child_file_of(span_of_text(text)) : -1;
    free(text);
    return fd;
}

/* --- the words of the program --- */

/* "sluice explain: WORDS", or "FILE:LINE:COLUMN: error: WORDS" of a policy in memory, where no one
 * can look. */
static struct span words_of(struct span line)
{
    const struct span mark =
        span_starts_with(line, SPAN("/proc/self/fd/")) ? SPAN(": error: ") : SPAN(": ");
    const size_t at = span_find_text(line, mark);
    const bool has_place =
        span_starts_with(line, SPAN("/proc/self/fd/")) || span_starts_with(line, SPAN("sluice "));
    return has_place && at < line.len ? span_from(line, at + mark.len) : line;
}

static bool is_of_use(struct span line)
{
    return line.len > 0 && !span_starts_with(line, SPAN("usage: ")) &&
           !span_starts_with(line, SPAN("see sluice "));
}

/* Write @words, cut and with what is not printable escaped, to @shown. */
static struct span show(struct span words, char shown[SHOWN_BYTES_MAX])
{
    struct text text = text_of(shown, SHOWN_BYTES_MAX - 1);
    words.len = words.len < WORDS_BYTES_MAX ? words.len : WORDS_BYTES_MAX;
    text_add_printable(&text, words);
    shown[text.len] = '\0';
    return text_span(&text);
}

static void answer_words(struct admin_request *request, struct span errors)
{
    char detail[SHOWN_BYTES_MAX] = "";
    char shown[SHOWN_BYTES_MAX];
    struct span rest = errors;
    struct span line;
    json_t *messages = json_array();
    uint16_t status = 400;
    while (span_split(&rest, '\n', &line)) {
        if (!is_of_use(line)) {
            continue;
        }
        const struct span words = words_of(line);
        describe_append(&messages, json_of_span(show(words, shown)));
        if (detail[0] == '\0') {
            (void)show(words, detail);
        }
        status = span_find_text(words, SPAN("out of memory")) < words.len ? 422 : status;
    }
    answer_note(request, "%s", detail);
    answer_problem_with(request, status, json_pack("{so}", "messages", messages),
                        detail[0] != '\0' ? detail : "the request cannot be done");
}

/* --- the outcome --- */

static void answer_killed(struct admin_request *request, int signal)
{
    if (signal == SIGXCPU) {
        answer_problem(request, 422, "this takes more processor time than a request may have");
    } else {
        answer_problem(request, 422,
                       "the process was ended by signal %d; it may have needed more memory than a "
                       "request may have",
                       signal);
    }
}

bool child_succeeded(struct admin_request *request, const struct child_outcome *outcome)
{
    switch (outcome->end) {
    case CHILD_EXITED:
        if ((outcome->code == EXIT_OF_SUCCESS || outcome->code == EXIT_OF_REFUSAL) &&
            outcome->output_bytes > 0) {
            return true;
        }
        answer_words(request, outcome->errors);
        break;
    case CHILD_KILLED:
        answer_killed(request, outcome->code);
        break;
    case CHILD_LATE:
        answer_problem(request, 422, "this takes longer than a request may");
        break;
    case CHILD_TOO_LONG:
        answer_problem(request, 422, "the answer is longer than an answer may be");
        break;
    }
    return false;
}

void child_answer(struct admin_request *request, struct child_outcome *outcome)
{
    if (child_succeeded(request, outcome)) {
        char *output = outcome->output;
        outcome->output = NULL;
        answer_content(request, 200, SPAN("application/json"), output, outcome->output_bytes);
    }
}

/* --- questions --- */

bool child_was_busy(struct admin_request *request)
{
    const size_t n_max = ADMIN_ASKING_CHILDREN_MAX - (request->may_change ? 0 : 1);
    const size_t n = request->admin->n_asking_children;
    if (n >= n_max) {
        request->retry_after_s = 1;
        answer_problem(request, 503, "%zu such questions are being answered; ask again", n);
    }
    return n >= n_max;
}

void child_ask_end(struct admin_request *request)
{
    request->admin->n_asking_children--;
    request->on_gone = NULL;
}

static void on_gone(struct admin_request *request)
{
    struct child *child = request->context;
    child_ask_end(request);
    child_abandon(child);
}

void child_ask(struct admin_request *request, struct child_order *order)
{
    struct child *child;
    order->context = request;
    if (child_start(&request->admin->children, order, &child) != STATUS_OK) {
        child_answer_not_started(request);
        return;
    }
    request->admin->n_asking_children++;
    request->context = child;
    request->on_gone = on_gone;
    request->watches_client = true;
}

void child_answer_not_started(struct admin_request *request)
{
    request->retry_after_s = 1;
    answer_problem(request, 503, "no process can be started now; ask again");
}

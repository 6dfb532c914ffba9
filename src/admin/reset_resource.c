/* DELETE /v1/limits/{limit}/keys/{key}: what was counted of one key is forgotten,
 * for all rates of the limit.
 *
 * Happy path: the store runs an errand for each rate; when all are done the request is answered.
 * Failures: the shared store cannot be reached (503): what this process counted itself is forgotten
 * all the same, and the answer says so. An errand cannot be called back: where the request is gone
 * meanwhile, its policy is kept until they are done. */

#include <stdlib.h>

#include "admin/describe.h"
#include "admin/internal.h"
#include "admin/key_resource.h"
#include "admin/resources.h"
#include "store/errand.h"

struct reset {
    struct admin *admin;
    struct admin_request *request; /* NULL: it is gone */
    const struct policy *policy;   /* kept, once it is gone */
    const struct limit_rule *rule;
    struct key_given given;
    struct store_errand errands[RATES_PER_LIMIT_MAX];
    size_t n_pending;
};

/* The first that failed, or the first. */
static const struct store_errand *worst(const struct reset *reset)
{
    for (size_t i = 0; i < reset->rule->n_limits; i++) {
        if (reset->errands[i].status != STATUS_OK) {
            return &reset->errands[i];
        }
    }
    return &reset->errands[0];
}

/* Whether some of it was done, or may be yet, where the store is. */
static bool may_be_done(const struct reset *reset)
{
    for (size_t i = 0; i < reset->rule->n_limits; i++) {
        if (reset->errands[i].status == STATUS_OK || reset->errands[i].may_be_done) {
            return true;
        }
    }
    return false;
}

static void answer_done(struct reset *reset)
{
    char shown[4 * KEY_TEXT_BYTES_MAX];
    struct text key = text_of(shown, sizeof(shown));
    json_t *json = key_resource_describe(reset->rule, &reset->given);
    describe_set(&json, "reset", json_true());
    key_print(key_given_identity(&reset->given), &key);
    answer_note(reset->request, "reset %.*s", SPAN_ARGS(text_span(&key)));
    answer_json(reset->request, 200, json);
}

static void conclude(struct reset *reset)
{
    const struct store_errand *errand = worst(reset);
    struct admin_request *request = reset->request;
    if (request == NULL) {
        const struct admin_options *options = &reset->admin->options;
        options->give_policy(options->context, reset->policy);
    } else if (errand->status == STATUS_OK) {
        answer_done(reset);
    } else {
        answer_problem(request, 503, "the store that is shared does not answer: %s; %s%s",
                       errand->fault != NULL ? errand->fault : status_text(errand->status),
                       may_be_done(reset) ? "the key may have been reset there, or be yet"
                                          : "nothing was reset there",
                       errand->was_local ? "; what this process counted itself is forgotten" : "");
    }
    free(reset);
}

static void on_done(struct store_errand *errand)
{
    struct reset *reset = errand->context;
    if (--reset->n_pending == 0) {
        reset->admin->n_changes--;
        conclude(reset);
    }
}

static void on_gone(struct admin_request *request)
{
    struct reset *reset = request->context;
    reset->policy = request_keep_policy(request);
    reset->request = NULL;
}

static void run(struct reset *reset, struct store *store)
{
    reset->n_pending = 1; /* this function */
    for (size_t i = 0; i < reset->rule->n_limits; i++) {
        struct store_errand *errand = &reset->errands[i];
        *errand = (struct store_errand){
            .kind = ERRAND_RESET,
            .limit = &reset->rule->limits[i],
            .key = key_given_identity(&reset->given),
            .on_done = on_done,
            .context = reset,
        };
        reset->n_pending += store_run(store, errand) == STORE_PENDING ? 1 : 0;
    }
    if (--reset->n_pending == 0) {
        conclude(reset);
        return;
    }
    reset->admin->n_changes++;
    reset->request->context = reset;
    reset->request->on_gone = on_gone;
}

void reset_handle(struct admin_request *request)
{
    struct store *store = admin_store(request->admin, request->policy);
    struct reset *reset = malloc(sizeof(*reset));
    if (store == NULL || reset == NULL) {
        free(reset);
        answer_problem(request, 503, "out of memory");
        return;
    }
    reset->admin = request->admin;
    reset->request = request;
    reset->rule = key_resource_read(request, &reset->given);
    if (reset->rule == NULL || !key_resource_needs_identity(request, reset->rule, &reset->given) ||
        !key_resource_may_wait(request)) {
        free(reset);
        return;
    }
    run(reset, store);
}

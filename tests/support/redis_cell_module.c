/* A stand-in for redis-cell, which Debian does not have: CL.THROTTLE with its arguments, its
 * reply and its whole seconds. It shows that sluice speaks the wire format; of redis-cell's
 * arithmetic it proves nothing.
 *
 * The few functions of Redis's module API that it takes are declared here: no
 * package has the header. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct context;
struct string;
struct call_reply;

enum { API_VERSION = 1, STATUS_OK = 0, STATUS_ERR = 1, MS_PER_S = 1000 };

static int (*reply_with_array)(struct context *, long);
static int (*reply_with_long_long)(struct context *, long long);
static int (*reply_with_error)(struct context *, const char *);
static int (*wrong_arity)(struct context *);
static int (*string_to_long_long)(const struct string *, long long *);
static long long (*milliseconds)(void);
static struct call_reply *(*call)(struct context *, const char *, const char *, ...);
static const char *(*call_reply_string)(struct call_reply *, size_t *);
static void (*free_call_reply)(struct call_reply *);
static int (*create_command)(struct context *, const char *,
                             int (*)(struct context *, struct string **, int), const char *, int,
                             int, int);
static void (*set_attributes)(struct context *, const char *, int, int);

/* When all that was taken has come back, ms. */
static long long load(struct context *context, struct string *key)
{
    size_t len;
    char digits[32] = "";
    struct call_reply *reply = call(context, "GET", "s", key);
    const char *text = call_reply_string(reply, &len);
    if (text != NULL && len < sizeof(digits)) {
        memcpy(digits, text, len);
    }
    free_call_reply(reply);
    return strtoll(digits, NULL, 10); /* its own */
}

static void save(struct context *context, struct string *key, long long arrival, long long ttl_ms)
{
    free_call_reply(call(context, "SET", "slcl", key, arrival, "PX", ttl_ms));
}

/* CL.THROTTLE key max_burst count period quantity */
static int throttle(struct context *context, struct string **words, int n_words)
{
    long long numbers[4];
    if (n_words != 6) {
        return wrong_arity(context);
    }
    for (int i = 0; i < 4; i++) {
        if (string_to_long_long(words[i + 2], &numbers[i]) != STATUS_OK || numbers[i] < 0) {
            return reply_with_error(context, "ERR not a number");
        }
    }
    const long long burst = numbers[0] + 1;
    const long long interval = numbers[2] * MS_PER_S / numbers[1];
    const long long now = milliseconds();
    long long arrival = load(context, words[1]);
    arrival = arrival > now ? arrival : now;
    const long long excess = arrival + interval * numbers[3] - now - burst * interval;
    if (excess <= 0 && numbers[3] > 0) {
        arrival += interval * numbers[3];
        save(context, words[1], arrival, arrival - now + MS_PER_S);
    }
    reply_with_array(context, 5);
    reply_with_long_long(context, excess > 0);
    reply_with_long_long(context, burst);
    reply_with_long_long(context, burst - (arrival - now + interval - 1) / interval);
    reply_with_long_long(context, excess > 0 ? excess / MS_PER_S : -1);
    reply_with_long_long(context, (arrival - now) / MS_PER_S);
    return STATUS_OK;
}

int RedisModule_OnLoad(struct context *context, struct string **words, int n_words);

/* Redis passes the function that finds the others as the first word of @context. */
int RedisModule_OnLoad(struct context *context, struct string **words, int n_words)
{
    int (*find)(const char *, void *) = NULL;
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"RedisModule_ReplyWithArray", &reply_with_array},
        {"RedisModule_ReplyWithLongLong", &reply_with_long_long},
        {"RedisModule_ReplyWithError", &reply_with_error},
        {"RedisModule_WrongArity", &wrong_arity},
        {"RedisModule_StringToLongLong", &string_to_long_long},
        {"RedisModule_Milliseconds", &milliseconds},
        {"RedisModule_Call", &call},
        {"RedisModule_CallReplyStringPtr", &call_reply_string},
        {"RedisModule_FreeCallReply", &free_call_reply},
        {"RedisModule_CreateCommand", &create_command},
        {"RedisModule_SetModuleAttribs", &set_attributes},
    };
    (void)words;
    (void)n_words;
    memcpy(&find, (const void *)context, sizeof(find));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        if (find(wanted[i].name, wanted[i].function) != STATUS_OK) {
            return STATUS_ERR;
        }
    }
    set_attributes(context, "redis-cell", 1, API_VERSION);
    return create_command(context, "CL.THROTTLE", throttle, "write", 1, 1, 1);
}

/* Wrong signatures by address. A lock, because only tokens that no table knows come here. */

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/text.h"
#include "jwt/verifier.h"

enum {
    N_SETS = 1024,
    N_WAYS = 4,
    US_PER_S = 1000 * 1000,
    US_PER_MINUTE = 60 * US_PER_S,
};

struct sender {
    struct address client;
    uint64_t minute_us; /* start of the minute that is counted */
    uint64_t second_us; /* start of the second */
    uint32_t n_failures;
    uint32_t n_allowed; /* in the second, while slowed down */
};

struct jwt_failures {
    pthread_mutex_t lock;
    struct sender senders[N_SETS][N_WAYS];
};

struct jwt_failures *jwt_failures_new(void)
{
    struct jwt_failures *failures = calloc(1, sizeof(*failures));
    if (failures != NULL) {
        pthread_mutex_init(&failures->lock, NULL);
    }
    return failures;
}

struct jwt_failures *jwt_failures_of_process(void)
{
    static struct jwt_failures failures = {.lock = PTHREAD_MUTEX_INITIALIZER};
    return &failures;
}

void jwt_failures_free(struct jwt_failures *failures)
{
    if (failures != NULL) {
        pthread_mutex_destroy(&failures->lock);
        free(failures);
    }
}

static bool has_ended(uint64_t start_us, uint64_t length_us, uint64_t now_us)
{
    return now_us < start_us || now_us - start_us >= length_us;
}

/* The sender of @client. NULL: it has none, unless @adds: then the one with the fewest failures of
 * its set makes room. */
static struct sender *find(struct jwt_failures *failures, const struct address *client, bool adds,
                           uint64_t now_us)
{
    const struct address known = address_of_client(client);
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    address_write(&known, &text);
    struct sender *set = failures->senders[hash_shared(text_span(&text)).low % N_SETS];
    struct sender *fewest = &set[0];
    for (size_t i = 0; i < N_WAYS; i++) {
        if (has_ended(set[i].minute_us, US_PER_MINUTE, now_us)) {
            set[i].n_failures = 0;
        }
        if (set[i].n_failures > 0 && address_equals(&set[i].client, &known)) {
            return &set[i];
        }
        fewest = set[i].n_failures < fewest->n_failures ? &set[i] : fewest;
    }
    if (!adds) {
        return NULL;
    }
    *fewest = (struct sender){.client = known, .minute_us = now_us};
    return fewest;
}

bool jwt_failures_allow(struct jwt_failures *failures, const struct address *client,
                        uint64_t now_us)
{
    bool allows = true;
    if (client->family == ADDRESS_NONE) {
        return true;
    }
    pthread_mutex_lock(&failures->lock);
    struct sender *sender = find(failures, client, false, now_us);
    if (sender != NULL && sender->n_failures >= JWT_FAILURES_PER_MINUTE) {
        if (has_ended(sender->second_us, US_PER_S, now_us)) {
            sender->second_us = now_us;
            sender->n_allowed = 0;
        }
        allows = sender->n_allowed < JWT_SLOWED_PER_SECOND;
        sender->n_allowed += allows;
    }
    pthread_mutex_unlock(&failures->lock);
    return allows;
}

void jwt_failures_return(struct jwt_failures *failures, const struct address *client,
                         uint64_t now_us)
{
    if (client->family == ADDRESS_NONE) {
        return;
    }
    pthread_mutex_lock(&failures->lock);
    struct sender *sender = find(failures, client, false, now_us);
    if (sender != NULL && sender->n_allowed > 0 &&
        !has_ended(sender->second_us, US_PER_S, now_us)) {
        sender->n_allowed--;
    }
    pthread_mutex_unlock(&failures->lock);
}

void jwt_failures_add(struct jwt_failures *failures, const struct address *client, unsigned n,
                      uint64_t now_us)
{
    if (client->family == ADDRESS_NONE) {
        return;
    }
    pthread_mutex_lock(&failures->lock);
    struct sender *sender = find(failures, client, true, now_us);
    const uint32_t room = JWT_FAILURES_PER_MINUTE - sender->n_failures;
    sender->n_failures += n < room ? n : room;
    if (!has_ended(sender->second_us, US_PER_S, now_us)) {
        sender->n_allowed += n - 1;
    }
    pthread_mutex_unlock(&failures->lock);
}

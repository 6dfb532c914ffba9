#include "admin/newcomers.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"

#define US_PER_S (UINT64_C(1000) * 1000)

enum { N_BITS = 32 }; /* of newcomer.n */

/* The entry of @address. NULL: it has none, unless @adds: then the one with the fewest connections
 * of its set makes room. */
static struct newcomer *find(struct newcomers *newcomers, const struct address *address,
                             uint64_t now_us, bool adds)
{
    const uint64_t second = now_us / US_PER_S;
    const struct address client = address_of_client(address);
    const struct span bytes = span_of((const char *)&client, sizeof(client));
    struct newcomer *set = newcomers->sets[hash_shared(bytes).low % NEWCOMERS_SETS];
    struct newcomer *fewest = &set[0];
    for (size_t i = 0; i < NEWCOMERS_WAYS; i++) {
        const uint64_t n_halvings = second - set[i].second;
        set[i].n = n_halvings < N_BITS ? set[i].n >> n_halvings : 0;
        set[i].second = second;
        if (set[i].n > 0 && address_equals(&set[i].client, &client)) {
            return &set[i];
        }
        fewest = set[i].n < fewest->n ? &set[i] : fewest;
    }
    if (!adds) {
        return NULL;
    }
    *fewest = (struct newcomer){.client = client, .second = second};
    return fewest;
}

void newcomers_add(struct newcomers *newcomers, const struct address *address, uint64_t now_us)
{
    find(newcomers, address, now_us, true)->n++;
}

void newcomers_let_in(struct newcomers *newcomers, const struct address *address, uint64_t now_us)
{
    struct newcomer *newcomer = find(newcomers, address, now_us, false);
    if (newcomer != NULL) {
        newcomer->n--;
    }
}

uint32_t newcomers_count(struct newcomers *newcomers, const struct address *address,
                         uint64_t now_us)
{
    const struct newcomer *newcomer = find(newcomers, address, now_us, false);
    return newcomer != NULL ? newcomer->n : 0;
}

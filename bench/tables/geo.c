/* bench_geo: what it costs to look an address up in databases of countries and systems.
 *
 *   bench_geo DATABASE...
 *
 * One line of JSON: CPU time of a lookup of random IPv4 addresses in all databases, and of one in a
 * geo_cache that knows the address; of each the fastest of several rounds, since what else the
 * machine does can only add to it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "geo/cache.h"
#include "geo/database.h"

#include "rounds.h"

enum { ROUNDS = 20, LOOKUPS = 100 * 1000, CLIENTS = 10, DATABASES_MAX = 4 };

static struct geo_database *databases[DATABASES_MAX];
static size_t n_databases;

static void find(const struct address *client, struct geo_facts *facts)
{
    *facts = (struct geo_facts){.asn = 0};
    for (size_t i = 0; i < n_databases; i++) {
        geo_database_find(databases[i], client, GEO_COUNTRY | GEO_ASN, facts);
    }
}

static void find_cached(struct geo_cache *cache, const struct address *client,
                        struct geo_facts *facts)
{
    if (!geo_cache_find(cache, client, facts)) {
        find(client, facts);
        geo_cache_put(cache, client, facts);
    }
}

static double lookup_ns(const struct address *clients, size_t n, struct geo_cache *cache,
                        size_t *n_known)
{
    double least = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        const uint64_t start_ns = run_ns();
        for (size_t i = 0; i < LOOKUPS; i++) {
            struct geo_facts facts;
            if (cache != NULL) {
                find_cached(cache, &clients[i % n], &facts);
            } else {
                find(&clients[i % n], &facts);
            }
            *n_known += facts.has_country || facts.asn != 0;
        }
        const double ns = (double)(run_ns() - start_ns) / (double)LOOKUPS;
        least = round == 0 || ns < least ? ns : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    static struct address clients[LOOKUPS];
    static struct geo_cache cache;
    size_t n_known = 0;
    for (int i = 1; i < argc && n_databases < DATABASES_MAX; i++) {
        char buffer[256];
        struct text problem = text_of(buffer, sizeof(buffer) - 1);
        if (geo_database_open(argv[i], &databases[n_databases++], &problem) != STATUS_OK) {
            fprintf(stderr, "bench_geo: %s: %.*s\n", argv[i], (int)problem.len, buffer);
            return EXIT_FAILURE;
        }
    }
    for (size_t i = 0; i < LOOKUPS; i++) {
        const uint64_t random = next_random();
        clients[i].family = ADDRESS_IPV4;
        memcpy(clients[i].bytes, &random, 4);
    }
    const double asked_ns = lookup_ns(clients, LOOKUPS, NULL, &n_known);
    if (n_known == 0) {
        fputs("bench_geo: no address is known\n", stderr);
        return EXIT_FAILURE;
    }
    printf("{\"databases\": %zu, \"known\": %.2f, \"lookup_ns\": %.0f, ", n_databases,
           (double)n_known / (double)(ROUNDS * LOOKUPS), asked_ns);
    printf("\"cached_ns\": %.0f}\n", lookup_ns(clients, CLIENTS, &cache, &n_known));
    for (size_t i = 0; i < n_databases; i++) {
        geo_database_release(databases[i]);
    }
    return EXIT_SUCCESS;
}

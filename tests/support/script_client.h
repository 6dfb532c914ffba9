/* The assembled script in a real Redis, asked with the time injected. */

#ifndef SLUICE_TESTS_SUPPORT_SCRIPT_CLIENT_H
#define SLUICE_TESTS_SUPPORT_SCRIPT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit/identical.h"
#include "store/store.h"
#include "support/redis_server.h"

struct script_client {
    struct redisContext *connection; /* owned */
    char sha[41];                    /* NUL-terminated */
};

/* Connect and load the script that @limits need. Fails the test when it cannot. */
void script_client_open(struct script_client *client, const struct redis_server *server,
                        const struct limit *limits, size_t n_limits);
void script_client_close(struct script_client *client);

/* Send a decision at @now_us over @charges, whose keys are the whole keys in Redis. Several may be
 * sent before the first answer is read. */
void script_client_send(struct script_client *client, const struct charge *charges,
                        size_t n_charges, uint64_t now_us);

/* The same for another aim. */
void script_client_send_as(struct script_client *client, enum decision_aim aim,
                           const struct charge *charges, size_t n_charges, uint64_t now_us);

/* Read the answer of the oldest that was sent into its @charges; returns whether all allow. */
bool script_client_read(struct script_client *client, struct charge *charges, size_t n_charges);

/* The same for @n_requests alike; their verdicts are read off @identical. The edges of @charges
 * are borrowed until then. */
void script_client_send_identical(struct script_client *client, const struct charge *charges,
                                  size_t n_charges, size_t n_requests, uint64_t now_us);
void script_client_read_identical(struct script_client *client, const struct charge *charges,
                                  size_t n_charges, size_t n_requests, struct identical *identical);

/* Send settlements at @now_us, and read that they were made; how many were to renew a slot that is
 * not there. */
void script_client_send_settlements(struct script_client *client,
                                    const struct settlement *settlements, size_t n,
                                    uint64_t now_us);
size_t script_client_read_settled(struct script_client *client);

#endif /* SLUICE_TESTS_SUPPORT_SCRIPT_CLIENT_H */

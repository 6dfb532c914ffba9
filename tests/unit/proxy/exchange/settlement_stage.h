/* An admission with two charges, and a store that remembers what it is told of them. */

#ifndef TESTS_UNIT_PROXY_EXCHANGE_SETTLEMENT_STAGE_H
#define TESTS_UNIT_PROXY_EXCHANGE_SETTLEMENT_STAGE_H

#include <check.h>
#include <stdlib.h>

#include "limit/algorithms.h"
#include "proxy/exchange/exchange_config.h"
#include "proxy/settlement.h"

/* A store that remembers what it is told. */
static struct settlement reported[1024];
static size_t n_reported;
static unsigned n_calls;

static void remember(struct store *store, const struct settlement *settlements, size_t n)
{
    (void)store;
    n_calls++;
    for (size_t i = 0; i < n; i++) {
        reported[n_reported++] = settlements[i];
    }
}

/* Where the link to this server is down. */
static enum decision_source source_that_is_down;
static const struct limit *limit_without_room; /* in the queue of its server */
static unsigned n_asked;                       /* whether they can be settled */

static bool can_settle(struct store *below, const struct settlement *settlement)
{
    (void)below;
    n_asked++;
    return settlement->source != source_that_is_down && settlement->limit != limit_without_room;
}

static uint64_t n_losses; /* of settlements for Redis */

static uint64_t count_losses(const struct store *below, enum decision_source source)
{
    (void)below;
    return source == DECISION_REDIS ? n_losses : 0;
}

static const struct store_ops OPS = {
    .name = "remembering",
    .settle = remember,
    .can_settle = can_settle,
    .count_losses = count_losses,
};
static struct store store = {.ops = &OPS};

static struct limit limits[2];
static struct limit_rule rules[2];
static struct admission admission;

/* Two limits, each charged 10 units by Redis. */
static inline void set_up(void)
{
    n_reported = 0;
    n_calls = 0;
    n_asked = 0;
    limit_without_room = NULL;
    source_that_is_down = DECISION_BAN; /* none */
    admission = (struct admission){
        .decision = {.charges = admission.charges, .n_charges = 2, .source = DECISION_REDIS}};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        limits[i] = (struct limit){
            .index = (uint32_t)i,
            .algorithm = &token_bucket_algorithm,
            .params = {.rate = 10, .burst = 100, .period = 1000000, .ticks_per_s = 1000000},
        };
        rules[i] = (struct limit_rule){.limits = &limits[i], .n_limits = 1};
        admission.rules[i] = &rules[i];
        admission.charges[i] = (struct charge){
            .limit = &limits[i],
            .key = SPAN("{ip:1=a}"),
            .cost = 10,
            .charged = true,
            .charged_at_us = 77,
        };
    }
}

/* Charge 0 has a slot of all clients, charge 1 one of its client. */
static inline void hold_slots(void)
{
    admission.charges[0].key = SPAN("{global:0=}");
    admission.charges[0].slot = 9;
    admission.charges[1].key = SPAN("{client.ip:1=a}");
    admission.charges[1].slot = 10;
}

#endif /* TESTS_UNIT_PROXY_EXCHANGE_SETTLEMENT_STAGE_H */

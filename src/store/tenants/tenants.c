/* Tenants in a replica. One whose identity is known is found by one fast hash. If there are tenants
 * that are known only by the hash of their identity, a lookup computes that, too. */

#include "store/tenants.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The largest number of milliseconds that a double, and so a script, holds exactly. */
static const uint64_t MS_MAX = UINT64_C(1) << 53;

struct tenants {
    struct replica *replica;
    atomic_bool has_hashes; /* some tenants are, or were, known by their hash alone */
    pthread_mutex_t lock;   /* of the resolver */
    tenants_resolve *resolve;
    void *context;
};

enum status tenants_new(size_t n_max, struct tenants **tenants)
{
    struct tenants *made = calloc(1, sizeof(*made));
    if (made == NULL ||
        replica_new("store.tenants", "tenants", n_max, &made->replica) != STATUS_OK) {
        free(made);
        return STATUS_NO_MEMORY;
    }
    pthread_mutex_init(&made->lock, NULL); /* a plain mutex: cannot fail on Linux */
    *tenants = made;
    return STATUS_OK;
}

void tenants_free(struct tenants *tenants)
{
    if (tenants != NULL) {
        replica_free(tenants->replica);
        pthread_mutex_destroy(&tenants->lock);
        free(tenants);
    }
}

void tenants_set_resolver(struct tenants *tenants, tenants_resolve *resolve, void *context)
{
    pthread_mutex_lock(&tenants->lock);
    tenants->resolve = resolve;
    tenants->context = context;
    pthread_mutex_unlock(&tenants->lock);
}

struct replica *tenants_replica(struct tenants *tenants)
{
    return tenants->replica;
}

/* --- values --- */

/* Cuts the first word, and the space after it, from @rest; empty: there is none. */
static struct span take_word(struct span *rest)
{
    const size_t len = span_find(*rest, ' ');
    const struct span word = span_of(rest->data, len);
    const size_t skipped = len < rest->len ? len + 1 : len;
    *rest = span_of(rest->data + skipped, rest->len - skipped);
    return word;
}

static bool take_ms(struct span *rest, uint64_t *ms)
{
    const struct span word = take_word(rest);
    *ms = 0;
    return word.len == 0 || span_to_u64(word, MS_MAX, ms);
}

bool tenant_read(struct span value, struct tenant *tenant)
{
    struct span rest = value;
    tenant->plan = take_word(&rest);
    if (tenant->plan.len == 0 || tenant->plan.len > TENANT_PLAN_BYTES_MAX ||
        !take_ms(&rest, &tenant->until_ms) || !take_ms(&rest, &tenant->set_ms)) {
        return false;
    }
    tenant->by = rest;
    return rest.len <= TENANT_BY_BYTES_MAX;
}

void tenant_write(const struct tenant *tenant, struct text *value)
{
    text_add(value, tenant->plan);
    text_add_char(value, ' ');
    text_add_u64(value, tenant->until_ms);
    text_add_char(value, ' ');
    text_add_u64(value, tenant->set_ms);
    text_add_char(value, ' ');
    text_add(value, tenant->by);
}

/* --- records --- */

static void make_row(struct tenants *tenants, const struct tenant_key *key, struct replica_row *row)
{
    if (key->len > 0) {
        row->tag = replica_tag(tenants->replica, span_of(key->identity, key->len));
        return;
    }
    char digits[2 * HASH_IDENTITY_BYTES];
    struct text text = text_of(digits, sizeof(digits));
    text_add_hex(&text, key->hash, sizeof(key->hash));
    row->tag = replica_tag(tenants->replica, text_span(&text));
    atomic_store(&tenants->has_hashes, true);
}

static bool resolve(struct tenants *tenants, struct span field, struct tenant_key *key)
{
    pthread_mutex_lock(&tenants->lock);
    const bool is_known = field.len <= TENANT_FIELD_BYTES_MAX && tenants->resolve != NULL &&
                          tenants->resolve(tenants->context, field, key);
    pthread_mutex_unlock(&tenants->lock);
    return is_known;
}

static bool read_row(void *context, struct span field, struct span value, uint64_t now_ms,
                     struct replica_row *row, uint64_t *left_us, uint64_t *until_ms)
{
    struct tenants *tenants = context;
    struct tenant tenant;
    struct tenant_key key;
    if (!tenant_read(value, &tenant) || (tenant.until_ms > 0 && tenant.until_ms <= now_ms) ||
        !resolve(tenants, field, &key)) {
        return false;
    }
    make_row(tenants, &key, row);
    *until_ms = tenant.until_ms;
    *left_us = tenant.until_ms > 0 ? (tenant.until_ms - now_ms) * 1000 : UINT64_MAX;
    return true;
}

const struct replica_table TENANTS_TABLE = {
    .module = "store.tenants",
    .name = "tenants",
    .suffix = {TENANTS_KEY_SUFFIX, sizeof(TENANTS_KEY_SUFFIX) - 1},
    .word = {"tenant ", 7},
    .read = read_row,
};

enum status tenants_put(struct tenants *tenants, struct span field, struct span value,
                        uint64_t now_ms, uint64_t now_us)
{
    struct replica_row row = {.field = field, .value = value};
    uint64_t left_us;
    uint64_t until_ms;
    if (!read_row(tenants, field, value, now_ms, &row, &left_us, &until_ms)) {
        return STATUS_INVALID;
    }
    row.ends_us = left_us < UINT64_MAX - now_us ? now_us + left_us : UINT64_MAX;
    return replica_put(tenants->replica, &row, now_us);
}

bool tenants_remove(struct tenants *tenants, struct span field)
{
    return replica_remove(tenants->replica, field, NULL);
}

/* --- all tenants at once --- */

static uint64_t end_us(const struct tenant_row *row, uint64_t now_ms, uint64_t now_us)
{
    const uint64_t left_ms = row->until_ms - now_ms;
    return row->until_ms == 0 || left_ms > (UINT64_MAX - now_us) / 1000 ? UINT64_MAX
                                                                        : now_us + left_ms * 1000;
}

/* Fills @made with those of @rows that have not ended at @now_ms. *n_made is their number. False:
 * no memory. */
static bool make_rows(const struct tenant_row *rows, size_t n, struct span by, uint64_t now_ms,
                      uint64_t now_us, struct arena *arena, struct replica_row *made,
                      size_t *n_made)
{
    struct span value = {NULL, 0};
    *n_made = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tenant_row *row = &rows[i];
        const bool is_as_before = i > 0 && rows[i - 1].until_ms == row->until_ms &&
                                  span_equals(rows[i - 1].plan, row->plan);
        if (row->until_ms > 0 && row->until_ms <= now_ms) {
            continue;
        }
        if (!is_as_before || value.data == NULL) {
            char bytes[TENANT_VALUE_BYTES_MAX];
            struct text text = text_of(bytes, sizeof(bytes));
            const struct tenant tenant = {.plan = row->plan, .until_ms = row->until_ms, .by = by};
            tenant_write(&tenant, &text);
            value = arena_copy(arena, text_span(&text));
            if (value.data == NULL) {
                return false;
            }
        }
        made[(*n_made)++] = (struct replica_row){
            .field = row->key, .value = value, .ends_us = end_us(row, now_ms, now_us)};
    }
    return true;
}

enum status tenants_replace(struct tenants *tenants, const struct tenant_row *rows, size_t n,
                            struct span by, uint64_t now_ms, uint64_t now_us)
{
    struct replica_row *made = calloc(n > 0 ? n : 1, sizeof(*made));
    struct arena arena;
    size_t n_made;
    bool has_hashes = false;
    arena_init(&arena, NULL, 0);
    for (size_t i = 0; i < n; i++) {
        has_hashes = has_hashes || rows[i].is_hash;
    }
    const bool had_hashes = atomic_load(&tenants->has_hashes);
    atomic_store(&tenants->has_hashes, had_hashes || has_hashes); /* before they are found */
    enum status status = STATUS_NO_MEMORY;
    if (made != NULL && make_rows(rows, n, by, now_ms, now_us, &arena, made, &n_made)) {
        status = replica_replace(tenants->replica, made, n_made);
    }
    atomic_store(&tenants->has_hashes, status == STATUS_OK ? has_hashes : had_hashes);
    arena_reset(&arena);
    free(made);
    return status;
}

/* --- lookup --- */

void tenants_view_init(struct tenants_view *view, struct tenants *tenants)
{
    *view = (struct tenants_view){.tenants = tenants};
    if (tenants != NULL) {
        view->replica = tenants->replica;
        replica_reader_init(&view->reader, tenants->replica);
    }
}

void tenants_view_close(struct tenants_view *view)
{
    if (view->tenants != NULL) {
        replica_reader_close(&view->reader);
        view->tenants = NULL;
    }
}

struct span tenants_view_find(struct tenants_view *view, struct span identity, struct span secret,
                              uint64_t now_us, char plan[TENANT_PLAN_BYTES_MAX])
{
    const struct tenants *tenants = view->tenants;
    const struct replica_entry *entry =
        replica_find(&view->reader, replica_tag(tenants->replica, identity), now_us);
    if (entry == NULL && atomic_load_explicit(&tenants->has_hashes, memory_order_relaxed)) {
        uint8_t hash[HASH_IDENTITY_BYTES];
        char digits[2 * HASH_IDENTITY_BYTES];
        struct text text = text_of(digits, sizeof(digits));
        hash_identity(secret, identity, hash);
        text_add_hex(&text, hash, sizeof(hash));
        entry =
            replica_find(&view->reader, replica_tag(tenants->replica, text_span(&text)), now_us);
    }
    struct span name = SPAN("");
    if (entry != NULL) {
        const struct span value = replica_entry_value(entry);
        name = span_of(plan, span_find(value, ' '));
        memcpy(plan, value.data, name.len);
    }
    replica_release(&view->reader);
    return name;
}

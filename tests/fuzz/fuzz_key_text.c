/* Keys as people write them: whatever is written, it is refused with a reason, or it is an identity
 * that means itself, and that means itself once more when it is printed for people.
 *
 * The first byte of the input chooses the parts of the key, two bits each. */

#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "fuzz/must_hold.h"
#include "policy/key.h"
#include "policy/load/value_types.h"
#include "policy/policy.h"

enum {
    N_PARTS = 4,
    INPUT_BYTES_MAX = KEY_GIVEN_BYTES_MAX + 16,
};

static const struct span PARTS[] = {
    {"header.x-key | client.ip", 24},
    {"cookie.s | path.id | method", 27},
    {"path.1 | query.q", 16},
    {"path | host | route | global", 28},
};

static const struct policy policy = {.store.secret = {"secret", 6}};
static struct key_part compiled[ARRAY_LEN(PARTS)];
static struct arena arena;

static void set_up(void)
{
    char problem_bytes[128];
    MUST_HOLD(hash_setup() == STATUS_OK);
    arena_init(&arena, NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(PARTS); i++) {
        struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
        MUST_HOLD(value_parse_key_part(PARTS[i], &arena, &compiled[i], &problem));
    }
}

/* @written is read as the identity of @given. */
static void check_means(const struct key *key, struct span written, const struct key_given *given)
{
    static struct key_given again;
    char problem_bytes[1024];
    struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
    MUST_HOLD(key_parse(&policy, key, written, &again, &problem));
    MUST_HOLD(span_equals(key_given_identity(&again), key_given_identity(given)));
    MUST_HOLD(memcmp(again.hash, given->hash, sizeof(given->hash)) == 0);
}

static void check_identity(const struct key *key, const struct key_given *given)
{
    char bytes[4 * KEY_TEXT_BYTES_MAX];
    struct text printed = text_of(bytes, sizeof(bytes));
    const struct span identity = key_given_identity(given);
    for (size_t i = 0; i < identity.len; i++) {
        MUST_HOLD(identity.data[i] > ' ' && identity.data[i] < 0x7f);
    }
    check_means(key, identity, given);
    key_print(identity, &printed);
    MUST_HOLD(!printed.truncated);
    check_means(key, text_span(&printed), given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct key_given given;
    static char printed_bytes[8 * INPUT_BYTES_MAX];
    static bool is_ready;
    struct key_part parts[N_PARTS];
    char problem_bytes[1024];
    struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
    struct text printed = text_of(printed_bytes, sizeof(printed_bytes));
    if (size < 2 || size > INPUT_BYTES_MAX) {
        return 0;
    }
    if (!is_ready) {
        set_up();
        is_ready = true;
    }
    const struct span written = span_of((const char *)data + 2, size - 2);
    const struct key key = {.parts = parts, .n_parts = 1 + data[1] % N_PARTS};
    for (size_t i = 0; i < key.n_parts; i++) {
        parts[i] = compiled[data[0] >> 2 * i & 3];
    }
    key_print(written, &printed);
    MUST_HOLD(!printed.truncated);
    if (!key_parse(&policy, &key, written, &given, &problem)) {
        MUST_HOLD(problem.len > 0 && !problem.truncated);
    } else if (given.len > 0) {
        check_identity(&key, &given);
    }
    return 0;
}

/* Finds limits with equal keys, so that a key is read from a request once for all of them. */

#include "policy/compile/compile.h"

enum { TERM_BYTES_MAX = 128 }; /* a term's numbers and the length of its name */

static size_t bytes_of(const struct key *key)
{
    size_t bytes = TERM_BYTES_MAX;
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            bytes += TERM_BYTES_MAX + key->parts[i].terms[j].name.len;
        }
    }
    return bytes;
}

/* Write all that the identities of a key depend on. Different keys have different texts. */
static void write_key(struct text *text, const struct limit_rule *rule)
{
    text_add_format(text, "%d/%d", (int)rule->missing, (int)rule->key.duplicates);
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        const struct key_part *part = &rule->key.parts[i];
        text_add_char(text, ',');
        for (size_t j = 0; j < part->n_terms; j++) {
            const struct key_term *term = &part->terms[j];
            text_add_format(text, "|%d/%u/%u/%u/%zu:", (int)term->source, term->number,
                            term->ipv4_bits, term->ipv6_bits, term->name.len);
            text_add(text, term->name);
        }
    }
}

static struct span key_text(struct compiler *compiler, const struct limit_rule *rule)
{
    const size_t bytes = bytes_of(&rule->key);
    char *memory = arena_alloc(compiler->scratch, bytes);
    struct text text = text_of(memory, memory == NULL ? 0 : bytes);
    compiler->no_memory = compiler->no_memory || memory == NULL;
    write_key(&text, rule);
    return text_span(&text);
}

void compile_keys(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    struct name_index keys;
    struct span *texts = arena_calloc(compiler->scratch, policy->n_rules + 1, sizeof(struct span));
    if (texts == NULL || name_index_init(&keys, compiler->scratch, policy->n_rules) != STATUS_OK) {
        compiler->no_memory = true;
        return;
    }
    for (size_t i = 0; i < policy->n_rules && !compiler->no_memory; i++) {
        texts[i] = key_text(compiler, &policy->rules[i]);
        name_index_add(&keys, texts[i], (uint32_t)i);
    }
    if (compiler->no_memory) {
        return;
    }
    name_index_build(&keys);
    for (size_t i = 0; i < policy->n_rules; i++) {
        policy->rules[i].key_number = name_index_find(&keys, texts[i])->number;
    }
}

void compile_fingerprints(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    bool is_read = false;
    for (size_t i = 0; i < policy->n_rules; i++) {
        is_read = is_read || key_reads(&policy->rules[i].key, KEY_FROM_HANDSHAKE);
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        is_read = is_read || key_reads(&policy->upstreams[i].balance_key, KEY_FROM_HANDSHAKE);
    }
    for (size_t i = 0; i < policy->n_listeners; i++) {
        if (policy->listeners[i].tls_config != NULL) {
            policy->listeners[i].tls_config->computes_ja4 = is_read;
        }
    }
}

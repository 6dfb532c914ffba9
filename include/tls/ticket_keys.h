/* The keys of TLS session tickets. Pure: the time is an argument.
 *
 * A key is derived for each hour: HKDF-SHA-256 of a secret, the hour and the identity of what the
 * session was made for. So proxies with the same secret resume each other's sessions, a restart or
 * a renewal keeps them, and a session of one identity is useless for another (CVE-2025-23419). The
 * hour's key encrypts. The keys of the two hours before and of the next decrypt, so that a ticket
 * lives for two hours and clocks may differ. The name of a key begins with its hour, so that a
 * forged ticket costs one derivation for each secret. The caller wipes keys and secrets
 * (secret_wipe()). */

#ifndef SLUICE_TLS_TICKET_KEYS_H
#define SLUICE_TLS_TICKET_KEYS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

enum {
    TICKET_SECRET_BYTES = 32,
    TICKET_SECRETS_MAX = 8, /* lines of a secret file: the first encrypts, all decrypt */
    TICKET_NAME_BYTES = 16,
    TICKET_KEY_BYTES = 32, /* AES-256, HMAC-SHA-256 */
    TICKET_IDENTITY_BYTES = 32,
    TICKET_LIFETIME_S = 2 * 3600,
    TICKET_HOURS_BEFORE = 2, /* whose keys decrypt too */
    TICKET_HOURS_AFTER = 1,
};

struct ticket_secrets {
    unsigned char secrets[TICKET_SECRETS_MAX][TICKET_SECRET_BYTES];
    size_t n;
};

struct ticket_key {
    unsigned char name[TICKET_NAME_BYTES]; /* stands in the ticket, and tells keys apart */
    unsigned char cipher_key[TICKET_KEY_BYTES];
    unsigned char mac_key[TICKET_KEY_BYTES];
};

/* Read the lines of a secret file: 64 hexadecimal digits each, empty lines and lines that begin
 * with '#' left out. False: *@line (from 1) is wrong, or there is none, or too many (0). */
MUST_USE bool ticket_secrets_parse(struct span text, struct ticket_secrets *secrets, size_t *line);

/* The identity that tickets of an entry are bound to: its @n_names @names in the order of
 * memcmp(), the rule for client certificates (at most 255) and a digest of the files that the rule
 * uses. */
void ticket_identity(const struct span *names, size_t n_names, unsigned client_rule,
                     struct span client_files_digest,
                     unsigned char identity[TICKET_IDENTITY_BYTES]);

/* The hour of @now_s (Unix time), and the one that a key's name begins with. */
uint32_t ticket_hour(int64_t now_s);
uint32_t ticket_name_hour(const unsigned char name[TICKET_NAME_BYTES]);

/* The key that encrypts at @now_s (Unix time). */
void ticket_key_to_encrypt(const struct ticket_secrets *secrets,
                           const unsigned char identity[TICKET_IDENTITY_BYTES], int64_t now_s,
                           struct ticket_key *key);

/* The key called @name, which is no part of *@key, among those that decrypt at @now_s. False: there
 * is none, and the client makes a full handshake. *@is_current: it is also the key that encrypts.
 */
MUST_USE bool ticket_key_to_decrypt(const struct ticket_secrets *secrets,
                                    const unsigned char identity[TICKET_IDENTITY_BYTES],
                                    const unsigned char name[TICKET_NAME_BYTES], int64_t now_s,
                                    struct ticket_key *key, bool *is_current);

/* The secrets of session tickets that no other proxy takes. Each hour has one of its own, computed
 * from that of the hour before, and those whose tickets are dead are forgotten: so the memory of
 * the process opens no session that was recorded before (a ticket of TLS 1.2 has the session's
 * master secret). The time is an argument. Shared by all threads. */

struct ticket_chain {
    pthread_mutex_t lock;
    bool has_begun;
    uint32_t hour; /* the oldest whose secret can be computed */
    unsigned char secret[TICKET_SECRET_BYTES];
};

#define TICKET_CHAIN_INIT                                                                          \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

/* Set *@secrets to the secret of @hour, which the caller wipes. False: tickets of @hour are dead or
 * in the future at @now_s (Unix time), or are of a time before the clock was set. Always true for
 * the hour of @now_s. hash_setup() must have been called. */
MUST_USE bool ticket_chain_read(struct ticket_chain *chain, int64_t now_s, uint32_t hour,
                                struct ticket_secrets *secrets);

#endif /* SLUICE_TLS_TICKET_KEYS_H */

/* A certificate chain with its private key, read from two PEM files and checked. It is immutable
 * and shared by all threads; each worker makes objects of its own OpenSSL library context of it. */

#ifndef SLUICE_TLS_CERTIFICATE_H
#define SLUICE_TLS_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"

struct server_names;

enum {
    CERTIFICATE_FILE_BYTES_MAX = 1024 * 1024,
    CERTIFICATE_CHAIN_MAX = 8,    /* certificates in a file */
    CERTIFICATE_NAMES_MAX = 1024, /* subject alternative names */
    CERTIFICATE_SUBJECT_BYTES = 256,
    CERTIFICATE_PROBLEM_BYTES = 512,
};

struct certificate {
    struct span chain[CERTIFICATE_CHAIN_MAX]; /* DER, the leaf first; owned */
    size_t n_chain;
    struct span key;      /* DER (PKCS #8); owned, and wiped when freed */
    char **names;         /* DNS names of the leaf, as server_names_add() takes them; owned */
    size_t n_names;       /* names that no server can have are left out */
    bool has_address;     /* the leaf has an IP address among its names */
    bool is_rsa;          /* else ECDSA or Ed25519 */
    bool is_self_signed;  /* the leaf */
    bool serves;          /* the leaf's key usage lets it identify a server */
    bool asks;            /* … a client */
    int64_t not_before_s; /* Unix time; the latest of the chain */
    int64_t not_after_s;  /* the earliest of the chain */
    size_t i_first_end;   /* the certificate of the chain that not_after_s is of */
    char subject[CERTIFICATE_SUBJECT_BYTES]; /* of the leaf: printable, one line, cut if longer */
    char issuer[CERTIFICATE_SUBJECT_BYTES];
    char fingerprint[65]; /* SHA-256 of the leaf, hexadecimal */
};

/* Something is wrong with a file: what, in which file, and what to do. */
struct certificate_problem {
    const char *path;                     /* borrowed from the call */
    char text[CERTIFICATE_PROBLEM_BYTES]; /* printable; does not repeat the path */
};

/* Read the files at @cert_path and @key_path, which may be the same, and check them: regular files
 * of bounded size, each certificate is issued by the one after it, the key is the leaf's and not
 * encrypted, RSA of 2048 bits at least or P-256 or P-384 or P-521 or Ed25519, no signature that
 * clients refuse. For whom and when the certificate is good is checked by the functions below.
 * STATUS_OK: the caller owns *@certificate. STATUS_IO, STATUS_INVALID: see *@problem.
 * STATUS_NO_MEMORY. */
MUST_USE enum status certificate_load(const char *cert_path, const char *key_path,
                                      struct certificate **certificate,
                                      struct certificate_problem *problem);

/* The same from text; the paths are for *@problem alone. */
MUST_USE enum status certificate_read(struct span cert_pem, const char *cert_path,
                                      struct span key_pem, const char *key_path,
                                      struct certificate **certificate,
                                      struct certificate_problem *problem);

/* True: it can identify a server: it has a DNS name or an IP address, and its key usage lets it.
 * False: *@problem says why not, with a path of NULL. */
MUST_USE bool certificate_check_server(const struct certificate *certificate,
                                       struct certificate_problem *problem);

/* True: the whole chain is valid at @now_s. False: *@problem says since when it is not, or from
 * when it is, with a path of NULL. */
MUST_USE bool certificate_check_time(const struct certificate *certificate, int64_t now_s,
                                     struct certificate_problem *problem);

/* Whether the leaf stands alone although clients do not know its issuer: it says where to fetch
 * that, as certificates of public authorities do, which are never signed by a root. */
MUST_USE bool certificate_lacks_issuer(const struct certificate *certificate);

/* Read the certificates of authorities in the PEM file at @path, at least one, as DER: *@n_ders of
 * them at *@ders, owned by the caller, who frees them by certificate_free_ders(). Errors as of
 * certificate_load(). */
MUST_USE enum status certificate_load_cas(const char *path, struct span **ders, size_t *n_ders,
                                          struct certificate_problem *problem);
void certificate_free_ders(struct span *ders, size_t n_ders);

/* Whether @cas (DER) are of several authorities. One whose issuer is among them belongs to that
 * one, and those of one subject, such as an old and a new one, belong together. */
MUST_USE bool certificate_are_of_several(const struct span *cas, size_t n_cas);

struct certificate_crls {
    struct span *ders; /* owned; freed by certificate_free_ders() */
    size_t n_ders;
    int64_t end_s; /* Unix time from which the first of them is no longer current */
};

/* Read the certificate revocation lists in the PEM file at @path, at least one, each signed by one
 * of the @n_cas authorities @cas (DER). Errors as of certificate_load(). */
MUST_USE enum status certificate_load_crls(const char *path, const struct span *cas, size_t n_cas,
                                           struct certificate_crls *crls,
                                           struct certificate_problem *problem);

/* The contents of the regular file at @path, of bounded size; the caller frees them, which wipes
 * them. STATUS_IO, STATUS_INVALID: see *@problem. STATUS_NO_MEMORY. */
MUST_USE enum status certificate_load_file(const char *path, struct span *contents,
                                           struct certificate_problem *problem);
void certificate_free_file(struct span contents);

/* NULL is a no-op. */
void certificate_free(struct certificate *certificate);

/* --- a certificate that signs itself, for trying out TLS --- */

enum {
    SELF_SIGNED_NAMES_MAX = 100,
    SELF_SIGNED_DAYS_MAX = 36500,
};

struct self_signed {
    struct span cert; /* PEM; owned */
    struct span key;  /* PEM (PKCS #8); owned, and wiped when freed */
};

/* Make an ECDSA key on P-256 and a certificate of it for the @n_names (1 … SELF_SIGNED_NAMES_MAX)
 * @names: DNS names, "*." and a name, and IP addresses. Its common name is the first, cut at 64
 * bytes. It is valid from an hour before @now_s (Unix time), as clocks differ, for @days from
 * @now_s. STATUS_OK: the caller frees @made. STATUS_INVALID: names[*bad] is no name.
 * STATUS_NO_MEMORY: also any other failure of OpenSSL. */
MUST_USE enum status self_signed_make(const struct span *names, size_t n_names, unsigned days,
                                      int64_t now_s, struct self_signed *made, size_t *bad);

void self_signed_free(struct self_signed *made);

/* Which of a listener's certificate entries serves a name: an exact name goes before a wildcard
 * of one label (*.example.com serves a.example.com, not example.com and not a.b.example.com). Pure;
 * a lookup is two hash lookups at most. hash_setup() must have been called. */

#define SERVER_NAMES_NONE ((size_t)-1)

/* *@normal: @name in lower case without a dot at its end, in @buffer. False: it is no host name
 * (labels of letters, digits, "-" and "_"), or an IP address. */
MUST_USE bool server_names_normalise(struct span name, char buffer[HOST_BYTES_MAX],
                                     struct span *normal);

/* An empty set for at most @n_max names. STATUS_NO_MEMORY. */
MUST_USE enum status server_names_new(size_t n_max, struct server_names **names);
void server_names_free(struct server_names *names);

/* @name, or "*." and a name, is served by @entry. It is in lower case, and is copied.
 * STATUS_IN_USE: *@other already serves it (also when @entry itself does). STATUS_INVALID: a
 * wildcard elsewhere than as the first label, or an impossible name. STATUS_NO_MEMORY: also for
 * more than n_max names. */
MUST_USE enum status server_names_add(struct server_names *names, struct span name, size_t entry,
                                      size_t *other);

/* The entry of @name, of any case and with or without a dot at its end, or SERVER_NAMES_NONE. For a
 * wildcard any first label counts, also one that no host can have: a request may name such a host,
 * and routes match it. */
MUST_USE size_t server_names_find(const struct server_names *names, struct span name);

#endif /* SLUICE_TLS_CERTIFICATE_H */

/* The files of a TLS configuration besides certificates (tls/certificate.h): stapled responses and
 * secrets of tickets; and what their owner may compute of an entry once all are read. */

#ifndef SLUICE_TLS_SERVER_FILES_H
#define SLUICE_TLS_SERVER_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "tls/certificate.h"
#include "tls/ticket_keys.h"
#include "tls/tls_server.h"

/* Read the OCSP response (DER) at @path for @certificate, whose chain has the issuer: signed for
 * the issuer, good, and current at @now_s. STATUS_OK: *@response is the caller's, freed by
 * certificate_free_file(), and stale from *@end_s (Unix time) on. STATUS_IO: the file cannot be
 * read. STATUS_INVALID: it cannot be stapled. Both: see *@problem. STATUS_NO_MEMORY. */
MUST_USE enum status server_files_load_ocsp(const char *path, const struct certificate *certificate,
                                            int64_t now_s, struct span *response, int64_t *end_s,
                                            struct certificate_problem *problem);

/* Read the file of ticket secrets at @path. Errors as of certificate_load(). The caller wipes
 * *@secrets. */
MUST_USE enum status server_files_load_secrets(const char *path, struct ticket_secrets *secrets,
                                               struct certificate_problem *problem);

/* Whether every user of this machine may read the file at @path. */
MUST_USE bool server_files_is_exposed(const char *path);

/* Set client_digest of @entry from its rule, authorities and revocation lists. */
void server_files_digest_clients(struct tls_entry_config *entry);

#endif /* SLUICE_TLS_SERVER_FILES_H */

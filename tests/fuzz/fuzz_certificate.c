/* certificate_read(): of bytes that are PEM, as the certificates and the key, and of bytes that are
 * DER, as the certificate of one key. What is taken keeps what the header promises. */

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fuzz/must_hold.h"
#include "tls/certificate.h"

#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END "-----END CERTIFICATE-----\n"

enum { DER_BYTES_MAX = 8 * 1024, PEM_BYTES = 2 * DER_BYTES_MAX };

/* Of the certificates in the corpus, and of nothing else. */
static const char KEY[] = "-----BEGIN PRIVATE KEY-----\n"
                          "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgHyBwsoUFEBjn85kD\n"
                          "pTAGZ0xoL73BAnMNirRJOwEEKGyhRANCAARBQUapXT3RdbMt1fGQRmJ29gL0ywGb\n"
                          "F234QyzPUQZnQz7VAcfOfMU91yCQoH+4a34yGshbYNetYBf6rHDnBhjt\n"
                          "-----END PRIVATE KEY-----\n";

static bool is_printable(const char *text)
{
    struct span rest = span_of_text(text);
    while (rest.len > 0) {
        const size_t n = utf8_front(rest);
        if (n == 0 || (unsigned char)rest.data[0] < ' ' || rest.data[0] == 0x7f) {
            return false;
        }
        rest = span_of(rest.data + n, rest.len - n);
    }
    return true;
}

static void check_names(const struct certificate *certificate)
{
    struct server_names *names;
    size_t other;
    MUST_HOLD(server_names_new(certificate->n_names, &names) == STATUS_OK);
    for (size_t i = 0; i < certificate->n_names; i++) {
        const enum status status =
            server_names_add(names, span_of_text(certificate->names[i]), i, &other);
        MUST_HOLD(status == STATUS_OK || status == STATUS_IN_USE);
    }
    server_names_free(names);
}

static void check(const struct certificate *certificate)
{
    struct certificate_problem problem;
    MUST_HOLD(certificate->n_chain >= 1 && certificate->n_chain <= CERTIFICATE_CHAIN_MAX);
    MUST_HOLD(certificate->i_first_end < certificate->n_chain && certificate->key.len > 0);
    MUST_HOLD(is_printable(certificate->subject) && is_printable(certificate->issuer));
    MUST_HOLD(strlen(certificate->fingerprint) == 64);
    check_names(certificate);
    const bool is_valid = certificate_check_time(certificate, certificate->not_before_s, &problem);
    MUST_HOLD(is_valid == (certificate->not_before_s <= certificate->not_after_s));
    MUST_HOLD(is_valid || is_printable(problem.text));
    MUST_HOLD(!certificate_check_time(certificate, certificate->not_before_s - 1, &problem));
    MUST_HOLD(is_printable(problem.text));
    MUST_HOLD(certificate_check_server(certificate, &problem) || is_printable(problem.text));
}

static void read_pair(struct span cert, struct span key)
{
    struct certificate *certificate = NULL;
    struct certificate_problem problem = {.path = NULL};
    const enum status status = certificate_read(cert, "cert", key, "key", &certificate, &problem);
    MUST_HOLD(ERR_peek_error() == 0);
    MUST_HOLD((status == STATUS_OK) == (certificate != NULL));
    if (status == STATUS_OK) {
        check(certificate);
    } else if (status == STATUS_INVALID) {
        MUST_HOLD(problem.path != NULL && is_printable(problem.text));
    }
    certificate_free(certificate);
}

static void read_der(const uint8_t *data, size_t size)
{
    static char pem[PEM_BYTES + sizeof(BEGIN) + sizeof(END)];
    if (size > DER_BYTES_MAX) {
        return;
    }
    memcpy(pem, BEGIN, sizeof(BEGIN) - 1);
    size_t len = sizeof(BEGIN) - 1;
    for (size_t at = 0; at < size; at += 48) { /* 64 characters a line */
        const size_t n = size - at < 48 ? size - at : 48;
        len += (size_t)EVP_EncodeBlock((unsigned char *)pem + len, data + at, (int)n);
        pem[len++] = '\n';
    }
    memcpy(pem + len, END, sizeof(END) - 1);
    read_pair(span_of(pem, len + sizeof(END) - 1), span_of(KEY, sizeof(KEY) - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span bytes = span_of((const char *)data, size);
    MUST_HOLD(hash_setup() == STATUS_OK);
    if (size > 0 && data[0] == 0x30) {
        read_der(data, size);
    } else {
        read_pair(bytes, bytes);
    }
    return 0;
}

/* Failures: each names the file and what to do. OpenSSL's error queue is empty before and after. */

#include "tls/tls_server.h"

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/hash.h"

enum { CLOCKS_DIFFER_S = 300 }; /* of responders and this machine */

/* Returns STATUS_INVALID. */
static enum status refuse(struct certificate_problem *problem, const char *path, const char *text)
{
    problem->path = path;
    (void)snprintf(problem->text, sizeof(problem->text), "%s", text);
    return STATUS_INVALID;
}

/* --- stapled responses --- */

struct response {
    OCSP_BASICRESP *basic;
    X509 *leaf;
    X509 *issuer;
};

static X509 *parse(struct span der)
{
    const unsigned char *at = (const unsigned char *)der.data;
    return d2i_X509(NULL, &at, (long)der.len);
}

/* Whether @single is about the leaf. */
static bool is_about(const struct response *response, OCSP_SINGLERESP *single)
{
    ASN1_OBJECT *digest;
    OCSP_CERTID *found = (OCSP_CERTID *)(uintptr_t)OCSP_SINGLERESP_get0_id(single);
    if (OCSP_id_get0_info(NULL, &digest, NULL, NULL, found) != 1) {
        return false;
    }
    const EVP_MD *kind = EVP_get_digestbyobj(digest);
    OCSP_CERTID *own =
        kind != NULL ? OCSP_cert_to_id(kind, response->leaf, response->issuer) : NULL;
    const bool is_same = own != NULL && OCSP_id_cmp(own, found) == 0;
    OCSP_CERTID_free(own);
    return is_same;
}

/* Whether the issuer, or a responder it names, has signed the response. */
static bool is_signed(const struct response *response, int64_t now_s)
{
    X509_STORE *store = X509_STORE_new();
    STACK_OF(X509) *known = sk_X509_new_null();
    bool result = false;
    if (store != NULL && known != NULL && X509_STORE_add_cert(store, response->issuer) == 1 &&
        sk_X509_push(known, response->issuer) > 0) {
        X509_VERIFY_PARAM *param = X509_STORE_get0_param(store);
        X509_VERIFY_PARAM_set_time(param, (time_t)now_s);
        X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
        result = OCSP_basic_verify(response->basic, known, store, 0) == 1;
    }
    sk_X509_free(known);
    X509_STORE_free(store);
    return result;
}

/* What is wrong with the response, or NULL: then it is stale from *@end_s on. */
static const char *find_fault(const struct response *response, int64_t now_s, int64_t *end_s)
{
    ASN1_GENERALIZEDTIME *begin = NULL;
    ASN1_GENERALIZEDTIME *end = NULL;
    OCSP_SINGLERESP *single = NULL;
    struct tm parts;
    for (int i = 0; i < OCSP_resp_count(response->basic) && single == NULL; i++) {
        OCSP_SINGLERESP *found = OCSP_resp_get0(response->basic, i);
        single = is_about(response, found) ? found : NULL;
    }
    if (single == NULL) {
        return "is about another certificate";
    }
    if (!is_signed(response, now_s)) {
        return "is not signed for the certificate's issuer";
    }
    if (OCSP_single_get0_status(single, NULL, NULL, &begin, &end) != V_OCSP_CERTSTATUS_GOOD) {
        return "says that the certificate is revoked or unknown";
    }
    if (end == NULL || ASN1_TIME_to_tm(end, &parts) != 1) {
        return "does not say until when it holds";
    }
    *end_s = timegm(&parts);
    if (*end_s <= now_s) {
        return "is stale: fetch a new one";
    }
    return ASN1_TIME_cmp_time_t(begin, (time_t)(now_s + CLOCKS_DIFFER_S)) > 0
               ? "begins in the future"
               : NULL;
}

static const char *check_response(struct span der, const struct certificate *certificate,
                                  int64_t now_s, int64_t *end_s)
{
    const unsigned char *at = (const unsigned char *)der.data;
    const char *fault = "is no OCSP response in DER of a responder that knows the certificate";
    if (certificate->n_chain < 2) {
        return "cannot be checked: the issuer's certificate must stand behind the server's own in "
               "the file of the certificate";
    }
    OCSP_RESPONSE *whole = d2i_OCSP_RESPONSE(NULL, &at, (long)der.len);
    struct response response = {
        .basic = whole != NULL ? OCSP_response_get1_basic(whole) : NULL,
        .leaf = parse(certificate->chain[0]),
        .issuer = parse(certificate->chain[1]),
    };
    if (response.basic != NULL && response.leaf != NULL && response.issuer != NULL) {
        fault = find_fault(&response, now_s, end_s);
    }
    X509_free(response.leaf);
    X509_free(response.issuer);
    OCSP_BASICRESP_free(response.basic);
    OCSP_RESPONSE_free(whole);
    ERR_clear_error();
    return fault;
}

enum status server_files_load_ocsp(const char *path, const struct certificate *certificate,
                                   int64_t now_s, struct span *response, int64_t *end_s,
                                   struct certificate_problem *problem)
{
    struct span der = span_of(NULL, 0);
    const enum status status = certificate_load_file(path, &der, problem);
    if (status != STATUS_OK) {
        return status;
    }
    ERR_clear_error();
    const char *fault = check_response(der, certificate, now_s, end_s);
    if (fault != NULL) {
        certificate_free_file(der);
        return refuse(problem, path, fault);
    }
    *response = der;
    return STATUS_OK;
}

/* --- secrets --- */

enum status server_files_load_secrets(const char *path, struct ticket_secrets *secrets,
                                      struct certificate_problem *problem)
{
    struct span text = span_of(NULL, 0);
    size_t line;
    enum status status = certificate_load_file(path, &text, problem);
    if (status == STATUS_OK && !ticket_secrets_parse(text, secrets, &line)) {
        status = refuse(problem, path, "");
        if (line > 0) {
            (void)snprintf(problem->text, sizeof(problem->text),
                           "line %zu is not 64 hexadecimal digits, as openssl rand -hex 32 gives",
                           line);
        } else {
            (void)snprintf(problem->text, sizeof(problem->text),
                           "must have 1 to %d secrets, a line each: openssl rand -hex 32 gives one",
                           TICKET_SECRETS_MAX);
        }
    }
    certificate_free_file(text);
    return status;
}

bool server_files_is_exposed(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && (file.st_mode & S_IROTH) != 0;
}

/* --- clients --- */

static void add_ders(unsigned char digest[TLS_DIGEST_BYTES], const struct span *ders, size_t n_ders)
{
    const char count = (char)(n_ders > 0);
    hash_derive(span_of((const char *)digest, TLS_DIGEST_BYTES), span_of(&count, 1), digest,
                TLS_DIGEST_BYTES);
    for (size_t i = 0; i < n_ders; i++) {
        hash_derive(span_of((const char *)digest, TLS_DIGEST_BYTES), ders[i], digest,
                    TLS_DIGEST_BYTES);
    }
}

void server_files_digest_clients(struct tls_entry_config *entry)
{
    memset(entry->client_digest, 0, sizeof(entry->client_digest));
    entry->client_digest[0] = (unsigned char)entry->client_rule;
    add_ders(entry->client_digest, entry->client_cas, entry->n_client_cas);
    add_ders(entry->client_digest, entry->client_crls, entry->n_client_crls);
}

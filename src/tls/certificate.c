/* Files ─► PEM blocks ─► DER and a key that OpenSSL has read ─► checks of the pair and its chain.
 *
 * Failures: each names the file and what to do. OpenSSL's error queue is empty before and after. */

#include "tls/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

enum { SECURITY_BITS_MIN = 112 }; /* as OpenSSL's security level 2: RSA of 2048 bits, SHA-224 */

/* What is being read, for one pair. */
struct reading {
    const char *cert_path;
    const char *key_path;
    struct certificate *made;
    X509 *chain[CERTIFICATE_CHAIN_MAX];
    EVP_PKEY *key;
    struct certificate_problem *problem;
};

/* --- problems --- */

/* Returns STATUS_INVALID. */
PRINTF_LIKE(3, 4)
static enum status refuse(struct certificate_problem *problem, const char *path, const char *format,
                          ...)
{
    va_list values;
    problem->path = path;
    va_start(values, format);
    (void)vsnprintf(problem->text, sizeof(problem->text), format, values);
    va_end(values);
    return STATUS_INVALID;
}

static enum status refuse_errno(struct certificate_problem *problem, const char *path,
                                const char *what)
{
    (void)refuse(problem, path, "%s: %s", what, strerror(errno));
    return STATUS_IO;
}

/* --- files --- */

static enum status read_open_file(int fd, const char *path, struct span *contents,
                                  struct certificate_problem *problem)
{
    struct stat file;
    if (fstat(fd, &file) != 0) {
        return refuse_errno(problem, path, "cannot be read");
    }
    if (!S_ISREG(file.st_mode)) {
        return refuse(problem, path, "is no regular file");
    }
    if (file.st_size > CERTIFICATE_FILE_BYTES_MAX) {
        return refuse(problem, path, "is larger than 1 MiB");
    }
    const size_t capacity = (size_t)file.st_size;
    char *data = OPENSSL_malloc(capacity + 1);
    size_t len = 0;
    ssize_t n = 1;
    while (data != NULL && n != 0 && len < capacity) {
        n = read(fd, data + len, capacity - len);
        if (n < 0 && errno != EINTR) {
            (void)refuse_errno(problem, path, "cannot be read");
            OPENSSL_clear_free(data, capacity);
            return STATUS_IO;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    *contents = span_of(data, len);
    return data != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void certificate_free_file(struct span contents)
{
    OPENSSL_clear_free((void *)(uintptr_t)contents.data, contents.len);
}

/* A FIFO without a writer does not block. */
enum status certificate_load_file(const char *path, struct span *contents,
                                  struct certificate_problem *problem)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return refuse_errno(problem, path, "cannot be opened");
    }
    const enum status status = read_open_file(fd, path, contents, problem);
    close(fd);
    return status;
}

/* --- PEM --- */

/* One block between BEGIN and END. */
struct block {
    char *label;  /* "CERTIFICATE" */
    char *header; /* the lines of RFC 1421: "Proc-Type: 4,ENCRYPTED" */
    unsigned char *der;
    long len;
};

static void free_block(struct block *block)
{
    OPENSSL_secure_free(block->label);
    OPENSSL_secure_free(block->header);
    OPENSSL_secure_clear_free(block->der, block->len > 0 ? (size_t)block->len : 0);
    *block = (struct block){0};
}

/* Calls @take for each block of @pem until one fails. */
static enum status read_blocks(struct span pem, const char *path,
                               enum status (*take)(void *context, const struct block *block),
                               void *context, struct certificate_problem *problem)
{
    enum status status = STATUS_OK;
    struct block block = {0};
    BIO *bio = BIO_new_mem_buf(pem.len > 0 ? pem.data : "", (int)pem.len);
    if (bio == NULL) {
        return STATUS_NO_MEMORY;
    }
    while (status == STATUS_OK &&
           PEM_read_bio_ex(bio, &block.label, &block.header, &block.der, &block.len,
                           PEM_FLAG_SECURE | PEM_FLAG_EAY_COMPATIBLE) == 1) {
        status = take(context, &block);
        free_block(&block);
    }
    const unsigned long error = ERR_peek_last_error();
    if (status == STATUS_OK && ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
        const char *reason = ERR_reason_error_string(error);
        status = refuse(problem, path, "is broken PEM: %s", reason != NULL ? reason : "unreadable");
    }
    free_block(&block);
    BIO_free(bio);
    ERR_clear_error();
    return status;
}

static bool is_labelled(const struct block *block, const char *label)
{
    return strcmp(block->label, label) == 0;
}

/* --- certificates --- */

/* The certificate of @block, or NULL. */
static X509 *parse_certificate(const struct block *block)
{
    const unsigned char *at = block->der;
    X509 *x509 = d2i_X509(NULL, &at, block->len);
    if (x509 != NULL && (at != block->der + block->len || X509_get0_pubkey(x509) == NULL)) {
        X509_free(x509);
        return NULL;
    }
    return x509;
}

static enum status copy_der(X509 *x509, struct span *der)
{
    unsigned char *bytes = NULL;
    const int len = i2d_X509(x509, &bytes);
    if (len <= 0) {
        return STATUS_NO_MEMORY;
    }
    *der = span_of((char *)bytes, (size_t)len);
    return STATUS_OK;
}

static enum status take_of_chain(void *context, const struct block *block)
{
    struct reading *reading = context;
    struct certificate *made = reading->made;
    if (!is_labelled(block, "CERTIFICATE")) {
        return STATUS_OK;
    }
    if (made->n_chain == CERTIFICATE_CHAIN_MAX) {
        return refuse(reading->problem, reading->cert_path, "has more than %d certificates",
                      CERTIFICATE_CHAIN_MAX);
    }
    X509 *x509 = parse_certificate(block);
    if (x509 == NULL) {
        return refuse(reading->problem, reading->cert_path, "certificate %zu cannot be read",
                      made->n_chain + 1);
    }
    reading->chain[made->n_chain] = x509;
    return copy_der(x509, &made->chain[made->n_chain++]);
}

static enum status refuse_empty(struct span pem, const char *path, const char *what,
                                struct certificate_problem *problem)
{
    if (pem.len > 0 && pem.data[0] == '\x30') {
        return refuse(problem, path, "is DER, not PEM: convert it with openssl");
    }
    return refuse(problem, path, "has no %s in PEM", what);
}

static enum status read_chain(struct reading *reading, struct span pem)
{
    const enum status status =
        read_blocks(pem, reading->cert_path, take_of_chain, reading, reading->problem);
    return status == STATUS_OK && reading->made->n_chain == 0
               ? refuse_empty(pem, reading->cert_path, "certificate", reading->problem)
               : status;
}

/* --- the key --- */

static enum status take_key(void *context, const struct block *block)
{
    struct reading *reading = context;
    const unsigned char *at = block->der;
    const size_t len = strlen(block->label);
    if (len < strlen("PRIVATE KEY") ||
        strcmp(block->label + len - strlen("PRIVATE KEY"), "PRIVATE KEY") != 0) {
        return STATUS_OK;
    }
    if (is_labelled(block, "ENCRYPTED PRIVATE KEY") || strstr(block->header, "ENCRYPTED") != NULL) {
        return refuse(reading->problem, reading->key_path,
                      "the private key is encrypted, and its passphrase cannot be entered: "
                      "decrypt it with openssl pkey -in FILE -out NEW_FILE");
    }
    if (reading->key != NULL) {
        return refuse(reading->problem, reading->key_path, "has more than one private key");
    }
    reading->key = d2i_AutoPrivateKey(NULL, &at, block->len);
    return reading->key != NULL
               ? STATUS_OK
               : refuse(reading->problem, reading->key_path, "the private key cannot be read");
}

static enum status copy_key(struct reading *reading)
{
    PKCS8_PRIV_KEY_INFO *info = EVP_PKEY2PKCS8(reading->key);
    unsigned char *bytes = NULL;
    const int len = i2d_PKCS8_PRIV_KEY_INFO(info, &bytes);
    PKCS8_PRIV_KEY_INFO_free(info);
    if (len <= 0) {
        return refuse(reading->problem, reading->key_path, "the private key cannot be encoded");
    }
    reading->made->key = span_of((char *)bytes, (size_t)len);
    return STATUS_OK;
}

/* *@is_rsa is set. */
static enum status check_kind(struct reading *reading)
{
    static const char *const CURVES[] = {"prime256v1", "secp384r1", "secp521r1"};
    const int kind = EVP_PKEY_get_base_id(reading->key);
    char curve[32] = "";
    if (kind == EVP_PKEY_RSA) {
        reading->made->is_rsa = true;
        return EVP_PKEY_get_bits(reading->key) >= 2048
                   ? STATUS_OK
                   : refuse(reading->problem, reading->key_path,
                            "the RSA key has %d bits, 2048 is the least",
                            EVP_PKEY_get_bits(reading->key));
    }
    if (kind == EVP_PKEY_EC) {
        (void)EVP_PKEY_get_group_name(reading->key, curve, sizeof(curve), NULL);
        for (size_t i = 0; i < ARRAY_LEN(CURVES); i++) {
            if (strcmp(curve, CURVES[i]) == 0) {
                return STATUS_OK;
            }
        }
    }
    return kind == EVP_PKEY_ED25519
               ? STATUS_OK
               : refuse(reading->problem, reading->key_path,
                        "the private key is neither RSA nor P-256, P-384, P-521 or Ed25519");
}

static enum status check_pair(const struct reading *reading)
{
    for (size_t i = 0; i < reading->made->n_chain; i++) {
        if (X509_check_private_key(reading->chain[i], reading->key) == 1) {
            return i == 0 ? STATUS_OK
                          : refuse(reading->problem, reading->cert_path,
                                   "the private key belongs to certificate %zu: put that one first",
                                   i + 1);
        }
    }
    return refuse(reading->problem, reading->key_path,
                  "the private key belongs to no certificate of %s", reading->cert_path);
}

static enum status read_key(struct reading *reading, struct span pem)
{
    enum status status = read_blocks(pem, reading->key_path, take_key, reading, reading->problem);
    if (status == STATUS_OK && reading->key == NULL) {
        status = refuse_empty(pem, reading->key_path, "private key", reading->problem);
    }
    status = status != STATUS_OK ? status : check_kind(reading);
    status = status != STATUS_OK ? status : check_pair(reading);
    return status != STATUS_OK ? status : copy_key(reading);
}

/* --- the chain --- */

/* Clients refuse a weak key or signature. The signature of a root is its own: clients ignore it. */
static enum status check_strength(const struct reading *reading, size_t i)
{
    X509 *x509 = reading->chain[i];
    const EVP_PKEY *key = X509_get0_pubkey(x509);
    int bits = 0;
    if (EVP_PKEY_get_security_bits(key) < SECURITY_BITS_MIN) {
        return refuse(reading->problem, reading->cert_path, "certificate %zu has a weak key",
                      i + 1);
    }
    if (X509_self_signed(x509, 0) != 1 &&
        X509_get_signature_info(x509, NULL, NULL, &bits, NULL) == 1 && bits < SECURITY_BITS_MIN) {
        return refuse(reading->problem, reading->cert_path,
                      "certificate %zu is signed with %s, which clients refuse", i + 1,
                      OBJ_nid2sn(X509_get_signature_nid(x509)));
    }
    return STATUS_OK;
}

static enum status check_chain(const struct reading *reading)
{
    for (size_t i = 0; i < reading->made->n_chain; i++) {
        X509 *issuer = i + 1 < reading->made->n_chain ? reading->chain[i + 1] : NULL;
        const enum status status = check_strength(reading, i);
        if (status != STATUS_OK) {
            return status;
        }
        if (issuer != NULL && (X509_check_issued(issuer, reading->chain[i]) != X509_V_OK ||
                               X509_verify(reading->chain[i], X509_get0_pubkey(issuer)) != 1)) {
            return refuse(reading->problem, reading->cert_path,
                          "certificate %zu was not issued by certificate %zu: the server's own "
                          "comes first, then its issuer, then the issuer of that",
                          i + 1, i + 2);
        }
    }
    return STATUS_OK;
}

/* --- what the leaf says --- */

/* Seconds since the epoch. False: it is no time. */
static bool to_unix(const ASN1_TIME *time, int64_t *unix_s)
{
    int days = 0;
    int seconds = 0;
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    const bool is_good = epoch != NULL && ASN1_TIME_diff(&days, &seconds, epoch, time) == 1;
    ASN1_TIME_free(epoch);
    *unix_s = (int64_t)days * (24 * 3600) + seconds;
    return is_good;
}

static enum status read_times(struct reading *reading)
{
    struct certificate *made = reading->made;
    for (size_t i = 0; i < made->n_chain; i++) {
        int64_t begin;
        int64_t end;
        if (!to_unix(X509_get0_notBefore(reading->chain[i]), &begin) ||
            !to_unix(X509_get0_notAfter(reading->chain[i]), &end)) {
            return refuse(reading->problem, reading->cert_path,
                          "certificate %zu has no valid dates", i + 1);
        }
        if (i == 0 || begin > made->not_before_s) {
            made->not_before_s = begin;
        }
        if (i == 0 || end < made->not_after_s) {
            made->not_after_s = end;
            made->i_first_end = i;
        }
    }
    return STATUS_OK;
}

/* A copy as server_names_add() takes it. *@copy NULL: no server can have the name. */
static enum status copy_name(const ASN1_IA5STRING *string, char **copy)
{
    char buffer[HOST_BYTES_MAX];
    struct span normal;
    const int len = ASN1_STRING_length(string);
    struct span name = span_of((const char *)ASN1_STRING_get0_data(string), (size_t)len);
    const size_t wildcard = span_starts_with(name, SPAN("*.")) ? 2 : 0;
    *copy = NULL;
    name = span_of(name.data + wildcard, name.len - wildcard);
    if (!server_names_normalise(name, buffer, &normal) || normal.len + wildcard > HOST_BYTES_MAX) {
        return STATUS_OK;
    }
    const int n = asprintf(copy, "%s%.*s", wildcard > 0 ? "*." : "", SPAN_ARGS(normal));
    return n >= 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status add_names(struct reading *reading, const GENERAL_NAMES *alternatives)
{
    struct certificate *made = reading->made;
    const int n = sk_GENERAL_NAME_num(alternatives);
    if (n > CERTIFICATE_NAMES_MAX) {
        return refuse(reading->problem, reading->cert_path, "has more than %d names",
                      CERTIFICATE_NAMES_MAX);
    }
    made->names = calloc((size_t)n + 1, sizeof(made->names[0]));
    enum status status = made->names != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(alternatives, i);
        made->has_address = made->has_address || name->type == GEN_IPADD;
        if (name->type == GEN_DNS) {
            status = copy_name(name->d.dNSName, &made->names[made->n_names]);
            made->n_names += status == STATUS_OK && made->names[made->n_names] != NULL;
        }
    }
    return status;
}

static enum status read_names(struct reading *reading)
{
    int is_critical; /* -1: there is none; -2: there are two */
    GENERAL_NAMES *alternatives =
        X509_get_ext_d2i(reading->chain[0], NID_subject_alt_name, &is_critical, NULL);
    if (alternatives == NULL) {
        return is_critical == -1 ? STATUS_OK
                                 : refuse(reading->problem, reading->cert_path,
                                          "its subject alternative names cannot be read");
    }
    const enum status status = add_names(reading, alternatives);
    GENERAL_NAMES_free(alternatives);
    return status;
}

/* @name on one line; what does not fit is cut. */
static enum status print_name(const X509_NAME *name, char out[CERTIFICATE_SUBJECT_BYTES])
{
    struct text text = text_of(out, CERTIFICATE_SUBJECT_BYTES - 1);
    char *data;
    BIO *bio = BIO_new(BIO_s_mem());
    if (bio == NULL ||
        X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253 & ~(unsigned long)ASN1_STRFLGS_ESC_MSB) <
            0) {
        BIO_free(bio);
        return STATUS_NO_MEMORY;
    }
    struct span rest = span_of(NULL, (size_t)BIO_get_mem_data(bio, &data));
    for (rest.data = data; rest.len > 0 && !text.truncated;) {
        const size_t front = utf8_front(rest);
        const size_t n = front > 0 ? front : 1;
        text_add_printable(&text, span_of(rest.data, n));
        rest = span_of(rest.data + n, rest.len - n);
    }
    out[text.len] = '\0';
    BIO_free(bio);
    return STATUS_OK;
}

static enum status read_leaf(struct reading *reading)
{
    struct certificate *made = reading->made;
    X509 *leaf = reading->chain[0];
    unsigned char digest[32];
    struct text hex = text_of(made->fingerprint, sizeof(made->fingerprint) - 1);
    if (X509_digest(leaf, EVP_sha256(), digest, NULL) != 1) {
        return STATUS_NO_MEMORY;
    }
    text_add_hex(&hex, digest, sizeof(digest));
    made->is_self_signed = X509_self_signed(leaf, 0) == 1;
    made->serves = X509_check_purpose(leaf, X509_PURPOSE_SSL_SERVER, 0) == 1;
    made->asks = X509_check_purpose(leaf, X509_PURPOSE_SSL_CLIENT, 0) == 1;
    enum status status = print_name(X509_get_subject_name(leaf), made->subject);
    status = status != STATUS_OK ? status : print_name(X509_get_issuer_name(leaf), made->issuer);
    return status != STATUS_OK ? status : read_names(reading);
}

/* --- reading --- */

enum status certificate_read(struct span cert_pem, const char *cert_path, struct span key_pem,
                             const char *key_path, struct certificate **certificate,
                             struct certificate_problem *problem)
{
    struct reading reading = {
        .cert_path = cert_path,
        .key_path = key_path,
        .made = calloc(1, sizeof(*reading.made)),
        .problem = problem,
    };
    if (reading.made == NULL) {
        return STATUS_NO_MEMORY;
    }
    ERR_clear_error();
    enum status status = read_chain(&reading, cert_pem);
    status = status != STATUS_OK ? status : read_key(&reading, key_pem);
    status = status != STATUS_OK ? status : check_chain(&reading);
    status = status != STATUS_OK ? status : read_times(&reading);
    status = status != STATUS_OK ? status : read_leaf(&reading);
    for (size_t i = 0; i < CERTIFICATE_CHAIN_MAX; i++) {
        X509_free(reading.chain[i]);
    }
    EVP_PKEY_free(reading.key);
    ERR_clear_error();
    if (status != STATUS_OK) {
        certificate_free(reading.made);
        return status;
    }
    *certificate = reading.made;
    return STATUS_OK;
}

enum status certificate_load(const char *cert_path, const char *key_path,
                             struct certificate **certificate, struct certificate_problem *problem)
{
    struct span cert = span_of(NULL, 0);
    struct span key = span_of(NULL, 0);
    enum status status = certificate_load_file(cert_path, &cert, problem);
    status = status != STATUS_OK ? status : certificate_load_file(key_path, &key, problem);
    status = status != STATUS_OK
                 ? status
                 : certificate_read(cert, cert_path, key, key_path, certificate, problem);
    certificate_free_file(cert);
    certificate_free_file(key);
    return status;
}

void certificate_free(struct certificate *certificate)
{
    if (certificate == NULL) {
        return;
    }
    for (size_t i = 0; i < certificate->n_chain; i++) {
        certificate_free_file(certificate->chain[i]);
    }
    for (size_t i = 0; i < certificate->n_names; i++) {
        free(certificate->names[i]);
    }
    certificate_free_file(certificate->key);
    free(certificate->names);
    free(certificate);
}

/* --- checks --- */

bool certificate_check_server(const struct certificate *certificate,
                              struct certificate_problem *problem)
{
    if (certificate->n_names == 0 && !certificate->has_address) {
        (void)refuse(problem, NULL,
                     "the certificate has no subject alternative name (DNS name or IP address), "
                     "and clients ignore its common name");
        return false;
    }
    if (!certificate->serves) {
        (void)refuse(problem, NULL,
                     "the certificate's key usage does not let it identify a server");
        return false;
    }
    return true;
}

bool certificate_check_time(const struct certificate *certificate, int64_t now_s,
                            struct certificate_problem *problem)
{
    const bool is_early = now_s < certificate->not_before_s;
    char when[64] = "a time before 1970";
    const int64_t at_s = is_early ? certificate->not_before_s : certificate->not_after_s;
    struct text text = text_of(when, sizeof(when) - 1);
    if (!is_early && now_s <= certificate->not_after_s) {
        return true;
    }
    if (at_s >= 0) {
        timestamp_write(&text, (uint64_t)at_s * 1000000);
        when[text.len] = '\0';
    }
    if (is_early) {
        (void)refuse(problem, NULL, "the certificate is not valid before %s", when);
    } else if (certificate->i_first_end == 0) {
        (void)refuse(problem, NULL, "the certificate has expired on %s", when);
    } else {
        (void)refuse(problem, NULL, "certificate %zu of the chain has expired on %s",
                     certificate->i_first_end + 1, when);
    }
    return false;
}

bool certificate_lacks_issuer(const struct certificate *certificate)
{
    const unsigned char *at = (const unsigned char *)certificate->chain[0].data;
    X509 *leaf = certificate->n_chain == 1 && !certificate->is_self_signed
                     ? d2i_X509(NULL, &at, (long)certificate->chain[0].len)
                     : NULL;
    const bool is_public = leaf != NULL && X509_get_ext_by_NID(leaf, NID_info_access, -1) >= 0;
    X509_free(leaf);
    return is_public;
}

/* --- authorities and revocation lists --- */

/* What a file has, as DER. */
struct der_list {
    struct span *ders;
    size_t n;
    const char *path;
    struct certificate_problem *problem;
    /* Of revocation lists. */
    const struct span *cas;
    size_t n_cas;
    int64_t end_s;
};

/* Make room for one more. */
static bool grow(struct der_list *list)
{
    struct span *grown = realloc(list->ders, (list->n + 1) * sizeof(list->ders[0]));
    if (grown != NULL) {
        list->ders = grown;
    }
    return grown != NULL;
}

/* Read the file into @list, whose path and problem are set; @what: that it must have one of. */
static enum status load_list(struct der_list *list,
                             enum status (*take)(void *context, const struct block *block),
                             const char *what)
{
    struct span pem = span_of(NULL, 0);
    ERR_clear_error();
    enum status status = certificate_load_file(list->path, &pem, list->problem);
    if (status == STATUS_OK) {
        status = read_blocks(pem, list->path, take, list, list->problem);
    }
    if (status == STATUS_OK && list->n == 0) {
        status = refuse_empty(pem, list->path, what, list->problem);
    }
    certificate_free_file(pem);
    if (status != STATUS_OK) {
        certificate_free_ders(list->ders, list->n);
    }
    return status;
}

static enum status take_authority(void *context, const struct block *block)
{
    struct der_list *all = context;
    if (!is_labelled(block, "CERTIFICATE")) {
        return STATUS_OK;
    }
    if (!grow(all)) {
        return STATUS_NO_MEMORY;
    }
    X509 *x509 = parse_certificate(block);
    if (x509 == NULL) {
        return refuse(all->problem, all->path, "certificate %zu cannot be read", all->n + 1);
    }
    const enum status status = copy_der(x509, &all->ders[all->n]);
    all->n += status == STATUS_OK;
    X509_free(x509);
    return status;
}

enum status certificate_load_cas(const char *path, struct span **ders, size_t *n_ders,
                                 struct certificate_problem *problem)
{
    struct der_list all = {.path = path, .problem = problem};
    const enum status status = load_list(&all, take_authority, "certificate");
    if (status == STATUS_OK) {
        *ders = all.ders;
        *n_ders = all.n;
    }
    return status;
}

/* Whether the first of its authority is @cas[i]. */
static bool is_first(X509 *const *cas, size_t n_cas, size_t i)
{
    const X509_NAME *subject = X509_get_subject_name(cas[i]);
    const X509_NAME *issuer = X509_get_issuer_name(cas[i]);
    const bool is_own = X509_NAME_cmp(subject, issuer) == 0;
    for (size_t j = 0; j < n_cas; j++) {
        const X509_NAME *other = X509_get_subject_name(cas[j]);
        if ((j < i && X509_NAME_cmp(other, subject) == 0) ||
            (!is_own && X509_NAME_cmp(other, issuer) == 0)) {
            return false;
        }
    }
    return true;
}

bool certificate_are_of_several(const struct span *cas, size_t n_cas)
{
    X509 **parsed = n_cas > 1 ? calloc(n_cas, sizeof(X509 *)) : NULL;
    size_t n = 0;
    size_t n_authorities = 0;
    for (size_t i = 0; parsed != NULL && i < n_cas; i++) {
        const unsigned char *at = (const unsigned char *)cas[i].data;
        parsed[n] = d2i_X509(NULL, &at, (long)cas[i].len);
        n += parsed[n] != NULL;
    }
    for (size_t i = 0; i < n && n_authorities < 2; i++) {
        n_authorities += is_first(parsed, n, i);
    }
    for (size_t i = 0; i < n; i++) {
        X509_free(parsed[i]);
    }
    free(parsed);
    return n_authorities > 1;
}

/* Whether one of the authorities has signed @crl. */
static bool is_of_authority(const struct der_list *all, X509_CRL *crl)
{
    bool is_signed = false;
    for (size_t i = 0; i < all->n_cas && !is_signed; i++) {
        const unsigned char *at = (const unsigned char *)all->cas[i].data;
        X509 *ca = d2i_X509(NULL, &at, (long)all->cas[i].len);
        is_signed = ca != NULL &&
                    X509_NAME_cmp(X509_get_subject_name(ca), X509_CRL_get_issuer(crl)) == 0 &&
                    X509_CRL_verify(crl, X509_get0_pubkey(ca)) == 1;
        X509_free(ca);
    }
    return is_signed;
}

static enum status keep_crl(struct der_list *all, X509_CRL *crl)
{
    int64_t end_s = INT64_MAX;
    unsigned char *bytes = NULL;
    if (!is_of_authority(all, crl)) {
        return refuse(all->problem, all->path, "list %zu is signed by no certificate of client_ca",
                      all->n + 1);
    }
    const ASN1_TIME *end = X509_CRL_get0_nextUpdate(crl);
    if (end != NULL && !to_unix(end, &end_s)) {
        return refuse(all->problem, all->path, "list %zu has no valid dates", all->n + 1);
    }
    const int len = i2d_X509_CRL(crl, &bytes);
    if (len <= 0) {
        return STATUS_NO_MEMORY;
    }
    all->end_s = end_s < all->end_s ? end_s : all->end_s;
    all->ders[all->n++] = span_of((char *)bytes, (size_t)len);
    return STATUS_OK;
}

static enum status take_crl(void *context, const struct block *block)
{
    struct der_list *all = context;
    const unsigned char *at = block->der;
    if (!is_labelled(block, "X509 CRL")) {
        return STATUS_OK;
    }
    if (!grow(all)) {
        return STATUS_NO_MEMORY;
    }
    X509_CRL *crl = d2i_X509_CRL(NULL, &at, block->len);
    const enum status status =
        crl != NULL ? keep_crl(all, crl)
                    : refuse(all->problem, all->path, "list %zu cannot be read", all->n + 1);
    X509_CRL_free(crl);
    return status;
}

enum status certificate_load_crls(const char *path, const struct span *cas, size_t n_cas,
                                  struct certificate_crls *crls,
                                  struct certificate_problem *problem)
{
    struct der_list all = {
        .path = path, .problem = problem, .cas = cas, .n_cas = n_cas, .end_s = INT64_MAX};
    const enum status status = load_list(&all, take_crl, "certificate revocation list (X509 CRL)");
    if (status == STATUS_OK) {
        *crls = (struct certificate_crls){all.ders, all.n, all.end_s};
    }
    return status;
}

void certificate_free_ders(struct span *ders, size_t n_ders)
{
    for (size_t i = 0; i < n_ders; i++) {
        certificate_free_file(ders[i]);
    }
    free(ders);
}

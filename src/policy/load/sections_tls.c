#include "base/address.h"
#include "policy/load/spec.h"
#include "policy/load/value_types.h"
#include "tls/certificate.h"

static const struct value_type CLIENT =
    WORD_TYPE("off, optional or require", "off", "optional", "require");
static const struct value_type MIN_VERSION = WORD_TYPE("1.2 or 1.3", "1.2", "1.3");
static const struct value_type UNKNOWN_NAME = WORD_TYPE("default or refuse", "default", "refuse");
static const struct value_type TICKETS =
    WORD_TYPE("process, shared or off", "off", "process", "shared");

static const struct section_field CERTIFICATE_FIELDS[] = {
    LIST_KEY(
        "cert", &VALUE_FILE, spec_certificate, certs,
        "a file in PEM: the server's certificate, then its issuers; or two such, RSA and ECDSA",
        .presence = KEY_REQUIRED),
    LIST_KEY("key", &VALUE_FILE, spec_certificate, keys,
             "the file of its private key in PEM, not encrypted; or two such",
             .presence = KEY_REQUIRED),
    LIST_KEY("names", &VALUE_HOST_PATTERN, spec_certificate, names,
             "hosts, or *.host, that it serves; left out: those of the certificate"),
    KEY("client", &CLIENT, spec_certificate, client, "off",
        "off, optional or require: whether clients show a certificate"),
    KEY("client_ca", &VALUE_FILE, spec_certificate, client_ca, NULL,
        "a file in PEM: authorities of clients' certificates", .presence = KEY_CONDITIONAL),
    KEY("client_crl", &VALUE_FILE, spec_certificate, client_crl, NULL,
        "a file in PEM: revocation lists of those authorities", .presence = KEY_CONDITIONAL),
    KEY("ocsp", &VALUE_FILE, spec_certificate, ocsp, NULL,
        "a file in DER: an OCSP response about the certificate, which clients get"),
};
static const struct value_type CERTIFICATE_TYPE =
    SECTION_TYPE(CERTIFICATE_FIELDS, struct spec_certificate);

static const struct section_field TLS_FIELDS[] = {
    LIST_KEY("cert", &VALUE_FILE, spec_tls, certs,
             "short form: cert of the one entry of certificates", .presence = KEY_CONDITIONAL),
    LIST_KEY("key", &VALUE_FILE, spec_tls, keys, "short form: its key",
             .presence = KEY_CONDITIONAL),
    LIST_KEY("certificates", &CERTIFICATE_TYPE, spec_tls, certificates,
             "the first serves clients that name no server, and unknown names",
             .presence = KEY_CONDITIONAL),
    KEY("min_version", &MIN_VERSION, spec_tls, min_version, "1.2", "1.2 or 1.3: of TLS"),
    KEY("unknown_name", &UNKNOWN_NAME, spec_tls, unknown_name, "default",
        "default or refuse: what happens to clients that name another server"),
    KEY("tickets", &TICKETS, spec_tls, tickets, "process",
        "process, shared or off: who resumes sessions"),
};
const struct value_type SECTIONS_TLS = SECTION_TYPE(TLS_FIELDS, struct spec_tls);

static bool check_verified_name(struct span text, struct text *problem)
{
    char buffer[HOST_BYTES_MAX];
    struct span normal;
    struct address_prefix address;
    return server_names_normalise(text, buffer, &normal) ||
           (address_prefix_parse(text, &address) && span_find(text, '/') == text.len) ||
           text_refuse(problem, "must be server, host, or a host or address without a port");
}

static const struct value_type VERIFIED_NAME =
    VALUE_STRING_TYPE("server, host, or a host or address", check_verified_name);

static const struct section_field UPSTREAM_TLS_FIELDS[] = {
    KEY("ca", &VALUE_FILE, spec_client_tls, ca, "system",
        "system, or a file in PEM: authorities of the servers' certificates"),
    KEY("name", &VERIFIED_NAME, spec_client_tls, name, "server",
        "server, host or a name: whose certificate a server must have"),
    KEY("verify", &VALUE_BOOL, spec_client_tls, verify, "true",
        "false: anybody may pose as a server"),
    KEY("cert", &VALUE_FILE, spec_client_tls, cert, NULL,
        "a file in PEM: the certificate for servers that ask for one, then its issuers"),
    KEY("key", &VALUE_FILE, spec_client_tls, key, NULL,
        "the file of its private key in PEM, not encrypted", .presence = KEY_CONDITIONAL),
    KEY("min_version", &MIN_VERSION, spec_client_tls, min_version, "1.2", "1.2 or 1.3: of TLS"),
};
const struct value_type SECTIONS_UPSTREAM_TLS =
    SECTION_TYPE(UPSTREAM_TLS_FIELDS, struct spec_client_tls);

static const struct value_type REDIS_NAME =
    VALUE_STRING_TYPE("server, or a host or address", check_verified_name);

static const struct section_field REDIS_TLS_FIELDS[] = {
    KEY("ca", &VALUE_FILE, spec_client_tls, ca, "system",
        "system, or a file in PEM: authorities of Redis's certificate"),
    KEY("name", &REDIS_NAME, spec_client_tls, name, "server",
        "server or a name: whose certificate Redis must have"),
    KEY("verify", &VALUE_BOOL, spec_client_tls, verify, "true", "false: anybody may pose as Redis"),
    KEY("cert", &VALUE_FILE, spec_client_tls, cert, NULL,
        "a file in PEM: the certificate for a Redis that asks for one, then its issuers"),
    KEY("key", &VALUE_FILE, spec_client_tls, key, NULL,
        "the file of its private key in PEM, not encrypted", .presence = KEY_CONDITIONAL),
    KEY("min_version", &MIN_VERSION, spec_client_tls, min_version, "1.2", "1.2 or 1.3: of TLS"),
};
const struct value_type SECTIONS_REDIS_TLS = SECTION_TYPE(REDIS_TLS_FIELDS, struct spec_client_tls);

static const struct section_field TLS_TICKETS_FIELDS[] = {
    KEY("secret_file", &VALUE_FILE, spec_tls_tickets, secret_file, NULL,
        "secrets that proxies share, a line each of 64 hexadecimal digits",
        .presence = KEY_REQUIRED),
};
const struct value_type SECTIONS_TLS_TICKETS =
    SECTION_TYPE(TLS_TICKETS_FIELDS, struct spec_tls_tickets);

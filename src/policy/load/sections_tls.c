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
    {"cert", SHAPE_LIST, &VALUE_FILE, offsetof(struct spec_certificate, certs), NULL, KEY_REQUIRED,
     "a file in PEM: the server's certificate, then its issuers; or two such, RSA and ECDSA"},
    {"key", SHAPE_LIST, &VALUE_FILE, offsetof(struct spec_certificate, keys), NULL, KEY_REQUIRED,
     "the file of its private key in PEM, not encrypted; or two such"},
    {"names", SHAPE_LIST, &VALUE_HOST_PATTERN, offsetof(struct spec_certificate, names), NULL,
     KEY_OPTIONAL, "hosts, or *.host, that it serves; left out: those of the certificate"},
    {"client", SHAPE_ONE, &CLIENT, offsetof(struct spec_certificate, client), "off", KEY_OPTIONAL,
     "off, optional or require: whether clients show a certificate"},
    {"client_ca", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_certificate, client_ca), NULL,
     KEY_CONDITIONAL, "a file in PEM: authorities of clients' certificates"},
    {"client_crl", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_certificate, client_crl), NULL,
     KEY_CONDITIONAL, "a file in PEM: revocation lists of those authorities"},
    {"ocsp", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_certificate, ocsp), NULL, KEY_OPTIONAL,
     "a file in DER: an OCSP response about the certificate, which clients get"},
};
static const struct value_type CERTIFICATE_TYPE =
    SECTION_TYPE(CERTIFICATE_FIELDS, struct spec_certificate);

static const struct section_field TLS_FIELDS[] = {
    {"cert", SHAPE_LIST, &VALUE_FILE, offsetof(struct spec_tls, certs), NULL, KEY_CONDITIONAL,
     "short form: cert of the one entry of certificates"},
    {"key", SHAPE_LIST, &VALUE_FILE, offsetof(struct spec_tls, keys), NULL, KEY_CONDITIONAL,
     "short form: its key"},
    {"certificates", SHAPE_LIST, &CERTIFICATE_TYPE, offsetof(struct spec_tls, certificates), NULL,
     KEY_CONDITIONAL, "the first serves clients that name no server, and unknown names"},
    {"min_version", SHAPE_ONE, &MIN_VERSION, offsetof(struct spec_tls, min_version), "1.2",
     KEY_OPTIONAL, "1.2 or 1.3: of TLS"},
    {"unknown_name", SHAPE_ONE, &UNKNOWN_NAME, offsetof(struct spec_tls, unknown_name), "default",
     KEY_OPTIONAL, "default or refuse: what happens to clients that name another server"},
    {"tickets", SHAPE_ONE, &TICKETS, offsetof(struct spec_tls, tickets), "process", KEY_OPTIONAL,
     "process, shared or off: who resumes sessions"},
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
    {"ca", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_client_tls, ca), "system", KEY_OPTIONAL,
     "system, or a file in PEM: authorities of the servers' certificates"},
    {"name", SHAPE_ONE, &VERIFIED_NAME, offsetof(struct spec_client_tls, name), "server",
     KEY_OPTIONAL, "server, host or a name: whose certificate a server must have"},
    {"verify", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_client_tls, verify), "true",
     KEY_OPTIONAL, "false: anybody may pose as a server"},
    {"cert", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_client_tls, cert), NULL, KEY_OPTIONAL,
     "a file in PEM: the certificate for servers that ask for one, then its issuers"},
    {"key", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_client_tls, key), NULL, KEY_CONDITIONAL,
     "the file of its private key in PEM, not encrypted"},
    {"min_version", SHAPE_ONE, &MIN_VERSION, offsetof(struct spec_client_tls, min_version), "1.2",
     KEY_OPTIONAL, "1.2 or 1.3: of TLS"},
};
const struct value_type SECTIONS_UPSTREAM_TLS =
    SECTION_TYPE(UPSTREAM_TLS_FIELDS, struct spec_client_tls);

static const struct value_type REDIS_NAME =
    VALUE_STRING_TYPE("server, or a host or address", check_verified_name);

static const struct section_field REDIS_TLS_FIELDS[] = {
    {"ca", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_client_tls, ca), "system", KEY_OPTIONAL,
     "system, or a file in PEM: authorities of Redis's certificate"},
    {"name", SHAPE_ONE, &REDIS_NAME, offsetof(struct spec_client_tls, name), "server", KEY_OPTIONAL,
     "server or a name: whose certificate Redis must have"},
    {"verify", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_client_tls, verify), "true",
     KEY_OPTIONAL, "false: anybody may pose as Redis"},
    {"cert", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_client_tls, cert), NULL, KEY_OPTIONAL,
     "a file in PEM: the certificate for a Redis that asks for one, then its issuers"},
    {"key", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_client_tls, key), NULL, KEY_CONDITIONAL,
     "the file of its private key in PEM, not encrypted"},
    {"min_version", SHAPE_ONE, &MIN_VERSION, offsetof(struct spec_client_tls, min_version), "1.2",
     KEY_OPTIONAL, "1.2 or 1.3: of TLS"},
};
const struct value_type SECTIONS_REDIS_TLS = SECTION_TYPE(REDIS_TLS_FIELDS, struct spec_client_tls);

static const struct section_field TLS_TICKETS_FIELDS[] = {
    {"secret_file", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_tls_tickets, secret_file), NULL,
     KEY_REQUIRED, "secrets that proxies share, a line each of 64 hexadecimal digits"},
};
const struct value_type SECTIONS_TLS_TICKETS =
    SECTION_TYPE(TLS_TICKETS_FIELDS, struct spec_tls_tickets);

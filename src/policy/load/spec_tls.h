/* TLS in a policy file; part of spec.h. */

#ifndef SLUICE_POLICY_LOAD_SPEC_TLS_H
#define SLUICE_POLICY_LOAD_SPEC_TLS_H

#include "policy/load/section.h"

/* An entry of `certificates`. */
struct spec_certificate {
    struct section_position position;
    struct section_items certs; /* struct spec_text, as the next two */
    struct section_items keys;
    struct section_items names;
    struct spec_text client_ca;
    struct spec_text client_crl;
    struct spec_text ocsp;
    int client; /* enum client_certificate_rule */
};

struct spec_tls {
    struct section_position position;
    struct section_items certs; /* short form: of the one entry */
    struct section_items keys;
    struct section_items certificates; /* struct spec_certificate */
    int min_version;                   /* enum tls_version */
    int unknown_name;                  /* 1: refuse */
    int tickets;                       /* enum tls_tickets */
};

/* `tls` of an upstream, and `tls` and `sentinel_tls` of the store. */
struct spec_client_tls {
    struct section_position position;
    struct spec_text ca;
    struct spec_text name;
    struct spec_text cert;
    struct spec_text key;
    bool verify;
    int min_version; /* enum tls_version */
};

struct spec_tls_tickets {
    struct section_position position;
    struct spec_text secret_file;
};

/* `tls` of a listen address, of an upstream and of the store, and `tls_tickets`. */
extern const struct value_type SECTIONS_TLS;
extern const struct value_type SECTIONS_UPSTREAM_TLS;
extern const struct value_type SECTIONS_REDIS_TLS;
extern const struct value_type SECTIONS_TLS_TICKETS;

#endif /* SLUICE_POLICY_LOAD_SPEC_TLS_H */

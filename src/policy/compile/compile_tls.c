/* `tls` of listen addresses, of upstreams and of the store. Happy path: conditions between keys ─►
 * the section, as written ─► where files are read: pairs, what clients show, names ─► the
 * configuration of tls/tls_server.h or tls/tls_client.h.
 *
 * Failures: an error at the value that names the file. A certificate that is out of date is only
 * warned of, so that it keeps no process from starting; but it does not take the place of another
 * one while a policy is in force. A stapled response that cannot be used is left out. */

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "policy/compile/compile.h"
#include "tls/client_hello.h"
#include "tls/tls_client.h"
#include "tls/tls_server.h"

#define SOON_S INT64_C(14 * 24 * 3600)

/* --- files --- */

/* Report @problem at @node, as an error or as @warning. Its path is shown as written. */
static void report_file(struct compiler *compiler, const struct node *node,
                        const enum warning *warning, const char *problem)
{
    if (warning != NULL) {
        node_warn(compiler->diags, node, *warning, "%.*s: %s", SPAN_ARGS(node->written), problem);
    } else {
        node_error(compiler->diags, node, "%.*s: %s", SPAN_ARGS(node->written), problem);
    }
}

static void warn_file(struct compiler *compiler, const struct node *node, enum warning warning,
                      const char *problem)
{
    report_file(compiler, node, &warning, problem);
}

/* Keep @path for watching it, and what the file is like. */
static void keep_file(void *context, const char *path)
{
    struct compiler *compiler = context;
    struct loader_files *files = compiler->options->files;
    if (files != NULL) {
        files_add_version(&files->read.certificates, path);
        compiler->no_memory |= !files_keep(&files->certificates, &files->n_certificates, path);
    }
}

const char *compile_file_path(struct compiler *compiler, const struct spec_text *text,
                              struct arena *arena)
{
    const char *own = compiler->options->folder_of;
    const char *slash = text->text.data[0] == '/' ? NULL : strrchr(own, '/');
    const size_t folder = slash != NULL ? (size_t)(slash - own) + 1 : 0;
    char *path = arena_calloc(arena, folder + text->text.len + 1, 1);
    if (path == NULL) {
        compiler->no_memory = true;
        return NULL;
    }
    memcpy(path, own, folder);
    memcpy(path + folder, text->text.data, text->text.len);
    return path;
}

const char *compile_open_path(struct compiler *compiler, const struct spec_text *text)
{
    const char *path = compile_file_path(compiler, text, compiler->scratch);
    if (path != NULL) {
        keep_file(compiler, path);
    }
    return compiler->no_memory ? NULL : path;
}

/* Whether @status is STATUS_OK; if not, @problem is reported at @node. */
static bool is_read(struct compiler *compiler, enum status status, const struct node *node,
                    const struct certificate_problem *problem)
{
    if (status == STATUS_NO_MEMORY) {
        compiler->no_memory = true;
    } else if (status != STATUS_OK) {
        report_file(compiler, node, NULL, problem->text);
    }
    return status == STATUS_OK;
}

static void check_exposed(struct compiler *compiler, const struct node *node, const char *path)
{
    if (server_files_is_exposed(path)) {
        warn_file(compiler, node, WARNING_READABLE_SECRET,
                  "every user of this machine may read it: chmod o-r");
    }
}

/* --- one certificate --- */

static bool is_in_force_at(const struct listener_section *listeners, size_t n,
                           const struct certificate *certificate)
{
    for (size_t i = 0; i < n; i++) {
        const struct tls_server_config *config = listeners[i].tls_config;
        for (size_t j = 0; config != NULL && j < config->n_entries; j++) {
            const struct tls_entry_config *entry = &config->entries[j];
            for (size_t k = 0; k < entry->n_certificates; k++) {
                if (strcmp(entry->certificates[k]->fingerprint, certificate->fingerprint) == 0) {
                    return true;
                }
            }
        }
    }
    return false;
}

static bool is_shown_to_servers(const struct policy *policy, const struct certificate *certificate)
{
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        const struct tls_client_config *config = policy->upstreams[i].tls;
        if (config != NULL && config->certificate != NULL &&
            strcmp(config->certificate->fingerprint, certificate->fingerprint) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the certificate may take the place of what is in force although it is out of date. */
static bool may_be_out_of_date(const struct compiler *compiler,
                               const struct certificate *certificate)
{
    const struct policy *in_force = compiler->options->in_force;
    return in_force == NULL || is_shown_to_servers(in_force, certificate) ||
           is_in_force_at(in_force->listeners, in_force->n_listeners, certificate) ||
           is_in_force_at(in_force->admin.listeners, in_force->admin.n_listeners, certificate);
}

static void check_time(struct compiler *compiler, const struct node *node,
                       const struct certificate *certificate)
{
    static const enum warning WARNING = WARNING_CERTIFICATE_TIME;
    const int64_t now_s = (int64_t)(compiler->options->now_us / 1000000);
    struct certificate_problem problem;
    if (!certificate_check_time(certificate, now_s, &problem)) {
        report_file(compiler, node, may_be_out_of_date(compiler, certificate) ? &WARNING : NULL,
                    problem.text);
    } else if (certificate->not_after_s < now_s + SOON_S) {
        char when[64];
        struct text text = text_of(when, sizeof(when) - 1);
        timestamp_write(&text, (uint64_t)certificate->not_after_s * 1000000);
        when[text.len] = '\0';
        node_warn(compiler->diags, node, WARNING_CERTIFICATE_TIME,
                  "%.*s: the certificate expires soon, on %s", SPAN_ARGS(node->written), when);
    }
}

/* Read the pair @cert and @key. NULL: it is wrong, which is reported, or there is no memory. */
static struct certificate *read_pair(struct compiler *compiler, const struct spec_text *cert,
                                     const struct spec_text *key)
{
    struct certificate_problem problem = {.path = NULL};
    struct certificate *certificate = NULL;
    const char *cert_path = compile_open_path(compiler, cert);
    const char *key_path = cert_path != NULL ? compile_open_path(compiler, key) : NULL;
    if (key_path == NULL) {
        return NULL;
    }
    const enum status status = certificate_load(cert_path, key_path, &certificate, &problem);
    const bool is_of_key = problem.path == key_path && key_path != cert_path;
    const struct node *node = is_of_key ? key->node : cert->node;
    if (strstr(problem.text, "belongs to no certificate of") != NULL) { /* without a full path */
        node_error(compiler->diags, node,
                   "%.*s: this key is not the certificate's in %.*s: both must be of one issue",
                   SPAN_ARGS(node->written), SPAN_ARGS(cert->node->written));
        return NULL;
    }
    if (!is_read(compiler, status, node, &problem)) {
        return NULL;
    }
    check_time(compiler, cert->node, certificate);
    check_exposed(compiler, key->node, key_path);
    return certificate;
}

/* Read the pair @cert and @key of a server into @entry. */
static void read_server_pair(struct compiler *compiler, const struct spec_text *cert,
                             const struct spec_text *key, struct tls_entry_config *entry)
{
    struct certificate_problem problem;
    struct certificate *certificate = read_pair(compiler, cert, key);
    if (certificate == NULL) {
        return;
    }
    entry->certificates[entry->n_certificates++] = certificate;
    if (!certificate_check_server(certificate, &problem)) {
        report_file(compiler, cert->node, NULL, problem.text);
    }
    if (certificate_lacks_issuer(certificate)) {
        warn_file(compiler, cert->node, WARNING_INCOMPLETE_CHAIN,
                  "the certificate's issuer is missing behind it, and clients may not know it: use "
                  "the full chain (fullchain.pem)");
    }
}

/* --- what clients show --- */

static void read_clients(struct compiler *compiler, const struct spec_certificate *spec,
                         struct tls_entry_config *entry)
{
    struct certificate_problem problem;
    struct certificate_crls crls = {.ders = NULL};
    const char *path =
        spec->client_ca.node != NULL ? compile_open_path(compiler, &spec->client_ca) : NULL;
    entry->client_rule = (enum client_certificate_rule)spec->client;
    if (path == NULL ||
        !is_read(compiler,
                 certificate_load_cas(path, &entry->client_cas, &entry->n_client_cas, &problem),
                 spec->client_ca.node, &problem)) {
        return;
    }
    path = spec->client_crl.node != NULL ? compile_open_path(compiler, &spec->client_crl) : NULL;
    if (path == NULL || !is_read(compiler,
                                 certificate_load_crls(path, entry->client_cas, entry->n_client_cas,
                                                       &crls, &problem),
                                 spec->client_crl.node, &problem)) {
        return;
    }
    entry->client_crls = crls.ders;
    entry->n_client_crls = crls.n_ders;
    entry->client_crl_end_s = crls.end_s;
    if (crls.end_s < (int64_t)(compiler->options->now_us / 1000000)) {
        warn_file(compiler, spec->client_crl.node, WARNING_CERTIFICATE_TIME,
                  "a list is out of date: certificates of clients are refused until there is a new "
                  "one");
    }
}

static void read_ocsp(struct compiler *compiler, const struct spec_text *ocsp,
                      struct tls_entry_config *entry)
{
    const int64_t now_s = (int64_t)(compiler->options->now_us / 1000000);
    struct certificate_problem problem;
    const char *path =
        ocsp->node != NULL && entry->n_certificates == 1 ? compile_open_path(compiler, ocsp) : NULL;
    if (path == NULL) {
        return;
    }
    const enum status status = server_files_load_ocsp(path, entry->certificates[0], now_s,
                                                      &entry->ocsp, &entry->ocsp_end_s, &problem);
    if (status == STATUS_NO_MEMORY) {
        compiler->no_memory = true;
    } else if (status != STATUS_OK) {
        warn_file(compiler, ocsp->node, WARNING_UNUSED_RESPONSE, problem.text);
    }
}

/* --- names --- */

/* The names of all entries of one section. */
struct naming {
    struct compiler *compiler;
    const struct spec_certificate *specs;
    struct tls_server_config *config;
};

static const struct spec_text *first_cert(const struct spec_certificate *spec)
{
    return spec->certs.items;
}

/* Add @name to the entry @at. @node: where it stands in the policy; NULL: in the certificate. */
static void add_name(const struct naming *naming, size_t at, struct span name,
                     const struct node *node)
{
    struct compiler *compiler = naming->compiler;
    struct tls_entry_config *entry = &naming->config->entries[at];
    const struct node *where = node != NULL ? node : first_cert(&naming->specs[at])->node;
    size_t other;
    const enum status status = server_names_add(naming->config->names, name, at, &other);
    if (status == STATUS_IN_USE && other != at) {
        node_error(
            compiler->diags, where,
            "the name %.*s belongs to two certificates, this one and the one of line %u: say "
            "with \"names\" which one serves it",
            SPAN_ARGS(name), first_cert(&naming->specs[other])->node->line);
    } else if (status == STATUS_IN_USE && node != NULL) {
        node_report(compiler->diags, node, "names", " stands twice");
    } else if (status == STATUS_NO_MEMORY) {
        compiler->no_memory = true;
    }
    if (status != STATUS_OK) {
        return;
    }
    char *copy = strndup(name.data, name.len);
    if (copy == NULL) {
        compiler->no_memory = true;
        return;
    }
    entry->names[entry->n_names++] = span_of(copy, name.len);
}

/* Whether @certificate is good for @name, which may be a wildcard. */
static bool has_name(const struct certificate *certificate, struct span name)
{
    const size_t dot = span_find(name, '.');
    const struct span parent = span_from(name, dot);
    for (size_t i = 0; i < certificate->n_names; i++) {
        const struct span own = span_of_text(certificate->names[i]);
        if (span_equals(own, name) ||
            (own.data[0] == '*' && span_equals(span_from(own, 1), parent))) {
            return true;
        }
    }
    return false;
}

/* Warn of a name of the entry @at that one of its certificates does not have. */
static void check_covered(const struct naming *naming, size_t at, struct span name,
                          const struct node *node)
{
    const struct tls_entry_config *entry = &naming->config->entries[at];
    const struct spec_text *certs = naming->specs[at].certs.items;
    for (size_t i = 0; i < entry->n_certificates; i++) {
        if (!has_name(entry->certificates[i], name)) {
            node_warn(naming->compiler->diags, node, WARNING_UNCOVERED_NAME,
                      "%.*s does not have the name %.*s: clients will refuse it",
                      SPAN_ARGS(certs[i].node->written), SPAN_ARGS(name));
        }
    }
}

static void add_said_names(const struct naming *naming, size_t at)
{
    const struct section_items *names = &naming->specs[at].names;
    const struct spec_text *texts = names->items;
    for (size_t i = 0; i < names->n_items; i++) {
        char buffer[HOST_BYTES_MAX + 2] = "*.";
        const bool is_wildcard = span_starts_with(texts[i].text, SPAN("*."));
        struct span name = texts[i].text;
        name = is_wildcard ? span_from(name, 2) : name;
        if (texts[i].node == NULL) {
            continue;
        }
        if (!server_names_normalise(name, buffer + 2, &name)) {
            node_report(naming->compiler->diags, texts[i].node, "names",
                        ": must be the name of a host, no address");
            continue;
        }
        memmove(buffer + 2, name.data, name.len);
        name = is_wildcard ? span_of(buffer, name.len + 2) : span_of(buffer + 2, name.len);
        add_name(naming, at, name, texts[i].node);
        check_covered(naming, at, name, texts[i].node);
    }
}

static void add_own_names(const struct naming *naming, size_t at)
{
    const struct tls_entry_config *entry = &naming->config->entries[at];
    const struct node *node = first_cert(&naming->specs[at])->node;
    for (size_t i = 0; entry->n_certificates > 0 && i < entry->certificates[0]->n_names; i++) {
        const struct span name = span_of_text(entry->certificates[0]->names[i]);
        add_name(naming, at, name, NULL);
        check_covered(naming, at, name, node);
    }
    if (at > 0 && entry->n_certificates > 0 && entry->certificates[0]->n_names == 0) {
        node_error(naming->compiler->diags, node,
                   "%.*s has no name of a host, and only the first certificate serves clients that "
                   "name none: give it \"names\", or put it first",
                   SPAN_ARGS(node->written));
    }
}

static int compare_names(const void *a, const void *b)
{
    const struct span *x = a;
    const struct span *y = b;
    const int order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static void compile_names(const struct naming *naming)
{
    struct tls_server_config *config = naming->config;
    struct compiler *compiler = naming->compiler;
    size_t n_max = 0;
    for (size_t i = 0; i < config->n_entries; i++) {
        struct tls_entry_config *entry = &config->entries[i];
        size_t n = naming->specs[i].names.n_items;
        if (naming->specs[i].names.node == NULL && entry->n_certificates > 0) {
            n = entry->certificates[0]->n_names;
        }
        entry->names = calloc(n + 1, sizeof(*entry->names));
        compiler->no_memory = compiler->no_memory || entry->names == NULL;
        n_max += n;
    }
    if (!compiler->no_memory && server_names_new(n_max, &config->names) != STATUS_OK) {
        compiler->no_memory = true;
    }
    for (size_t i = 0; i < config->n_entries && !compiler->no_memory; i++) {
        struct tls_entry_config *entry = &config->entries[i];
        if (naming->specs[i].names.node != NULL) {
            add_said_names(naming, i);
        } else {
            add_own_names(naming, i);
        }
        qsort(entry->names, entry->n_names, sizeof(*entry->names), compare_names);
    }
}

/* --- the configuration --- */

static void read_entry(struct compiler *compiler, const struct spec_certificate *spec,
                       struct tls_entry_config *entry)
{
    const struct spec_text *certs = spec->certs.items;
    const struct spec_text *keys = spec->keys.items;
    for (size_t i = 0; i < spec->certs.n_items && i < spec->keys.n_items; i++) {
        if (certs[i].node != NULL && keys[i].node != NULL) {
            read_server_pair(compiler, &certs[i], &keys[i], entry);
        }
    }
    if (entry->n_certificates == 2 &&
        entry->certificates[0]->is_rsa == entry->certificates[1]->is_rsa) {
        node_error(compiler->diags, certs[1].node,
                   "of two certificates of an entry one must be RSA and the other one not");
    }
    read_clients(compiler, spec, entry);
    read_ocsp(compiler, &spec->ocsp, entry);
    server_files_digest_clients(entry);
}

static struct ticket_chain process_chain = TICKET_CHAIN_INIT; /* for all policies */

static void read_config(struct compiler *compiler, const struct tls_section *section,
                        const struct spec_certificate *specs, struct listener_section *listener)
{
    struct tls_server_config *config = calloc(1, sizeof(*config));
    if (config == NULL) {
        compiler->no_memory = true;
        return;
    }
    listener->tls_config = config; /* from now on policy_free() releases it */
    config->n_references = 1;
    config->min_version = section->min_version;
    config->refuses_unknown_names = section->refuses_unknown_names;
    config->tickets = section->tickets;
    /* The admin API, which names no versions, speaks HTTP/1.1. */
    config->alpn = (listener->versions & HTTP_VERSION_2 ? ALPN_H2 : 0) |
                   (listener->versions == HTTP_VERSION_2 ? 0 : ALPN_HTTP_1_1);
    if (section->tickets == TLS_TICKETS_PROCESS) {
        config->chain = &process_chain;
    } else if (section->tickets == TLS_TICKETS_SHARED) {
        config->secrets = compiler->secrets;
    }
    config->entries = calloc(section->n_entries, sizeof(*config->entries));
    if (config->entries == NULL) {
        compiler->no_memory = true;
        return;
    }
    config->n_entries = section->n_entries;
    for (size_t i = 0; i < section->n_entries && !compiler->no_memory; i++) {
        read_entry(compiler, &specs[i], &config->entries[i]);
    }
    const struct naming naming = {compiler, specs, config};
    if (!compiler->no_memory) {
        compile_names(&naming);
    }
}

/* --- the section --- */

static void check_clients(struct compiler *compiler, const struct spec_certificate *spec,
                          const struct spec_tls *tls)
{
    const struct node *node = node_find(spec->position.node, SPAN("client"));
    if (spec->client == CLIENT_CERTIFICATE_OFF && spec->client_ca.node != NULL) {
        node_error(compiler->diags, spec->client_ca.node,
                   "\"client_ca\" does nothing without \"client: require\" or \"client: "
                   "optional\" beside it");
    } else if (spec->client_crl.node != NULL && spec->client_ca.node == NULL) {
        node_error(compiler->diags, spec->client_crl.node,
                   "\"client_crl\" needs \"client_ca\", whose certificates it revokes");
    }
    if (spec->client == CLIENT_CERTIFICATE_OFF || node == NULL) {
        return;
    }
    if (node_find(spec->position.node, SPAN("client_ca")) == NULL) {
        node_report(compiler->diags, node, "client",
                    " needs \"client_ca\": the authorities of clients' certificates");
    }
    if (tls->tickets == TLS_TICKETS_SHARED) {
        node_report(compiler->diags, node, "client",
                    " does not go with \"tickets: shared\": a holder of the secret could "
                    "impersonate a client; write \"tickets: process\"");
    }
}

/* Whether the pairs of @spec are one or two, and complete. */
static bool check_pairs(struct compiler *compiler, const struct spec_certificate *spec)
{
    const size_t n = spec->certs.n_items;
    if (spec->certs.node == NULL || spec->keys.node == NULL) {
        return false; /* reported */
    }
    if (n == 0 || n > TLS_CERTIFICATES_PER_ENTRY_MAX || spec->keys.n_items != n) {
        node_error(compiler->diags, spec->certs.node,
                   "cert and key must be one file each, or two: RSA and ECDSA");
        return false;
    }
    if (spec->names.node != NULL && spec->names.n_items == 0) {
        node_error(compiler->diags, spec->names.node,
                   "names must be one or more: leave it out for those of the certificate");
    }
    if (n > 1 && spec->ocsp.node != NULL) {
        node_error(compiler->diags, spec->ocsp.node,
                   "\"ocsp\" is about one certificate, and the entry has two");
    }
    return true;
}

static void compile_entry(struct compiler *compiler, const struct spec_certificate *spec,
                          struct tls_entry_section *entry)
{
    const struct spec_text *certs = spec->certs.items;
    const struct spec_text *keys = spec->keys.items;
    entry->n_pairs = spec->certs.n_items;
    for (size_t i = 0; i < entry->n_pairs; i++) {
        entry->certs[i] = compile_copy(compiler, certs[i].text);
        entry->keys[i] = compile_copy(compiler, keys[i].text);
    }
    entry->names = compile_texts(compiler, &spec->names, &entry->n_names);
    entry->client_ca = compile_copy(compiler, spec->client_ca.text);
    entry->client_crl = compile_copy(compiler, spec->client_crl.text);
    entry->ocsp = compile_copy(compiler, spec->ocsp.text);
    entry->client = (enum client_certificate_rule)spec->client;
}

/* The entries of @spec, which may be of the short form; NULL: reported. */
static const struct spec_certificate *find_entries(struct compiler *compiler,
                                                   const struct spec_tls *spec, size_t *n)
{
    const bool is_short = spec->certs.node != NULL || spec->keys.node != NULL;
    const struct node *node = spec->position.node;
    *n = spec->certificates.n_items;
    if (is_short && spec->certificates.node != NULL) {
        node_error(compiler->diags, spec->certificates.node,
                   "\"cert\" and \"key\" are the short form of one certificate: move them into "
                   "\"certificates\"");
        return NULL;
    }
    if (!is_short && *n == 0) {
        node_error(compiler->diags, node, "tls must have \"cert\" and \"key\", or certificates");
        return NULL;
    }
    if (!is_short) {
        return compile_check_count(compiler, &spec->certificates, TLS_ENTRIES_MAX,
                                   "certificates must be", "entries")
                   ? spec->certificates.items
                   : NULL;
    }
    if (spec->certs.node == NULL || spec->keys.node == NULL) {
        node_error(compiler->diags, node, "\"%s\" is missing in tls",
                   spec->certs.node == NULL ? "cert" : "key");
        return NULL;
    }
    struct spec_certificate *entry = arena_calloc(compiler->scratch, 1, sizeof(*entry));
    if (entry == NULL) {
        compiler->no_memory = true;
        return NULL;
    }
    *n = 1;
    entry->position = spec->position;
    entry->certs = spec->certs;
    entry->keys = spec->keys;
    return entry;
}

static void check_tickets(struct compiler *compiler, const struct spec_tls *spec)
{
    if (spec->tickets == TLS_TICKETS_SHARED && compiler->spec->tls_tickets.position.node == NULL) {
        node_report(compiler->diags, node_find(spec->position.node, SPAN("tickets")), "tickets",
                    " needs \"tls_tickets: {secret_file: FILE}\" at the top level");
    }
}

void compile_tls(struct compiler *compiler, const struct spec_tls *spec,
                 struct listener_section *listener)
{
    size_t n = 0;
    if (spec->position.node == NULL) {
        return;
    }
    check_tickets(compiler, spec);
    const struct spec_certificate *specs = find_entries(compiler, spec, &n);
    struct tls_section *section = compile_alloc(compiler, 1, sizeof(*section));
    if (specs == NULL || section == NULL) {
        return;
    }
    section->entries = compile_alloc(compiler, n, sizeof(*section->entries));
    section->min_version = (enum tls_version)spec->min_version;
    section->refuses_unknown_names = spec->unknown_name != 0;
    section->tickets = (enum tls_tickets)spec->tickets;
    for (size_t i = 0; i < n && section->entries != NULL; i++) {
        check_clients(compiler, &specs[i], spec);
        if (check_pairs(compiler, &specs[i])) {
            compile_entry(compiler, &specs[i], &section->entries[section->n_entries++]);
        }
    }
    listener->tls = section;
    if (compiler->options->path != NULL && section->n_entries == n && !compiler->no_memory) {
        read_config(compiler, section, specs, listener);
    }
}

/* --- to servers --- */

/* The name that servers' certificates must have, of `name`; empty: each server's own host. */
static struct span verified_name(struct compiler *compiler, const struct spec_upstream *spec)
{
    struct span name = spec->tls.name.text;
    if (span_equals(name, SPAN("host")) && !span_equals(spec->host.text, SPAN("server"))) {
        name = spec->host.text;
        if (span_equals(name, SPAN("preserve"))) {
            node_report(compiler->diags, spec->tls.name.node, "name",
                        ": needs \"host: server\" or \"host: NAME\" of the upstream: else "
                        "clients would say whom to trust");
        }
        const size_t bracket = span_find(name, ']');
        const struct span all = name;
        name = bracket < all.len ? span_of(all.data + 1, bracket - 1)
                                 : span_of(all.data, span_find(all, ':'));
    }
    return span_equals(name, SPAN("server")) || span_equals(name, SPAN("host")) ? span_of("", 0)
                                                                                : name;
}

static bool check_client_tls(struct compiler *compiler, const struct spec_client_tls *spec)
{
    const struct node *node = spec->position.node;
    if (!spec->verify) {
        node_warn(compiler->diags, node, WARNING_UNVERIFIED_SERVER,
                  "\"verify: false\" lets anybody on the way pose as a server: use \"ca\" with the "
                  "server's certificate");
    }
    if ((spec->cert.node == NULL) != (spec->key.node == NULL)) {
        node_error(compiler->diags, node, "\"%s\" is missing in tls: cert and key go together",
                   spec->cert.node == NULL ? "cert" : "key");
        return false;
    }
    return true;
}

static void add_system_version(void *version, const char *path)
{
    files_add_version(version, path);
}

static void read_client_files(struct compiler *compiler, const struct spec_client_tls *spec,
                              struct tls_client_config *config)
{
    struct certificate_problem problem;
    const bool has_ca = spec->ca.node != NULL && !span_equals(spec->ca.text, SPAN("system"));
    const char *path = has_ca ? compile_open_path(compiler, &spec->ca) : NULL;
    if (path != NULL) {
        (void)is_read(compiler, certificate_load_cas(path, &config->cas, &config->n_cas, &problem),
                      spec->ca.node, &problem);
    }
    if (!has_ca && config->verifies) {
        tls_each_system_path(add_system_version, &config->system_version);
        tls_each_system_path(keep_file, compiler);
    }
    if (spec->cert.node != NULL) {
        config->certificate = read_pair(compiler, &spec->cert, &spec->key);
    }
    if (config->certificate != NULL && !config->certificate->asks) {
        report_file(compiler, spec->cert.node, NULL,
                    "the certificate is not for clients: its key usage says so");
    }
}

/* The configuration that @spec is of, for servers whose certificates are for @name; empty: for each
 * server's own host. One reference; NULL: an error is reported. */
static struct tls_client_config *compile_client_tls(struct compiler *compiler,
                                                    const struct spec_client_tls *spec,
                                                    struct span name, unsigned alpn)
{
    if (!check_client_tls(compiler, spec)) {
        return NULL;
    }
    struct tls_client_config *config = calloc(1, sizeof(*config));
    char *copy = calloc(name.len + 1, 1);
    if (config == NULL || copy == NULL) {
        compiler->no_memory = true;
        free(config);
        free(copy);
        return NULL;
    }
    config->n_references = 1;
    memcpy(copy, name.data, name.len);
    config->name = span_of(copy, name.len);
    config->verifies = spec->verify;
    config->min_version = (enum tls_version)spec->min_version;
    config->alpn = alpn;
    if (compiler->options->path != NULL) {
        read_client_files(compiler, spec, config);
    }
    tls_client_config_digest(config);
    return config;
}

void compile_upstream_tls(struct compiler *compiler, const struct spec_upstream *spec,
                          struct upstream_spec *upstream)
{
    bool is_used = false;
    for (size_t i = 0; i < upstream->n_servers; i++) {
        is_used = is_used || upstream->servers[i].endpoint.is_https;
    }
    const struct span name = verified_name(compiler, spec);
    if (is_used) {
        upstream->tls =
            compile_client_tls(compiler, &spec->tls, name,
                               upstream->protocol == UPSTREAM_HTTP_1_1 ? ALPN_HTTP_1_1
                               : upstream->protocol == UPSTREAM_HTTP_2 ? ALPN_H2
                                                                       : ALPN_H2 | ALPN_HTTP_1_1);
    } else if (spec->tls.position.node != NULL) {
        node_warn(compiler->diags, spec->tls.position.node, WARNING_NO_EFFECT,
                  "tls has no effect: no server of the upstream is https://");
    }
}

/* --- to Redis --- */

static struct tls_client_config *compile_for_redis(struct compiler *compiler,
                                                   const struct spec_client_tls *spec)
{
    const struct span name = spec->name.text;
    return compile_client_tls(compiler, spec, span_equals(name, SPAN("server")) ? SPAN("") : name,
                              0);
}

void compile_redis_tls(struct compiler *compiler, bool is_tls, struct redis_section *redis)
{
    const struct spec_client_tls *spec = &compiler->spec->store.tls;
    const struct spec_client_tls *of_sentinels = &compiler->spec->store.sentinel_tls;
    const bool has_sentinels = redis->kind == REDIS_SENTINEL;
    if (is_tls || (has_sentinels && spec->position.node != NULL)) {
        redis->tls = compile_for_redis(compiler, spec);
    } else if (spec->position.node != NULL) {
        node_warn(compiler->diags, spec->position.node, WARNING_NO_EFFECT,
                  "tls has no effect: redis is not rediss://");
    }
    if (of_sentinels->position.node == NULL) {
        redis->sentinel_tls = is_tls && has_sentinels && redis->tls != NULL
                                  ? tls_client_config_acquire(redis->tls)
                                  : NULL;
    } else if (is_tls && has_sentinels) {
        redis->sentinel_tls = compile_for_redis(compiler, of_sentinels);
    } else {
        node_warn(compiler->diags, of_sentinels->position.node, WARNING_NO_EFFECT,
                  "sentinel_tls has no effect: redis is not rediss+sentinel://");
    }
}

/* --- secrets that proxies share --- */

static bool is_shared(const struct spec_policy *spec)
{
    const struct spec_listen *listen = spec->listen.items;
    const struct spec_admin_listen *admin = spec->admin.listen.items;
    bool found = false;
    for (size_t i = 0; i < spec->listen.n_items; i++) {
        found = found || listen[i].tls.tickets == TLS_TICKETS_SHARED;
    }
    for (size_t i = 0; i < spec->admin.listen.n_items; i++) {
        found = found || admin[i].tls.tickets == TLS_TICKETS_SHARED;
    }
    return found;
}

void compile_tls_tickets(struct compiler *compiler)
{
    const struct spec_tls_tickets *spec = &compiler->spec->tls_tickets;
    const struct spec_text *file = &spec->secret_file;
    struct certificate_problem problem;
    if (file->node == NULL) {
        return;
    }
    if (!is_shared(compiler->spec)) {
        node_warn(compiler->diags, spec->position.node, WARNING_NO_EFFECT,
                  "tls_tickets has no effect: no listen address has \"tickets: shared\"");
    }
    const char *path = compiler->options->path != NULL ? compile_open_path(compiler, file) : NULL;
    if (path != NULL &&
        is_read(compiler, server_files_load_secrets(path, &compiler->secrets, &problem), file->node,
                &problem)) {
        check_exposed(compiler, file->node, path);
    }
}

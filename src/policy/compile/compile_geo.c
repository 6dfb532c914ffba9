/* `geo`: the databases of addresses, and what of the policy reads them.
 *
 * A file that has not changed since the policy in force read it is not read again: both policies
 * share the database. */

#include <string.h>

#include "geo/database.h"
#include "policy/compile/compile.h"

enum { PROBLEM_BYTES_MAX = 256 };

/* --- files --- */

/* The database that @in_force has of the file at @path, unless the file has changed since. */
static struct geo_database *find_in_force(const struct policy *in_force, const char *path,
                                          uint64_t version)
{
    for (size_t i = 0; in_force != NULL && i < in_force->geo.n_files; i++) {
        const struct geo_file *file = &in_force->geo.files[i];
        if (file->database != NULL && version != 0 && file->version == version &&
            strcmp(file->path, path) == 0) {
            return geo_database_acquire(file->database);
        }
    }
    return NULL;
}

/* A policy that is not served, and not checked, is good without its databases. */
static void report(struct compiler *compiler, const struct node *node, const struct text *problem)
{
    if (compiler->options->may_lack_databases) {
        node_warn(compiler->diags, node, WARNING_NO_EFFECT,
                  "%.*s: %.*s; here no address is found in it", SPAN_ARGS(node->written),
                  SPAN_ARGS(text_span(problem)));
    } else {
        node_error(compiler->diags, node, "%.*s: %.*s", SPAN_ARGS(node->written),
                   SPAN_ARGS(text_span(problem)));
    }
}

static void open_database(struct compiler *compiler, const struct spec_text *spec,
                          struct geo_file *file)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    const char *path = compile_open_path(compiler, spec);
    file->path = path != NULL ? compile_copy(compiler, span_of_text(path)).data : NULL;
    if (file->path == NULL) {
        return;
    }
    files_add_version(&file->version, path); /* before it is read */
    file->database = find_in_force(compiler->options->in_force, path, file->version);
    if (file->database != NULL) {
        return;
    }
    const enum status status = geo_database_open(path, &file->database, &problem);
    if (status == STATUS_NO_MEMORY) {
        compiler->no_memory = true;
    } else if (status != STATUS_OK) {
        file->database = NULL;
        report(compiler, spec->node, &problem);
    }
}

void compile_geo(struct compiler *compiler)
{
    const struct section_items *items = &compiler->spec->geo.databases;
    const struct spec_text *specs = items->items;
    struct geo_section *geo = &compiler->policy->geo;
    if (compiler->spec->geo.position.node == NULL ||
        !compile_check_count(compiler, items, GEO_DATABASES_MAX, "database must be", "files")) {
        return;
    }
    geo->files = compile_alloc(compiler, items->n_items, sizeof(*geo->files));
    for (size_t i = 0; i < items->n_items && geo->files != NULL && !compiler->no_memory; i++) {
        struct geo_file *file = &geo->files[geo->n_files++];
        if (specs[i].node != NULL && compiler->options->reads_databases) {
            open_database(compiler, &specs[i], file);
        }
    }
}

/* --- what reads them --- */

/* What the databases that were read know; all facts if one was not read. */
static unsigned known_facts(const struct geo_section *geo)
{
    unsigned facts = 0;
    for (size_t i = 0; i < geo->n_files; i++) {
        facts |= geo->files[i].database != NULL ? geo_database_facts(geo->files[i].database)
                                                : GEO_COUNTRY | GEO_ASN;
    }
    return facts;
}

/* @what, at @node, reads @fact. @lacks: what comes of it where no database has the fact. */
static void add_reader(struct compiler *compiler, unsigned fact, const struct node *node,
                       const char *what, const char *lacks)
{
    struct geo_section *geo = &compiler->policy->geo;
    geo->facts |= fact;
    if (compiler->spec->geo.position.node == NULL) {
        node_error(compiler->diags, node,
                   "%s needs a database of addresses: write geo: {database: FILE}", what);
    } else if ((known_facts(geo) & fact) == 0) {
        node_warn(compiler->diags, node, WARNING_NO_EFFECT,
                  "%s: no database of geo has %s of its first records, so that %s", what,
                  fact == GEO_ASN ? "the AS" : "the country", lacks);
    }
}

static void add_key(struct compiler *compiler, const struct key *key, const struct node *node)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        for (size_t j = 0; j < key->parts[i].n_terms; j++) {
            const struct key_source_row *row = &KEY_SOURCE_ROWS[key->parts[i].terms[j].source];
            if (row->origin == KEY_FROM_DATABASE) {
                add_reader(compiler, (unsigned)row->detail, node, row->word.data,
                           "each request lacks it");
            }
        }
    }
}

void compile_geo_readers(struct compiler *compiler)
{
    const struct policy *policy = compiler->policy;
    const struct spec_limit *limits = compiler->spec->limits.items;
    const struct spec_upstream *upstreams = compiler->spec->upstreams.items;
    const struct spec_route *routes = compiler->spec->routes.items;
    for (size_t i = 0; i < policy->n_rules; i++) {
        add_key(compiler, &policy->rules[i].key, limits[i].key.node);
    }
    for (size_t i = 0; i < policy->n_upstreams; i++) {
        add_key(compiler, &policy->upstreams[i].balance_key, upstreams[i].balance.node);
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        if (routes[i].match.countries.node != NULL) {
            add_reader(compiler, GEO_COUNTRY, routes[i].match.countries.node, "country",
                       "the route matches no request");
        }
        if (routes[i].match.asns.node != NULL) {
            add_reader(compiler, GEO_ASN, routes[i].match.asns.node, "asn",
                       "the route matches no request");
        }
    }
}

/* The settings of the process: listen addresses, the admin API, name servers and the log. */

#include "base/address.h"
#include "policy/compare.h"
#include "policy/compile/compile.h"

/* --- listen addresses --- */

/* Whether @endpoint is one of the @n @listeners. The kernel chooses another port for each 0. */
static bool is_listed(const struct endpoint *endpoint, const struct listener_section *listeners,
                      size_t n)
{
    const bool is_chosen = endpoint->unix_path.len == 0 && endpoint->port == 0;
    for (size_t i = 0; i < n && !is_chosen; i++) {
        if (compare_endpoints(endpoint, &listeners[i].endpoint)) {
            return true;
        }
    }
    return false;
}

/* The `mode` that @section gives to the unix socket @endpoint, or NULL. Reports a mode of another
 * address. */
static const struct node *check_mode(struct compiler *compiler,
                                     const struct section_position *section,
                                     const struct endpoint *endpoint)
{
    const struct node *mode = node_find(section->node, SPAN("mode"));
    if (mode != NULL && endpoint->unix_path.len == 0) {
        node_error(compiler->diags, mode, "\"mode\" is only for unix sockets");
        return NULL;
    }
    return mode;
}

static unsigned compile_versions(const struct spec_listen *spec)
{
    const int *words = spec->versions.items;
    unsigned versions = 0;
    for (size_t i = 0; i < spec->versions.n_items; i++) {
        versions |= words[i] == LISTEN_HTTP_2 ? HTTP_VERSION_2 : HTTP_VERSION_1_1;
    }
    if (versions == 0) {
        const bool is_tls = node_find(spec->position.node, SPAN("tls")) != NULL;
        versions = HTTP_VERSION_1_1 | (is_tls ? HTTP_VERSION_2 : 0);
    }
    return versions;
}

static void compile_listener(struct compiler *compiler, const struct spec_listen *spec)
{
    struct policy *policy = compiler->policy;
    const struct endpoint *endpoint = &spec->address.endpoint;
    const struct node *proxy = node_find(spec->position.node, SPAN("proxy_protocol"));
    if (is_listed(endpoint, policy->listeners, policy->n_listeners)) {
        node_report(compiler->diags, spec->address.node, "listen", " stands twice");
    }
    (void)check_mode(compiler, &spec->position, endpoint);
    if (proxy != NULL && spec->proxy_protocol && compiler->spec->trusted_proxies.n_items == 0) {
        node_error(compiler->diags, proxy,
                   "\"proxy_protocol\" is only accepted from trusted_proxies, and there are none: "
                   "every connection would be refused");
    }
    policy->listeners[policy->n_listeners++] = (struct listener_section){
        .endpoint = compile_endpoint(compiler, endpoint),
        .proxy_protocol = spec->proxy_protocol,
        .versions = compile_versions(spec),
        .mode = spec->mode,
    };
    compile_tls(compiler, &spec->tls, &policy->listeners[policy->n_listeners - 1]);
}

static void compile_listeners(struct compiler *compiler)
{
    const struct section_items *listen = &compiler->spec->listen;
    const struct spec_listen *specs = listen->items;
    struct policy *policy = compiler->policy;
    if (!compile_check_count(compiler, listen, LISTENERS_MAX, "listen must have", "addresses")) {
        return;
    }
    policy->listeners = compile_alloc(compiler, listen->n_items, sizeof(*policy->listeners));
    for (size_t i = 0; i < listen->n_items && policy->listeners != NULL; i++) {
        if (specs[i].address.node != NULL) {
            compile_listener(compiler, &specs[i]);
        }
    }
}

/* --- the admin API --- */

/* Whether other machines can connect to @endpoint. */
static bool is_open(const struct endpoint *endpoint)
{
    struct address address;
    return endpoint->unix_path.len == 0 &&
           (!address_parse(endpoint->host, &address) || !address_is_loopback(&address));
}

static bool is_said(const struct spec_admin_token *token)
{
    return token->text.node != NULL || token->file.node != NULL;
}

static void compile_admin_listener(struct compiler *compiler, const struct spec_admin_listen *spec)
{
    const struct spec_admin *admin = &compiler->spec->admin;
    const struct policy *policy = compiler->policy;
    struct admin_section *section = &compiler->policy->admin;
    const struct endpoint *endpoint = &spec->address.endpoint;
    if (is_listed(endpoint, policy->listeners, policy->n_listeners) ||
        is_listed(endpoint, section->listeners, section->n_listeners)) {
        node_error(compiler->diags, spec->address.node,
                   "admin cannot listen there: another listener does");
    }
    const struct node *mode = check_mode(compiler, &spec->position, endpoint);
    if (mode != NULL && (spec->mode & 07) != 0) {
        node_error(compiler->diags, mode,
                   "mode %04o lets all users of this machine change limits; the last digit must be "
                   "0, as in 0660",
                   spec->mode);
    }
    if (is_open(endpoint) && !is_said(&admin->token) && !is_said(&admin->read_token)) {
        node_error(compiler->diags, spec->address.node,
                   "admin can be reached from other machines there and has no token: name one with "
                   "\"token_file\" or \"token\", or listen on 127.0.0.1 or a unix socket");
    }
    section->listeners[section->n_listeners++] = (struct listener_section){
        .endpoint = compile_endpoint(compiler, endpoint),
        .mode = spec->mode,
    };
    compile_tls(compiler, &spec->tls, &section->listeners[section->n_listeners - 1]);
}

static void compile_admin_listeners(struct compiler *compiler)
{
    const struct section_items *listen = &compiler->spec->admin.listen;
    const struct spec_admin_listen *specs = listen->items;
    struct admin_section *section = &compiler->policy->admin;
    if (!compile_check_count(compiler, listen, ADMIN_LISTENERS_MAX, "admin must listen on",
                             "addresses")) {
        return;
    }
    section->listeners = compile_alloc(compiler, listen->n_items, sizeof(*section->listeners));
    for (size_t i = 0; i < listen->n_items && section->listeners != NULL; i++) {
        if (specs[i].address.node != NULL) {
            compile_admin_listener(compiler, &specs[i]);
        }
    }
}

static struct admin_token compile_token(struct compiler *compiler,
                                        const struct spec_admin_token *spec, const char *key)
{
    const struct node *file = spec->file.node;
    if (file != NULL && spec->text.node != NULL) {
        node_error(compiler->diags, file, "\"%s\" and \"%s_file\" are two tokens: leave one out",
                   key, key);
    }
    struct admin_token token = {
        .is_said = spec->text.node != NULL,
        .path = compile_copy(compiler, spec->file.text),
    };
    if (token.is_said) {
        secret_init(&token.secret, spec->text.text);
    }
    return token;
}

static void compile_admin(struct compiler *compiler)
{
    const struct spec_admin *spec = &compiler->spec->admin;
    struct admin_section *section = &compiler->policy->admin;
    compile_admin_listeners(compiler);
    section->token = compile_token(compiler, &spec->token, "token");
    section->read_token = compile_token(compiler, &spec->read_token, "read_token");
    section->metrics_top = spec->metrics_top;
    section->hosts = compile_texts(compiler, &spec->hosts, &section->n_hosts);
}

/* --- the rest --- */

static void compile_resolver(struct compiler *compiler)
{
    const struct section_items *servers = &compiler->spec->resolver.servers;
    const struct spec_endpoint *specs = servers->items;
    struct resolver_section *resolver = &compiler->policy->resolver;
    if (!compile_check_count(compiler, servers, NAME_SERVERS_MAX, "servers must have",
                             "addresses")) {
        return;
    }
    resolver->servers = compile_alloc(compiler, servers->n_items, sizeof(*resolver->servers));
    for (size_t i = 0; i < servers->n_items && resolver->servers != NULL; i++) {
        if (specs[i].node != NULL) {
            resolver->servers[resolver->n_servers++] =
                compile_endpoint(compiler, &specs[i].endpoint);
        }
    }
}

static void compile_log(struct compiler *compiler)
{
    const struct span with_path = SPAN("syslog:");
    const struct spec_log *spec = &compiler->spec->log;
    const struct span to = spec->to.text;
    struct log_section *log = &compiler->policy->log;
    log->format = (enum log_format)spec->format;
    log->sample_ppm = spec->sample_ppm;
    log->denied_lines = spec->denied_lines;
    if (log->format == LOG_FORMAT_COMBINED) { /* which has them always */
        log->fields = UINT32_C(1) << LOG_FIELD_REFERER | UINT32_C(1) << LOG_FIELD_USER_AGENT;
    }
    const int *fields = spec->fields.items;
    for (size_t i = 0; i < spec->fields.n_items; i++) {
        log->fields |= UINT32_C(1) << fields[i];
    }
    if (span_equals(to, SPAN("stdout"))) {
        log->target = LOG_TO_STDOUT;
    } else if (span_equals(to, SPAN("syslog"))) {
        log->target = LOG_TO_SYSLOG;
        log->path = SPAN("/dev/log");
    } else if (span_starts_with(to, with_path)) {
        log->target = LOG_TO_SYSLOG;
        log->path = compile_copy(compiler, span_from(to, with_path.len));
    } else {
        log->target = LOG_TO_FILE;
        log->path = compile_copy(compiler, to);
    }
}

void compile_settings(struct compiler *compiler)
{
    struct policy *policy = compiler->policy;
    policy->workers = compiler->spec->workers;
    policy->trusted_proxies =
        compile_prefixes(compiler, &compiler->spec->trusted_proxies, &policy->n_trusted_proxies);
    policy->watch = compiler->spec->watch;
    policy->headers = (enum headers_style)compiler->spec->headers;
    policy->max = compiler->spec->max.values;
    policy->timeouts = compiler->spec->timeouts.values;
    compile_tls_tickets(compiler);
    compile_listeners(compiler);
    compile_resolver(compiler);
    compile_log(compiler);
    compile_admin(compiler);
}

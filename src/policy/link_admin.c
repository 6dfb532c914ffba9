#include "base/address.h"
#include "policy/link.h"

static bool is_same(const struct endpoint *a, const struct endpoint *b)
{
    const bool is_chosen = a->unix_path.len == 0 && a->port == 0;
    return !is_chosen && a->port == b->port && span_equals(a->host, b->host) &&
           span_equals(a->unix_path, b->unix_path);
}

/* Among the addresses of clients, and those of operators so far. */
static bool is_listed(const struct policy *policy, const struct endpoint *endpoint)
{
    for (size_t i = 0; i < policy->n_listeners; i++) {
        if (is_same(endpoint, &policy->listeners[i].endpoint)) {
            return true;
        }
    }
    for (size_t i = 0; i < policy->admin.n_listeners; i++) {
        if (is_same(endpoint, &policy->admin.listeners[i].endpoint)) {
            return true;
        }
    }
    return false;
}

static void check_mode(struct linker *linker, const struct spec_admin_listen *spec)
{
    const struct node *place = spec->place.node;
    const struct node *mode = place != NULL ? node_find(place, SPAN("mode")) : NULL;
    if (mode == NULL) {
        return;
    }
    if (spec->address.endpoint.unix_path.len == 0) {
        diags_add(linker->diags, DIAG_ERROR, mode->line, mode->column,
                  "\"mode\" is for unix sockets alone");
    } else if ((spec->mode & 07) != 0) {
        diags_add(linker->diags, DIAG_ERROR, mode->line, mode->column,
                  "mode %04o lets everybody on this machine change limits; the last digit must be "
                  "0, as in 0660",
                  spec->mode);
    }
}

/* Whether others than this machine's own can connect there. */
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

static void link_listener(struct linker *linker, const struct spec_admin_listen *spec)
{
    const struct spec_admin *admin = &linker->spec->admin;
    struct admin_section *section = &linker->policy->admin;
    const struct node *node = spec->address.node;
    if (is_listed(linker->policy, &spec->address.endpoint)) {
        diags_add(linker->diags, DIAG_ERROR, node->line, node->column,
                  "admin cannot listen there: another listener does");
    }
    check_mode(linker, spec);
    if (is_open(&spec->address.endpoint) && !is_said(&admin->token) &&
        !is_said(&admin->read_token)) {
        diags_add(linker->diags, DIAG_ERROR, node->line, node->column,
                  "admin can be reached from other machines there and has no token: name one with "
                  "\"token_file\" or \"token\", or listen on 127.0.0.1 or a unix socket");
    }
    section->listeners[section->n_listeners++] = (struct listener_section){
        .endpoint = link_endpoint(linker, &spec->address.endpoint),
        .mode = spec->mode,
    };
}

static void link_listeners(struct linker *linker)
{
    const struct section_items *listen = &linker->spec->admin.listen;
    const struct spec_admin_listen *specs = listen->items;
    struct admin_section *section = &linker->policy->admin;
    if (listen->node != NULL && (listen->n_items == 0 || listen->n_items > ADMIN_LISTENERS_MAX)) {
        diags_add(linker->diags, DIAG_ERROR, listen->node->line, listen->node->column,
                  "admin must listen on 1 to %d addresses", ADMIN_LISTENERS_MAX);
        return;
    }
    section->listeners = link_alloc(linker, listen->n_items, sizeof(*section->listeners));
    for (size_t i = 0; i < listen->n_items && section->listeners != NULL; i++) {
        if (specs[i].address.node != NULL) {
            link_listener(linker, &specs[i]);
        }
    }
}

static struct admin_token link_token(struct linker *linker, const struct spec_admin_token *spec,
                                     const char *key)
{
    const struct node *file = spec->file.node;
    if (file != NULL && spec->text.node != NULL) {
        diags_add(linker->diags, DIAG_ERROR, file->line, file->column,
                  "\"%s\" and \"%s_file\" are two tokens: leave one out", key, key);
    }
    struct admin_token token = {
        .is_said = spec->text.node != NULL,
        .path = link_copy(linker, spec->file.text),
    };
    if (token.is_said) {
        secret_init(&token.secret, spec->text.text);
    }
    return token;
}

void link_admin(struct linker *linker)
{
    const struct spec_admin *spec = &linker->spec->admin;
    const struct spec_text *hosts = spec->hosts.items;
    struct admin_section *section = &linker->policy->admin;
    link_listeners(linker);
    section->token = link_token(linker, &spec->token, "token");
    section->read_token = link_token(linker, &spec->read_token, "read_token");
    section->metrics_top = spec->metrics_top;
    section->hosts = link_alloc(linker, spec->hosts.n_items, sizeof(*section->hosts));
    for (size_t i = 0; i < spec->hosts.n_items && section->hosts != NULL; i++) {
        section->hosts[section->n_hosts++] = link_copy(linker, hosts[i].text);
    }
}

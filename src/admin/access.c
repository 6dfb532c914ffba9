/* Failures: a token file that cannot be read, or whose first line is not a token, is logged with a
 * remedy and without its content. */

#include "admin/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/log.h"

/* --- credentials --- */

/* Fields that a proxy adds: the peer is then the proxy, and its client may be anywhere. */
static bool is_forwarded(const struct head *head)
{
    return head_has(head, FIELD_FORWARDED) || head_has(head, FIELD_X_FORWARDED_FOR) ||
           head_has(head, FIELD_X_FORWARDED_HOST) || head_has(head, FIELD_X_FORWARDED_PROTO) ||
           head_has(head, FIELD_X_REAL_IP) || head_has(head, FIELD_VIA);
}

static size_t count_fields(const struct head *head, struct span name)
{
    size_t n = 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        n += span_equals_ignore_case(head->fields[i].name, name) ? 1 : 0;
    }
    return n;
}

static bool has_field(const struct head *head, struct span name)
{
    return head_find_name(head, name) != NULL;
}

/* The token of "Bearer TOKEN" (RFC 6750 section 2.1); empty: it is something else. */
static struct span cut_token(struct span value)
{
    const size_t space = span_find(value, ' ');
    if (space == value.len ||
        !span_equals_ignore_case(span_of(value.data, space), SPAN("Bearer"))) {
        return span_of(NULL, 0);
    }
    return span_trim(span_from(value, space));
}

/* Both tokens are always compared, whichever matches. */
static enum access_title judge_token(const struct access_rules *rules, const struct head *head)
{
    const struct span token = cut_token(head_find_name(head, SPAN("Authorization"))->value);
    if (token.len == 0 || token.len > ADMIN_TOKEN_BYTES_MAX ||
        count_fields(head, SPAN("Authorization")) > 1) {
        return ACCESS_BY_NOTHING;
    }
    const bool is_token = rules->token.is_set && secret_matches(&rules->token.secret, token);
    const bool is_read_token =
        rules->read_token.is_set && secret_matches(&rules->read_token.secret, token);
    return is_token ? ACCESS_BY_TOKEN : is_read_token ? ACCESS_BY_READ_TOKEN : ACCESS_BY_NOTHING;
}

/* A token that is sent must be valid, even if none is needed: the client relies on it. */
static enum access_title find_title(const struct access_rules *rules,
                                    const struct access_peer *peer, const struct head *head)
{
    const bool shows_token = has_field(head, SPAN("Authorization"));
    const enum access_title shown = shows_token ? judge_token(rules, head) : ACCESS_BY_NOTHING;
    const bool is_own = !is_forwarded(head);
    if (shows_token && (shown == ACCESS_BY_NOTHING || !peer->is_unix || !is_own)) {
        return shown;
    }
    if (peer->is_unix) {
        return is_own ? ACCESS_BY_SOCKET : ACCESS_BY_NOTHING;
    }
    return is_own && address_is_loopback(&peer->address) ? ACCESS_BY_LOOPBACK : ACCESS_BY_NOTHING;
}

static bool may(enum access_title title, enum admin_effect effect)
{
    if (effect == ADMIN_SHOWS_PAGE) {
        return true;
    }
    switch (title) {
    case ACCESS_BY_NOTHING:
        return false;
    case ACCESS_BY_SOCKET:
    case ACCESS_BY_TOKEN:
        return true;
    case ACCESS_BY_LOOPBACK:
    case ACCESS_BY_READ_TOKEN:
        break;
    }
    return effect == ADMIN_READS;
}

bool access_may_change(enum access_title title)
{
    return may(title, ADMIN_CHANGES);
}

/* --- browsers --- */

/* Whether @host, a valid Host value, is an address, localhost or one of the listed names. */
static bool is_our_host(const struct access_rules *rules, struct span host)
{
    char buffer[HOST_BYTES_MAX];
    char listed_buffer[HOST_BYTES_MAX];
    struct address address;
    const struct span name = target_normalise_host(host, buffer);
    if (name.len == 0) {
        return false;
    }
    if (address_parse(name, &address) || span_equals(name, SPAN("localhost"))) {
        return true;
    }
    for (size_t i = 0; i < rules->n_hosts; i++) {
        if (span_equals(name, target_normalise_host(rules->hosts[i], listed_buffer))) {
            return true;
        }
    }
    return false;
}

static bool has_value(const struct head *head, struct span name, struct span value)
{
    return count_fields(head, name) == 1 && span_equals(head_find_name(head, name)->value, value);
}

/* Whether the page that has a part in the request, if one has, is at the address that is asked:
 * RFC 6454 section 6.2. */
static bool has_own_origin(const struct head *head)
{
    struct span origin;
    if (!has_field(head, SPAN("Origin"))) {
        return true;
    }
    origin = head_find_name(head, SPAN("Origin"))->value;
    const struct span schemes[] = {SPAN("http://"), SPAN("https://")};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        const size_t len = schemes[i].len;
        if (origin.len > len && span_equals(span_of(origin.data, len), schemes[i]) &&
            span_equals_ignore_case(span_from(origin, len), head->host)) {
            return count_fields(head, SPAN("Origin")) == 1;
        }
    }
    return false;
}

/* Whether a page of others has a part in the request: W3C Fetch Metadata. A browser says "none"
 * where its user typed the address, and "same-origin" of our own page. Over plain HTTP from another
 * machine it says nothing, but sends the Origin with each change. */
static bool comes_from_page(const struct head *head, enum admin_effect effect)
{
    static const char *const OF_PAGES[] = {"Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-User"};
    const struct span site = SPAN("Sec-Fetch-Site");
    if (has_value(head, site, SPAN("same-origin"))) {
        return !has_own_origin(head);
    }
    if (effect == ADMIN_SHOWS_PAGE && has_value(head, SPAN("Sec-Fetch-Mode"), SPAN("navigate")) &&
        has_value(head, SPAN("Sec-Fetch-Dest"), SPAN("document"))) {
        return false; /* a link to it */
    }
    if ((effect == ADMIN_READS || effect == ADMIN_SHOWS_PAGE) &&
        has_value(head, site, SPAN("none"))) {
        return has_field(head, SPAN("Origin"));
    }
    for (size_t i = 0; i < ARRAY_LEN(OF_PAGES); i++) {
        if (has_field(head, span_of_text(OF_PAGES[i]))) {
            return true;
        }
    }
    return has_field(head, site) || !has_own_origin(head);
}

static bool is_type(struct span content_type, struct span type)
{
    const size_t end = span_find(content_type, ';');
    return span_equals_ignore_case(span_trim(span_of(content_type.data, end)), type);
}

/* A form can have three types, and @wanted is none of them; with that, or with another method, a
 * browser asks first, and is refused. */
static bool could_be_form(const struct head *head, struct span wanted)
{
    const struct field *type = head_find_name(head, SPAN("Content-Type"));
    if (span_equals(head->method, SPAN("DELETE")) && head->body == BODY_NONE) {
        return false;
    }
    return type == NULL || count_fields(head, SPAN("Content-Type")) > 1 ||
           !is_type(type->value, wanted);
}

static struct access_verdict refuse(uint16_t status, const char *reason, enum access_title title)
{
    return (struct access_verdict){.status = status, .reason = reason, .title = title};
}

struct access_verdict access_judge(const struct access_rules *rules, const struct access_peer *peer,
                                   const struct head *head, enum admin_effect effect)
{
    const enum access_title title = find_title(rules, peer, head);
    if (title == ACCESS_BY_READ_TOKEN && !may(title, effect)) {
        return refuse(403, "this token may read, and change nothing", title);
    }
    if (!may(title, effect)) {
        return refuse(401, NULL, title);
    }
    if (!is_our_host(rules, head->host)) {
        return refuse(
            421, "Host must be an address, localhost, or a name that stands in admin.hosts", title);
    }
    if (comes_from_page(head, effect)) {
        return refuse(403, "requests of other web pages are refused", title);
    }
    if (effect == ADMIN_RECEIVES && could_be_form(head, SPAN("application/octet-stream"))) {
        return refuse(415, "this needs the header Content-Type: application/octet-stream", title);
    }
    if ((effect == ADMIN_CHANGES ||
         (effect == ADMIN_READS && span_equals(head->method, SPAN("POST")))) &&
        could_be_form(head, SPAN("application/json"))) {
        return refuse(415, "this needs the header Content-Type: application/json", title);
    }
    return (struct access_verdict){.title = title};
}

/* --- the rules --- */

static enum status report(struct span path, const char *error, enum status status)
{
    char buffer[512];
    struct text file = text_of(buffer, sizeof(buffer));
    text_add_logfmt(&file, path);
    log_error("admin.access", "cannot read a token",
              "file=%.*s err=\"%s\" hint=\"its first line is the token, %d to %d visible "
              "characters: openssl rand -hex 32\"",
              SPAN_ARGS(text_span(&file)), error, ADMIN_TOKEN_BYTES_MIN, ADMIN_TOKEN_BYTES_MAX);
    return status;
}

static void warn_of_readers(FILE *file, struct span path)
{
    struct stat stat;
    if (fstat(fileno(file), &stat) == 0 && (stat.st_mode & 07) != 0) {
        char buffer[512];
        struct text name = text_of(buffer, sizeof(buffer));
        text_add_logfmt(&name, path);
        log_warn("admin.access", "all users of this machine may read a token",
                 "file=%.*s hint=\"chmod 0640\"", SPAN_ARGS(text_span(&name)));
    }
}

static bool is_token(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~') {
            return false;
        }
    }
    return text.len >= ADMIN_TOKEN_BYTES_MIN && text.len <= ADMIN_TOKEN_BYTES_MAX;
}

static enum status read_file(struct span path, struct secret *secret)
{
    char line[ADMIN_TOKEN_BYTES_MAX + 3]; /* CR, LF, NUL */
    FILE *file = fopen(path.data, "re");
    if (file == NULL) {
        return report(path, strerror(errno), STATUS_IO);
    }
    warn_of_readers(file, path);
    setvbuf(file, NULL, _IONBF, 0);
    enum status status = STATUS_OK;
    if (fgets(line, sizeof(line), file) == NULL) {
        status = report(path, ferror(file) ? strerror(errno) : "it is empty", STATUS_IO);
    } else {
        const struct span token = span_of(line, strcspn(line, "\r\n"));
        if (is_token(token)) {
            secret_init(secret, token);
        } else {
            status = report(path, "this is no token", STATUS_INVALID);
        }
    }
    secret_wipe(line, sizeof(line));
    fclose(file);
    return status;
}

static enum status load_token(const struct admin_token *from, struct access_token *token)
{
    if (from->path.len > 0) {
        const enum status status = read_file(from->path, &token->secret);
        token->is_set = status == STATUS_OK;
        return status;
    }
    *token = (struct access_token){.is_set = from->is_said, .secret = from->secret};
    return STATUS_OK;
}

enum status access_rules_load(const struct admin_section *section, struct access_rules *rules)
{
    *rules = (struct access_rules){.hosts = section->hosts, .n_hosts = section->n_hosts};
    const enum status status = load_token(&section->token, &rules->token);
    return status == STATUS_OK ? load_token(&section->read_token, &rules->read_token) : status;
}

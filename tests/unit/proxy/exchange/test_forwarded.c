#include "proxy/exchange/exchange_steps.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

static const char POLICY[] = "listen: 127.0.0.1:1\n"
                             "log: off\n"
                             "trusted_proxies: [10.0.0.0/8, \"2001:db8::/32\"]\n"
                             "upstreams:\n"
                             "  kept: {servers: [http://127.0.0.1:PORT]}\n"
                             "  own: {servers: [http://api.internal:8081], host: server}\n"
                             "  plain: {servers: [http://api.internal:80], host: server}\n"
                             "  six: {servers: [\"http://[2001:db8::9]:8081\"], host: server}\n"
                             "  named: {servers: [http://127.0.0.1:PORT], host: public.example}\n"
                             "jwt: {main: {secret: 0123456789abcdef0123456789abcdef}}\n"
                             "limits: {all: {key: global, rate: 10/minute}}\n"
                             "defaults: {limits: [all]}\n"
                             "routes:\n"
                             "- match: {path: /edited/**}\n"
                             "  strip_prefix: /edited\n"
                             "  request:\n"
                             "    set: {x-a: mine, X-Forwarded-Proto: https, Cookie: c=1}\n"
                             "    remove: [X-Gone, Forwarded, X-Real-IP, User-Agent]\n"
                             "  upstream: kept\n"
                             "- match: {path: /told}\n"
                             "  request: {set: {X-User: {from: jwt.sub}}}\n"
                             "  upstream: kept\n"
                             "- {match: {path: /own}, upstream: own}\n"
                             "- {match: {path: /plain}, upstream: plain}\n"
                             "- {match: {path: /six}, upstream: six}\n"
                             "- {match: {path: /named}, upstream: named}\n"
                             "- {match: {path: /**}, upstream: kept}\n";

static struct stage stage;
static struct fake_client client;
static char written[8192];

static void set_up(void)
{
    stage_open(&stage, POLICY);
    stage.store.mood = FAKE_PROMISES;
}

static void tear_down(void)
{
    exchange_on_client_gone(client.exchange);
    stage_close(&stage);
}

/* What the server would get for @head from @peer, whose token has @claims. */
static const char *forward_with(const char *peer, const char *head, const struct jwt_claims *claims)
{
    struct text text = text_of(written, sizeof(written) - 1);
    fake_client_open(&client, &stage, peer);
    fake_client_send_head(&client, head);
    ck_assert_int_eq(client.exchange->state, EXCHANGE_DECIDE);
    client.exchange->evaluation.view.claims = claims;
    const struct upstream_spec *spec = client.exchange->evaluation.route->upstream;
    client.exchange->server = &stage.worker.env.config->upstreams[spec->index]->servers[0];
    forwarded_write_request(client.exchange, &text);
    ck_assert(!text.truncated);
    written[text.len] = '\0';
    return written;
}

/* Of a request without a token. */
static const char *forward(const char *peer, const char *head)
{
    return forward_with(peer, head, NULL);
}

static const struct {
    const char *story;
    const char *peer;
    const char *head;
    const char *forwarded;
} HEADS[] = {
    {"an untrusted peer", "192.0.2.1",
     "GET /a/%7Eb;c?q=1 HTTP/1.1\r\nHost: A.example:8080\r\nAccept: */*\r\nx-request-id: "
     "r1\r\n\r\n",
     "GET /a/%7Eb;c?q=1 HTTP/1.1\r\nHost: A.example:8080\r\nAccept: */*\r\n"
     "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
     "X-Forwarded-Host: A.example:8080\r\nX-Real-IP: 192.0.2.1\r\n"
     "Forwarded: for=192.0.2.1;host=\"A.example:8080\";proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"what an untrusted peer says of others is dropped", "192.0.2.1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Port: 1\r\nx_forwarded.prefix: /\r\nProxy: a\r\n"
     "X-Forwarded-Server: s\r\nX-Forwarded-Ssl: on\r\n"
     "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\n"
     "X-Forwarded-Host: evil\r\nX-Real-IP: 1.1.1.1\r\nForwarded: for=1.1.1.1\r\n"
     "X-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
     "X-Forwarded-Host: a\r\nX-Real-IP: 192.0.2.1\r\n"
     "Forwarded: for=192.0.2.1;host=\"a\";proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"what a trusted peer says is kept and appended to", "10.0.0.1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 10.0.0.9\r\n"
     "X-Forwarded-Proto: https\r\nX-Forwarded-Host: front\r\nX-Real-IP: 1.1.1.1\r\n"
     "X-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1, 10.0.0.9, 10.0.0.1\r\n"
     "X-Forwarded-Proto: https\r\nX-Forwarded-Host: front\r\nX-Real-IP: 1.1.1.1\r\n"
     "Forwarded: for=1.1.1.1;host=\"front\";proto=https, for=10.0.0.1;host=\"a\";proto=http\r\n"
     "X-Request-ID: r1\r\nVia: 1.1 sluice-010203040506\r\n\r\n"},
    {"several lines of a trusted peer are one list, and its schemes are not taken apart",
     "10.0.0.1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: front\r\n"
     "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: \r\nX-Forwarded-Proto: http,http\r\n"
     "X-Forwarded-Host: b\r\nX-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1, 10.0.0.1\r\n"
     "X-Forwarded-Proto: https, http,http\r\nX-Forwarded-Host: front, b\r\nX-Real-IP: 1.1.1.1\r\n"
     "Forwarded: for=1.1.1.1, for=10.0.0.1;host=\"a\";proto=http\r\nX-Request-ID: r1\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"a scheme of a trusted peer that is empty is none", "10.0.0.1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: \r\nX-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nX-Real-IP: 10.0.0.1\r\n"
     "Forwarded: for=10.0.0.1;host=\"a\";proto=http\r\nX-Request-ID: r1\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"of a peer that names the client in X-Forwarded-For no other field names him", "10.0.0.1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Real-IP: 127.0.0.1\r\n"
     "Forwarded: for=10.9.9.9;host=evil;proto=https\r\nX-Forwarded-Host: \"evil\"\r\n"
     "X-Forwarded-For: 127.0.0.1, 1.1.1.1\r\nX-Forwarded-Proto: gopher\r\n"
     "X-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 127.0.0.1, 1.1.1.1, 10.0.0.1\r\n"
     "X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: \"evil\"\r\nX-Real-IP: 1.1.1.1\r\n"
     "Forwarded: for=1.1.1.1, for=10.0.0.1;host=\"a\";proto=http\r\nX-Request-ID: r1\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"the client of Forwarded begins the other list", "10.0.0.1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Real-IP: 127.0.0.1\r\nX-Forwarded-For: ,\r\n"
     "Forwarded: for=\"[2001:db9::1]:80\"\r\nX-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 2001:db9::1, 10.0.0.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nX-Real-IP: 2001:db9::1\r\n"
     "Forwarded: for=\"[2001:db9::1]:80\", for=10.0.0.1;host=\"a\";proto=http\r\n"
     "X-Request-ID: r1\r\nVia: 1.1 sluice-010203040506\r\n\r\n"},
    {"a peer that names no client is the client", "10.0.0.1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Real-IP: 1.1.1.1\r\nX-Forwarded-For: unknown\r\n"
     "Forwarded: for=1.1.1.1\r\nX-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: unknown, 10.0.0.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nX-Real-IP: 10.0.0.1\r\n"
     "Forwarded: for=10.0.0.1;host=\"a\";proto=http\r\nX-Request-ID: r1\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"an address of IPv6 is quoted where it must be", "2001:db8::1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: http\r\n"
     "X-Forwarded-Host: a\r\nX-Real-IP: 2001:db8::1\r\n"
     "Forwarded: for=\"[2001:db8::1]\";host=\"a\";proto=http\r\nX-Request-ID: r1\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    /* Rules 46 to 48; CVE-2026-105299: ours cannot be nominated away. */
    {"what is for this hop alone is left out", "192.0.2.1",
     "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Mine, X-Forwarded-Proto, Via\r\nX-Mine: "
     "1\r\n"
     "Keep-Alive: 5\r\nTE: gzip\r\nUpgrade: x\r\nProxy-Connection: y\r\nX-Yours: 2\r\n"
     "X-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-Yours: 2\r\nX-Forwarded-For: 192.0.2.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nX-Real-IP: 192.0.2.1\r\n"
     "Forwarded: for=192.0.2.1;host=\"a\";proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"lines of one name keep their order, Via is one more", "192.0.2.1",
     "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nVia: 1.0 fred\r\nx-a: 2\r\nX-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nVia: 1.0 fred\r\nx-a: 2\r\n"
     "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n"
     "X-Real-IP: 192.0.2.1\r\nForwarded: for=192.0.2.1;host=\"a\";proto=http\r\n"
     "X-Request-ID: made\r\nVia: 1.1 sluice-010203040506\r\n\r\n"},
    {"an absolute target goes out in origin form, with its own host", "192.0.2.1",
     "GET http://b.example/x?y HTTP/1.1\r\nHost: a\r\nX-Request-ID: r1\r\n\r\n",
     "GET /x?y HTTP/1.1\r\nHost: b.example\r\nX-Forwarded-For: 192.0.2.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: b.example\r\nX-Real-IP: 192.0.2.1\r\n"
     "Forwarded: for=192.0.2.1;host=\"b.example\";proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"HTTP/1.0 without a host", "192.0.2.1", "GET / HTTP/1.0\r\nX-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: \r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
     "X-Real-IP: 192.0.2.1\r\nForwarded: for=192.0.2.1;proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.0 sluice-010203040506\r\n\r\n"},
    {"one hop fewer may follow", "192.0.2.1",
     "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\nX-Request-ID: r1\r\n\r\n",
     "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 9\r\nX-Forwarded-For: 192.0.2.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nX-Real-IP: 192.0.2.1\r\n"
     "Forwarded: for=192.0.2.1;host=\"a\";proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"elsewhere that field means nothing", "192.0.2.1",
     "GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\nX-Request-ID: r1\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\nX-Forwarded-For: 192.0.2.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nX-Real-IP: 192.0.2.1\r\n"
     "Forwarded: for=192.0.2.1;host=\"a\";proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"what a route sets and removes comes after what belongs to the connection", "192.0.2.1",
     "GET /edited/b?c HTTP/1.1\r\nHost: a\r\nX-A: theirs\r\nx-gone: 1\r\nX-B: 2\r\nUSER-AGENT: "
     "u\r\n"
     "Cookie: a=1\r\nConnection: X-A, Cookie, X-Forwarded-Proto\r\nCookie: b=2\r\n"
     "X-Request-ID: r1\r\n\r\n",
     "GET /b?c HTTP/1.1\r\nHost: a\r\nX-B: 2\r\nx-a: mine\r\nX-Forwarded-Proto: https\r\n"
     "Cookie: c=1\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: a\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"an absolute target loses its prefix too", "192.0.2.1",
     "GET http://b.example/edited?y HTTP/1.1\r\nHost: a\r\nX-Request-ID: r1\r\n\r\n",
     "GET /?y HTTP/1.1\r\nHost: b.example\r\nx-a: mine\r\nX-Forwarded-Proto: https\r\nCookie: "
     "c=1\r\n"
     "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: b.example\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"a chunked body stays chunked", "192.0.2.1",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Request-ID: r1\r\n\r\n",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Forwarded-For: 192.0.2.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nX-Real-IP: 192.0.2.1\r\n"
     "Forwarded: for=192.0.2.1;host=\"a\";proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
    {"a length stays what it is", "192.0.2.1",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Request-ID: r1\r\n\r\n",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Forwarded-For: 192.0.2.1\r\n"
     "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nX-Real-IP: 192.0.2.1\r\n"
     "Forwarded: for=192.0.2.1;host=\"a\";proto=http\r\nX-Request-ID: made\r\n"
     "Via: 1.1 sluice-010203040506\r\n\r\n"},
};

/* @forwarded with "made" in place of an id that we made. */
static const char *without_made_id(const char *forwarded)
{
    static char replaced[sizeof(written)];
    char id[2 * sizeof(client.exchange->request_id) + 1] = "";
    struct text hex = text_of(id, sizeof(id) - 1);
    text_add_hex(&hex, client.exchange->request_id, sizeof(client.exchange->request_id));
    const char *found = strstr(forwarded, id);
    if (found == NULL) {
        return forwarded;
    }
    snprintf(replaced, sizeof(replaced), "%.*smade%s", (int)(found - forwarded), forwarded,
             found + strlen(id));
    return replaced;
}

START_TEST(a_head_goes_out_as_the_rules_say)
{
    const char *forwarded = forward(HEADS[_i].peer, HEADS[_i].head);
    ck_assert_str_eq(without_made_id(forwarded), HEADS[_i].forwarded);
}
END_TEST

static const struct {
    const char *path;
    const char *host;
} HOSTS[] = {
    {"/", "\r\nHost: a.example\r\n"},           {"/own", "\r\nHost: api.internal:8081\r\n"},
    {"/plain", "\r\nHost: api.internal\r\n"},   {"/six", "\r\nHost: [2001:db8::9]:8081\r\n"},
    {"/named", "\r\nHost: public.example\r\n"},
};

START_TEST(the_host_is_what_the_upstream_wants)
{
    char head[128];
    struct text text = text_of(head, sizeof(head) - 1);
    text_add_format(&text, "GET %s HTTP/1.1\r\nHost: a.example\r\n\r\n", HOSTS[_i].path);
    head[text.len] = '\0';
    const char *forwarded = forward("192.0.2.1", head);
    ck_assert_msg(strstr(forwarded, HOSTS[_i].host) != NULL, "%s", forwarded);
    ck_assert_ptr_nonnull(strstr(forwarded, "\r\nX-Forwarded-Host: a.example\r\n"));
}
END_TEST

/* The id that the server gets of a request from @peer with these @fields. */
static const char *forward_id(const char *peer, const char *fields)
{
    static const char NAME[] = "\r\nX-Request-ID: ";
    static char id[REQUEST_ID_BYTES_MAX + 2];
    char head[512];
    snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    const char *field = strstr(forward(peer, head), NAME);
    ck_assert_ptr_nonnull(field);
    const size_t len = strcspn(field + strlen(NAME), "\r");
    ck_assert_uint_lt(len, sizeof(id));
    memcpy(id, field + strlen(NAME), len);
    id[len] = '\0';
    return id;
}

static bool is_made(const char *id)
{
    return strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32;
}

START_TEST(a_request_without_an_id_gets_one_that_does_not_tell_the_next)
{
    char first[33];
    memcpy(first, forward_id("192.0.2.1", ""), sizeof(first));
    exchange_on_client_gone(client.exchange);
    const char *second = forward_id("192.0.2.1", "");
    ck_assert(is_made(first) && is_made(second));
    ck_assert_int_ne(strncmp(first, second, 16), 0);
    ck_assert_str_ne(first + 16, second + 16);
}
END_TEST

static const struct {
    const char *peer;
    const char *fields;
    const char *id; /* NULL: one is made */
} IDS[] = {
    {"10.0.0.1", "X-Request-ID: 0aZ9-._~+/=:@\r\n", "0aZ9-._~+/=:@"},
    {"10.0.0.1", "x-request-id: Root=1-67891233-abcdef012345678912345678\r\n",
     "Root=1-67891233-abcdef012345678912345678"},
    {"192.0.2.1", "X-Request-ID: r1\r\n", NULL},
    {"10.0.0.1", "X-Request-ID: \r\n", NULL},
    {"10.0.0.1", "X-Request-ID: r1\r\nX-Request-ID: r2\r\n", NULL},
    {"10.0.0.1", "X-Request-ID: r 1\r\n", NULL},
    {"10.0.0.1", "X-Request-ID: r,1\r\n", NULL},
    {"10.0.0.1", "X-Request-ID: \"r1\"\r\n", NULL},
    {"10.0.0.1", "X-Request-ID: $(r1)\r\n", NULL},
    {"10.0.0.1", "X-Request-ID: <r1>\r\n", NULL},
    {"10.0.0.1", "X-Request-ID: r\xc3\xa9\r\n", NULL},
};

START_TEST(an_id_is_taken_of_trusted_proxies_alone_and_if_it_is_plain)
{
    const char *id = forward_id(IDS[_i].peer, IDS[_i].fields);
    if (IDS[_i].id != NULL) {
        ck_assert_str_eq(id, IDS[_i].id);
    } else {
        ck_assert_msg(is_made(id), "%s", id);
    }
}
END_TEST

START_TEST(an_id_that_is_too_long_is_replaced)
{
    char fields[256];
    const int length = REQUEST_ID_BYTES_MAX + _i;
    snprintf(fields, sizeof(fields), "X-Request-ID: %0*d\r\n", length, 0);
    const char *id = forward_id("10.0.0.1", fields);
    ck_assert_uint_eq(strlen(id), _i == 0 ? REQUEST_ID_BYTES_MAX : 32);
}
END_TEST

/* Servers drop blanks at the ends, and would read another identity than the one that counts. */
static const struct {
    const char *sub;
    const char *field;
} CLAIMS[] = {
    {"alice", "\r\nX-User: alice\r\n"},
    {"al ice\tb", "\r\nX-User: al ice\tb\r\n"},
    {"alice ", NULL},
    {" alice", NULL},
    {"alice\t", NULL},
    {"\talice", NULL},
    {" ", NULL},
    {"", NULL},
    {"al\rice", NULL},
};

START_TEST(a_claim_is_told_as_it_is_or_not_at_all)
{
    const struct span sub = span_of_text(CLAIMS[_i].sub);
    const struct jwt_claim claim = {.values = &sub, .n_values = 1, .is_single = true};
    const struct jwt_claims claims = {.claims = &claim, .n_claims = 1};
    const char *head = "GET /told HTTP/1.1\r\nHost: a\r\nX-User: alice\r\n\r\n";
    const char *forwarded = forward_with("192.0.2.1", head, &claims);
    if (CLAIMS[_i].field != NULL) {
        ck_assert_msg(strstr(forwarded, CLAIMS[_i].field) != NULL, "%s", forwarded);
    } else {
        ck_assert_msg(strstr(forwarded, "X-User") == NULL, "%s", forwarded);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/forwarded");
    TCase *all = tcase_create("forwarded");

    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_loop_test(all, a_head_goes_out_as_the_rules_say, 0, ARRAY_LEN(HEADS));
    tcase_add_loop_test(all, the_host_is_what_the_upstream_wants, 0, ARRAY_LEN(HOSTS));
    tcase_add_test(all, a_request_without_an_id_gets_one_that_does_not_tell_the_next);
    tcase_add_loop_test(all, an_id_is_taken_of_trusted_proxies_alone_and_if_it_is_plain, 0,
                        ARRAY_LEN(IDS));
    tcase_add_loop_test(all, an_id_that_is_too_long_is_replaced, 0, 2);
    tcase_add_loop_test(all, a_claim_is_told_as_it_is_or_not_at_all, 0, ARRAY_LEN(CLAIMS));
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

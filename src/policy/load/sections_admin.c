#include "base/limits.h"
#include "http/target.h"
#include "policy/load/spec.h"
#include "policy/load/value_types.h"

static bool check_token(struct span text, struct text *problem)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~') {
            return text_refuse(problem, "may have only visible ASCII characters");
        }
    }
    return (text.len >= ADMIN_TOKEN_BYTES_MIN && text.len <= ADMIN_TOKEN_BYTES_MAX) ||
           text_refuse(problem,
                       "must be %d to %d bytes, and not to be guessed: openssl rand -hex 32",
                       ADMIN_TOKEN_BYTES_MIN, ADMIN_TOKEN_BYTES_MAX);
}

static bool check_host(struct span text, struct text *problem)
{
    char buffer[HOST_BYTES_MAX];
    return (target_is_host(text) && target_normalise_host(text, buffer).len > 0 &&
            span_find(text, ':') == text.len) ||
           text_refuse(problem, "must be the name of a host, without a port");
}

static const struct value_type TOKEN =
    VALUE_STRING_TYPE("16 to 512 visible characters of ASCII", check_token, .is_secret = true,
                      .pattern = "^[!-~]{16,512}$");
static const struct value_type HOST =
    VALUE_STRING_TYPE("the name of a host, without a port", check_host);

static const struct section_field ADMIN_LISTEN_FIELDS[] = {
    KEY("address", &VALUE_LISTEN, spec_admin_listen, address, NULL, "address:port, or unix:/path",
        .presence = KEY_REQUIRED),
    KEY("mode", &VALUE_MODE, spec_admin_listen, mode, "0660",
        "permissions of a unix socket: who may connect may change everything",
        .presence = KEY_CONDITIONAL),
    KEY("tls", &SECTIONS_TLS, spec_admin_listen, tls, NULL, "operators speak TLS there"),
};
static const struct value_type ADMIN_LISTEN_TYPE =
    SHORT_SECTION_TYPE(ADMIN_LISTEN_FIELDS, struct spec_admin_listen, "address");

static const struct section_field ADMIN_FIELDS[] = {
    LIST_KEY("listen", &ADMIN_LISTEN_TYPE, spec_admin, listen,
             "address:port, unix:/path, a section, or a list of such", .presence = KEY_REQUIRED),
    KEY("token", &TOKEN, spec_admin, token.text, NULL,
        "who sends it as \"Authorization: Bearer\" may read and change"),
    KEY("token_file", &VALUE_FILE, spec_admin, token.file, NULL,
        "a file with that token in its first line"),
    KEY("read_token", &TOKEN, spec_admin, read_token.text, NULL,
        "who sends it may read, and change nothing"),
    KEY("read_token_file", &VALUE_FILE, spec_admin, read_token.file, NULL,
        "a file with that token in its first line"),
    LIST_KEY("hosts", &HOST, spec_admin, hosts,
             "names that requests may call this server by, besides addresses and localhost"),
    KEY("metrics_top", NUMBER(0, METRICS_TOP_MAX), spec_admin, metrics_top, "0",
        "most denied keys of each limit that /metrics shows; 0: none"),
};
const struct value_type SECTIONS_ADMIN =
    SHORT_SECTION_TYPE(ADMIN_FIELDS, struct spec_admin, "listen");

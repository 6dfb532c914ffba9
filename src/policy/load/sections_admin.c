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

static const struct value_type TOKEN = {
    .kind = VALUE_STRING,
    .noun = "16 to 512 visible characters of ASCII",
    .bytes = sizeof(struct spec_text),
    .has_node = true,
    .check = check_token,
    .is_secret = true,
    .pattern = "^[!-~]{16,512}$",
};
static const struct value_type HOST =
    VALUE_STRING_TYPE("the name of a host, without a port", check_host);

static const struct value_type KEY_COUNT = VALUE_NUMBER_TYPE(0, METRICS_TOP_MAX);

static const struct section_field ADMIN_LISTEN_FIELDS[] = {
    {"address", SHAPE_ONE, &VALUE_LISTEN, offsetof(struct spec_admin_listen, address), NULL,
     KEY_REQUIRED, "address:port, or unix:/path"},
    {"mode", SHAPE_ONE, &VALUE_MODE, offsetof(struct spec_admin_listen, mode), "0660",
     KEY_CONDITIONAL, "permissions of a unix socket: who may connect may change everything"},
    {"tls", SHAPE_ONE, &SECTIONS_TLS, offsetof(struct spec_admin_listen, tls), NULL, KEY_OPTIONAL,
     "operators speak TLS there"},
};
static const struct value_type ADMIN_LISTEN_TYPE =
    SHORT_SECTION_TYPE(ADMIN_LISTEN_FIELDS, struct spec_admin_listen, "address");

static const struct section_field ADMIN_FIELDS[] = {
    {"listen", SHAPE_LIST, &ADMIN_LISTEN_TYPE, offsetof(struct spec_admin, listen), NULL,
     KEY_REQUIRED, "address:port, unix:/path, a section, or a list of such"},
    {"token", SHAPE_ONE, &TOKEN, offsetof(struct spec_admin, token.text), NULL, KEY_OPTIONAL,
     "who sends it as \"Authorization: Bearer\" may read and change"},
    {"token_file", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_admin, token.file), NULL,
     KEY_OPTIONAL, "a file with that token in its first line"},
    {"read_token", SHAPE_ONE, &TOKEN, offsetof(struct spec_admin, read_token.text), NULL,
     KEY_OPTIONAL, "who sends it may read, and change nothing"},
    {"read_token_file", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_admin, read_token.file), NULL,
     KEY_OPTIONAL, "a file with that token in its first line"},
    {"hosts", SHAPE_LIST, &HOST, offsetof(struct spec_admin, hosts), NULL, KEY_OPTIONAL,
     "names that requests may call this server by, besides addresses and localhost"},
    {"metrics_top", SHAPE_ONE, &KEY_COUNT, offsetof(struct spec_admin, metrics_top), "0",
     KEY_OPTIONAL, "most denied keys of each limit that /metrics shows; 0: none"},
};
const struct value_type SECTIONS_ADMIN =
    SHORT_SECTION_TYPE(ADMIN_FIELDS, struct spec_admin, "listen");
